//! `PrioSched`: pulls from the first input that has a packet.

use linerate_graph::{Class, Context, Element, ElementBuilder};
use linerate_memory::Frame;

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "PrioSched",
    family: FAMILY,
    summary: "pulls from the first input that has packets",
    description: "Input 0 goes before input 1, and so on: a lower one is served while those \
        above have nothing.",
    ports: "-/1",
    processing: "l/l",
    cost: "One call per input until one has packets; a frame has packets of one input.",
    example: "InfiniteSource(LIMIT 5) -> a :: Queue; InfiniteSource(LIMIT 5) -> b :: Queue; \
        a, b => PrioSched -> Unqueue -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(Prio::new(make)),
    ..Class::here()
};

pub(super) const SIMPLE: Class = Class {
    name: "SimplePrioSched",
    description: "As PrioSched. In Click, this one does not tell who pulls from it when there is \
        something again, and is asked all the time.",
    example: "InfiniteSource(LIMIT 5) -> a :: Queue; InfiniteSource(LIMIT 5) -> b :: Queue; \
        a, b => SimplePrioSched -> Unqueue -> Counter(COUNT_CALL 10 stop) -> Discard;",
    ..CLASS
};

struct Prio {
    inputs: usize,
    /// Set if packets that arrive between two pulled packets show in the order.
    turns_show: bool,
}

impl Prio {
    fn new(make: &mut ElementBuilder<'_>) -> Prio {
        Prio { inputs: make.inputs(), turns_show: !make.plan().is_live() }
    }
}

impl Element for Prio {
    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        for input in 0..self.inputs {
            // A packet for those that have nothing could come before the next pull.
            let most = if input > 0 && self.turns_show { 1 } else { count };
            // Behind the last packet of this input may come more of it before the
            // next pull, and these go first.
            if cx.pull(input, most, frame) > 0 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn the_first_input_goes_first() {
        let mut run = Run::new(
            "InfiniteSource(\\<0a>, LIMIT 30) -> a :: Queue; \
                InfiniteSource(\\<0b>, LIMIT 500) -> b :: Queue; \
                b, a => PrioSched -> u :: Unqueue(ACTIVE false) -> out :: Collect; \
                TimedSource(1ms, LIMIT 1) -> Counter(COUNT_CALL 1 u.active true) -> Discard; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        let packets = run.read("out.packets");
        let lines: Vec<&str> = packets.lines().collect();
        assert_eq!(lines.len(), 530);
        assert!(lines[..500].iter().all(|line| *line == "0b"));
        assert!(lines[500..].iter().all(|line| *line == "0a"));
    }
}
