//! `LinkUnqueue`: emulates a serial link with a latency and a bandwidth.

use std::{collections::VecDeque, time::Duration};

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next,
    parse_bandwidth, parse_time,
};
use linerate_memory::{Frame, Slot};

use super::{FAMILY, TIMER, ahead::Ahead, wake_at};
use linerate_element_support::{
    annotations,
    rate::{SECOND, Unit, interval_text},
};

pub(super) const CLASS: Class = Class {
    name: "LinkUnqueue",
    family: FAMILY,
    summary: "a link with a latency and a bandwidth",
    description: "A packet is pulled when the one before it has been sent, needs the time \
        `BANDWIDTH` has for its bytes, with those that were not captured, to be sent itself, and comes out `LATENCY` after that, with \
        that time as its stamp. Packets are held only while they are on the link.",
    ports: "1/1",
    processing: "l/h",
    args: &[
        Arg::required("LATENCY", "time", "time from one end to the other"),
        Arg::required("BANDWIDTH", "bandwidth", "bytes sent per second, at least 100"),
    ],
    handlers: &[
        Handler::value("latency", "the latency; writing it empties the link").flags("."),
        Handler::value("bandwidth", "the bandwidth; writing it empties the link").flags("."),
        Handler::count("size", "packets on the link"),
        Handler::button("reset", "empties the link"),
    ],
    annotates: true,
    cost: "A clock reading per frame; a division, a write to the metadata and 24 bytes in and out \
        of memory per packet.",
    example: "InfiniteSource(LIMIT 10) -> Queue -> LinkUnqueue(10ms, 1Mbps) \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(LinkUnqueue::new(make)),
    ..Class::here()
};

pub(crate) struct LinkUnqueue {
    latency: u64,
    bandwidth: u64,
    /// Packets and when they come out.
    link: VecDeque<(u64, Slot)>,
    /// When the last packet comes out, and parts of a nanosecond of which
    /// there are `bandwidth` in one.
    last: (u64, u64),
    /// Whether the next packet follows the last without a gap.
    back_to_back: bool,
    ahead: Ahead,
    frame: Frame,
}

const TOO_SMALL: &str = "bandwidth too small, minimum 100Bps";

impl LinkUnqueue {
    fn new(make: &mut ElementBuilder<'_>) -> LinkUnqueue {
        let latency = make.need::<Duration>("LATENCY");
        let bandwidth = make.need::<linerate_graph::Bandwidth>("BANDWIDTH").bytes as u64;
        if make.is_given("BANDWIDTH") && bandwidth < 100 {
            make.error(TOO_SMALL);
        }
        let limit = make.world.frame_limit;
        LinkUnqueue {
            latency: u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX),
            bandwidth: bandwidth.max(100),
            link: VecDeque::with_capacity(limit),
            last: (0, 0),
            back_to_back: false,
            // Bytes that were not captured count, too.
            ahead: Ahead::with_longest(make, None),
            frame: Frame::new(limit),
        }
    }

    /// Returns the packets on the link.
    pub(crate) fn len(&self) -> usize {
        self.link.len()
    }

    /// The moment that is a bandwidth's time for `bytes` after `from`.
    fn after(&self, from: (u64, u64), bytes: u64) -> (u64, u64) {
        let parts = u128::from(from.1) + u128::from(bytes) * u128::from(SECOND);
        let bandwidth = u128::from(self.bandwidth);
        let ns = u64::try_from(parts / bandwidth).unwrap_or(u64::MAX);
        (from.0.saturating_add(ns), (parts % bandwidth) as u64)
    }

    /// Puts packets on the link until the last is not sent yet.
    fn accept(&mut self, cx: &mut Context, now: u64) -> bool {
        let free_until = now.saturating_add(self.latency);
        let mut any = false;
        while self.link.is_empty() || self.last.0 <= free_until {
            let time = if self.link.is_empty() { 0 } else { free_until - self.last.0 };
            let bytes = u128::from(time) * u128::from(self.bandwidth) / u128::from(SECOND);
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            self.ahead.refill(cx, 0, bytes, cx.frame_limit());
            self.ahead.release(&mut self.frame, 1, |_| true);
            let Some(mut slot) = self.frame.pop() else {
                self.back_to_back = false;
                break;
            };
            let follows = self.back_to_back && !self.link.is_empty();
            let from = if follows { self.last } else { (free_until, 0) };
            let arena = cx.arena();
            let extra = annotations::extra_length(arena.meta(&slot));
            let bytes = slot.len() as u64 + u64::from(extra);
            self.ahead.learn(bytes);
            self.last = self.after(from, bytes);
            if let Some(meta) = arena.meta_mut(&mut slot) {
                meta.timestamp = self.last.0;
            }
            self.link.push_back((self.last.0, slot));
            self.back_to_back = true;
            any = true;
        }
        any
    }

    /// Takes everything off the link.
    fn reset(&mut self, cx: &mut Context) {
        while let Some((_, slot)) = self.link.pop_front() {
            cx.pool.give_one(slot);
        }
        self.ahead.close(cx);
        self.back_to_back = false;
    }
}

