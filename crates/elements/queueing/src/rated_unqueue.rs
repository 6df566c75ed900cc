//! `RatedUnqueue` and `BandwidthRatedUnqueue`: pull and push packets at a rate.

use std::time::Duration;

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next, Right,
};
use linerate_memory::Frame;

use super::{FAMILY, ahead::Ahead, wake_at, wrong};
use linerate_element_support::{
    handler_values::{boolean, record_argument},
    rate::{Bucket, DEBT, Rate, Unit},
};

/// Default burst, as a time: packets or bytes of 20 ms at `RATE` may go at once.
const BURST_NS: u64 = 20_000_000;

const HANDLERS: &[Handler] = &[
    Handler::value("rate", "the rate"),
    Handler::value("active", "whether it moves packets").flags("c"),
    Handler::read("calls", "how often the task ran, with what success"),
];

pub(super) const PACKETS: Class = Class {
    name: "RatedUnqueue",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "pulls packets at a rate and pushes them on",
    description: "Moves `RATE` packets per second (`10/min`, `1/hr` for less than one), as long \
        as there are any. When it was idle it makes up for it, by `BURST_SIZE` packets or \
        as many as the rate has in `BURST_DURATION`, at least one; it starts with such a burst. \
        What may go is counted in milliseconds, rounded down: with bursts of one packet a rate of \
        100 is one of 91.",
    ports: "1/1",
    processing: "l/h",
    args: &[
        Arg::required("RATE", "packets per second", "packets moved per second"),
        Arg::keyword("BURST_DURATION", "time", "20 ms", "time that can be made up for"),
        Arg::keyword("BURST_SIZE", "packets", "", "packets that can be made up for"),
    ],
    handlers: HANDLERS,
    cost: "A clock reading and a division per frame, a copy of eight bytes per packet.",
    example: "InfiniteSource(LIMIT 10) -> Queue -> RatedUnqueue(1000) \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(RatedUnqueue::new(make, Unit::Packets)),
    ..Class::here()
};

pub(super) const BANDWIDTH: Class = Class {
    name: "BandwidthRatedUnqueue",
    summary: "pulls packets at a bandwidth and pushes them on",
    description: "Moves packets of `RATE` bytes per second, as long as there are any. When it was \
        idle it makes up for it, by `BURST_BYTES` bytes or as many as the rate has in \
        `BURST_DURATION`; it starts with such a burst. A packet goes when the bytes before it are \
        paid for, and those of its own it lacks are owed.",
    args: &[
        Arg::required("RATE", "bandwidth", "bytes moved per second"),
        Arg::keyword("BURST_DURATION", "time", "20 ms", "time that can be made up for"),
        Arg::keyword("BURST_BYTES", "bytes", "", "bytes that can be made up for"),
    ],
    cost: "A clock reading and a division per frame, two copies of eight bytes per packet. Where \
        packets come from ports it pulls as many as may go if none is longer than those before, \
        and holds the ones too many. Elsewhere it pulls one at a time, unless several of any \
        length may go.",
    example: "InfiniteSource(LIMIT 10) -> Queue -> BandwidthRatedUnqueue(1Mbps) \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(RatedUnqueue::new(make, Unit::Bytes)),
    ..PACKETS
};

/// The bucket an element with these arguments has, and the burst when it was
/// given in packets or bytes.
pub(super) fn bucket(make: &mut ElementBuilder<'_>, unit: Unit) -> (Bucket, Burst) {
    let rate = unit.argument(make);
    let size = match unit {
        Unit::Packets => "BURST_SIZE",
        Unit::Bytes => "BURST_BYTES",
    };
    let duration = make.get::<Duration>("BURST_DURATION");
    let size = make.get::<u32>(size);
    if duration.is_some() && size.is_some() {
        make.error("cannot specify both BURST_DURATION and BURST_SIZE");
    }
    let burst = match (size, duration) {
        (Some(size), _) => Burst::Size(size.into()),
        (None, Some(duration)) => {
            Burst::Time(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
        }
        (None, None) => Burst::Time(BURST_NS),
    };
    (Bucket::new(rate, burst.capacity(rate, unit)), burst)
}

/// Burst: the amount that can be made up for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Burst {
    /// Packets or bytes.
    Size(u64),
    /// The amount of so many nanoseconds.
    Time(u64),
}

impl Burst {
    pub(super) fn capacity(self, rate: Rate, unit: Unit) -> u64 {
        let tokens = match self {
            Burst::Size(size) => size,
            Burst::Time(ns) => rate.tokens_in(ns),
        };
        match unit {
            Unit::Packets => tokens.max(1),
            Unit::Bytes => tokens.saturating_add(DEBT),
        }
    }
}

