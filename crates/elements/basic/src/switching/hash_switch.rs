//! `HashSwitch`: outputs by the sum of some bytes.

use linerate_graph::{Arg, Class, Context, Element, ElementBuilder};
use linerate_memory::Frame;

use super::{FAMILY, split};

pub(super) const CLASS: Class = Class {
    name: "HashSwitch",
    family: FAMILY,
    summary: "chooses outputs by the sum of some bytes",
    description: "Adds up `LENGTH` bytes from `OFFSET` on. Packets too short for that leave by \
        output 0. The sum is Click's, which spreads poorly: see FlowBalancer.",
    ports: "1/1-",
    processing: "h/h",
    args: &[
        Arg::required("OFFSET", "bytes", "first byte"),
        Arg::required("LENGTH", "bytes", "number of bytes"),
    ],
    cost: "Reads the packet; an addition per byte and, unless there are 2, 4 or 8 outputs, a \
        division.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> s :: HashSwitch(0, 4) -> Discard; \
        s [1] -> Discard;",
    make: |make| Box::new(HashSwitch::new(make)),
    ..Class::here()
};

struct HashSwitch {
    offset: usize,
    length: usize,
    outputs: u32,
}

impl HashSwitch {
    fn new(make: &mut ElementBuilder<'_>) -> HashSwitch {
        let (offset, length): (i32, i32) = (make.need("OFFSET"), make.need("LENGTH"));
        if make.is_given("LENGTH") && length <= 0 {
            make.error("length must be > 0");
        }
        let offset = usize::try_from(offset).unwrap_or_else(|_| {
            make.error("offset must be >= 0");
            0
        });
        let length = usize::try_from(length).unwrap_or(0);
        HashSwitch { offset, length, outputs: make.outputs() as u32 }
    }

    fn output(&self, packet: &[u8]) -> usize {
        let from = packet.get(self.offset..).and_then(|bytes| bytes.get(..self.length));
        let Some(bytes) = from else { return 0 };
        let sum: u32 = bytes.iter().map(|byte| u32::from(*byte)).sum();
        let output = match self.outputs {
            2 | 4 | 8 => (sum ^ sum >> 4) & (self.outputs - 1),
            outputs => sum % outputs,
        };
        output as usize
    }
}

impl Element for HashSwitch {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        split(cx, frame, |arena, slot| self.output(arena.packet(slot)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Run;

    /// The outputs of Click 2.1 for these packets.
    #[test]
    fn sums_choose_outputs() {
        let switch = |outputs| HashSwitch { offset: 1, length: 2, outputs };
        for (packet, of_two, of_three, of_four) in
            [("abc", 1, 2, 1), ("abd", 0, 0, 2), ("azz", 1, 1, 3), ("ab", 0, 0, 0), ("", 0, 0, 0)]
        {
            let packet = packet.as_bytes();
            let outputs = [2, 3, 4].map(|outputs| switch(outputs).output(packet));
            assert_eq!(outputs, [of_two, of_three, of_four], "{packet:?}");
        }
    }

    #[test]
    fn packets_leave_by_the_output_chosen() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(DATA abc, LIMIT 9, STOP true) -> s :: HashSwitch(1, 2) -> Discard;
                 s [1] -> c :: Counter -> Discard;",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.count"), "9");
        }
    }

    #[test]
    fn a_length_of_nothing_is_refused() {
        let errors = Run::errors("Idle -> HashSwitch(0, 0) -> Discard");
        assert!(errors.ends_with("\n  length must be > 0\n"), "{errors}");
    }
}
