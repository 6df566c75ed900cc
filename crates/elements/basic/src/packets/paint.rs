//! `Paint` and `SetAnnoByte`: set an annotation of one byte.

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError};
use linerate_memory::Frame;

use super::{FAMILY, color::Color};

/// Drop reason.
const NO_BUFFER: usize = 0;

/// The handler of all elements that have a colour.
pub(super) const CLASS: Class = Class {
    name: "Paint",
    family: FAMILY,
    summary: "sets the paint annotation",
    description: "Other elements go by it: PaintSwitch, PaintTee, CheckPaint. `ANNO` is PAINT or \
        the number of one of Click's annotation bytes.",
    ports: "1/1",
    args: Color::ARGS,
    handlers: Color::HANDLERS,
    annotates: true,
    drops: &["no buffer"],
    cost: "Writes a line of annotations per packet; copies of packets become copies of their \
        own.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Paint(1) -> CheckPaint(1) -> Discard;",
    make: |make| Box::new(Paint { color: Color::from_args(make) }),
    ..Class::EMPTY
};

pub(super) const SET_BYTE: Class = Class {
    name: "SetAnnoByte",
    summary: "sets an annotation of one byte (obsolete)",
    description: "Paint with its arguments the other way round, which Click recommends instead.",
    args: &[
        Arg::required("ANNO", "annotation", "the one-byte annotation to set"),
        Arg::required("VALUE", "0 to 255", "what to set it to"),
    ],
    handlers: &[Handler::value("value", "what it is set to")],
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetAnnoByte(PAINT, 1) -> CheckPaint(1) \
        -> Discard;",
    make: |make| {
        make.warn("SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead");
        Box::new(Paint { color: Color::of_any_byte(make) })
    },
    ..CLASS
};

struct Paint {
    color: Color,
}

impl Element for Paint {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let arena = cx.pool.arena();
        for slot in frame.slots_mut() {
            if let Some(meta) = arena.meta_mut(slot) {
                self.color.put(meta);
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
    fn copies_have_colours_of_their_own() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 5, STOP true) -> Paint(9) -> t :: Tee -> Paint(1)
                    -> CheckPaint(1) -> a :: Counter -> Discard;
                 t [1] -> CheckPaint(9) -> b :: Counter -> Discard;",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!((run.read("a.count"), run.read("b.count")), ("5".into(), "5".into()));
        }
    }

    #[test]
    fn the_colour_can_be_changed() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 5, STOP true) -> p :: Paint(1) -> q :: CheckPaint(7)
                -> c :: Counter -> Discard",
        );
        run.write("p.color", "8").unwrap();
        run.write("q.color", "8").unwrap();
        assert_eq!(run.write("p.color", "256").unwrap_err().to_string(), "expected uint8_t");
        run.run();
        assert_eq!((run.read("c.count"), run.read("p.color")), ("5".into(), "8".into()));
        let errors = Run::errors("Idle -> Paint(256) -> Discard");
        assert!(errors.ends_with("\n  COLOR: out of range, bound 255\n"), "{errors}");
    }
}
