//! `MarkMACHeader`: marks the place of the Ethernet header.
//!
//! It is kept as the header's place in the buffer, so that it stays true while
//! bytes are stripped from and put in front of the packet.

use linerate_element_support::mac_header::mark;
use linerate_graph::{Arguments, Class, ElementBuilder, Right, Step, Verdict};
use linerate_memory::{HeaderStart, PacketMut};

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "MarkMACHeader",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "says where the Ethernet header is",
    description: "It begins `OFFSET` bytes into the packet. With a `LENGTH` it ends, and the \
        network header begins, that many bytes later. EtherRewrite, ARPPrint and the `ether host` of \
        IPClassifier look there; for packets nobody has marked they take the start. Ends of headers beyond 65,534 bytes are \
        not marked.",
    ports: "1/1",
    annotates: true,
    cost: "Writes a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> MarkMACHeader(4, 14) -> Discard;",
    ..MarkMacHeader::CLASS
};

#[derive(Arguments)]
#[arguments(check = MarkMacHeader::find)]
struct MarkMacHeader {
    /// where it begins
    #[arg(optional, kind = "bytes", default = 0)]
    offset: u32,
    /// its length; 0: the network header is not marked
    #[arg(optional, kind = "bytes", default = 0)]
    length: u32,
    /// Offsets of start and end, as far as they can be marked.
    start: Option<isize>,
    end: Option<isize>,
}

impl MarkMacHeader {
    fn find(&mut self, _: &mut ElementBuilder<'_>) {
        let end = u16::try_from(u64::from(self.offset) + u64::from(self.length)).ok();
        self.end = end.filter(|_| self.length > 0).map(|end| end as isize);
        self.start = u16::try_from(self.offset).ok().map(|start| start as isize);
    }
}

impl Step for MarkMacHeader {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        let headroom = packet.headroom();
        let start = self.start.map(|start| HeaderStart::signed(headroom, start));
        let meta = packet.meta_mut();
        mark(meta, start.unwrap_or(HeaderStart::UNKNOWN));
        if let Some(end) = self.end {
            meta.network = HeaderStart::signed(headroom, end);
        }
        Ok(())
    }
}
#[cfg(test)]
mod tests {
    use crate::testing::Run;

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
