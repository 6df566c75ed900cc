//! `CoDel`: drops packets that have waited for too long.
//!
//! Controlled delay (Nichols and Jacobson, 2012; RFC 8289), as Click has it: the packet behind the
//! first drop passes with any delay, and the square root is of a number with 8 fractional bits.

use std::time::Duration;

use linerate_element_support::{
    annotations::first_time, handler_values::record_argument, rate::interval_text,
};
use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Right, parse_time,
};
use linerate_memory::Frame;

use super::{
    FAMILY,
    followed::{self, nearest},
    wrong,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// waited too long
    Late,
}

const SECOND: u64 = 1_000_000_000;
const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);

pub(super) const CLASS: Class = Class {
    name: "CoDel",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "drops packets when they have waited for too long",
    description: "How long a packet has waited is from its first timestamp, which \
        `SetTimestamp(FIRST true)` in front of the queue sets, until it is pulled; packets without one \
        pass. Once that has been `TARGET` or more for an `INTERVAL`, a packet is dropped, and more of \
        them after `INTERVAL` divided by the square root of how many were, until one has waited \
        for less than `TARGET`. Times without a unit are in seconds.",
    ports: "1/1",
    processing: "l/l",
    args: &[
        Arg::optional("TARGET", "time", "5ms", "longest time that packets are to wait"),
        Arg::optional("INTERVAL", "time", "100ms", "time after which packets are dropped"),
        Arg::keyword(
            "QUEUES",
            "elements",
            "the next ones upstream",
            "queues that `stats` is about",
        ),
    ],
    handlers: &[
        Handler::count("drops", "packets dropped"),
        Handler::value("target", "the argument TARGET"),
        Handler::value("interval", "the argument INTERVAL"),
        Handler::value("codel_target", "the same as target"),
        Handler::value("codel_interval", "the same as interval"),
        Handler::read("stats", "packets in the queues, and drops"),
        Handler::read("queues", "the queues"),
        Handler::value("config", "all arguments as they are now"),
    ],
    drops: Reason::REASONS,
    annotates: true,
    // The element observes whether its queue is empty, and when.
    observes: |plan, at| {
        if plan.is_live() { Vec::new() } else { followed::followed(plan, at, true) }
    },
    cost: "A clock reading per frame and some ten cycles per packet; a square root per drop. Tasks \
        that fill or empty the queues take a turn at a time, but where packets come from ports.",
    example: "InfiniteSource(LIMIT 10) -> SetTimestamp(FIRST true) -> Queue -> CoDel -> Unqueue \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(CoDel::new(make)),
    ..Class::here()
};

/// The pulled packet's place relative to drops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Pulled {
    /// A packet without a drop in front of it.
    #[default]
    Asked,
    /// The packet behind the first drop, which enters the dropping state.
    BehindFirst,
    /// A packet behind a later drop.
    BehindNext,
}

/// State of the control law. Times are wall-clock times in nanoseconds; 0 is unset.
#[derive(Debug, Clone, Copy, Default)]
struct Control {
    target: u64,
    interval: u64,
    pulled: Pulled,
    /// Time from which packets may be dropped: an interval after the delay rose to the target.
    first_above: u64,
    drop_next: u64,
    dropping: bool,
    /// The control law's count of drops in the dropping state.
    drops: u64,
}

impl Control {
    /// Updates `first_above` by a packet's delay; returns true if the packet may be dropped.
    fn is_late(&mut self, since: u64, now: u64) -> bool {
        if since < SECOND {
            return false;
        }
        // The clock may have been set back.
        if (now as i64).wrapping_sub(since as i64) < self.target as i64 {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = now.saturating_add(self.interval);
            return false;
        }
        now >= self.first_above
    }

    /// The control law: `time` plus the interval divided by the square root of `drops`.
    fn after(&self, time: u64) -> u64 {
        let root = (self.drops.max(1) << 8).isqrt();
        time.saturating_add(self.interval.saturating_mul(16) / root)
    }

    /// Returns true if an interval has passed since a time.
    fn passed(&self, since: u64, now: u64) -> bool {
        now.saturating_sub(since) >= self.interval
    }

