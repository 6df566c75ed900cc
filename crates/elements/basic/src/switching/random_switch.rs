//! `RandomSwitch`: outputs drawn at random.

use linerate_graph::{Class, Context, Element};
use linerate_memory::Frame;

use super::{FAMILY, split};
use linerate_element_support::random::Random;

pub(super) const CLASS: Class = Class {
    name: "RandomSwitch",
    family: FAMILY,
    summary: "sends each packet by an output drawn at random",
    description: "All outputs are equally likely. In simulated time every run draws the same.",
    ports: "1/1-",
    processing: "h/h",
    cost: "A random number per packet; packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> s :: RandomSwitch -> Discard; \
        s [1] -> Discard;",
    order_dependent: true,
    make: |make| Box::new(RandomSwitch { random: Random::new(make), outputs: make.outputs() }),
    ..Class::here()
};

struct RandomSwitch {
    random: Random,
    outputs: usize,
}

impl Element for RandomSwitch {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        split(cx, frame, |_, _| self.random.below(self.outputs));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// With a fixed seed: 3000 draws of three, 1000 each with a standard
    /// deviation of 26.
    #[test]
    fn outputs_are_equally_likely_and_frames_do_not_matter() {
        let counts = [1, 256].map(|frame_limit| {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 3000, STOP true) -> s :: RandomSwitch
                    -> a :: Counter -> Discard; s [1] -> b :: Counter -> Discard;
                 s [2] -> c :: Counter -> Discard;",
            )
            .frame_limit(frame_limit);
            run.run();
            ["a", "b", "c"].map(|name| run.read(&format!("{name}.count")).parse::<u32>().unwrap())
        });
        assert_eq!(counts[0], counts[1]);
        assert_eq!(counts[0].iter().sum::<u32>(), 3000);
        assert!(counts[0].iter().all(|count| (870..1130).contains(count)), "{counts:?}");
    }
}
