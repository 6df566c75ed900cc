//! Common parts of `FastUDPSource` and its variants besides their quota: arguments, the length of
//! packets, and the headers of a template.

use std::net::Ipv4Addr;

use linerate_element_support::ip::{DESTINATION, ETHERNET, LEAST, PROTOCOL, SOURCE, TTL, put16};
use linerate_graph::{Arg, ElementBuilder};
use linerate_packet::{IpProtocol, MacAddr};

pub(super) const RATE: Arg = Arg::required("RATE", "packets per second", "0 for any number");
pub(super) const LIMIT: Arg =
    Arg::required("LIMIT", "packets", "how many in all; any number below zero");
pub(super) const LENGTH: Arg = Arg::required("LENGTH", "bytes", "length with the Ethernet header");
pub(super) const SRCETH: Arg = Arg::required("SRCETH", "Ethernet address", "source");
pub(super) const DSTETH: Arg = Arg::required("DSTETH", "Ethernet address", "destination");
pub(super) const SRCIP: Arg = Arg::required("SRCIP", "IP address", "source");
pub(super) const DSTIP: Arg = Arg::required("DSTIP", "IP address", "destination");
pub(super) const SPORT: Arg = Arg::required("SPORT", "port number", "source");
pub(super) const DPORT: Arg = Arg::required("DPORT", "port number", "destination");
pub(super) const FLOWS: Arg = Arg::required("FLOWS", "number", "flows at a time");
pub(super) const FLOWSIZE: Arg = Arg::required("FLOWSIZE", "packets", "packets of a flow");
pub(super) const CHECKSUM: Arg =
    Arg::optional("CHECKSUM", "bool", "true", "whether there is a UDP checksum");
pub(super) const INTERVAL: Arg =
    Arg::optional("INTERVAL", "packets", "0", "after how many ports change; never when 0");
pub(super) const ACTIVE: Arg = Arg::optional("ACTIVE", "bool", "true", "whether there are packets");

/// Hops a packet has.
pub(super) const HOPS: u8 = 250;
/// Most flows, which bounds the memory of the flow table.
const MOST_FLOWS: u32 = 1 << 20;

/// Length of the longest packet.
pub(super) fn room(make: &ElementBuilder<'_>) -> usize {
    make.world.arena().room().min(usize::from(u16::MAX))
}

/// The error of a length that no packet can have.
pub(super) fn too_long(room: usize) -> String {
    format!("packets longer than a buffer ({room} bytes)")
}

/// The length of packets that `LENGTH` asks for, at least `shortest`.
pub(super) fn length(make: &mut ElementBuilder<'_>, given: i64, shortest: usize) -> usize {
    let room = room(make);
    let length = usize::try_from(given).unwrap_or(0);
    if length > room {
        make.error(too_long(room));
    }
    if make.is_given("LENGTH") && length < shortest {
        make.tell(format!("warning: packet length < {shortest}, defaulting to {shortest}"));
    }
    length.min(room).max(shortest)
}

/// The number of flows.
pub(super) fn flows(make: &mut ElementBuilder<'_>) -> usize {
    let flows = make.need::<u32>("FLOWS");
    if make.is_given("FLOWS") && !(1..=MOST_FLOWS).contains(&flows) {
        make.error(format!("FLOWS must be between 1 and {MOST_FLOWS}"));
    }
    flows.clamp(1, MOST_FLOWS) as usize
}

/// A template of so many bytes that begins with an Ethernet header.
pub(super) fn ethernet(make: &mut ElementBuilder<'_>, kind: u16, length: usize) -> Vec<u8> {
    let [from, to] = ["SRCETH", "DSTETH"].map(|name| make.need::<MacAddr>(name).0);
    let mut template = vec![0; length];
    template[..6].copy_from_slice(&to);
    template[6..12].copy_from_slice(&from);
    put16(&mut template, 12, kind);
    template
}

/// A template that begins with an Ethernet and an IPv4 header, whose length and checksum are not
/// there yet, and the addresses in it.
pub(super) fn ipv4(
    make: &mut ElementBuilder<'_>,
    protocol: IpProtocol,
    length: usize,
) -> (Vec<u8>, [Ipv4Addr; 2]) {
    let mut template = ethernet(make, 0x0800, length);
    let addresses = ["SRCIP", "DSTIP"].map(|name| make.get(name).unwrap_or(Ipv4Addr::UNSPECIFIED));
    let ip = &mut template[ETHERNET..];
    (ip[0], ip[TTL], ip[PROTOCOL]) = (0x45, HOPS, protocol.0);
    ip[SOURCE..DESTINATION].copy_from_slice(&addresses[0].octets());
    ip[DESTINATION..LEAST].copy_from_slice(&addresses[1].octets());
    (template, addresses)
}
