//! `Pad`: least length of packets.

use linerate_graph::{Arguments, Class, DropReason, Exit, NoBuffer, Right, Step, Verdict, Writes};
use linerate_memory::PacketMut;

use super::FAMILY;
use linerate_element_support::annotations;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
}

pub(super) const CLASS: Class = Class {
    name: "Pad",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "makes packets at least as long as given, or as they once were",
    description: "Without `LENGTH`, or with 0, packets grow by their extra length annotation, \
        which is what Truncate has cut off. The annotation is zero afterwards. With `ZERO false` \
        the new bytes hold anything, also bytes of other packets.",
    ports: "1/1",
    annotates: true,
    cost: "A line of annotations per packet, and the bytes that are added.",
    example: "InfiniteSource(LENGTH 20, LIMIT 10, STOP true) -> Pad(60) -> Discard;",
    ..Pad::CLASS
};

#[derive(Arguments)]
struct Pad {
    /// fewest bytes of a packet
    #[arg(optional, kind = "bytes", default = 0, shown = "the extra length")]
    length: u32,
    /// whether the new bytes are zero
    #[arg(keyword, default = true)]
    zero: bool,
}

impl Step<Writes, Reason> for Pad {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let before = packet.len();
        let meta = packet.meta_mut();
        let count = match self.length {
            0 => annotations::extra_length(meta) as usize,
            length => (length as usize).saturating_sub(before),
        };
        annotations::set_extra_length(meta, 0);
        if count == 0 {
            return Ok(());
        }
        if !packet.append(count) {
            return Err(Exit::Drop(Reason::TooLong));
        }
        if self.zero {
            packet.bytes_mut()[before..].fill(0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn short_packets_grow_and_long_ones_stay() {
        for (length, packet) in [(5, "6162636400"), (4, "61626364"), (2, "61626364")] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "InfiniteSource(DATA abcd, LIMIT 2, STOP true) -> Pad({length}) -> c :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.packets"), [packet; 2].join("\n"));
            }
        }
    }

    #[test]
    fn the_whole_buffer_can_be_used_and_no_more() {
        for (length, lengths, drops) in [(2112, "2112", 0), (2113, "", 1), (u32::MAX, "", 1)] {
            let mut run = Run::new(&format!(
                "InfiniteSource(LIMIT 1, STOP true) -> p :: Pad({length}, ZERO false) -> c :: Collect"
            ));
            run.run();
            assert_eq!(run.read("c.lengths"), lengths);
            assert_eq!(
                run.read("p.drops"),
                format!("0\tno buffer\n{drops}\tlonger than a buffer\n")
            );
        }
    }

    #[test]
    fn padding_a_copy_leaves_the_original_alone() {
        let mut run = Run::new(
            "InfiniteSource(DATA abcd, LIMIT 1, STOP true) -> t :: Tee -> Strip(1) -> Truncate(1)
                -> Pad(3) -> a :: Collect; t [1] -> b :: Collect;",
        );
        run.run();
        assert_eq!(
            (run.read("a.packets"), run.read("b.packets")),
            ("620000".into(), "61626364".into())
        );
    }
}