    /// Returns true if a packet with the first timestamp `since` passes, false if it is dropped.
    fn passes(&mut self, since: u64, now: u64) -> bool {
        let pulled = std::mem::take(&mut self.pulled);
        let known = since >= SECOND;
        let late = self.is_late(since, now);
        match pulled {
            Pulled::Asked if !known => {
                self.dropping = false;
                true
            }
            Pulled::Asked if self.dropping => {
                self.dropping = late;
                self.goes_on(now)
            }
            Pulled::Asked => {
                let recently = !self.passed(self.drop_next, now);
                let drops = late && (recently || self.passed(self.first_above, now));
                if drops {
                    self.pulled = Pulled::BehindFirst;
                }
                !drops
            }
            Pulled::BehindFirst => {
                self.begin(now);
                true
            }
            Pulled::BehindNext => {
                self.dropping = late;
                if late {
                    self.drop_next = self.after(self.drop_next);
                }
                self.goes_on(now)
            }
        }
    }

    /// Returns true if a packet passes, false if the next drop is due.
    fn goes_on(&mut self, now: u64) -> bool {
        if !self.dropping || now < self.drop_next {
            return true;
        }
        self.drops += 1;
        self.pulled = Pulled::BehindNext;
        false
    }

    /// Enters the dropping state.
    fn begin(&mut self, now: u64) {
        self.dropping = true;
        let recently = !self.passed(self.drop_next, now);
        self.drops = if recently && self.drops > 2 { self.drops - 2 } else { 1 };
        self.drop_next = self.after(now);
    }

    /// Handles an empty queue: enters the dropping state behind a first drop, leaves it otherwise.
    fn found_none(&mut self, now: u64) {
        self.first_above = 0;
        match std::mem::take(&mut self.pulled) {
            Pulled::BehindFirst => self.begin(now),
            Pulled::Asked | Pulled::BehindNext => self.dropping = false,
        }
    }
}

