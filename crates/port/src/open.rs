//! From a port's name to an open port.

use crate::{
    af_packet,
    error::{OpenError, UriError},
    null, pcap,
    port::{Context, Port},
    ring,
    suggest::closest,
    tap,
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
    open: fn(&PortUri, &Context) -> Result<Port, OpenError>,
}

/// All drivers.
pub const DRIVERS: &[Driver] = &[
    Driver {
        name: "null",
        usage: "null:[?size=60&copy&count=N]",
        summary: "frames out of nothing; discards what it is sent",
        open: null::open,
    },
    Driver {
        name: "ring",
        usage: "ring:NAME[?slots=1024&loop&seed=N]",
        summary: "joins two parts of one process, without a copy",
        open: ring::open,
    },
    Driver {
        name: "pcap",
        usage: "pcap:FILE[?rate=recorded|max|1Mpps&loop=N&snaplen=N]",
        summary: "replays a capture file, or writes one",
        open: pcap::open,
    },
    Driver {
        name: "xdp",
        usage: "xdp:IF[?queues=N&mode=auto&zerocopy&kernel=none&match=TERMS&busy-poll=USEC]",
        summary: "a network interface through AF_XDP, past the kernel's network stack",
        open: xdp::open,
    },
    Driver {
        name: "packet",
        usage: "packet:IF[?queues=N&slots=4096&promisc=off&qdisc=on&time=on&outbound=on]",
        summary: "any network interface, through an AF_PACKET socket; one copy",
        open: af_packet::open,
    },
    Driver {
        name: "tap",
        usage: "tap:NAME[?addr=10.0.0.1/24&queues=N&vnet&mtu=N&mac=MAC&up=no]",
        summary: "this machine's own network stack, through an interface made for it",
        open: tap::open,
    },
    Driver {
        name: "tun",
        usage: "tun:NAME[?addr=10.0.0.1/24&queues=N&mtu=N&up=no]",
        summary: "as tap, with IP packets instead of Ethernet frames",
        open: tap::open,
    },
];

/// Opens a port.
///
/// # Errors
///
/// When the name is wrong or the port cannot be had; the error says what to do.
pub fn open(uri: &PortUri, context: &Context) -> Result<Port, OpenError> {
    let Some(driver) = DRIVERS.iter().find(|driver| driver.name == uri.driver()) else {
        let names: Vec<&str> = DRIVERS.iter().map(|driver| driver.name).collect();
        return Err(UriError::UnknownDriver {
            uri: uri.to_string(),
            driver: uri.driver().into(),
            known: names.join(", "),
            suggestion: closest(uri.driver(), names.iter().copied())
                .map(|meant| format!("; did you mean {meant}?"))
                .unwrap_or_default(),
        }
        .into());
    };
    (driver.open)(uri, context)
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
    }
}
