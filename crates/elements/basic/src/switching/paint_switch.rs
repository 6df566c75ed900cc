//! `PaintSwitch`: outputs by paint.

use linerate_graph::{Arg, Class, Context, Copies, DropReason, Element};
use linerate_memory::Frame;

use super::{FAMILY, split};
use linerate_element_support::annotation_byte::Byte;

/// The paint of packets that go everywhere.
const ALL: u8 = 255;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no output of this paint
    NoOutput,
}

pub(super) const CLASS: Class = Class {
    name: "PaintSwitch",
    family: FAMILY,
    summary: "chooses outputs by the paint annotation",
    description: "A packet of paint K leaves by output K and is dropped when there is none; a \
        copy of one of paint 255 leaves by each output.",
    ports: "1/-",
    processing: "h/h",
    args: &[Arg::optional("ANNO", "annotation", "PAINT", "the one-byte annotation to go by")],
    annotates: true,
    drops: Reason::REASONS,
    cost: "Reads a line of annotations per packet; packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Paint(1) -> s :: PaintSwitch -> Discard; \
        s [1] -> Discard;",
    copies: Copies::Shared,
    make: |make| {
        Box::new(PaintSwitch { anno: make.or("ANNO", Byte::PAINT), outputs: make.outputs() })
    },
    ..Class::here()
};

struct PaintSwitch {
    anno: Byte,
    outputs: usize,
}

impl Element for PaintSwitch {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let arena = cx.pool.arena();
        let paint = |slot| self.anno.get(arena.meta(slot));
        let outputs = self.outputs;
        let special = |paint: u8| usize::from(paint) >= outputs;
        if !frame.slots().iter().any(|slot| special(paint(slot))) {
            return split(cx, frame, |arena, slot| usize::from(self.anno.get(arena.meta(slot))));
        }
        let count = frame.len();
        frame.drain_front(count, |mut slot| {
            let paint = self.anno.get(cx.pool.arena().meta(&slot));
            match usize::from(paint) {
                output if output < outputs => cx.out.emit(output, slot),
                _ if paint == ALL && outputs > 0 => {
                    for output in 0..outputs - 1 {
                        if let Some(copy) = cx.pool.share(&mut slot) {
                            cx.out.emit(output, copy);
                        }
                    }
                    cx.out.emit(outputs - 1, slot);
                }
                _ => cx.drop_packet(slot, Reason::NoOutput),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn paints_are_outputs_and_255_is_all() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "s :: PaintSwitch -> a :: Counter -> Discard; s [1] -> b :: Counter -> Discard;
                 InfiniteSource(LIMIT 3) -> Paint(0) -> s; InfiniteSource(LIMIT 5) -> Paint(1) -> s;
                 InfiniteSource(LIMIT 7) -> Paint(2) -> s;
                 InfiniteSource(LIMIT 11, STOP true) -> Paint(255) -> s;",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!((run.read("a.count"), run.read("b.count")), ("14".into(), "16".into()));
            assert_eq!(run.read("s.drops"), "7\tno output of this paint\n");
        }
    }

    #[test]
    fn other_annotations_can_be_gone_by() {
        for anno in ["20", "23", "24", "39", "0", "PAINT"] {
            let mut run = Run::new(&format!(
                "InfiniteSource(LIMIT 3, STOP true) -> Paint(1, {anno}) -> s :: PaintSwitch({anno})
                    -> Discard; s [1] -> c :: Counter -> Discard;"
            ));
            run.run();
            assert_eq!(run.read("c.count"), "3", "{anno}");
        }
        for anno in ["48", "AGGREGATE", "x"] {
            let errors = Run::errors(&format!("Idle -> PaintSwitch({anno}) -> Discard"));
            assert!(errors.ends_with("\n  ANNO: parse error\n"), "{errors}");
        }
    }
}
