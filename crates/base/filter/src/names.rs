//! Names and the network's mask, which are known besides packets.

use std::net::IpAddr;

/// Resolvers of names, and the mask of the network that packets come from.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "functions have none")]
pub struct Names<'a> {
    /// A port, by its name and its protocol.
    pub port: &'a dyn Fn(&str, u32) -> Option<u16>,
    /// A protocol of IP.
    pub protocol: &'a dyn Fn(&str) -> Option<u32>,
    /// All addresses of a host.
    pub host: &'a dyn Fn(&str) -> Vec<IpAddr>,
    /// A network of IPv4, as a number: 10 is 10.0.0.0/8, and 10.0.0.0 with all its bytes one
    /// address, as the C library has all networks of `/etc/networks`.
    pub network: &'a dyn Fn(&str) -> Option<u32>,
    /// The Ethernet address of a station.
    pub station: &'a dyn Fn(&str) -> Option<[u8; 6]>,
    /// The mask of the network, for `ip broadcast`; 0 where the packets come from none.
    pub netmask: Option<u32>,
}

impl Names<'_> {
    /// Nothing has a name, and the network is not known.
    pub const NONE: Names<'static> = Names {
        port: &|_, _| None,
        protocol: &|_| None,
        host: &|_| Vec::new(),
        network: &|_| None,
        station: &|_| None,
        netmask: None,
    };
}
