//! `MarkIPHeader`: says where the IP header is, without looking at it.

use linerate_graph::{Arg, Class, Context, Element};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_kit::ip::NO_BUFFER;

pub(super) const CLASS: Class = Class {
    name: "MarkIPHeader",
    family: FAMILY,
    summary: "says where the IP header is",
    description: "Nothing of it is checked: for packets that are known to be sound. In a packet \
        too short for a header at that place, none is known afterwards.",
    ports: "1/1",
    args: &[Arg::optional("OFFSET", "bytes", "0", "where the IP header is")],
    annotates: true,
    drops: &["no buffer"],
    cost: "One pass: the first line of the packet and a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> MarkIPHeader(14) -> Discard;",
    make: |make| Box::new(MarkIpHeader { offset: make.or::<i32>("OFFSET", 0) }),
    ..Class::EMPTY
};

struct MarkIpHeader {
    offset: i32,
}

impl Element for MarkIpHeader {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let arena = cx.pool.arena();
        arena.prefetch_packets(frame);
        arena.edit_packets(frame, |packet| {
            let (bytes, meta) = packet.parts();
            let first = bytes.get(offset).copied();
            (meta.network, meta.transport) = match first {
                Some(first) => {
                    let header = usize::from(first & 15) * 4;
                    (offset as u16, (offset + header).min(usize::from(u16::MAX)) as u16)
                }
                None => (linerate_memory::Meta::UNSET, linerate_memory::Meta::UNSET),
            };
        });
    }
}
