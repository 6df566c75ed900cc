//! `BPDUGuard`: drops messages between bridges.

use linerate_graph::{Arguments, Class, DropReason, ElementBuilder, Exit, Reads, Step, Verdict};
use linerate_memory::Packet;

use super::FAMILY;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// address reserved for bridges
    Reserved,
}

/// The addresses no bridge forwards but for their last four bits (IEEE 802.1Q,
/// table 8-1).
const PREFIX: u64 = 0x0180_c200_0000;

pub(super) const CLASS: Class = Class {
    name: "BPDUGuard",
    family: FAMILY,
    summary: "keeps packets between neighbouring bridges from passing",
    description: "Packets to 01:80:c2:00:00:00 to 0f (spanning tree, pause frames, link \
        aggregation, 802.1X, LLDP) are meant for the next bridge and forwarded by none. They leave \
        by output 1, for who answers them, or are dropped where it is not used. In front of each \
        port of an EtherSwitch, hosts can then neither play bridge nor learn about ours. With \
        `BPDU_ONLY` just those of spanning trees (address 00) are kept.",
    ports: "1/1-2",
    processing: "a/ah",
    cost: "Touches the packet's first line.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> BPDUGuard -> Discard;",
    ..BpduGuard::CLASS
};

#[derive(Arguments)]
#[arguments(check = BpduGuard::set_free)]
struct BpduGuard {
    /// whether only spanning trees are kept out
    #[arg(keyword, default = false)]
    bpdu_only: bool,
    /// packets that have not passed
    #[handler(count, kept)]
    count: u64,
    /// Bits of an address that need not be those of the first one.
    free: u64,
}

impl BpduGuard {
    fn set_free(&mut self, _: &mut ElementBuilder<'_>) {
        self.free = if self.bpdu_only { 0 } else { 15 };
    }
}

impl Step<Reads, Reason> for BpduGuard {
    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict<Reason> {
        let head = packet.bytes().first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
        if (head >> 16) & !self.free != PREFIX {
            return Ok(());
        }
        self.count += 1;
        Err(Exit::ErrorOutput(Reason::Reserved))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn only_reserved_addresses_are_kept_out() {
        let packets = "0180c2000000aaaa 0180c200000eaaaa 0180c2000010aaaa 0180c3000000aaaa \
            0180c20000 - 0180c200000faaaa 010000000000aaaa";
        for (config, passed, kept) in [("", 5, 3), ("BPDU_ONLY true", 7, 1)] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "Packets({packets}) -> g :: BPDUGuard({config}) -> c :: Collect;
                     g [1] -> d :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                let count = |text: String| text.lines().count();
                assert_eq!(count(run.read("c.lengths")), passed, "{config}");
                assert_eq!(count(run.read("d.lengths")), kept, "{config}");
                assert_eq!(run.read("g.count"), kept.to_string());
            }
        }
    }
}
