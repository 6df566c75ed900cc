//! `MarkMACHeader`, and what it says.
//!
//! It is kept as the header's place in the buffer, so that it stays true while
//! bytes are stripped from and put in front of the packet.

use linerate_graph::{Arg, Class, Context, Element};
use linerate_memory::{Frame, Meta};

use super::FAMILY;

/// Drop reason.
const NO_BUFFER: usize = 0;

pub(super) const CLASS: Class = Class {
    name: "MarkMACHeader",
    family: FAMILY,
    summary: "says where the Ethernet header is",
    description: "It begins `OFFSET` bytes into the packet. With a `LENGTH` it ends, and the \
        network header begins, that many bytes later. EtherRewrite, ARPPrint and the `ether host` of \
        IPClassifier look there; for packets nobody has marked they take the start. Ends of headers beyond 65,534 bytes are \
        not marked.",
    ports: "1/1",
    args: &[
        Arg::optional("OFFSET", "bytes", "0", "where it begins"),
        Arg::optional("LENGTH", "bytes", "0", "its length; 0: the network header is not marked"),
    ],
    annotates: true,
    drops: &["no buffer"],
    cost: "Writes a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> MarkMACHeader(4, 14) -> Discard;",
    make: |make| {
        let (offset, length) = (make.or("OFFSET", 0), make.or("LENGTH", 0));
        Box::new(MarkMacHeader { offset, length })
    },
    ..Class::here()
};

struct MarkMacHeader {
    offset: u32,
    length: u32,
}

impl Element for MarkMacHeader {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let arena = cx.pool.arena();
        let offset = u16::try_from(self.offset).ok();
        let end = u16::try_from(u64::from(self.offset) + u64::from(self.length)).ok();
        let end = end.filter(|end| self.length > 0 && *end != Meta::UNSET);
        for slot in frame.slots_mut() {
            let headroom = slot.headroom() as u16;
            let Some(meta) = arena.meta_mut(slot) else { continue };
            let place = offset.and_then(|offset| offset.checked_add(headroom)?.checked_add(1));
            meta.user[14..16].copy_from_slice(&place.unwrap_or(0).to_ne_bytes());
            if let Some(end) = end {
                meta.network = end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    #[test]
    fn the_network_header_is_behind_a_length() {
        let mut run = Run::new(
            "InfiniteSource(DATA abcdefgh, LIMIT 2, STOP true) -> t :: Tee -> MarkMACHeader(1, 3)
                -> StripToNetworkHeader -> a :: Collect;
             t [1] -> MarkMACHeader(1) -> StripToNetworkHeader -> b :: Collect;
             t [2] -> MarkMACHeader(4294967295, 4294967295) -> c :: Collect;",
        );
        run.run();
        assert_eq!(run.read("a.packets"), "65666768\n65666768");
        assert_eq!(run.read("c.lengths"), "8\n8");
    }
}
