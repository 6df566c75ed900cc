//! From a port's name to an open port.

use linerate_host::closest;

use crate::{
    af_packet,
    error::{OpenError, UriError},
    kernel::OpenErrors,
    null, pcap,
    port::{Context, Port},
    ring, tap,
    uri::PortUri,
    xdp,
};

/// A kind of port.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    /// The part of a port's name before the colon.
    pub name: &'static str,
    /// How such a port is written, for help texts.
    pub usage: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Whether it needs an interface that is there.
    interface: bool,
    open: fn(&PortUri, &Context) -> Result<Port, OpenError>,
}

/// All drivers.
pub const DRIVERS: &[Driver] = &[
    Driver {
        name: "null",
        usage: "null:[?size=60&copy&count=N]",
        summary: "frames out of nothing; discards what it is sent",
        interface: false,
        open: null::open,
    },
    Driver {
        name: "ring",
        usage: "ring:NAME[?slots=1024&loop&seed=N]",
        summary: "joins two parts of one process, without a copy",
        interface: false,
        open: ring::open,
    },
    Driver {
        name: "pcap",
        usage: "pcap:FILE[?rate=recorded|max|1Mpps&loop=N&snaplen=N]",
        summary: "replays a capture file, or writes one",
        interface: false,
        open: pcap::open,
    },
    Driver {
        name: "xdp",
        usage: "xdp:IF[?queues=N&mode=auto&zerocopy&kernel=none&match=TERMS&busy-poll=USEC]",
        summary: "a network interface through AF_XDP, past the kernel's network stack",
        interface: true,
        open: xdp::open,
    },
    Driver {
        name: "packet",
        usage: "packet:IF[?queues=N&slots=4096&promisc=off&qdisc=on&time=on&outbound=on]",
        summary: "any network interface, through an AF_PACKET socket; one copy",
        interface: true,
        open: af_packet::open,
    },
    Driver {
        name: "tap",
        usage: "tap:NAME[?addr=10.0.0.1/24&queues=N&vnet&mtu=N&mac=MAC&up=no]",
        summary: "this machine's own network stack, through an interface made for it",
        interface: false,
        open: tap::open,
    },
    Driver {
        name: "tun",
        usage: "tun:NAME[?addr=10.0.0.1/24&queues=N&mtu=N&up=no]",
        summary: "as tap, with IP packets instead of Ethernet frames",
        interface: false,
        open: tap::open,
    },
];

/// Opens a port.
///
/// # Errors
///
/// When the name is wrong or the port cannot be had; the error says what to do.
pub fn open(uri: &PortUri, context: &Context) -> Result<Port, OpenError> {
    (driver(uri)?.open)(uri, context)
}

/// Looks whether a port can be there at all, before memory is made for it: its
/// driver is known, and so is the interface it is on, where it needs one.
///
/// # Errors
///
/// As [`open`] would say.
pub fn probe(uri: &PortUri) -> Result<(), OpenError> {
    if driver(uri)?.interface {
        // Looking takes no privileges.
        OpenErrors::with_remedy(uri, String::new()).find(uri.name())?;
    }
    Ok(())
}

fn driver(uri: &PortUri) -> Result<&'static Driver, OpenError> {
    DRIVERS.iter().find(|driver| driver.name == uri.driver()).ok_or_else(|| {
        let names: Vec<&str> = DRIVERS.iter().map(|driver| driver.name).collect();
        UriError::UnknownDriver {
            uri: uri.to_string(),
            driver: uri.driver().into(),
            known: names.join(", "),
            suggestion: closest(uri.driver(), names.iter().copied())
                .map(|meant| format!("; did you mean {meant}?"))
                .unwrap_or_default(),
        }
        .into()
    })
}

#[cfg(test)]
mod tests {
    use linerate_memory::ArenaOptions;

    use super::*;

    #[test]
    fn an_unknown_driver_is_named_with_the_known_ones() {
        let arena = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let context = Context::new(arena.create().unwrap());
        let error = open(&"nul:".parse().unwrap(), &context).unwrap_err().to_string();
        assert!(error.contains("\"nul\"") && error.contains("null, ring"), "{error}");
        assert!(error.ends_with("; did you mean null?"), "{error}");
        assert_eq!(probe(&"nul:".parse().unwrap()).unwrap_err().to_string(), error);
    }

    #[test]
    fn what_cannot_be_there_is_known_without_memory() {
        for missing in ["packet:nonesuch0", "xdp:nonesuch0"] {
            let error = probe(&missing.parse().unwrap()).unwrap_err();
            assert!(matches!(error, OpenError::NoInterface { .. }), "{error}");
        }
        for there in ["packet:lo", "ring:x", "tap:nonesuch0", "pcap:nonesuch.pcap"] {
            probe(&there.parse().unwrap()).unwrap();
        }
    }
}
