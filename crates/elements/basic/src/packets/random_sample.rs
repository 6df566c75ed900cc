//! `RandomSample`: packets drawn at random.

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, Exit, Handler, HandlerError,
    HandlerResult, Reads, Right, Step, Verdict,
};
use linerate_memory::{Frame, Packet};

use super::FAMILY;
use linerate_element_support::random::{Probability, Random};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// not chosen
    NotChosen,
}

pub(super) const CLASS: Class = Class {
    name: "RandomSample",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "passes packets with a probability",
    description: "Others leave by output 1, or are dropped when there is none. Give `P`, `SAMPLE` \
        or `DROP`. In simulated time every run draws the same.",
    ports: "1/1-2",
    processing: "a/ah",
    drops: Reason::REASONS,
    cost: "A random number per packet; packets are not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> RandomSample(0.5) -> Discard;",
    order_dependent: true,
    ..Class::for_element::<RandomSample>()
};

#[derive(Arguments)]
#[arguments(check = RandomSample::check, handlers = [
    Handler::value("sampling_prob", "the probability of passing"),
    Handler::value("drop_prob", "the probability of not passing"),
    Handler::value("config", "the probability and whether packets are drawn"),
])]
struct RandomSample {
    /// of passing
    #[arg(optional, kind = "probability", shown = "")]
    p: Option<Probability>,
    /// of passing
    #[arg(keyword, kind = "probability", shown = "")]
    sample: Option<Probability>,
    /// of not passing
    #[arg(keyword, kind = "probability", shown = "")]
    drop: Option<Probability>,
    /// whether packets are drawn; else all pass
    #[arg(keyword, default = true)]
    #[handler(value, help = "whether packets are drawn", flags = "c")]
    active: bool,
    /// packets that have not passed
    #[handler(count, kept)]
    drops: u64,
    /// The probability in effect, of the three arguments.
    probability: Probability,
    #[init(Random::new(make))]
    random: Random,
}

impl RandomSample {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        let given = make.is_given("P") || make.is_given("SAMPLE") || make.is_given("DROP");
        let wanted = self.drop.map(Probability::complement).or(self.sample).or(self.p);
        let probability = wanted.filter(|wanted| *wanted <= Probability::ONE);
        if make.is_given("SAMPLE") && make.is_given("DROP") {
            make.error("give at most one of SAMPLE and DROP");
        } else if wanted.is_some() != probability.is_some() || !given {
            make.error("sampling probability must be between 0 and 1");
        }
        self.probability = probability.unwrap_or_default();
    }
}

impl Step<Reads, Reason> for RandomSample {
    #[inline]
    fn begin(&mut self, _: &mut Context, _: &mut Frame) -> bool {
        self.active
    }

    #[inline]
    fn step(&mut self, _: &mut Packet<'_>) -> Verdict<Reason> {
        if self.random.bits28() < self.probability.0 {
            return Ok(());
        }
        self.drops += 1;
        Err(Exit::ErrorOutput(Reason::NotChosen))
    }
}

impl Element for RandomSample {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.pass(cx, frame);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<RandomSample>() {
            self.take_counts(old);
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "sampling_prob" => Ok(self.probability.to_string()),
            "drop_prob" => Ok(self.probability.complement().to_string()),
            "config" => Ok(format!("SAMPLE {}, ACTIVE {}", self.probability, self.active)),
            _ => self.read_field(&cx.scope(), handler),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let probability = || {
            let read =
                Probability::read(value.trim()).ok().filter(|read| *read <= Probability::ONE);
            read.ok_or_else(|| HandlerError::refused("Must be given a number between 0.0 and 1.0"))
        };
        match handler {
            "sampling_prob" => self.probability = probability()?,
            "drop_prob" => self.probability = probability()?.complement(),
            _ => return self.write_field(&cx.scope(), handler, value),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// With a fixed seed: 4000 draws, 1000 with a standard deviation of 27.
    #[test]
    fn the_probability_is_kept_and_frames_do_not_matter() {
        let counts =
            [("", 1), ("", 256), ("Queue ->", 1), ("Queue ->", 256)].map(|(queue, frame_limit)| {
                let mut run = Run::new(&format!(
                    "InfiniteSource(LIMIT 4000) -> n :: Counter -> {queue}
                        s :: RandomSample(DROP 0.75) -> c :: Counter -> d :: Discard;
                     s [1] -> o :: Counter -> p :: Counter -> Discard;
                     InfiniteSource(LIMIT 9000) -> Counter(COUNT_CALL 9000 stop) -> Discard;"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("s.drops"), run.read("o.count"));
                let count: u32 = run.read("c.count").parse().unwrap();
                assert_eq!(count + run.read("o.count").parse::<u32>().unwrap(), 4000);
                count
            });
        // The seed is an element's place in the graph: a queue shifts it.
        assert_eq!((counts[0], counts[2]), (counts[1], counts[3]));
        assert!(counts.iter().all(|count| (870..1130).contains(count)), "{counts:?}");
    }

    #[test]
    fn certainties() {
        for (config, passed, drops) in [
            ("1", "50", "0"),
            ("0", "0", "50"),
            ("0, ACTIVE false", "50", "0"),
            ("DROP 1", "0", "50"),
        ] {
            let mut run = Run::new(&format!(
                "InfiniteSource(LIMIT 50, STOP true) -> s :: RandomSample({config})
                    -> c :: Counter -> Discard"
            ));
            run.run();
            assert_eq!((run.read("c.count"), run.read("s.drops")), (passed.into(), drops.into()));
        }
    }

    /// As Click 2.1 answers.
    #[test]
    fn errors_and_handlers_are_click_s() {
        for (config, error) in [
            ("", "sampling probability must be between 0 and 1"),
            ("2", "sampling probability must be between 0 and 1"),
            ("x", "P: parse error"),
            ("SAMPLE 0.1, DROP 0.1", "give at most one of SAMPLE and DROP"),
        ] {
            assert_eq!(
                Run::errors(&format!("Idle -> RandomSample({config}) -> Discard")),
                format!(
                    "config:1: While configuring 'RandomSample@2 :: RandomSample':\n  {error}\n"
                )
            );
        }
        let mut run = Run::new("Idle -> s :: RandomSample(0.1) -> Discard");
        assert_eq!(run.read("s.config"), "SAMPLE 0.1, ACTIVE true");
        run.write("s.drop_prob", "0.333333").unwrap();
        run.write("s.active", "no").unwrap();
        assert_eq!(run.read("s.config"), "SAMPLE 0.666667, ACTIVE false");
        for (handler, value, refusal) in [
            ("s.sampling_prob", "7", "Must be given a number between 0.0 and 1.0"),
            ("s.active", "maybe", "expected boolean"),
        ] {
            assert_eq!(run.write(handler, value).unwrap_err().to_string(), refusal);
        }
    }
}