struct RatedUnqueue {
    unit: Unit,
    bucket: Bucket,
    burst: Burst,
    active: bool,
    ahead: Ahead,
    runs: u64,
    empty_runs: u64,
    pushes: u64,
    failed_pulls: u64,
}

impl RatedUnqueue {
    fn new(make: &mut ElementBuilder<'_>, unit: Unit) -> RatedUnqueue {
        let (bucket, burst) = bucket(make, unit);
        let ahead = Ahead::new(make);
        let (runs, empty_runs, pushes, failed_pulls) = (0, 0, 0, 0);
        RatedUnqueue {
            unit,
            bucket,
            burst,
            active: true,
            ahead,
            runs,
            empty_runs,
            pushes,
            failed_pulls,
        }
    }

    /// Tokens the bucket must hold for a packet to go.
    fn threshold(&self) -> u64 {
        match self.unit {
            Unit::Packets => 1,
            Unit::Bytes => DEBT,
        }
    }
}

impl Element for RatedUnqueue {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        self.runs += 1;
        if !self.active {
            return Next::Sleep;
        }
        self.bucket.fill(cx.steady());
        let tokens = self.bucket.tokens();
        if tokens < self.threshold() {
            self.empty_runs += 1;
            wake_at(cx, self.bucket.look_at(self.threshold()));
            return Next::Sleep;
        }
        let limit = frame.limit();
        let used = match self.unit {
            Unit::Packets => cx.pull(0, usize::try_from(tokens).unwrap_or(limit), frame) as u64,
            Unit::Bytes => self.ahead.pull(cx, tokens - DEBT, limit, frame),
        };
        if frame.is_empty() {
            self.failed_pulls += 1;
            let next = cx.nothing_pulled();
            self.empty_runs += u64::from(next == Next::Idle);
            return next;
        }
        self.bucket.take(used);
        self.pushes += frame.len() as u64;
        Next::Again
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        cx.schedule();
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<RatedUnqueue>() {
            self.bucket.take_state(&old.bucket);
            self.ahead.take_state(&mut old.ahead);
            (self.runs, self.empty_runs) = (old.runs, old.empty_runs);
            (self.pushes, self.failed_pulls) = (old.pushes, old.failed_pulls);
        }
    }

    fn close(&mut self, cx: &mut Context) {
        self.ahead.close(cx);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "rate" => Ok(self.bucket.rate().text(self.unit)),
            "active" => Ok(self.active.to_string()),
            "calls" => Ok(format!(
                "{} calls to run_task()\n{} empty runs\n{} pushes\n{} failed pulls\n",
                self.runs, self.empty_runs, self.pushes, self.failed_pulls
            )),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "rate" => match self.unit.parse(value) {
                Ok(rate) => {
                    self.bucket.change_filled(rate, self.burst.capacity(rate, self.unit));
                    record_argument(cx, 0, "RATE", value);
                }
                Err(error) => return wrong("RATE", error),
            },
            "active" => {
                self.active = boolean(value)?;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        cx.schedule();
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Returns the times at which packets of a queue come out, in microseconds of simulated time.
    fn times(unqueue: &str, limit: usize, seconds: f64) -> Vec<u64> {
        let mut run = Run::new(&format!(
            "InfiniteSource(LENGTH 100, LIMIT {limit}) -> Queue({limit}) -> {unqueue} \
                -> c :: Collect; TimedSource({seconds}, LIMIT 0, STOP true) -> Discard"
        ));
        run.run();
        run.read("c.times").lines().map(|time| time.parse::<u64>().unwrap() / 1000).collect()
    }

    #[test]
    fn packets_are_spaced_evenly() {
        // As in Click.
        assert_eq!(times("RatedUnqueue(10)", 40, 0.35), [0, 101_000, 202_000, 303_000]);
        assert_eq!(times("RatedUnqueue(3)", 40, 0.7), [0, 334_000, 668_000]);
        assert_eq!(times("RatedUnqueue(60/min)", 40, 2.5), [0, 1_001_000, 2_002_000]);
        assert_eq!(times("RatedUnqueue(0)", 40, 2.5), Vec::<u64>::new());
    }

    #[test]
    fn the_burst_is_that_of_20_ms_or_as_configured() {
        let zeros = |times: Vec<u64>| times.iter().filter(|time| **time == 0).count();
        assert_eq!(zeros(times("RatedUnqueue(1000)", 1000, 0.5)), 20);
        assert_eq!(zeros(times("RatedUnqueue(1000, BURST_SIZE 7)", 1000, 0.5)), 7);
        assert_eq!(zeros(times("RatedUnqueue(1000, BURST_DURATION 0.1)", 1000, 0.5)), 100);
    }

    #[test]
    fn the_count_over_time_is_that_of_click() {
        let mut run = Run::new(
            "InfiniteSource -> Queue -> RatedUnqueue(100003) -> c :: Counter -> Discard; \
                TimedSource(10, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        assert_eq!(run.read("c.count"), "1001929");
    }

    /// Click's tests `RatedUnqueue-01` and `BandwidthRatedUnqueue-01`.
    #[test]
    fn counts_are_those_of_click() {
        for frame_limit in [1, 7, 32, 256] {
            for (unqueue, seen) in [
                ("RatedUnqueue(2)", ["20"; 2]),
                ("RatedUnqueue(2, BURST_SIZE 50)", ["69"; 2]),
                ("RatedUnqueue(2, BURST_DURATION 25)", ["69"; 2]),
                ("RatedUnqueue(100, BURST_SIZE 1)", ["909", "910"]),
                ("BandwidthRatedUnqueue(200Bps)", ["21"; 2]),
                ("BandwidthRatedUnqueue(200Bps, BURST_BYTES 5000)", ["71"; 2]),
                ("BandwidthRatedUnqueue(200Bps, BURST_DURATION 25)", ["71"; 2]),
                ("BandwidthRatedUnqueue(10000Bps, BURST_BYTES 100)", ["1001"; 2]),
            ] {
                let mut run = Run::new(&format!(
                    "InfiniteSource(LENGTH 100) -> Queue(10) -> {unqueue} -> c :: Counter \
                        -> Discard; Script(wait 10, stop)"
                ))
                .frame_limit(frame_limit);
                run.run();
                let count = run.read("c.count");
                assert!(seen.contains(&&*count), "{unqueue} by {frame_limit}: {count}");
            }
        }
    }

    #[test]
    fn bytes_are_rationed() {
        // 20 bytes at once: a packet, which owes 80 bytes.
        assert_eq!(
            times("BandwidthRatedUnqueue(8kbps, BURST_BYTES 0)", 40, 0.35),
            [0, 96_000, 196_000, 296_000]
        );
        // 200 bytes: one for each hundred and one more.
        assert_eq!(
            times("BandwidthRatedUnqueue(8kbps, BURST_BYTES 200)", 40, 0.25),
            [0, 0, 0, 100_000, 200_000]
        );
    }

    #[test]
    fn the_bandwidth_is_exact_where_lengths_vary() {
        let mut run = Run::new(
            "a :: InfiniteSource(LENGTH 1500) -> qa :: Queue(50); \
                b :: InfiniteSource(LENGTH 60) -> qb :: Queue(50); \
                qa, qb => RoundRobinSched -> BandwidthRatedUnqueue(8Mbps, BURST_BYTES 1000) \
                -> c :: Counter -> Discard; TimedSource(10, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        let bytes: u64 = run.read("c.byte_count").parse().unwrap();
        assert!((9_999_000..=10_002_500).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_rate_can_be_changed_while_it_runs() {
        let mut run = Run::new(
            "InfiniteSource -> Queue -> r :: RatedUnqueue(1, BURST_SIZE 1) -> c :: Counter \
                -> Discard; TimedSource(10, LIMIT 0, STOP true) -> Discard",
        );
        run.read("c.count");
        run.write("r.rate", "10").unwrap();
        assert_eq!(run.read("r.config"), "10, BURST_SIZE 1");
        assert_eq!(run.write("r.rate", "x").unwrap_err().to_string(), "RATE: invalid number");
        run.run();
        assert_eq!(run.read("r.rate"), "10");
        let count: u64 = run.read("c.count").parse().unwrap();
        assert!((100..=101).contains(&count), "{count}");
    }

    #[test]
    fn errors_are_clicks() {
        let errors = |config: &str| Run::errors(&format!("Idle -> r :: {config} -> Discard"));
        for (config, text) in [
            ("RatedUnqueue", "RATE: required argument missing"),
            ("RatedUnqueue(x)", "RATE: invalid number"),
            (
                "RatedUnqueue(10, BURST_SIZE 4, BURST_DURATION 2)",
                "cannot specify both BURST_DURATION and BURST_SIZE",
            ),
        ] {
            assert!(errors(config).contains(text), "{config}: {}", errors(config));
        }
    }
}
