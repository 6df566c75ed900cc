//! `Paint` and `SetAnnoByte`: set an annotation of one byte.

use linerate_graph::{
    Arguments, Class, Context, ElementBuilder, NoBuffer, Right, Step, Verdict, Writes,
};
use linerate_memory::{Frame, PacketMut};

use super::{FAMILY, color::Color};
use linerate_element_support::annotation_byte::Byte;

pub(super) const CLASS: Class = Class {
    name: "Paint",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sets the paint annotation",
    description: "Other elements go by it: PaintSwitch, PaintTee, CheckPaint. `ANNO` is PAINT or \
        the number of one of Click's annotation bytes.",
    ports: "1/1",
    annotates: true,
    cost: "Writes a line of annotations per packet; copies of packets become copies of their \
        own.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Paint(1) -> CheckPaint(1) -> Discard;",
    ..Paint::CLASS
};

pub(super) const SET_BYTE: Class = Class {
    name: "SetAnnoByte",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sets an annotation of one byte (obsolete)",
    description: "Paint with its arguments the other way round, which Click recommends instead.",
    ports: CLASS.ports,
    annotates: true,
    cost: CLASS.cost,
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetAnnoByte(PAINT, 1) -> CheckPaint(1) \
        -> Discard;",
    ..SetAnnoByte::CLASS
};

#[derive(Arguments)]
struct Paint {
    #[group]
    color: Color,
}

impl Step for Paint {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        self.color.put(packet.meta_mut());
        Ok(())
    }

    #[inline]
    fn pass(&mut self, cx: &mut Context, frame: &mut Frame) {
        let preserved = self.color.preserves();
        if !self.color.is_paint() {
            cx.retain_preserving::<Writes, NoBuffer>(frame, preserved, |packet| self.step(packet));
            return;
        }
        // Without asking for each packet where it is.
        let color = self.color.color();
        cx.retain_preserving::<Writes, NoBuffer>(frame, preserved, |packet| {
            packet.meta_mut().paint = color;
            Ok(())
        });
    }
}

#[derive(Arguments)]
#[arguments(check = SetAnnoByte::warn)]
struct SetAnnoByte {
    /// the one-byte annotation to set
    #[arg(stand_in = Byte::PAINT)]
    anno: Byte,
    /// what to set it to
    #[arg(kind = "0 to 255")]
    #[handler(value, help = "what it is set to")]
    value: u8,
}

impl SetAnnoByte {
    fn warn(&mut self, make: &mut ElementBuilder<'_>) {
        make.warn("SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead");
    }
}

impl Step for SetAnnoByte {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        self.anno.set(packet.meta_mut(), self.value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

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
