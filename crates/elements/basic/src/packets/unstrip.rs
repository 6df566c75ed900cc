//! `Unstrip`: restores bytes in front.

use linerate_graph::{Arguments, Class, Context, DropReason, Element, Exit, NoBuffer, Writes};
use linerate_memory::Frame;

use super::FAMILY;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
}

pub(super) const CLASS: Class = Class {
    name: "Unstrip",
    family: FAMILY,
    summary: "puts bytes in front of packets",
    description: "They hold what was there, such as what Strip has taken off; beyond what the \
        buffer has in front they are zero.",
    ports: "1/1",
    drops: Reason::REASONS,
    cost: "Less than a cycle per packet: only slots are changed, four at a time; a packet with too \
        little room in front is moved.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Strip(14) -> Unstrip(14) -> Discard;",
    ..Class::for_element::<Unstrip>()
};

#[derive(Arguments)]
struct Unstrip {
    /// bytes to put in front
    #[arg(kind = "bytes")]
    length: u32,
}

impl Element for Unstrip {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let length = self.length as usize;
        if cx.pool.arena().unstrip_packets(frame, &mut cx.header_cache, length) {
            return;
        }
        cx.retain::<Writes, Reason>(frame, |packet| {
            if packet.prepend(length) { Ok(()) } else { Err(Exit::Drop(Reason::TooLong)) }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn stripped_bytes_come_back() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(DATA abcdef, LIMIT 3, STOP true) -> Strip(4) -> Unstrip(3)
                    -> c :: Collect",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.packets"), ["6263646566"; 3].join("\n"));
        }
    }

    /// Also when a writer has made a copy of its own meanwhile.
    #[test]
    fn stripped_bytes_come_back_in_copies() {
        let mut run = Run::new(
            "InfiniteSource(DATA abcdef, LIMIT 1, STOP true) -> t :: Tee -> Strip(4)
                -> RandomBitErrors(1, set) -> Unstrip(4) -> c :: Collect;
             t [1] -> d :: Collect;",
        );
        run.run();
        assert_eq!(run.read("c.packets"), "61626364ffff");
        assert_eq!(run.read("d.packets"), "616263646566");
    }

    #[test]
    fn beyond_the_room_in_front_there_are_zeros() {
        let mut run = Run::new(
            "InfiniteSource(DATA ab, LIMIT 2, STOP true) -> Unstrip(200) -> Strip(190)
                -> c :: Collect",
        );
        run.run();
        assert_eq!(run.read("c.lengths"), "12\n12");
        assert!(run.read("c.packets").ends_with("6162"));
    }

    #[test]
    fn packets_beyond_a_buffer_are_dropped() {
        let mut run = Run::new(
            "InfiniteSource(DATA ab, LIMIT 2, STOP true) -> u :: Unstrip(70000) -> c :: Collect",
        );
        run.run();
        assert_eq!(run.read("c.lengths"), "");
        assert_eq!(run.read("u.drops"), "0\tno buffer\n2\tlonger than a buffer\n");
    }
}
