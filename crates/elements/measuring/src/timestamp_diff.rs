//! `TimestampDiff`: how long packets took since `RecordTimestamp` recorded them.
//!
//! Not in Click; in `FastClick`, whose defaults, messages and handlers these are.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use linerate_element_support::{fmt_g::format_g, handler_values::integer, log_once::LogOnce};
use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, ElementRef, Exit, Handler,
    HandlerError, HandlerResult, Reads, lang::config::shift_word,
};
use linerate_memory::Frame;

use super::{
    FAMILY,
    chunks::Chunks,
    record_timestamp::{self, Found, Record, number_at},
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// not recorded
    NotRecorded,
}

/// Most delays that are kept without being asked for by `N`.
const MOST: u32 = 1 << 26;
const MILLISECOND: u64 = 1_000_000;
const MICROSECOND: u64 = 1_000;

/// The percentiles that have handlers of their own.
const PERCENTILES: [(&str, f64); 11] = [
    ("perc00", 0.0),
    ("perc01", 1.0),
    ("perc05", 5.0),
    ("perc10", 10.0),
    ("perc25", 25.0),
    ("median", 50.0),
    ("perc75", 75.0),
    ("perc90", 90.0),
    ("perc95", 95.0),
    ("perc99", 99.0),
    ("perc100", 100.0),
];

pub(super) const CLASS: Class = Class {
    name: "TimestampDiff",
    family: FAMILY,
    summary: "measures how long packets took since they were recorded",
    description: "The number at `OFFSET` of a packet, which NumberPacket has written, is looked up in \
        `RECORDER`, a RecordTimestamp, which forgets the time then. Packets of which there is none leave by \
        output 1, or are dropped where there is none. Delays are kept, in microseconds, one behind the \
        other, as many as `N` says, or else 67,108,864; a delay of more than `MAXDELAY` milliseconds is not, and a message \
        says so. Several workers measure together. The packets of a frame have one time.\n\n\
        Most handlers take the number of a delay as a parameter, and leave out those in front of it.",
    ports: "1/1-2",
    processing: "h/h",
    args: &[
        Arg::required("RECORDER", "element", "the RecordTimestamp"),
        Arg::keyword("OFFSET", "bytes", "40", "where packets have their number"),
        Arg::keyword("N", "packets", "0: 67108864", "how many delays are kept"),
        Arg::keyword("MAXDELAY", "milliseconds", "1000", "the longest delay that is kept"),
        Arg::keyword("VERBOSE", "bool", "true", "whether it tells of longer ones"),
    ],
    handlers: &[
        Handler::read("average", "mean delay").with_parameter(),
        Handler::read("avg", "the same").with_parameter(),
        Handler::read("min", "shortest delay").with_parameter(),
        Handler::read("max", "longest delay").with_parameter(),
        Handler::read("stddev", "standard deviation of delays").with_parameter(),
        Handler::read("perc00", "shortest delay").with_parameter(),
        Handler::read("perc01", "1st percentile of delays").with_parameter(),
        Handler::read("perc05", "5th percentile").with_parameter(),
        Handler::read("perc10", "10th percentile").with_parameter(),
        Handler::read("perc25", "25th percentile").with_parameter(),
        Handler::read("median", "50th percentile").with_parameter(),
        Handler::read("perc75", "75th percentile").with_parameter(),
        Handler::read("perc90", "90th percentile").with_parameter(),
        Handler::read("perc95", "95th percentile").with_parameter(),
        Handler::read("perc99", "99th percentile").with_parameter(),
        Handler::read("perc100", "longest delay").with_parameter(),
        Handler::read("perc", "percentile that the first word of the parameter names")
            .with_parameter(),
        Handler::read("index", "number of the last delay; -1 where there is none"),
        Handler::read("last", "last delay"),
        Handler::read("dump", "number and length of each delay").flags("$"),
    ],
    drops: Reason::REASONS,
    observes_state_of: |plan, at| plan.elements_named(at, &["RECORDER"]),
    cost: "One reading of the clock per frame, a line of each packet, and one of the record.",
    example: record_timestamp::CLASS.example,
    make: |make| Box::new(TimestampDiff::new(make)),
    writes: false,
    ..Class::here()
};

