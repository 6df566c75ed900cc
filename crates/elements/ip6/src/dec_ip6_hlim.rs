//! `DecIP6HLIM`: one hop less to live.

use linerate_graph::{Arguments, Class, Exit, Step, Way};
use linerate_memory::PacketMut;

use super::{
    FAMILY,
    header::{HOPS, REFUSED, known},
};

pub(super) const CLASS: Class = Class {
    name: "DecIP6HLIM",
    family: FAMILY,
    summary: "takes one from the hop limit",
    description: "Packets that may go no further, those with 1 or 0, leave unchanged by output 1, \
        or are dropped where there is none. The IPv6 header must be known (`CheckIP6Header`).",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    drops: &["no buffer", "no IPv6 header", "hop limit reached"],
    cost: "One pass over the packets' headers.",
    example: "InfiniteSource(DATA \\<60000000 0000 3b40 20010db8000000000000000000000001 \
        20010db8000000000000000000000002>, LIMIT 10, STOP true) -> CheckIP6Header -> DecIP6HLIM \
        -> Discard;",
    ..DecIp6Hlim::CLASS
};

#[derive(Arguments)]
struct DecIp6Hlim {
    /// packets that could go no further
    #[handler(count)]
    drops: u64,
}

impl Step for DecIp6Hlim {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Way {
        let hops = &mut known(packet)?[HOPS];
        if *hops <= 1 {
            self.drops += 1;
            return Err(Exit::Refuse(REFUSED));
        }
        *hops -= 1;
        Ok(())
    }
}
