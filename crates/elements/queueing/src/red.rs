//! `RED`: drops packets before queues are full.
//!
//! Random early detection (Floyd and Jacobson, 1993), with the gentle variant,
//! in Click's fixed point.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Plan, Processing, Right, Scope, Value,
};
use linerate_memory::Frame;

use super::{
    FAMILY, TIMER,
    followed::{self, counts, followed, nearest},
    wrong,
};
use linerate_element_support::{
    average::{Average, binary_text},
    drops::reject_frame,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// early drop
    Early,
}

/// Bits behind the point of a probability.
const SCALE: u32 = 16;
const ONE: u64 = 1 << SCALE;

/// Empty queues are looked at as if once in so many nanoseconds.
const IDLE_NS: u64 = 20_000_000;

/// Period of adaptation of `AdaptiveRED`, in nanoseconds.
const ADAPTATION_INTERVAL: u64 = 500_000_000;
/// 0.01 in fixed point: `MAX_P` decreases only above it, and increases by at most this.
const HUNDREDTH: u64 = 655;
/// 0.9 in fixed point: the factor of a decrease.
const NINE_TENTHS: u64 = 58982;

pub(super) const CLASS: Class = Class {
    name: "RED",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "drops packets at random when queues grow",
    description: "Follows the average length of the next queues downstream (upstream when it is \
        pulled from), or of `QUEUES`. Below `MIN_THRESH` nothing is dropped; up to `MAX_THRESH` \
        packets are dropped with a probability that rises to `MAX_P`, from there, when it is \
        `GENTLE`, to 1 at twice `MAX_THRESH`. Above that everything is. What is dropped leaves by \
        output 1 when it is used. Each packet moves the average by 1/2^`STABILITY`.",
    ports: "1/1-2",
    processing: "a/ah",
    args: &[
        Arg::required("MIN_THRESH", "packets", "average length above which packets are dropped"),
        Arg::required("MAX_THRESH", "packets", "average length at which MAX_P holds"),
        Arg::required("MAX_P", "probability", "probability at MAX_THRESH"),
        Arg::keyword("QUEUES", "elements", "the next ones", "queues to follow"),
        Arg::keyword("STABILITY", "0-16", "4", "how slowly the average moves"),
        Arg::keyword("GENTLE", "bool", "true", "whether the probability rises on to 1"),
    ],
    handlers: &[
        Handler::count("drops", "packets dropped"),
        Handler::value("min_thresh", "the argument MIN_THRESH"),
        Handler::value("max_thresh", "the argument MAX_THRESH"),
        Handler::value("max_p", "the argument MAX_P"),
        Handler::read("avg_queue_size", "the average length"),
        Handler::read("stats", "lengths and drops"),
        Handler::read("queues", "the queues it follows"),
        Handler::value("config", "all arguments as they are now"),
    ],
    drops: Reason::REASONS,
    observes: |plan, at| {
        let pulls = is_pulled(plan, at);
        // A frame from outside meets the room left by others, see below.
        if plan.is_live() && !pulls { Vec::new() } else { followed(plan, at, pulls) }
    },
    observes_state_of: |plan, at| {
        let pulls = is_pulled(plan, at);
        if counts(plan, at, pulls) { Vec::new() } else { followed(plan, at, pulls) }
    },
    cost: "A look at each queue per frame, which is counted on packet by packet; a few \
        multiplications per packet. Tasks that fill or empty the queues take a turn at a time, so \
        that frames have one packet there; where packets come from ports and it is pushed to, \
        frames stay whole. Packets go to it and its queues one at a time where there are several \
        queues, where elements in between may drop, copy, hold or divert packets, and where \
        others come to the queue past it.",
    example: "InfiniteSource(LIMIT 10) -> RED(5, 20, 0.1) -> Queue -> Unqueue \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(Red::new(make)),
    ..Class::here()
};

/// Returns true if packets are pulled from an element.
fn is_pulled(plan: &Plan, at: usize) -> bool {
    plan.elements[at].inputs.first() == Some(&Processing::Pull)
}

/// Values of the arguments.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits {
    pub(super) min: u64,
    pub(super) max: u64,
    /// Probability, in parts of [`ONE`].
    pub(super) probability: u64,
    pub(super) gentle: bool,
}

