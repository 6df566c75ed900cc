//! `AdaptiveRED`: RED that adapts its drop probability `MAX_P`.
//!
//! After "Adaptive RED" (Floyd, Gummadi and Shenker, 2001), with Click's numbers.

use linerate_graph::{Arg, Class, ElementBuilder};

use super::red::{CLASS as RED, Limits, MaxP, Red};

/// The smallest target.
const LEAST_TARGET: u32 = 10;

pub(super) const CLASS: Class = Class {
    name: "AdaptiveRED",
    summary: "drops packets at random to keep queues at a length",
    description: "RED with a `MIN_THRESH` of half of `TARGET` and a `MAX_THRESH` of three halves, \
        and `GENTLE`; a target below 10 is 10. Every 500 ms its `MAX_P` is made smaller by a tenth \
        when the average length is in the lower half between them, unless it is 0.01 or less, \
        and larger by a hundredth, or a quarter of it if that is less, when the average is in the upper \
        half, until it is 0.5.",
    args: &[
        Arg::required("TARGET", "packets", "average length to keep"),
        Arg::required("MAX_P", "probability", "probability at MAX_THRESH to begin with"),
        Arg::keyword("QUEUES", "elements", "the next ones", "queues to follow"),
        Arg::keyword("STABILITY", "0-16", "4", "how slowly the average moves"),
    ],
    example: "InfiniteSource(LIMIT 10) -> AdaptiveRED(20, 0.1) -> Queue -> Unqueue \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(adaptive(make)),
    file: file!(),
    ..RED
};

fn adaptive(make: &mut ElementBuilder<'_>) -> Red {
    let target = u64::from(make.need::<u32>("TARGET").max(LEAST_TARGET));
    let min = target / 2;
    let probability = make.need::<MaxP>("MAX_P").0;
    Red::with(make, Limits { min, max: target + min, probability, gentle: true }, Some(target))
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    use super::*;

    /// The arithmetic is Click's, with 16 fractional bits.
    #[test]
    fn the_probability_follows_the_average() {
        let mut limits = Limits { min: 10, max: 30, probability: 6554, gentle: true };
        let mut after = |average| {
            limits.adapt(average);
            limits.probability
        };
        assert_eq!([after(0), after(19), after(20)], [5898, 5308, 5308]);
        assert_eq!([after(21), after(500)], [5963, 6618]);
        limits.probability = 2000;
        limits.adapt(40);
        assert_eq!(limits.probability, 2500, "a quarter is less than a hundredth");
        limits.probability = 0x8000;
        limits.adapt(40);
        assert_eq!(limits.probability, 0x8000);
        limits.probability = 655;
        limits.adapt(0);
        assert_eq!(limits.probability, 655);
    }

    #[test]
    fn thresholds_are_around_the_target() {
        let mut run = Run::new(
            "Idle -> r :: AdaptiveRED(20, 0.1) -> q :: Queue -> Discard; \
             Idle -> s :: AdaptiveRED(3, 0.1, STABILITY 2) -> q",
        );
        let read = |run: &mut Run, element: &str| {
            ["min_thresh", "max_thresh", "max_p", "queues"]
                .map(|handler| run.read(&format!("{element}.{handler}")))
        };
        assert_eq!(read(&mut run, "r"), ["10", "30", "0.1", "q\n"]);
        assert_eq!(read(&mut run, "s"), ["5", "15", "0.1", "q\n"]);
        assert_eq!(run.read("r.config"), "20, 0.1, QUEUES q, STABILITY 4");
        run.write("s.config", "40, 0.2").unwrap();
        assert_eq!(read(&mut run, "s"), ["20", "60", "0.2", "q\n"]);
    }

    /// Seven times a hundredth in 3.6 s.
    #[test]
    fn a_long_queue_makes_it_drop_more() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "RatedSource(RATE 1000, LIMIT 3600) -> r :: AdaptiveRED(10, 0.1) \
                 -> q :: Queue(40) -> u :: RatedUnqueue(10, BURST_SIZE 1) -> Discard; \
                 Script(wait 3.6s, print r.max_p, stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            let grown: f64 = run.output().trim().parse().unwrap();
            assert!((0.16..=0.171).contains(&grown), "{grown}");
            let drops: u64 = run.read("r.drops").parse().unwrap();
            assert!(drops > 3000, "{drops}");
        }
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let errors = |config: &str| Run::errors(&format!("Idle -> {config} -> Queue -> Idle"));
        assert!(errors("AdaptiveRED(20, 2)").contains("MAX_P must be between 0 and 1"));
        assert!(errors("AdaptiveRED(60000, 0.1)").contains("MAX_THRESH must be <= 65535"));
        assert!(errors("AdaptiveRED(20)").contains("MAX_P: required argument missing"));
    }
}
