//! `PaintTee`: a copy of packets of one colour.

use linerate_graph::{Arguments, Class, Context, Copies, Element, HandlerResult};
use linerate_memory::Frame;

use super::{FAMILY, color::Color};

pub(super) const CLASS: Class = Class {
    name: "PaintTee",
    family: FAMILY,
    summary: "sends a copy of packets of one colour by output 1",
    description: "All packets leave by output 0. The copies share their bytes until one is \
        written to, except where they may meet their packets again.",
    ports: "1/2",
    processing: "a/ah",
    annotates: true,
    cost: "Reads a line of annotations per packet; an atomic increment per copy, and \
        where its ways meet again a buffer of its own.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Paint(1) -> t :: PaintTee(1) -> Discard; \
        t [1] -> Discard;",
    copies: Copies::Placed,
    ..Class::for_element::<PaintTee>()
};

#[derive(Arguments)]
struct PaintTee {
    #[group]
    color: Color,
}

impl PaintTee {
    fn copy(&self, cx: &mut Context, frame: &mut Frame) {
        // In most frames no packet has the colour.
        let (mut any, color) = (false, self.color);
        let Context { pool, header_cache, .. } = &mut *cx;
        if color.is_paint() {
            // Without asking for each packet where it is.
            let paint = color.color();
            pool.arena().for_each_meta(frame, header_cache, |meta| any |= meta.paint == paint);
        } else {
            pool.arena().for_each_meta(frame, header_cache, |meta| any |= color.is(meta));
        }
        if !any {
            return;
        }
        for slot in frame.slots_mut() {
            if self.color.is(cx.arena().meta(slot))
                && let Some(copy) = cx.copy_before(slot)
            {
                cx.out.emit(1, copy);
            }
        }
    }
}

impl Element for PaintTee {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.copy(cx, frame);
        // A packet at a time, the copy goes first, as in Click.
        if cx.out.is_exact() {
            cx.out.emit_frame(0, frame);
        }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        cx.pull(0, count, frame);
        self.copy(cx, frame);
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.read_field(&cx.scope(), handler)
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        self.write_field(&cx.scope(), handler, value)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// As Click 2.1 does.
    #[test]
    fn the_copy_goes_first() {
        let mut run = Run::new(
            "InfiniteSource(DATA ab, LIMIT 1, STOP true) -> Paint(2) -> t :: PaintTee(2)
                -> j :: Collect; t [1] -> Strip(1) -> j;",
        )
        .frame_limit(1);
        run.run();
        assert_eq!(run.read("j.packets"), "62\n6162");
    }

    #[test]
    fn packets_of_the_colour_are_copied_pushed_or_pulled() {
        for queue in ["", "Queue ->"] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "t :: PaintTee(2) -> a :: Counter(COUNT_CALL 8 stop) -> Discard;
                     t [1] -> b :: Counter -> Discard; j :: Null -> {queue} t;
                     InfiniteSource(LIMIT 3) -> Paint(1) -> j;
                     InfiniteSource(LIMIT 5) -> Paint(2) -> j;"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!((run.read("a.count"), run.read("b.count")), ("8".into(), "5".into()));
            }
        }
    }
}
