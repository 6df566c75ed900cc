//! `IP6Mirror`: swaps source and destination.

use linerate_graph::{Arguments, Class, DropReason, NoBuffer, Step, Verdict, Writes};
use linerate_memory::PacketMut;

use super::{
    FAMILY,
    header::{DESTINATION, LEAST, NEXT, NoHeader, SOURCE, known},
};

/// Protocols with ports.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Bytes of a transport header that must be there.
const TRANSPORT: usize = 8;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
}

pub(super) const CLASS: Class = Class {
    name: "IP6Mirror",
    family: FAMILY,
    summary: "sends IPv6 packets back to where they came from",
    description: "Swaps source and destination address and, of TCP and UDP without extension \
        headers, the ports. Checksums stay right. The IPv6 header must be known \
        (`CheckIP6Header`).",
    ports: "1/1",
    annotates: true,
    cost: "One pass over the packets' headers.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> MarkIP6Header -> IP6Mirror -> Discard;",
    ..Ip6Mirror::CLASS
};

#[derive(Arguments)]
struct Ip6Mirror;

impl Step<Writes, Reason> for Ip6Mirror {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let ip = known(packet)?;
        ip[SOURCE..LEAST].rotate_left(DESTINATION - SOURCE);
        if matches!(ip[NEXT], TCP | UDP) && ip.len() >= LEAST + TRANSPORT {
            ip[LEAST..LEAST + 4].rotate_left(2);
        }
        Ok(())
    }
}
