//! `RoundRobinSwitch`: outputs in turn.

use linerate_graph::{Class, Context, Element};
use linerate_memory::Frame;

use super::{FAMILY, split};

pub(super) const CLASS: Class = Class {
    name: "RoundRobinSwitch",
    family: FAMILY,
    summary: "sends packets by its outputs in turn",
    description: "Packets of one flow go different ways: see FlowBalancer where their order \
        matters.",
    ports: "1/1-",
    processing: "h/h",
    cost: "A few cycles per packet; packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> s :: RoundRobinSwitch -> Discard; \
        s [1] -> Discard;",
    order_dependent: true,
    make: |make| Box::new(RoundRobinSwitch { next: 0, outputs: make.outputs() }),
    ..Class::here()
};

struct RoundRobinSwitch {
    next: usize,
    outputs: usize,
}

impl Element for RoundRobinSwitch {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        split(cx, frame, |_, _| {
            let output = self.next;
            self.next = if output + 1 < self.outputs { output + 1 } else { 0 };
            output
        });
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<RoundRobinSwitch>() {
            self.next = if old.next < self.outputs { old.next } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn outputs_take_turns_also_over_frames() {
        for frame_limit in [1, 4, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 11, STOP true) -> s :: RoundRobinSwitch
                    -> a :: Counter -> Discard; s [1] -> b :: Counter -> Discard;
                 s [2] -> c :: Counter -> Discard;",
            )
            .frame_limit(frame_limit);
            run.run();
            let counts = ["a", "b", "c"].map(|name| run.read(&format!("{name}.count")));
            assert_eq!(counts, ["4", "4", "3"]);
        }
    }
}
