//! `MarkIPHeader`: marks the place of the IP header, without checking it.

use linerate_graph::{Arguments, Class, Context, Step, Verdict};
use linerate_memory::{Frame, PacketMut};

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "MarkIPHeader",
    family: FAMILY,
    summary: "says where the IP header is",
    description: "Nothing of it is checked: for packets that are known to be sound. In a packet \
        too short for a header at that place, none is known afterwards.",
    ports: "1/1",
    annotates: true,
    cost: "One pass: the first line of the packet and a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> MarkIPHeader(14) -> Discard;",
    ..MarkIpHeader::CLASS
};

#[derive(Arguments)]
struct MarkIpHeader {
    /// where the IP header is
    #[arg(optional, kind = "bytes", default = 0)]
    offset: i32,
}

impl Step for MarkIpHeader {
    #[inline]
    fn begin(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        cx.arena().prefetch_packets(frame);
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        if let Some(&first) = packet.bytes().get(offset) {
            packet.mark_headers(offset, offset + usize::from(first & 15) * 4);
        } else {
            packet.meta_mut().forget_headers();
        }
        Ok(())
    }
}
