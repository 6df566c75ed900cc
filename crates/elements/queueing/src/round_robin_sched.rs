//! `RoundRobinSched`: pulls one packet from each input in turn.

use linerate_graph::{Class, Context, Element, ElementBuilder};
use linerate_memory::Frame;

use super::{
    FAMILY,
    merge::{Merge, Turn},
};

pub(super) const CLASS: Class = Class {
    name: "RoundRobinSched",
    family: FAMILY,
    summary: "pulls from its inputs in turn",
    description: "Each packet pulled comes from the input after the one the last came from, of \
        those that have any.",
    ports: "-/1",
    processing: "l/l",
    cost: "A few cycles per packet; every input is pulled once per frame. One behind which \
        something else than a queue stands is pulled a packet at a time.",
    example: "InfiniteSource(LIMIT 5) -> a :: Queue; InfiniteSource(LIMIT 5) -> b :: Queue; \
        a, b => RoundRobinSched -> Unqueue -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(RoundRobin::new(make)),
    ..Class::here()
};

pub(super) const SIMPLE: Class = Class {
    name: "SimpleRoundRobinSched",
    description: "As RoundRobinSched. In Click, this one does not tell who pulls from it when there \
        is something again, and is asked all the time.",
    example: "InfiniteSource(LIMIT 5) -> a :: Queue; InfiniteSource(LIMIT 5) -> b :: Queue; \
        a, b => SimpleRoundRobinSched -> Unqueue -> Counter(COUNT_CALL 10 stop) -> Discard;",
    ..CLASS
};

struct RoundRobin {
    next: usize,
    merge: Merge,
}

impl RoundRobin {
    fn new(make: &mut ElementBuilder<'_>) -> RoundRobin {
        RoundRobin { next: 0, merge: Merge::new(make) }
    }

    /// The next input that has a packet has had a turn; `false` when none has any now.
    fn turn(&mut self, cx: &mut Context) -> bool {
        let inputs = self.merge.inputs();
        let mut input = self.next;
        for _ in 0..inputs {
            let turn = self.merge.turn(cx, input);
            input = if input + 1 < inputs { input + 1 } else { 0 };
            match turn {
                Turn::Missed => {}
                Turn::Over => return false,
                Turn::Taken => {
                    self.next = input;
                    return true;
                }
            }
        }
        false
    }
}

impl Element for RoundRobin {
    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        self.merge.begin(cx, count);
        while self.turn(cx) {}
        self.merge.finish(cx, frame);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Returns the input of each packet, of three with 300, 5 and 40 packets.
    fn order(frame_limit: usize) -> String {
        let mut run = Run::new(
            "InfiniteSource(\\<0a>, LIMIT 300) -> a :: Queue; \
                InfiniteSource(\\<0b>, LIMIT 5) -> b :: Queue; \
                InfiniteSource(\\<0c>, LIMIT 40) -> c :: Queue; \
                a, b, c => RoundRobinSched -> u :: Unqueue(ACTIVE false) -> out :: Collect; \
                TimedSource(1ms, LIMIT 1) -> Counter(COUNT_CALL 1 u.active true) -> Discard; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard",
        )
        .frame_limit(frame_limit);
        run.run();
        run.read("out.packets").lines().map(|line| &line[1..]).collect()
    }

    #[test]
    fn inputs_take_turns_packet_by_packet() {
        let expected = "abc".repeat(5) + &"ac".repeat(35) + &"a".repeat(260);
        assert_eq!(order(256), expected);
        assert_eq!(order(7), expected);
    }
}
