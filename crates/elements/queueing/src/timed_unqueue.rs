//! `TimedUnqueue` and `Burster`: move some packets per interval.

use linerate_element_support::burst::move_burst;
use linerate_graph::{Arg, Class, Context, Element, ElementBuilder, Next, Seconds};
use linerate_memory::Frame;

use super::{FAMILY, TIMER};

pub(super) const CLASS: Class = Class {
    name: "TimedUnqueue",
    family: FAMILY,
    summary: "pulls some packets per interval and pushes them on",
    description: "Up to `BURST` packets every `INTERVAL`. When there have been none for a while, \
        the next does not wait for the end of an interval.",
    ports: "1/1",
    processing: "l/h",
    args: &[INTERVAL, Arg::optional("BURST", "packets", "1", "most packets of a burst")],
    cost: "A timer per interval.",
    example: "InfiniteSource(LIMIT 10) -> Queue -> TimedUnqueue(10ms, 5) \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(TimedUnqueue::new(make, 1)),
    ..Class::here()
};

pub(super) const BURSTER: Class = Class {
    name: "Burster",
    description: "A TimedUnqueue whose `BURST` is 8 if it is not given.",
    args: &[INTERVAL, Arg::optional("BURST", "packets", "8", "most packets of a burst")],
    example: "InfiniteSource(LIMIT 10) -> Queue -> Burster(1ms) \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(TimedUnqueue::new(make, 8)),
    ..CLASS
};

const INTERVAL: Arg =
    Arg::required("INTERVAL", "time", "time between bursts, in whole milliseconds");

/// Limit of a timer's delay, in nanoseconds: one that is later restarts from the present.
const SECOND: u64 = 1_000_000_000;

/// Returns the number of empty pulls after which the queue in front reports to be empty, as Click's
/// queues do.
fn empty_pulls_allowed(make: &ElementBuilder<'_>) -> u32 {
    let elements = &make.plan().elements;
    let sources = elements[make.element()].sources.first().into_iter().flatten();
    let mut classes = sources.map(|source| elements[source.element].class.name);
    if classes.any(|name| name == "QuickNoteQueue") { 0 } else { 9 }
}

struct TimedUnqueue {
    interval: u64,
    burst: usize,
    /// When the timer was last due.
    due: Option<u64>,
    /// Empty pulls since the last packet.
    empty_pulls: u32,
    /// Number of them after which the queue in front counts as empty.
    empty_pulls_allowed: u32,
}

impl TimedUnqueue {
    fn new(make: &mut ElementBuilder<'_>, burst: i32) -> TimedUnqueue {
        let Seconds::<3>(interval) = make.or("INTERVAL", Seconds(0));
        let burst = make.or("BURST", burst);
        if burst <= 0 {
            make.error("bad BURST");
        }
        TimedUnqueue {
            interval: u64::from(interval) * 1_000_000,
            burst: usize::try_from(burst).unwrap_or(1).max(1),
            due: None,
            empty_pulls: 0,
            empty_pulls_allowed: empty_pulls_allowed(make),
        }
    }
}

impl Element for TimedUnqueue {
    fn burst(&self) -> Option<usize> {
        Some(self.burst)
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        // The task was woken by packets before the end of the interval.
        if cx.timer(TIMER).is_some() {
            return Next::Sleep;
        }
        let moved = move_burst(cx, self.burst, true, frame);
        if moved > 0 {
            self.empty_pulls = 0;
        }
        if moved < self.burst {
            let asleep = self.empty_pulls >= self.empty_pulls_allowed;
            self.empty_pulls = self.empty_pulls.saturating_add(1);
            if moved == 0 && asleep && cx.nothing_pulled() == Next::Sleep {
                self.due = None;
                return Next::Sleep;
            }
        }
        let now = cx.steady();
        let next = match self.due {
            Some(due) if due + SECOND > now => due.saturating_add(self.interval),
            _ => now.saturating_add(self.interval),
        };
        // An interval of zero is the shortest possible.
        let next = next.max(now + 1);
        self.due = Some(next);
        cx.set_timer(TIMER, next);
        Next::Sleep
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        cx.schedule();
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Arrival times in milliseconds, as in Click's simulated time.
    #[test]
    fn bursts_are_an_interval_apart() {
        for (feed, config, expected) in [
            ("TimedSource(1, LIMIT 3) -> Queue", "70ms", "1000 2000 3000"),
            ("TimedSource(1, LIMIT 3) -> Queue", "300ms", "1200 2100 3000"),
            ("TimedSource(1, LIMIT 3) -> QuickNoteQueue", "300ms", "1000 2000 3000"),
            // After a pause, too, bursts keep to the intervals.
            ("TimedSource(1.3, LIMIT 5) -> Queue", "500ms, 3", "1500 3000 4000 5500 6500"),
            ("TimedSource(0.1, LIMIT 5) -> Queue", "400ms, 2", "400 400 800 800 1200"),
            ("TimedSource(0.1, LIMIT 25) -> Queue", "1.2s, 10", &{
                ["1200 ".repeat(10), "2400 ".repeat(10), "3600 ".repeat(5)].concat()
            }),
        ] {
            // The classes differ in the default burst alone.
            let burst = if config.contains(',') { "" } else { ", 1" };
            for (class, frame_limit) in
                [("TimedUnqueue", 1), ("TimedUnqueue", 7), ("TimedUnqueue", 256), ("Burster", 7)]
            {
                let mut run = Run::new(&format!(
                    "{feed} -> {class}({config}{burst}) -> c :: Collect; DriverManager(wait 7s, stop)"
                ))
                .frame_limit(frame_limit);
                run.run();
                let millis = |time: &str| (time.parse::<u64>().unwrap() / 1_000_000).to_string();
                let times: Vec<String> = run.read("c.times").lines().map(millis).collect();
                assert_eq!(times.join(" "), expected.trim(), "{feed} {class}({config})");
            }
        }
    }

    /// Times as Click 2.1 has them with `--simtime`.
    #[test]
    fn bursts_come_at_intervals() {
        for (burst, last) in
            [("", "1000000003.000000"), (", 25", "1000000001.000000"), (", 1", "1000000024.000000")]
        {
            for frame_limit in [1, 4, 256] {
                let mut run = Run::new(&format!(
                    "InfiniteSource(LIMIT 25) -> Queue -> Burster(1{burst}) -> SetTimestamp
                        -> c :: Counter -> k :: SetTimestampDelta(TYPE RANGE)
                        -> Counter(COUNT_CALL 24 k.reset) -> Counter(COUNT_CALL 25 stop) -> Discard"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.count"), "25");
                if frame_limit == 1 {
                    assert_eq!(run.read("k.first"), last, "{burst}");
                }
            }
        }
    }

    #[test]
    fn errors_match_click() {
        for (config, error) in
            [("1, 0", "bad BURST"), ("x", "INTERVAL: parse error"), ("-1", "INTERVAL: parse error")]
        {
            let errors = Run::errors(&format!("Idle -> Queue -> Burster({config}) -> Discard"));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
    }
}