/// The delays that all replicas have measured, in microseconds.
struct Delays {
    delays: Chunks<AtomicU32>,
    /// Delays that there were, also those for which there was no room.
    count: AtomicU64,
    limit: u64,
}

impl Delays {
    #[inline]
    fn add(&self, delay: u32) {
        let number = self.count.fetch_add(1, Relaxed);
        if let Some(place) = self.delays.place(number) {
            place.store(delay, Relaxed);
        }
    }

    /// The number of delays that are kept.
    fn len(&self) -> u64 {
        self.count.load(Relaxed).min(self.limit)
    }

    /// Those from a number on.
    fn from(&self, begin: u64) -> Vec<u32> {
        let kept = (begin..self.len()).filter_map(|number| self.delays.get(number));
        kept.map(|delay| delay.load(Relaxed)).collect()
    }
}

struct TimestampDiff {
    record: Option<Arc<Record>>,
    offset: usize,
    /// Longest delay kept, in nanoseconds.
    longest: u64,
    verbose: bool,
    delays: Arc<Delays>,
    /// Whether a second packet of a number has been reported.
    said: LogOnce,
}

impl TimestampDiff {
    fn new(make: &mut ElementBuilder<'_>) -> TimestampDiff {
        let record = make.get::<ElementRef>("RECORDER").and_then(|recorder| {
            let class = make.plan().elements[recorder.0].class;
            if class.name != record_timestamp::CLASS.name {
                make.error("RECORDER must be a valid RecordTimestamp element");
                return None;
            }
            Some(make.shared_of(recorder, Record::default))
        });
        let limit = match make.or("N", 0u32) {
            0 => MOST,
            limit if limit > MOST => {
                make.error(format!("N: out of range, bound {MOST}"));
                MOST
            }
            limit => limit,
        };
        let milliseconds = make.or("MAXDELAY", 1000i32);
        let delays = make.shared(|| Delays {
            delays: Chunks::new(limit as usize),
            count: AtomicU64::new(0),
            limit: limit.into(),
        });
        TimestampDiff {
            record,
            // Packets have no bytes there.
            offset: usize::try_from(make.or("OFFSET", 40i32)).unwrap_or(usize::MAX),
            longest: u64::try_from(milliseconds).unwrap_or(0).saturating_mul(MILLISECOND),
            verbose: make.or("VERBOSE", true),
            delays,
            said: LogOnce::for_element(make),
        }
    }
}

/// The delay that a part of all is not longer than, as `FastClick` has it: the one at that part of the
/// list in order of length.
fn percentile(mut delays: Vec<u32>, percent: f64) -> f64 {
    let at = (percent.max(0.0) * delays.len() as f64 / 100.0) as usize;
    let Some(last) = delays.len().checked_sub(1) else { return 0.0 };
    let (_, delay, _) = delays.select_nth_unstable(at.min(last));
    f64::from(*delay)
}

fn mean(delays: &[u32]) -> f64 {
    let sum: u64 = delays.iter().map(|delay| u64::from(*delay)).sum();
    sum as f64 / delays.len().max(1) as f64
}

fn deviation(delays: &[u32]) -> f64 {
    let mean = mean(delays);
    let squares = delays.iter().map(|delay| (f64::from(*delay) - mean).powi(2));
    (squares.fold(0.0, |sum, square| sum + square) / delays.len().max(1) as f64).sqrt()
}

