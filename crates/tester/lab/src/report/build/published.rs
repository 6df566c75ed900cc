//! Published figures. The numbers are facts from the cited works' tables and
//! public data.

/// A published sweep.
pub(super) struct Published {
    /// The measured system and its conditions.
    pub(super) name: &'static str,
    pub(super) points: &'static [(f64, f64)],
}

/// Emmerich et al., ixy (2019): bidirectional forwarding of 64-byte frames on
/// two 10 Gbit/s ports, one core at 3.3 GHz, against the batch. Packets per
/// second.
pub(super) const BURST: &[Published] = &[
    Published {
        name: "user-space driver in C, 3.3 GHz (published)",
        points: &[(1.0, 8.33e6), (2.0, 14.31e6), (4.0, 20.94e6), (8.0, 25.98e6), (16.0, 27.44e6)],
    },
    Published {
        name: "the same in Rust (published)",
        points: &[
            (1.0, 5.9e6),
            (2.0, 10.6e6),
            (4.0, 16.7e6),
            (8.0, 23.4e6),
            (16.0, 26.4e6),
            (32.0, 27.6e6),
            (64.0, 27.4e6),
        ],
    },
];

/// A vendor's white paper on inline inspection (2012): share received of sent,
/// by frame size.
pub(super) const INLINE: &[Published] = &[
    Published {
        name: "with DPDK (published)",
        points: &[
            (64.0, 0.465),
            (128.0, 0.81),
            (256.0, 1.0),
            (512.0, 1.0),
            (1024.0, 1.0),
            (1280.0, 1.0),
            (1518.0, 1.0),
        ],
    },
    Published {
        name: "without (published)",
        points: &[
            (64.0, 0.138),
            (128.0, 0.237),
            (256.0, 0.444),
            (512.0, 0.465),
            (1024.0, 0.933),
            (1280.0, 1.0),
            (1518.0, 1.0),
        ],
    },
];

/// Rizzo, Carbone, Catalli, netmap (2012): a software switch against its batch.
pub(super) const SWITCH: &[Published] = &[
    Published {
        name: "switch on libpcap (published)",
        points: &[
            (1.0, 373e3),
            (2.0, 510e3),
            (3.0, 579e3),
            (5.0, 638e3),
            (10.0, 709e3),
            (20.0, 744e3),
            (50.0, 764e3),
            (100.0, 775e3),
            (500.0, 781e3),
        ],
    },
    Published {
        name: "switch on netmap's libpcap (published)",
        points: &[
            (1.0, 250e3),
            (2.0, 466e3),
            (3.0, 619e3),
            (5.0, 882e3),
            (10.0, 1.43e6),
            (20.0, 1.97e6),
            (50.0, 2.5e6),
            (100.0, 2.73e6),
            (500.0, 2.96e6),
        ],
    },
];

/// Gallenmüller (2014): cycles per packet of input and output, 3.3 GHz Xeon
/// E3-1230 v2, 64 bytes, one core.
pub(super) const IO: &[(&str, f64)] = &[("netmap", 178.0), ("PF_RING ZC", 110.0), ("DPDK", 105.0)];

/// Wang, He, Wang (2016): percent of a core's time per Gbit/s of DPDK.
pub(super) const RHO: &[(&str, f64)] =
    &[("DPDK, run to completion", 9.56), ("DPDK, pipeline", 15.07)];

/// Published fits of throughput against batch: cycles per packet and per burst
/// at 3.3 GHz, and the error on points held out.
pub(super) const FITS: &[(&str, f64, f64, f64)] =
    &[("user-space driver in C", 78.0, 318.0, 0.017), ("the same in Rust", 94.0, 451.0, 0.019)];