struct CoDel {
    control: Control,
    queues: Vec<usize>,
    drops: u64,
    /// Scratch frame for dropped packets, empty between calls.
    late: Frame,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl CoDel {
    fn new(make: &mut ElementBuilder<'_>) -> CoDel {
        let control = Control {
            target: nanos(make.or("TARGET", TARGET)),
            interval: nanos(make.or("INTERVAL", INTERVAL)),
            ..Control::default()
        };
        let queues =
            followed::named(make).unwrap_or_else(|| nearest(make.plan(), make.element(), true));
        CoDel { control, queues, drops: 0, late: Frame::new(make.world.frame_limit) }
    }
}

impl Element for CoDel {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        followed::check(cx.plan(), &self.queues)
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        let now = cx.now();
        let CoDel { control, late, drops, .. } = self;
        cx.pull_on(0, count, frame, |cx, frame| {
            let arena = cx.pool.arena();
            frame.retain(
                |slot| control.passes(first_time(arena.meta(slot)), now),
                |slot| {
                    let pushed = late.push(slot);
                    debug_assert!(pushed.is_ok(), "no more than were in a frame");
                },
            );
            *drops += late.len() as u64;
            cx.drop_frame(late, Reason::Late);
        });
        if frame.is_empty() {
            control.found_none(now);
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<CoDel>() {
            let Control { target, interval, .. } = self.control;
            self.control = Control { target, interval, ..old.control };
            self.drops = old.drops;
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let Control { target, interval, .. } = self.control;
        match handler {
            "drops" => Ok(self.drops.to_string()),
            "target" | "codel_target" => Ok(interval_text(target)),
            "interval" | "codel_interval" => Ok(interval_text(interval)),
            "stats" => {
                let size = followed::size(cx, &self.queues);
                Ok(format!("{size} current queue\n{} drops\n", self.drops))
            }
            "queues" => Ok(followed::lines(cx.plan(), &self.queues)),
            "config" => Ok(format!(
                "{}, {}, QUEUES {}",
                interval_text(target),
                interval_text(interval),
                followed::list(cx.plan(), &self.queues)
            )),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let (place, keyword) = match handler {
            "target" | "codel_target" => (0, "TARGET"),
            "interval" | "codel_interval" => (1, "INTERVAL"),
            _ => return Err(HandlerError::missing(handler)),
        };
        let Some(time) = parse_time(value.trim()).filter(|time| *time >= 0.0) else {
            return wrong(keyword, "parse error");
        };
        *[&mut self.control.target, &mut self.control.interval][place] = time as u64;
        record_argument(cx, place, keyword, value);
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    use super::*;

    const MS: u64 = 1_000_000;
    const START: u64 = 1000 * SECOND;

    fn control() -> Control {
        Control { target: 5 * MS, interval: 100 * MS, ..Control::default() }
    }

    /// A packet per millisecond, each of which has waited for 20 ms: the first drop is when that
    /// has been so for an interval, the next ones after 100 ms divided by the roots of 1, 2, 3, ...
    #[test]
    fn drops_come_the_sooner_the_more_there_were() {
        let mut control = control();
        let mut drops = Vec::new();
        let mut at = 0;
        while drops.len() < 7 {
            let now = START + at * MS;
            while !control.passes(now - 20 * MS, now) {
                drops.push(at);
            }
            at += 1;
        }
        // Click enters the state two intervals after the first packet that is late, unless it was
        // in it within the last interval.
        assert_eq!(drops, [200, 300, 373, 432, 482, 528, 569]);
    }

    #[test]
    fn a_packet_in_time_ends_it_and_a_late_one_soon_after_begins_again() {
        let mut control = control();
        let late = |control: &mut Control, at: u64| {
            control.passes(START + at * MS - 20 * MS, START + at * MS)
        };
        assert!([0, 100, 199].iter().all(|at| late(&mut control, *at)));
        assert!(!late(&mut control, 200) && late(&mut control, 200));
        assert!(control.dropping);
        assert!(control.passes(START + 250 * MS, START + 250 * MS));
        assert!(!control.dropping);
        // Above again for an interval, and the last time to drop was 300 ms.
        assert!(late(&mut control, 260) && late(&mut control, 359));
        assert!(!late(&mut control, 360) && late(&mut control, 360));
        assert_eq!(control.drop_next, START + 460 * MS);
    }

    #[test]
    fn packets_without_a_time_pass_and_an_empty_queue_ends_it() {
        let mut control = control();
        assert!((0..1000).all(|at| control.passes(0, START + at * MS)));
        for at in [0, 100, 200] {
            control.passes(START, START + (20 + at) * MS);
        }
        assert_eq!(control.pulled, Pulled::BehindFirst);
        control.found_none(START + 220 * MS);
        assert!(control.dropping && control.first_above == 0);
        control.found_none(START + 221 * MS);
        assert!(!control.dropping);
    }

    /// 1,000 packets a second into a queue from which 500 are taken: it keeps their delay near the
    /// target, which 200 in the queue would make 400 ms.
    #[test]
    fn it_keeps_packets_from_waiting() {
        let mut seen = Vec::new();
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "RatedSource(RATE 1000) -> SetTimestamp(FIRST true) -> q :: Queue(2000) \
                 -> c :: CoDel -> RatedUnqueue(500, BURST_SIZE 1) -> Discard; \
                 Script(wait 20s, stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            seen.push(["c.drops", "q.length", "c.stats"].map(|handler| run.read(handler)));
        }
        let [drops, length, stats] = &seen[0];
        assert_eq!(stats, &format!("{length} current queue\n{drops} drops\n"));
        assert!(drops.parse::<u64>().unwrap() > 500, "{seen:?}");
        assert!(seen.iter().all(|other| other == &seen[0]), "{seen:?}");
    }

    #[test]
    fn handlers_change_its_times() {
        let mut run = Run::new("Idle -> q :: Queue -> c :: CoDel -> Discard");
        assert_eq!(run.read("c.config"), "5ms, 100ms, QUEUES q");
        run.write("c.target", "0.01").unwrap();
        run.write("c.codel_interval", "1s").unwrap();
        let read = ["codel_target", "interval", "queues", "drops"]
            .map(|handler| run.read(&format!("c.{handler}")));
        assert_eq!(read, ["10ms", "1.000000s", "q\n", "0"]);
        assert_eq!(run.write("c.target", "x").unwrap_err().to_string(), "TARGET: parse error");
        let errors = Run::errors("Idle -> Queue -> CoDel(QUEUES i) -> i :: Discard");
        assert!(errors.contains("'i' is not a Storage element"), "{errors}");
        let none = Run::errors("TimedSource -> Discard; i :: Idle -> CoDel -> Discard");
        assert!(none.contains("no nearby Queues"), "{none}");
    }
}
