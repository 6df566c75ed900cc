//! `Null`, `PushNull`, `PullNull`: pass packets on.

use linerate_graph::{Class, Context, Element};
use linerate_memory::Frame;

use super::FAMILY;

pub(super) const NULL: Class = Class {
    name: "Null",
    family: FAMILY,
    summary: "passes packets on unchanged",
    description: "Useful as a placeholder, and to name a point of a graph.",
    ports: "1/1",
    cost: "One call per frame; packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Null -> Discard;",
    make: |_| Box::new(Null),
    ..Class::EMPTY
};

pub(super) const PUSH_NULL: Class = Class {
    name: "PushNull",
    processing: "h/h",
    summary: "passes packets on unchanged, by push only",
    example: "InfiniteSource(LIMIT 10, STOP true) -> PushNull -> Discard;",
    ..NULL
};

pub(super) const PULL_NULL: Class = Class {
    name: "PullNull",
    processing: "l/l",
    summary: "passes packets on unchanged, by pull only",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue -> PullNull -> Discard;",
    ..NULL
};

struct Null;

impl Element for Null {
    fn push(&mut self, _: &mut Context, _: usize, _: &mut Frame) {}
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn packets_in_a_circle_do_not_hold_the_worker_for_ever() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 3, BURST 3, STOP true) -> c :: Counter -> n :: Null -> c",
            )
            .frame_limit(limit);
            run.run();
            assert!(run.read("c.count").parse::<u64>().unwrap() > 1_000);
            let said = run.output().matches(": packets go round in circles, dropped\n").count();
            assert_eq!(said, 1);
        }
    }

    /// The copies go on before the packet that was pulled does.
    #[test]
    fn nor_do_those_a_pulled_element_sends() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 3, BURST 3) -> Queue -> t :: PullTee
                    -> end :: Counter -> Discard;
                DriverManager(wait 50ms, stop);
                t [1] -> c :: Counter -> n :: Null -> c",
            )
            .frame_limit(limit);
            run.run();
            assert!(run.read("c.count").parse::<u64>().unwrap() > 1_000);
            assert_eq!(run.read("end.count"), "3");
            let said = run.output().matches(": packets go round in circles, dropped\n").count();
            assert_eq!(said, 1);
        }
    }
}
