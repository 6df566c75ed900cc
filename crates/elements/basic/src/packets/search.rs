//! `Search` and `UnstripAnno`: bytes off the front up to a pattern, and back.
//!
//! `FastClick` has the number of bytes where the paint and the byte of ICMP
//! parameter problems are, the paint as the higher byte; so it is here.

use linerate_graph::{Arg, Class, Context, Element, Make};
use linerate_memory::{Frame, Slot};
use memchr::memmem::Finder;

use super::FAMILY;
use linerate_kit::{annotation_byte::Short, room, start::start_moved};

/// Drop reasons.
const NO_BUFFER: usize = 0;
/// Of `Search`.
const NOT_FOUND: usize = 1;
/// Of `UnstripAnno`.
const TOO_LONG: usize = 1;

pub(super) const SEARCH: Class = Class {
    name: "Search",
    family: FAMILY,
    summary: "takes bytes off the front of packets up to a pattern",
    description: "Packets then begin behind the first `PATTERN` in them, or with it where \
        `STRIP_AFTER` is false. Those without it leave by output 1, or are dropped where there is \
        none. `ANNO` grows by the bytes taken off, which UnstripAnno puts back. Not in Click; in \
        FastClick.",
    ports: "1/1-2",
    processing: "h/h",
    args: &[
        Arg::required("PATTERN", "string", "what is searched for"),
        Arg::keyword("STRIP_AFTER", "bool", "true", "whether the pattern is taken off as well"),
        Arg::keyword("ANNO", "annotation", "16", "where the bytes are counted, of two bytes"),
        Arg::keyword("SET_ANNO", "bool", "true", "whether they are counted"),
    ],
    annotates: true,
    drops: &["no buffer", "pattern not found"],
    cost: "Reads the packet up to the pattern, with vector instructions, and a line of annotations.",
    example: "InfiniteSource(DATA \"a: b;c\", LIMIT 10, STOP true) -> Search(\";\") -> UnstripAnno \
        -> Discard;",
    make: |make| Box::new(Search::new(make)),
    ..Class::EMPTY
};

pub(super) const UNSTRIP: Class = Class {
    name: "UnstripAnno",
    family: FAMILY,
    summary: "puts as many bytes in front of packets as an annotation says",
    description: "Such as those Search has taken off. Not in Click; in FastClick.",
    ports: "1/1",
    args: &[Arg::optional("ANNO", "annotation", "16", "where the bytes are counted, of two bytes")],
    annotates: true,
    drops: &["no buffer", "longer than a buffer"],
    cost: "A line of annotations per packet.",
    example: SEARCH.example,
    make: |make| Box::new(UnstripAnno { annotation: annotation(make), failed: Vec::new() }),
    ..Class::EMPTY
};

/// The argument `ANNO`.
fn annotation(make: &mut Make<'_>) -> Short {
    Short::given(make, "ANNO").unwrap_or(Short::PAINT_TWO)
}

struct Search {
    pattern: Finder<'static>,
    /// Bytes of the pattern that are taken off as well.
    more: usize,
    annotation: Option<Short>,
    has_other: bool,
    failed: Vec<Slot>,
}

impl Search {
    fn new(make: &mut Make<'_>) -> Search {
        let pattern: Vec<u8> = make.need("PATTERN");
        if pattern.is_empty() && make.is_given("PATTERN") {
            make.error("Cannot search for an empty string!");
        }
        let annotation = annotation(make);
        Search {
            more: if make.or("STRIP_AFTER", true) { pattern.len() } else { 0 },
            pattern: Finder::new(&pattern).into_owned(),
            annotation: make.or("SET_ANNO", true).then_some(annotation),
            has_other: make.outputs() > 1,
            failed: Vec::new(),
        }
    }
}

impl Element for Search {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let Search { pattern, more, annotation, has_other, failed } = self;
        cx.pool.arena().sift_packets(
            frame,
            |packet| {
                let count = pattern.find(packet.bytes()).ok_or(())? + *more;
                packet.pull(count);
                let meta = packet.parts().1;
                start_moved(meta, count as i32);
                if let Some(annotation) = annotation {
                    let sum = u16::from_be_bytes(annotation.get(meta)).wrapping_add(count as u16);
                    annotation.set(meta, sum.to_be_bytes());
                }
                Ok(())
            },
            |slot, ()| failed.push(slot),
        );
        for slot in failed.drain(..) {
            match *has_other {
                true => cx.out.emit(1, slot),
                false => cx.drop_packet(slot, NOT_FOUND),
            }
        }
    }
}

struct UnstripAnno {
    annotation: Short,
    failed: Vec<Slot>,
}

impl Element for UnstripAnno {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let arena = cx.pool.arena();
        let fits = |slot: &mut Slot| {
            let count = u16::from_be_bytes(self.annotation.get(arena.meta(slot)));
            let pushed = room::push(arena, slot, count.into());
            if pushed && let Some(meta) = arena.meta_mut(slot) {
                start_moved(meta, -i32::from(count));
            }
            pushed
        };
        frame.sift(fits, |slot| self.failed.push(slot));
        self.failed.drain(..).for_each(|slot| cx.drop_packet(slot, TOO_LONG));
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    const PACKETS: &str = "6162633b64 3b3b65 666768 -";

    #[test]
    fn packets_begin_behind_the_pattern() {
        for frame_limit in [1, 7, 256] {
            for (config, found, lost) in [
                ("\";\"", "64\n3b65", "666768\n"),
                ("\\<3b>, STRIP_AFTER false", "3b64\n3b3b65", "666768\n"),
                ("bc", "3b64", "3b3b65\n666768\n"),
                ("h", "", "6162633b64\n3b3b65\n"),
            ] {
                let mut run = Run::new(&format!(
                    "Packets({PACKETS}) -> s :: Search({config}) -> t :: Tee -> a :: Collect;
                     t [1] -> UnstripAnno -> c :: Collect; s [1] -> b :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("a.packets"), found, "{config}");
                assert_eq!(run.read("b.packets"), lost, "{config}");
                // What was taken off is back.
                let whole =
                    PACKETS.split(' ').filter(|packet| *packet != "-" && !lost.contains(packet));
                assert_eq!(run.read("c.packets"), whole.collect::<Vec<_>>().join("\n"), "{config}");
            }
        }
    }

    #[test]
    fn searches_add_up_and_leave_the_paint_alone() {
        let mut run = Run::new(
            "Packets(613b623b63) -> Search(\";\") -> Search(\";\") -> t :: Tee -> UnstripAnno
                -> a :: Collect; t [1] -> p :: PaintSwitch -> b :: Collect; p [1] -> c :: Collect",
        );
        run.run();
        assert_eq!(
            (run.read("a.packets"), run.read("b.packets")),
            ("613b623b63".into(), "63".into())
        );
    }

    #[test]
    fn what_is_not_found_is_dropped_and_nothing_cannot_be_searched_for() {
        let mut run = Run::new("Packets(6162 63) -> s :: Search(c) -> a :: Collect");
        run.run();
        assert_eq!(run.read("s.drops"), "0\tno buffer\n1\tpattern not found\n");
        let errors = Run::errors("Idle -> Search(\"\") -> Discard");
        assert!(errors.ends_with("\n  Cannot search for an empty string!\n"), "{errors}");
        let errors = Run::errors("Idle -> Search(a b) -> Discard");
        assert!(errors.ends_with("\n  PATTERN: parse error\n"), "{errors}");
    }
}
