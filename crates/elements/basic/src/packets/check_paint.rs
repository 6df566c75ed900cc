//! `CheckPaint`: passes packets of one colour.

use linerate_graph::{Arguments, Class, DropReason, Exit, Reads, Step, Verdict};
use linerate_memory::Packet;

use super::{FAMILY, color::Color};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// other colour
    OtherColor,
}

pub(super) const CLASS: Class = Class {
    name: "CheckPaint",
    family: FAMILY,
    summary: "passes packets of one colour",
    description: "Others leave by output 1, or are dropped when there is none.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    cost: "Reads a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Paint(1) -> CheckPaint(1) -> Discard;",
    ..CheckPaint::CLASS
};

#[derive(Arguments)]
struct CheckPaint {
    #[group]
    color: Color,
}

impl Step<Reads, Reason> for CheckPaint {
    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict<Reason> {
        if self.color.is(packet.meta()) {
            Ok(())
        } else {
            Err(Exit::ErrorOutput(Reason::OtherColor))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn other_colours_are_dropped_or_leave_by_output_1() {
        for queue in ["", "Queue ->"] {
            for (other, drops) in [("c [1] -> b;", 0), ("Idle -> b;", 3)] {
                for frame_limit in [1, 256] {
                    let mut run = Run::new(&format!(
                        "c :: CheckPaint(2) -> a :: Counter(COUNT_CALL 5 stop) -> Discard;
                         b :: Counter -> Discard; {other} j :: Null -> {queue} c;
                         InfiniteSource(LIMIT 3) -> Paint(1) -> j;
                         InfiniteSource(LIMIT 5) -> Paint(2) -> j;"
                    ))
                    .frame_limit(frame_limit);
                    run.run();
                    let others = (3 - drops).to_string();
                    assert_eq!((run.read("a.count"), run.read("b.count")), ("5".into(), others));
                    assert_eq!(run.read("c.drops"), format!("{drops}\tother colour\n"));
                }
            }
        }
    }
}