impl Element for LinkUnqueue {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let now = cx.steady();
        let accepted = self.accept(cx, now);
        while frame.room() > 0 && self.link.front().is_some_and(|(at, _)| *at <= now) {
            let pushed = self.link.pop_front().map(|(_, slot)| frame.push(slot));
            debug_assert!(matches!(pushed, Some(Ok(()))), "there was one, and room");
        }
        if accepted || frame.room() == 0 {
            return Next::Again;
        }
        let Some((first, _)) = self.link.front() else {
            return if frame.is_empty() { cx.nothing_pulled() } else { Next::Again };
        };
        // When the first comes out, or the next can be put on the link.
        let free = self.last.0.saturating_sub(self.latency);
        let at = if free > now { (*first).min(free) } else { *first };
        wake_at(cx, Some(at));
        if free <= now && cx.nothing_pulled() == Next::Idle { Next::Idle } else { Next::Sleep }
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        cx.schedule();
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<LinkUnqueue>() {
            std::mem::swap(&mut self.link, &mut old.link);
            self.ahead.take_state(&mut old.ahead);
            (self.last, self.back_to_back) = ((old.last.0, 0), old.back_to_back);
        }
    }

    fn close(&mut self, cx: &mut Context) {
        self.reset(cx);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "latency" => Ok(interval_text(self.latency)),
            "bandwidth" => Ok(self.bandwidth.to_string()),
            "size" => Ok(self.len().to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "latency" => {
                let latency = parse_time(value).filter(|time| *time >= 0.0);
                self.latency = latency
                    .ok_or_else(|| HandlerError::refused("latency must be a timestamp"))?
                    as u64;
            }
            "bandwidth" => {
                let rate = Unit::Bytes.parse(value);
                let rate = rate.map_err(|_| HandlerError::refused("invalid bandwidth"))?;
                if parse_bandwidth(value).is_none_or(|rate| rate < 100.0) {
                    return Err(HandlerError::refused(TOO_SMALL));
                }
                self.bandwidth = rate.tokens;
            }
            "reset" => {}
            _ => return Err(HandlerError::missing(handler)),
        }
        self.reset(cx);
        cx.clear_timer(TIMER);
        cx.schedule();
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    fn times(link: &str, limit: usize) -> Vec<u64> {
        let mut run = Run::new(&format!(
            "InfiniteSource(LENGTH 69, LIMIT {limit}) -> Queue({limit}) -> l :: {link} \
                -> c :: Collect; TimedSource(2, LIMIT 0, STOP true) -> Discard"
        ));
        run.run();
        assert_eq!(run.read("l.size"), "0");
        run.read("c.times").lines().map(|time| time.parse::<u64>().unwrap() / 1000).collect()
    }

    #[test]
    fn packets_follow_each_other_at_the_bandwidth() {
        // As Click prints them.
        let expected: Vec<u64> = (1..=10).map(|packet| 500_000 + packet * 69_000).collect();
        assert_eq!(times("LinkUnqueue(0.5, 8kbps)", 10), expected);
    }

    #[test]
    fn a_fast_link_is_as_fast_as_it_says() {
        // 69 bytes at 700 MB/s are 98.57 ns.
        let times = times("LinkUnqueue(1ms, 5.6Gbps)", 5000);
        assert_eq!(times.last(), Some(&(1000 + 492)));
    }

    #[test]
    fn handlers() {
        let mut run = Run::new("Idle -> l :: LinkUnqueue(10ms, 80kbps) -> Discard");
        assert_eq!(run.read("l.latency"), "10ms");
        assert_eq!(run.read("l.bandwidth"), "10000");
        run.write("l.bandwidth", "8Mbps").unwrap();
        assert_eq!(run.read("l.bandwidth"), "1000000");
        let error = run.write("l.bandwidth", "80bps").unwrap_err();
        assert_eq!(error.to_string(), "bandwidth too small, minimum 100Bps");
        let errors = Run::errors("Idle -> LinkUnqueue(10ms, 80bps) -> Discard");
        assert!(errors.contains("bandwidth too small, minimum 100Bps"), "{errors}");
    }
}
