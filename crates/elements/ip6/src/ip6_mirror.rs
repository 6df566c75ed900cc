//! `IP6Mirror`: source and destination change places.

use linerate_graph::{Class, Context, Element};
use linerate_memory::Frame;

use super::{
    FAMILY,
    header::{self, DESTINATION, LEAST, NEXT, SOURCE},
};

/// Protocols with ports.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Bytes of a transport header that must be there.
const TRANSPORT: usize = 8;

pub(super) const CLASS: Class = Class {
    name: "IP6Mirror",
    family: FAMILY,
    summary: "sends IPv6 packets back to where they came from",
    description: "Swaps source and destination address and, of TCP and UDP without extension \
        headers, the ports. Checksums stay right. The IPv6 header must be known \
        (`CheckIP6Header`).",
    ports: "1/1",
    annotates: true,
    drops: &["no buffer", "no IPv6 header"],
    cost: "One pass over the packets' headers.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> MarkIP6Header -> IP6Mirror -> Discard;",
    make: |_| Box::new(Ip6Mirror),
    ..Class::EMPTY
};

struct Ip6Mirror;

impl Element for Ip6Mirror {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        header::edit(cx, frame, |ip| {
            ip[SOURCE..LEAST].rotate_left(DESTINATION - SOURCE);
            if matches!(ip[NEXT], TCP | UDP) && ip.len() >= LEAST + TRANSPORT {
                ip[LEAST..LEAST + 4].rotate_left(2);
            }
        });
    }
}