impl Limits {
    fn check(self) -> Result<Limits, &'static str> {
        match self {
            Limits { max, .. } if max > 0xffff => Err("MAX_THRESH must be <= 65535"),
            Limits { min, max, .. } if min > max => Err("MIN_THRESH must be <= MAX_THRESH"),
            Limits { probability, .. } if probability > ONE => Err("MAX_P must be between 0 and 1"),
            limits => Ok(limits),
        }
    }

    /// Adapts the probability to the average queue length.
    pub(super) fn adapt(&mut self, average: u64) {
        let Limits { min, max, probability, .. } = *self;
        let part = max.saturating_sub(min) / 2;
        if average < min + part && probability > HUNDREDTH {
            self.probability = (probability * NINE_TENTHS) >> 16;
        } else if average > max.saturating_sub(part) && probability < ONE / 2 {
            self.probability += HUNDREDTH.min(probability / 4);
        }
    }

    /// The average above which everything is dropped.
    fn end(self) -> u64 {
        if self.gentle && self.probability != ONE { self.max * 2 } else { self.max }
    }

    /// The probability at averages up to `MAX_THRESH`.
    fn rise(self) -> Line {
        let Limits { min, max, probability, .. } = self;
        match max.checked_sub(min) {
            None | Some(0) => Line { slope: 0, base: 1 },
            Some(width) => {
                Line { slope: probability / width, base: (probability * min / width) as i64 }
            }
        }
    }

    /// The probability at averages above that.
    fn gentle_rise(self) -> Line {
        let Limits { max, probability, .. } = self;
        let base = ONE as i64 - 2 * probability as i64;
        Line { slope: (ONE - probability) / max.max(1), base }
    }
}

/// A probability that rises with the average.
#[derive(Debug, Clone, Copy)]
struct Line {
    slope: u64,
    base: i64,
}

impl Line {
    #[inline]
    fn at(self, average: &Average) -> i64 {
        let scaled = average.scaled().max(0) as u64;
        ((self.slope * scaled) >> Average::SCALE) as i64 - self.base
    }
}

/// Limits as packets are compared with them: no division for each.
#[derive(Debug, Clone, Copy)]
struct Curve {
    min: u64,
    max: u64,
    end: u64,
    rise: Line,
    gentle_rise: Line,
}

impl From<Limits> for Curve {
    fn from(limits: Limits) -> Curve {
        let Limits { min, max, .. } = limits;
        let (rise, gentle_rise) = (limits.rise(), limits.gentle_rise());
        Curve { min, max, end: limits.end(), rise, gentle_rise }
    }
}

/// The argument `MAX_P`, of [`ONE`].
#[derive(Default)]
pub(super) struct MaxP(pub(super) u64);

impl Value for MaxP {
    fn parse(text: &str, _: &Scope<'_>) -> Result<MaxP, String> {
        probability(text).map(MaxP).ok_or_else(|| "parse error".into())
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        (self.0 as f64 / ONE as f64).to_string()
    }
}

/// Parses a probability.
fn probability(text: &str) -> Option<u64> {
    let value: f64 = text.parse().ok().filter(|value: &f64| (0.0..=65535.0).contains(value))?;
    Some((value * ONE as f64).round() as u64)
}

/// Decides about packets one after the other.
struct Decider {
    curve: Curve,
    average: Average,
    /// Packets since the last drop; `None` below the limits.
    since: Option<u64>,
    random: i64,
    /// When the queues were last found empty, in steps.
    idle: Option<u64>,
    source: fastrand::Rng,
}

impl Decider {
    /// Returns true if a packet is dropped that comes when queues hold `size`.
    #[inline]
    fn drops(&mut self, size: usize, now: u64) -> bool {
        if size > 0 || self.average.stability() == 0 {
            self.average.update(size as u64);
            self.idle = None;
        } else {
            let step = now / IDLE_NS;
            self.average.update_times(0, self.idle.map_or(1, |last| step.saturating_sub(last)));
            self.idle = Some(step);
        }
        let average = self.average.rounded();
        if average <= self.curve.min {
            self.since = None;
            return false;
        }
        if average > self.curve.end {
            self.since = None;
            return true;
        }
        let is_gentle = average > self.curve.max;
        let line = if is_gentle { self.curve.gentle_rise } else { self.curve.rise };
        let probability = line.at(&self.average);
        let since = self.since.map_or(0, |since| since + 1);
        // As `since > random / probability`, in whole numbers.
        let drop = since > 0
            && probability > 0
            && (since as i64).saturating_mul(probability) > self.random;
        self.since = Some(if drop { 0 } else { since });
        if self.since == Some(0) {
            self.random = self.source.i64(0..ONE as i64);
        }
        drop
    }
}