impl Element for TimestampDiff {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let now = cx.steady();
        let Some(recorded) = self.record.as_deref().and_then(Record::get) else {
            return cx.drop_frame(frame, Reason::NotRecorded);
        };
        let TimestampDiff { offset, longest, ref delays, .. } = *self;
        let (mut text, mut again) = (String::new(), None);
        let verbose = self.verbose;
        cx.retain::<Reads, Reason>(frame, |packet| {
            let number = number_at(packet.bytes(), offset, recorded.big);
            let number = number.ok_or(Exit::ErrorOutput(Reason::NotRecorded))?;
            let time = match recorded.take(number) {
                Found::Time(time) => time,
                Found::Nothing => return Err(Exit::ErrorOutput(Reason::NotRecorded)),
                Found::Taken => {
                    again = Some(number);
                    return Err(Exit::ErrorOutput(Reason::NotRecorded));
                }
            };
            let delay = now.saturating_sub(time);
            if delay / MILLISECOND * MILLISECOND <= longest {
                delays.add(u32::try_from(delay / MICROSECOND).unwrap_or(u32::MAX));
            } else if verbose {
                let (delay, longest) = (delay / MILLISECOND, longest / MILLISECOND);
                text += &format!("Packet {number} experienced delay {delay} ms > {longest} ms\n");
            }
            Ok(())
        });
        if !text.is_empty() {
            cx.console().report(&text);
        }
        if let Some(number) = again
            && self.said.first()
        {
            let name = cx.name();
            cx.console().report(&format!("{name}: packet {number} came again\n"));
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<TimestampDiff>()
            && old.delays.limit == self.delays.limit
        {
            self.delays = Arc::clone(&old.delays);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, parameter: &str) -> HandlerResult {
        let (percent, begin) = match handler {
            "perc" => {
                let (percent, begin) = shift_word(parameter);
                let percent = percent.parse().ok().filter(|percent: &f64| percent.is_finite());
                (Some(percent.ok_or_else(|| HandlerError::refused("expected percentile"))?), begin)
            }
            _ => {
                let named = PERCENTILES.iter().find(|(name, _)| *name == handler);
                (named.map(|(_, percent)| *percent), parameter)
            }
        };
        let begin = begin.trim();
        let begin: u64 = if begin.is_empty() { 0 } else { integer(begin)? };
        let delays = self.delays.from(begin);
        if let Some(percent) = percent {
            return Ok(format_g(percentile(delays, percent)));
        }
        Ok(match handler {
            "average" | "avg" => format_g(mean(&delays)),
            "min" => delays.iter().min().copied().unwrap_or(0).to_string(),
            "max" => delays.iter().max().copied().unwrap_or(0).to_string(),
            "stddev" => format_g(deviation(&delays)),
            "index" => (self.delays.len().cast_signed() - 1).to_string(),
            "last" => delays.last().copied().unwrap_or(0).to_string(),
            "dump" => {
                let lines = delays.iter().enumerate();
                lines.map(|(number, delay)| format!("{number}: {delay}\n")).collect()
            }
            _ => return Err(HandlerError::missing(handler)),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Five packets, one a millisecond, that wait until 100 ms after the start.
    fn measured(record: &str, diff: &str, frame_limit: usize) -> Run {
        let mut run = Run::new(&format!(
            "TimedSource(1ms, LIMIT 5) -> n :: NumberPacket(40, NET_ORDER true)
                -> r :: RecordTimestamp({record}) -> Queue -> u :: Unqueue(ACTIVE false)
                -> d :: TimestampDiff(r, {diff}) -> Discard; d [1] -> o :: Counter -> Discard;
             DriverManager(wait 0.1s, write u.active true, wait 1s, stop)"
        ))
        .frame_limit(frame_limit);
        run.run();
        run
    }

    #[test]
    fn delays_are_measured_by_number() {
        for frame_limit in [1, 7, 256] {
            let mut run = measured("OFFSET 40, COUNTER n", "OFFSET 40", frame_limit);
            let dump = run.read("d.dump");
            let delays: Vec<u64> = dump
                .lines()
                .map(|line| line.split_once(": ").unwrap().1.parse().unwrap())
                .collect();
            assert_eq!(delays.len(), 5, "{dump}");
            assert!(delays.windows(2).all(|pair| pair[0] == pair[1] + 1000), "{dump}");
            let read = |run: &mut Run, text: &str| {
                let (handler, parameter) = text.split_once(' ').unwrap_or((text, ""));
                run.read_with(&format!("d.{handler}"), parameter)
            };
            let [first, .., last] = delays[..] else { panic!() };
            for (handler, value) in [
                ("min", last),
                ("max", first),
                ("average", delays[2]),
                ("avg 1", delays[3] + 500),
                ("median", delays[2]),
                ("perc00", last),
                ("perc25", delays[3]),
                ("perc99", first),
                ("perc 80", first),
                ("perc 0 4", last),
                ("perc100", first),
                ("last", last),
                ("index", 4),
            ] {
                assert_eq!(read(&mut run, handler), value.to_string(), "{handler} {dump}");
            }
            assert_eq!(read(&mut run, "stddev"), "1414.21356237");
        }
    }

    #[test]
    fn packets_without_a_record_leave_by_output_1() {
        // No packet has a number there.
        for diff in ["OFFSET 60", "OFFSET -1"] {
            let mut run = measured("N 9", diff, 256);
            assert_eq!((run.read("o.count"), run.read("d.index")), ("5".into(), "-1".into()));
            let read = ["d.median", "d.average", "d.stddev"].map(|handler| run.read(handler));
            assert_eq!(read, ["0", "0", "0"]);
        }
    }

    #[test]
    fn numbers_beyond_the_record_are_reported_once() {
        let run = measured("OFFSET 40, N 3, COUNTER n", "OFFSET 40", 1);
        let text = "r: no room for the time of packet 3: N and DYNAMIC make more\n";
        assert_eq!(run.output(), text);
        let mut run = measured("OFFSET 40, N 3, COUNTER n, DYNAMIC true", "OFFSET 40", 1);
        assert_eq!((run.read("d.index"), run.output()), ("4".into(), String::new()));
    }

    #[test]
    fn a_packet_that_comes_again_has_no_record() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LENGTH 60, LIMIT 5, STOP true) -> NumberPacket(40)
                    -> r :: RecordTimestamp -> t :: Tee -> d :: TimestampDiff(r, N 4) -> Discard;
                 t [1] -> d; d [1] -> o :: Counter -> Discard",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!((run.read("o.count"), run.read("d.index")), ("5".into(), "3".into()));
            assert!(run.output().starts_with("d: packet "), "{}", run.output());
            assert_eq!(run.output().lines().count(), 1);
        }
    }

    #[test]
    fn long_delays_are_told_of_and_left_out() {
        let mut run = measured("NET_ORDER true", "MAXDELAY 97", 256);
        assert_eq!(run.read("d.index"), "2", "{}", run.read("d.dump"));
        assert_eq!(
            run.output(),
            "Packet 0 experienced delay 99 ms > 97 ms\nPacket 1 experienced delay 98 ms > 97 ms\n"
        );
        let mut run = measured("NET_ORDER true", "MAXDELAY 97, VERBOSE false", 256);
        assert_eq!((run.read("d.index"), run.output()), ("2".into(), String::new()));
    }

    #[test]
    fn several_workers_measure_together() {
        let mut run = Run::new(
            "a :: InfiniteSource(LENGTH 60, LIMIT 300, STOP true) -> n :: NumberPacket(40)
                -> r :: RecordTimestamp(OFFSET 40) -> d :: TimestampDiff(r)
                -> c :: Counter -> Discard; b :: InfiniteSource(LENGTH 60, LIMIT 200, STOP true) -> n;
             StaticThreadSched(a 0, b 1); DriverManager(wait_stop 2, stop)",
        )
        .workers(2);
        run.run();
        assert_eq!((run.read("d.index"), run.read("c.count")), ("499".into(), "500".into()));
    }

    #[test]
    fn elements_that_do_not_fit_are_refused() {
        for (text, error) in [
            ("TimestampDiff(d)", "RECORDER must be a valid RecordTimestamp element"),
            ("RecordTimestamp(COUNTER d)", "COUNTER must be a valid NumberPacket element"),
            ("RecordTimestamp(N 268435457)", "N: out of range, bound 268435456"),
            (
                "r :: RecordTimestamp -> TimestampDiff(r, N 67108865)",
                "N: out of range, bound 67108864",
            ),
        ] {
            let errors = Run::errors(&format!("Idle -> {text} -> d :: Discard"));
            assert!(errors.contains(error), "{errors}");
        }
    }
}
