//! `CheckPaint`: only packets of one colour.

use linerate_graph::{Class, Context, Element, HandlerError, Make};
use linerate_memory::{Frame, Slot};

use super::{FAMILY, color::Color};

/// Drop reason.
const OTHER_COLOR: usize = 0;

pub(super) const CLASS: Class = Class {
    name: "CheckPaint",
    family: FAMILY,
    summary: "passes packets of one colour",
    description: "Others leave by output 1, or are dropped when there is none.",
    ports: "1/1-2",
    processing: "a/ah",
    args: Color::ARGS,
    handlers: Color::HANDLERS,
    annotates: true,
    drops: &["other colour"],
    cost: "Reads a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Paint(1) -> CheckPaint(1) -> Discard;",
    make: |make| Box::new(CheckPaint::new(make)),
    ..Class::EMPTY
};

struct CheckPaint {
    color: Color,
    has_other: bool,
    failed: Vec<Slot>,
}

impl CheckPaint {
    fn new(make: &mut Make<'_>) -> CheckPaint {
        let has_other = make.outputs() > 1;
        CheckPaint { color: Color::from_args(make), has_other, failed: Vec::new() }
    }
}

impl Element for CheckPaint {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let Context { pool, out, .. } = cx;
        let arena = pool.arena();
        let right = |slot: &mut Slot| self.color.is(arena.meta(slot));
        if self.has_other {
            frame.sift(right, |slot| out.emit(1, slot));
        } else {
            frame.sift(right, |slot| self.failed.push(slot));
            self.failed.drain(..).for_each(|slot| cx.drop_packet(slot, OTHER_COLOR));
        }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        if cx.pull(0, count, frame) > 0 {
            self.push(cx, 0, frame);
            if frame.is_empty() {
                // There may be more where those came from.
                cx.notify();
            }
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        self.color.read(handler)
    }

    fn write(
        &mut self,
        _: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.color.write(handler, value)
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

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
