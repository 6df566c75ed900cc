//! `Search` and `UnstripAnno`: strip the bytes up to a pattern, and restore them.
//!
//! `FastClick` has the number of bytes where the paint and the byte of ICMP
//! parameter problems are, the paint as the higher byte; so it is here.

use linerate_graph::{
    Arguments, Class, DropReason, ElementBuilder, Exit, NoBuffer, Step, Verdict, Writes,
};
use linerate_memory::PacketMut;
use memchr::memmem::Finder;

use super::FAMILY;
use linerate_element_support::annotation_byte::Short;

/// Drop reason of `Search`.
#[derive(Clone, Copy, DropReason)]
enum SearchReason {
    #[from(NoBuffer)]
    NoBuffer,
    /// pattern not found
    NotFound,
}

/// Drop reason of `UnstripAnno`.
#[derive(Clone, Copy, DropReason)]
enum UnstripReason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
}

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
    annotates: true,
    cost: "Reads the packet up to the pattern, with vector instructions, and a line of annotations.",
    example: "InfiniteSource(DATA \"a: b;c\", LIMIT 10, STOP true) -> Search(\";\") -> UnstripAnno \
        -> Discard;",
    ..Search::CLASS
};

pub(super) const UNSTRIP: Class = Class {
    name: "UnstripAnno",
    family: FAMILY,
    summary: "puts as many bytes in front of packets as an annotation says",
    description: "Such as those Search has taken off. Not in Click; in FastClick.",
    ports: "1/1",
    annotates: true,
    cost: "A line of annotations per packet.",
    example: SEARCH.example,
    ..UnstripAnno::CLASS
};

#[derive(Arguments)]
#[arguments(check = Search::check)]
struct Search {
    /// what is searched for
    #[arg(kind = "string")]
    pattern: Vec<u8>,
    /// whether the pattern is taken off as well
    #[arg(keyword, default = true)]
    strip_after: bool,
    /// where the bytes are counted, of two bytes
    #[arg(keyword, default = "16")]
    anno: Short,
    /// whether they are counted
    #[arg(keyword, default = true)]
    set_anno: bool,
    #[init(Finder::new(&[]))]
    finder: Finder<'static>,
}

impl Search {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        if self.pattern.is_empty() && make.is_given("PATTERN") {
            make.error("Cannot search for an empty string!");
        }
        self.finder = Finder::new(&self.pattern).into_owned();
    }
}

impl Step<Writes, SearchReason> for Search {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<SearchReason> {
        let found = self.finder.find(packet.bytes());
        let mut count = found.ok_or(Exit::ErrorOutput(SearchReason::NotFound))?;
        if self.strip_after {
            count += self.pattern.len();
        }
        packet.pull(count);
        if self.set_anno {
            let meta = packet.meta_mut();
            let sum = u16::from_be_bytes(self.anno.get(meta)).wrapping_add(count as u16);
            self.anno.set(meta, sum.to_be_bytes());
        }
        Ok(())
    }
}

#[derive(Arguments)]
struct UnstripAnno {
    /// where the bytes are counted, of two bytes
    #[arg(optional, default = "16")]
    anno: Short,
}

impl Step<Writes, UnstripReason> for UnstripAnno {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<UnstripReason> {
        let count = u16::from_be_bytes(self.anno.get(packet.meta()));
        if !packet.prepend(count.into()) {
            return Err(Exit::Drop(UnstripReason::TooLong));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

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
                // Bytes taken off are back.
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
    fn packets_without_the_pattern_are_dropped_and_an_empty_pattern_is_refused() {
        let mut run = Run::new("Packets(6162 63) -> s :: Search(c) -> a :: Collect");
        run.run();
        assert_eq!(run.read("s.drops"), "0\tno buffer\n1\tpattern not found\n");
        let errors = Run::errors("Idle -> Search(\"\") -> Discard");
        assert!(errors.ends_with("\n  Cannot search for an empty string!\n"), "{errors}");
        let errors = Run::errors("Idle -> Search(a b) -> Discard");
        assert!(errors.ends_with("\n  PATTERN: parse error\n"), "{errors}");
    }
}