pub(super) struct Red {
    limits: Limits,
    /// The length that `AdaptiveRED` aims at.
    target: Option<u64>,
    decider: Decider,
    queues: Vec<usize>,
    pulls: bool,
    /// Whether it counts the packets in the queue by those that it lets through. Else each has come
    /// to the queues before the next comes here.
    counts: bool,
    /// Whether packets come from outside.
    live: bool,
    /// A round, and the length of the queues in it, as far as it is known here.
    left: (u64, usize),
    drops: u64,
    /// Packets to drop, empty between calls.
    early: Frame,
}

impl Red {
    fn new(make: &mut ElementBuilder<'_>) -> Red {
        let limits = Limits {
            min: make.need::<u32>("MIN_THRESH").into(),
            max: make.need::<u32>("MAX_THRESH").into(),
            probability: make.need::<MaxP>("MAX_P").0,
            gentle: make.or("GENTLE", true),
        };
        Red::with(make, limits, None)
    }

    /// Makes one that drops by these limits, or tries to keep a target.
    pub(super) fn with(make: &mut ElementBuilder<'_>, limits: Limits, target: Option<u64>) -> Red {
        let stability: u32 = make.or("STABILITY", 4);
        if let Err(error) = limits.check() {
            make.error(error);
        } else if stability > 16 {
            make.error("STABILITY must be between 0 and 16");
        }
        let limits = limits.check().unwrap_or_default();
        let pulls = make.input_is_pull(0);
        let queues =
            followed::named(make).unwrap_or_else(|| nearest(make.plan(), make.element(), pulls));
        Red {
            limits,
            target,
            decider: Decider {
                curve: limits.into(),
                average: Average::new(stability.min(16)),
                since: None,
                random: 0,
                idle: None,
                // The same every time: runs can be repeated.
                source: fastrand::Rng::with_seed(make.element() as u64),
            },
            queues,
            pulls,
            counts: counts(make.plan(), make.element(), pulls),
            live: make.plan().is_live(),
            left: (0, 0),
            drops: 0,
            early: Frame::new(make.world.frame_limit),
        }
    }

    /// Returns the packets in all queues.
    fn size(&self, cx: &mut Context) -> usize {
        followed::size(cx, &self.queues)
    }

    fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.decider.curve = limits.into();
    }
}

