//! `Pad`: packets of at least a length.

use linerate_graph::{Arg, Class, Context, Element, Make};
use linerate_memory::{Frame, Slot};

use super::FAMILY;
use linerate_kit::{annotations, room};

/// Drop reasons.
const NO_BUFFER: usize = 0;
const TOO_LONG: usize = 1;

pub(super) const CLASS: Class = Class {
    name: "Pad",
    family: FAMILY,
    summary: "makes packets at least as long as given, or as they once were",
    description: "Without `LENGTH`, or with 0, packets grow by their extra length annotation, \
        which is what Truncate has cut off. The annotation is zero afterwards. With `ZERO false` \
        the new bytes hold anything, also bytes of other packets.",
    ports: "1/1",
    args: &[
        Arg::optional("LENGTH", "bytes", "the extra length", "fewest bytes of a packet"),
        Arg::keyword("ZERO", "bool", "true", "whether the new bytes are zero"),
    ],
    annotates: true,
    drops: &["no buffer", "longer than a buffer"],
    cost: "A line of annotations per packet, and the bytes that are added.",
    example: "InfiniteSource(LENGTH 20, LIMIT 10, STOP true) -> Pad(60) -> Discard;",
    make: |make| Box::new(Pad::new(make)),
    ..Class::EMPTY
};

struct Pad {
    length: u32,
    zero: bool,
    failed: Vec<Slot>,
}

impl Pad {
    fn new(make: &mut Make<'_>) -> Pad {
        Pad { length: make.or("LENGTH", 0), zero: make.or("ZERO", true), failed: Vec::new() }
    }
}

impl Element for Pad {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let Pad { length, zero, ref mut failed } = *self;
        let arena = cx.pool.arena();
        let fits = |slot: &mut Slot| {
            let before = slot.len();
            let mut count = (length as usize).saturating_sub(before);
            if let Some(meta) = arena.meta_mut(slot) {
                if length == 0 {
                    count = annotations::extra_length(meta) as usize;
                }
                annotations::set_extra_length(meta, 0);
            }
            if count == 0 {
                return true;
            }
            if !room::put(arena, slot, count) {
                return false;
            }
            if zero && let Some(bytes) = arena.packet_mut(slot) {
                bytes[before..].fill(0);
            }
            true
        };
        frame.sift(fits, |slot| failed.push(slot));
        failed.drain(..).for_each(|slot| cx.drop_packet(slot, TOO_LONG));
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

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
