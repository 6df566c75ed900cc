//! `DelayUnqueue` and `DelayShaper`: hold packets until their time stamp is a delay ago.

use std::time::Duration;

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next,
    parse_time,
};
use linerate_memory::Frame;

use super::{FAMILY, TIMER, wake_at};
use linerate_element_support::rate::interval_text;

const HANDLERS: &[Handler] = &[Handler::value("delay", "the delay").flags(".")];
const ARGS: &[Arg] = &[Arg::required("DELAY", "time", "time to stay")];
const COST: &str = "A clock reading per frame, a look at each packet's metadata. It pulls up to a \
    frame ahead and holds what is not due.";

pub(super) const UNQUEUE: Class = Class {
    name: "DelayUnqueue",
    family: FAMILY,
    summary: "pulls packets and pushes each on after a delay",
    description: "Adds `DELAY` to the packet's time stamp, which is set to now when it has none, \
        and pushes the packet on when that time has come. Packets keep their order.",
    ports: "1/1",
    processing: "l/h",
    args: ARGS,
    handlers: HANDLERS,
    cost: COST,
    annotates: true,
    example: "InfiniteSource(LIMIT 10) -> Queue -> DelayUnqueue(10ms) \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(Delay::new(make, false)),
    ..Class::here()
};

pub(super) const SHAPER: Class = Class {
    name: "DelayShaper",
    summary: "lets packets be pulled after a delay",
    description: "Adds `DELAY` to the packet's time stamp, which is set to now when it has none; \
        the packet can be pulled when that time has come and then has the time stamp of now. \
        Those who pull are woken then. Packets keep their order.",
    processing: "l/l",
    example: "InfiniteSource(LIMIT 10) -> Queue -> DelayShaper(10ms) -> Unqueue \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(Delay::new(make, true)),
    ..UNQUEUE
};

/// Most packets that go before others have their turn.
const BURST: usize = 1024;

struct Delay {
    delay: u64,
    /// Whether packets get the time they leave as their stamp.
    restamps: bool,
    /// The packet that is to go next.
    held: Frame,
    /// When it is due, once that is known.
    due: Option<u64>,
}

impl Delay {
    fn new(make: &mut ElementBuilder<'_>, restamps: bool) -> Delay {
        let delay = nanoseconds(make.need::<Duration>("DELAY"));
        Delay { delay, restamps, held: Frame::new(1), due: None }
    }

    /// Moves due packets to `to`; returns true if one is held that is not due, in which case the
    /// timer is set.
    fn release(&mut self, cx: &mut Context, most: usize, to: &mut Frame) -> bool {
        let now = cx.now();
        while to.len() < most {
            // One at a time: the others stay in their queue until it has gone.
            if self.held.is_empty() && cx.pull(0, 1, &mut self.held) == 0 {
                return false;
            }
            let arena = cx.pool.arena();
            for slot in self.held.slots_mut() {
                let due = self.due.take().unwrap_or_else(|| {
                    let stamp = arena.meta(slot).timestamp;
                    // As in Click, a stamp in the first second is none.
                    let since = if stamp < 1_000_000_000 { now } else { stamp };
                    since.saturating_add(self.delay)
                });
                if due > now {
                    self.due = Some(due);
                    wake_at(cx, Some(cx.steady().saturating_add(due - now)));
                    return true;
                }
                if let Some(meta) = arena.meta_mut(slot) {
                    meta.timestamp = if self.restamps { now } else { due };
                }
            }
            to.append(&mut self.held, 1);
        }
        false
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Element for Delay {
    fn burst(&self) -> Option<usize> {
        Some(BURST)
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        // All due packets go, as in Click: the next ones may be for the room they leave.
        for left in (0..BURST.div_ceil(frame.limit())).rev() {
            let waits = self.release(cx, frame.limit(), frame);
            if waits && frame.is_empty() {
                return Next::Sleep;
            }
            if frame.room() > 0 || left == 0 {
                break;
            }
            cx.out.emit_frame(0, frame);
        }
        if frame.is_empty() { cx.nothing_pulled() } else { Next::Again }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        self.release(cx, count, frame);
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        if self.restamps {
            cx.notify();
        } else {
            cx.schedule();
        }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if !self.restamps {
            cx.schedule();
        }
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Delay>() {
            self.held.append(&mut old.held, usize::MAX);
            self.due = old.due;
            cx.set_timer(TIMER, cx.steady());
        }
    }

    fn close(&mut self, cx: &mut Context) {
        cx.discard(&mut self.held);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "delay" => Ok(interval_text(self.delay)),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match (handler, parse_time(value).filter(|time| *time >= 0.0)) {
            ("delay", Some(delay)) => {
                self.delay = delay as u64;
                Ok(String::new())
            }
            ("delay", None) if self.restamps => {
                Err(HandlerError::refused("delay must be a timestamp"))
            }
            ("delay", None) => Err(HandlerError::refused("expected time in seconds")),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    fn times(config: &str) -> Vec<u64> {
        let mut run = Run::new(&format!(
            "{config} -> c :: Collect; TimedSource(2, LIMIT 0, STOP true) -> Discard"
        ));
        run.run();
        run.read("c.times").lines().map(|time| time.parse::<u64>().unwrap() / 1000).collect()
    }

    #[test]
    fn every_packet_stays_as_long() {
        let source = "TimedSource(0.3, LIMIT 3) -> Queue";
        let expected = [800_000, 1_100_000, 1_400_000];
        assert_eq!(times(&format!("{source} -> DelayUnqueue(0.5)")), expected);
        assert_eq!(times(&format!("{source} -> DelayShaper(0.5)")), expected);
    }

    #[test]
    fn packets_with_the_same_stamp_go_together() {
        let source = "InfiniteSource(LIMIT 1000) -> Queue";
        assert_eq!(times(&format!("{source} -> DelayUnqueue(0.5)")), [500_000; 1000]);
        assert_eq!(times(&format!("{source} -> DelayShaper(0.5)")), [500_000; 1000]);
    }

    #[test]
    fn without_a_stamp_the_delay_begins_when_it_is_a_packets_turn() {
        let source = "InfiniteSource(LIMIT 3, TIMESTAMP false) -> Queue";
        let expected = [500_000, 1_000_000, 1_500_000];
        assert_eq!(times(&format!("{source} -> DelayUnqueue(0.5)")), expected);
    }

    #[test]
    fn handlers() {
        let mut run = Run::new(
            "Idle -> d :: DelayUnqueue(10ms) -> Discard; Idle -> DelayShaper(1) -> Discard",
        );
        assert_eq!(run.read("d.delay"), "10ms");
        run.write("d.delay", "1.5").unwrap();
        assert_eq!(run.read("d.delay"), "1.500000s");
        let error = run.write("d.delay", "soon").unwrap_err();
        assert_eq!(error.to_string(), "expected time in seconds");
    }
}
