//! `Tee` and `PullTee`: copies of packets.

use linerate_graph::{Arg, Class, Context, Copies, Element, ElementBuilder};
use linerate_memory::Frame;

use super::FAMILY;

pub(super) const TEE: Class = Class {
    name: "Tee",
    family: FAMILY,
    summary: "sends a copy of every packet to each output",
    description: "The copies share their bytes until one is written to.",
    ports: "1/1-",
    processing: "h/h",
    args: &[Arg::optional("N", "outputs", "outputs in use", "number of outputs")],
    cost: "An atomic increment per packet and output but the first; whoever writes to a shared \
        packet copies it.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> t :: Tee -> Discard; t [1] -> Discard;",
    copies: Copies::Shared,
    make: |make| Box::new(Tee::new(make)),
    ..Class::here()
};

pub(super) const PULL_TEE: Class = Class {
    name: "PullTee",
    summary: "sends a copy of every packet pulled from output 0 to the other outputs",
    processing: "l/lh",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue -> t :: PullTee -> Discard; \
        t [1] -> Discard;",
    ..TEE
};

struct Tee {
    outputs: usize,
}

impl Tee {
    fn new(make: &mut ElementBuilder<'_>) -> Tee {
        let outputs = make.outputs();
        if make.get::<u32>("N").is_some_and(|n| n as usize != outputs) {
            make.error(format!("{outputs} outputs implies {outputs} arms"));
        }
        Tee { outputs }
    }
}

impl Element for Tee {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        for output in 1..self.outputs {
            for slot in frame.slots_mut() {
                if let Some(share) = cx.pool.share(slot) {
                    cx.out.emit(output, share);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// As in Click, which says nothing more about one that is empty.
    #[test]
    fn an_empty_argument_is_none() {
        let errors = Run::errors("Idle -> Tee(,2) -> Discard");
        let said: Vec<&str> = errors.lines().skip(1).map(str::trim).collect();
        assert_eq!(said, ["too many arguments"], "{errors}");
        assert_eq!(Run::errors("Idle -> Tee() -> Discard"), "");
    }
}