impl Element for Red {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        followed::check(cx.plan(), &self.queues)?;
        if self.target.is_some() {
            cx.set_timer(TIMER, cx.steady() + ADAPTATION_INTERVAL);
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        let average = match self.decider.average.stability() {
            0 => self.size(cx) as u64,
            _ => self.decider.average.rounded(),
        };
        let mut limits = self.limits;
        limits.adapt(average);
        self.set_limits(limits);
        cx.set_timer(TIMER, cx.steady() + ADAPTATION_INTERVAL);
    }

    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        // In a pull path the frame has just left the queues, else it is about to go there: each
        // packet finds the length that those before it leave. Packets let through in this round may
        // not be there yet.
        let known = match self.left {
            (round, size) if round == cx.round() && !self.pulls => Some(size),
            _ => None,
        };
        let known = match known {
            Some(size) if self.counts && !cx.out.is_exact() => Some(size),
            // A task that empties them before each frame from outside would do so before each packet.
            Some(0) if self.live && !self.counts => Some(0),
            _ => None,
        };
        // Whether packets that are let through make the queues longer.
        let come_there = |size| self.counts && !self.pulls && !(self.live && size == 0);
        let (mut size, capacity) = match known {
            Some(size) if !come_there(size) => (size, 0),
            _ => {
                let (size, capacity) = followed::size_and_capacity(cx, &self.queues);
                let pulled = if self.pulls { frame.len() } else { 0 };
                (known.unwrap_or(size + pulled), capacity)
            }
        };
        let most = if come_there(size) { capacity } else { 0 };
        let now = cx.steady();
        let Red { decider, early, .. } = self;
        let gone = usize::from(self.pulls);
        frame.retain(
            |_| {
                size -= gone;
                let drop = decider.drops(size, now);
                size += usize::from(!drop && size < most);
                !drop
            },
            |slot| {
                let pushed = early.push(slot);
                debug_assert!(pushed.is_ok(), "no more than were in a frame");
            },
        );
        self.left = (cx.round(), size);
        if !self.early.is_empty() {
            self.drops += self.early.len() as u64;
            reject_frame(cx, &mut self.early, Reason::Early);
        }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        // A puller gets a packet as long as there is one.
        cx.pull_on(0, count, frame, |cx, frame| self.push(cx, 0, frame));
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Red>() {
            self.decider.average.take_state(&old.decider.average);
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let average = || binary_text(self.decider.average.scaled().max(0) as u64, Average::SCALE);
        match handler {
            "drops" => Ok(self.drops.to_string()),
            "min_thresh" => Ok(self.limits.min.to_string()),
            "max_thresh" => Ok(self.limits.max.to_string()),
            "max_p" => Ok(binary_text(self.limits.probability, SCALE)),
            "avg_queue_size" => Ok(average()),
            "stats" => Ok(format!(
                "{} current queue\n{} avg queue\n{} drops\n",
                self.size(cx),
                average(),
                self.drops
            )),
            "config" => {
                let Limits { min, max, probability, gentle } = self.limits;
                let thresholds = self
                    .target
                    .map_or_else(|| format!("{min}, {max}"), |target| target.to_string());
                Ok(format!(
                    "{thresholds}, {}, QUEUES {}, STABILITY {}{}",
                    binary_text(probability, SCALE),
                    followed::list(cx.plan(), &self.queues),
                    self.decider.average.stability(),
                    if gentle { "" } else { ", GENTLE false" }
                ))
            }
            "queues" => Ok(followed::lines(cx.plan(), &self.queues)),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let mut limits = self.limits;
        let keyword = handler.to_ascii_uppercase();
        match handler {
            "min_thresh" | "max_thresh" => {
                let Ok(number) = value.parse::<u32>() else {
                    return wrong(&keyword, "invalid number");
                };
                let place = usize::from(handler == "max_thresh");
                *[&mut limits.min, &mut limits.max][place] = number.into();
            }
            "max_p" => {
                let Some(probability) = probability(value) else {
                    return wrong(&keyword, "parse error");
                };
                limits.probability = probability;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        self.set_limits(limits.check().map_err(HandlerError::refused)?);
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Click's answer: packets dropped by a full queue do not make it longer.
    #[test]
    fn a_frame_does_not_count_for_more_than_the_queue_holds() {
        for frame_limit in [1, 7, 32, 256] {
            let mut run = Run::new(
                "RatedSource(RATE 20000, LIMIT 200) -> r :: RED(10, 50, 1) -> q :: Queue(8) -> Idle; \
                    Script(wait 0.1, stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(["r.drops", "q.drops"].map(|handler| run.read(handler)), ["0", "192"]);
        }
    }

    /// A queue is as long as it would be with packets one at a time: those that another RED drops,
    /// or that go elsewhere, do not make it longer, those that come past the element do.
    #[test]
    fn frames_find_the_lengths_that_single_packets_find() {
        let results = |graph: &str, frame_limit| {
            let text = graph.replace("EARLY", "r :: RED(5, 20, 0.5, STABILITY 1)");
            let mut run =
                Run::new(&format!("{text}; Script(wait 1s, stop)")).frame_limit(frame_limit);
            run.run();
            ["r.drops", "q.length", "q.drops"].map(|handler| run.read(handler))
        };
        let source = "InfiniteSource(LIMIT 200, BURST 40)";
        for (graph, drops_some) in [
            ("EARLY -> q :: Queue(30) -> Idle", true),
            ("EARLY -> Null -> Counter -> q :: FrontDropQueue(30) -> Idle", true),
            ("EARLY -> RED(2, 5, 0.3) -> q :: Queue(30) -> Idle", false),
            ("EARLY -> AdaptiveRED(10, 0.5) -> q :: FrontDropQueue(30) -> Idle", false),
            ("EARLY -> t :: RoundRobinSwitch -> q :: Queue(30) -> Idle; t [1] -> Discard", true),
            (
                "EARLY -> t :: RoundRobinSwitch -> q :: Queue(9) -> Idle; \
                 t [1] -> Queue(3) -> Idle",
                true,
            ),
            ("EARLY -> t :: Tee -> q :: Queue(30) -> Idle; t [1] -> q", true),
            ("t :: Tee -> EARLY -> q :: Queue(30) -> Idle; t [1] -> q", true),
            ("t :: RoundRobinSwitch -> EARLY -> q :: Queue(30) -> Idle; t [1] -> q", true),
            ("Queue(100) -> Unqueue(40) -> EARLY -> q :: Queue(30) -> Idle", true),
            (
                "p :: Queue(100) -> Unqueue(40) -> r :: RED(5, 20, 0.5, QUEUES p, STABILITY 1) \
                 -> q :: Queue(30) -> Idle",
                true,
            ),
            ("q :: Queue(100) -> EARLY -> Unqueue(40) -> Discard", true),
            ("q :: Queue(100) -> RED(2, 5, 0.3) -> EARLY -> Unqueue(40) -> Discard", false),
        ] {
            let graph = format!("{source} -> {graph}");
            let single = results(&graph, 1);
            assert!(!drops_some || single[0] != "0", "{graph}: {single:?}");
            for limit in [7, 32, 256] {
                assert_eq!(results(&graph, limit), single, "{graph}, frames of {limit}");
            }
        }
    }

    #[test]
    fn handlers_read_as_clicks() {
        let mut run = Run::new("Idle -> m :: RED(5, 20, 0.1) -> q :: Queue -> Discard");
        assert_eq!(run.read("m.stats"), "0 current queue\n0 avg queue\n0 drops\n");
        assert_eq!((run.read("m.queues"), run.read("m.max_p")), ("q\n".into(), "0.1".into()));
        run.write("m.max_p", "0.5").unwrap();
        assert_eq!(run.read("m.config"), "5, 20, 0.5, QUEUES q, STABILITY 4");
    }

    #[test]
    fn a_growing_queue_loses_some_packets_and_a_long_one_all() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 5000) -> r :: RED(50, 100, 0.1, STABILITY 4) \
                    -> q :: Queue -> Idle; r [1] -> d :: Discard; \
                    TimedSource(1, LIMIT 0, STOP true) -> Discard",
            )
            .frame_limit(limit);
            run.run();
            let length: u64 = run.read("q.length").parse().unwrap();
            let drops: u64 = run.read("r.drops").parse().unwrap();
            assert_eq!((length + drops).to_string(), "5000");
            assert_eq!(run.read("d.count"), drops.to_string());
            assert!((100..=202).contains(&length), "{length}");
        }
    }

    #[test]
    fn in_a_pull_path_the_queue_before_it_counts() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 500) -> q :: Queue -> r :: RED(5, 10, 0.1) \
                -> u :: Unqueue(ACTIVE false) -> d :: Discard; \
                TimedSource(1ms, LIMIT 1) -> Counter(COUNT_CALL 1 u.active true) -> Discard; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        let passed: u64 = run.read("d.count").parse().unwrap();
        let drops: u64 = run.read("r.drops").parse().unwrap();
        assert_eq!(passed + drops, 500);
        assert!(drops > 400, "{drops}");
        assert_eq!(run.read("r.queues"), "q\n");
    }

    #[test]
    fn errors_are_clicks() {
        let errors = |config: &str| Run::errors(&format!("Idle -> r :: {config} -> Queue -> Idle"));
        for (config, text) in [
            ("RED(30, 20, 0.1)", "MIN_THRESH must be <= MAX_THRESH"),
            ("RED(5, 70000, 0.1)", "MAX_THRESH must be <= 65535"),
            ("RED(5, 20, 2)", "MAX_P must be between 0 and 1"),
            ("RED(5, 20, 0.2, STABILITY 17)", "STABILITY must be between 0 and 16"),
            ("RED(5, 20, 0.2, QUEUES r)", "'r' is not a Storage element"),
        ] {
            assert!(errors(config).contains(text), "{config}: {}", errors(config));
        }
        let none = Run::errors("Idle -> RED(5, 20, 0.1) -> Discard");
        assert!(none.contains("no nearby Queues"), "{none}");
    }
}
