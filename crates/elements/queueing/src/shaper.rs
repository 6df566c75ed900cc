//! `Shaper` and `BandwidthShaper`: pull at a rate.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Right,
};
use linerate_memory::Frame;

use super::{FAMILY, TIMER, ahead::Ahead, wake_at, wrong};
use linerate_element_support::{
    handler_values::record_argument,
    rate::{Gap, Rate, SECOND, Unit},
};

const HANDLERS: &[Handler] =
    &[Handler::value("rate", "the rate"), Handler::write("reset", "forgets what has passed")];

pub(super) const PACKETS: Class = Class {
    name: "Shaper",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "lets packets be pulled at a rate",
    description: "At most `RATE` packets per second can be pulled from output 0, at equal \
        distances; what was not pulled in time can be within a second. From output 1, when it is \
        used, packets can be pulled while none may be from output 0.",
    ports: "1/1-2",
    processing: "l/l",
    args: &[Arg::required("RATE", "packets per second", "packets per second")],
    handlers: HANDLERS,
    cost: "A clock reading and a division per frame. Wakes those who pull when the next packet is \
        due, above 50,000 per second those of 20 us at once.",
    example: "InfiniteSource(LIMIT 10) -> Queue -> Shaper(1000) -> Unqueue \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(Shaper::new(make, Unit::Packets)),
    ..Class::here()
};

pub(super) const BANDWIDTH: Class = Class {
    name: "BandwidthShaper",
    summary: "lets packets be pulled at a bandwidth",
    description: "Packets of at most `RATE` bytes per second can be pulled: one when the bytes \
        before it have had their time.",
    args: &[Arg::required("RATE", "bandwidth", "bytes per second")],
    cost: "As `Shaper`, and a second copy of eight bytes per packet. Where packets come from ports \
        it pulls as many as may go if none is longer than those before, and holds the ones too \
        many. Elsewhere it pulls one at a time, unless several of any length may go.",
    example: "InfiniteSource(LIMIT 10) -> Queue -> BandwidthShaper(1Mbps) -> Unqueue \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(Shaper::new(make, Unit::Bytes)),
    ..PACKETS
};

struct Shaper {
    unit: Unit,
    gap: Gap,
    ahead: Ahead,
}

impl Shaper {
    fn new(make: &mut ElementBuilder<'_>, unit: Unit) -> Shaper {
        let rate = unit.argument(make);
        if rate.period != SECOND {
            make.error("RATE: must be per second");
        }
        Shaper { unit, gap: Gap::new(rate.tokens), ahead: Ahead::new(make) }
    }

    fn rate(&self) -> String {
        Rate::per_second(self.gap.rate()).text(self.unit)
    }
}

impl Element for Shaper {
    fn pull(&mut self, cx: &mut Context, port: usize, count: usize, frame: &mut Frame) {
        let now = cx.steady();
        let due = self.gap.due(now);
        if port == 1 && self.unit == Unit::Packets {
            if due == 0 {
                cx.pull(0, count, frame);
            }
            return;
        }
        let used = match (self.unit, usize::try_from(due).unwrap_or(count).min(count)) {
            (_, 0) => 0,
            (Unit::Packets, count) => cx.pull(0, count, frame) as u64,
            (Unit::Bytes, _) => self.ahead.pull(cx, due - 1, count, frame),
        };
        self.gap.add(used);
        if due == 0 {
            wake_at(cx, self.gap.look_at(now));
        } else if used >= due && cx.plan().elements[cx.element()].outputs.len() > 1 {
            // Output 1 is open from now on.
            cx.notify();
        }
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        cx.notify();
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Shaper>() {
            self.ahead.take_state(&mut old.ahead);
            if self.gap.rate() == old.gap.rate() {
                self.gap = old.gap.clone();
            }
        }
    }

    fn close(&mut self, cx: &mut Context) {
        self.ahead.close(cx);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "rate" => Ok(self.rate()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "rate" => match self.unit.parse(value) {
                Ok(rate) if rate.period == SECOND => {
                    self.gap.change(rate.tokens, cx.steady());
                    record_argument(cx, 0, "RATE", value);
                }
                Ok(_) => return wrong("RATE", "must be per second"),
                Err(error) => return wrong("RATE", error),
            },
            "reset" => self.gap.reset(),
            _ => return Err(HandlerError::missing(handler)),
        }
        cx.clear_timer(TIMER);
        cx.notify();
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    fn times(shaper: &str, seconds: f64) -> Vec<u64> {
        let mut run = Run::new(&format!(
            "InfiniteSource(LENGTH 100) -> Queue -> s :: {shaper} -> c :: Collect; \
                TimedSource({seconds}, LIMIT 0, STOP true) -> Discard"
        ));
        run.run();
        run.read("c.times").lines().map(|time| time.parse::<u64>().unwrap() / 1000).collect()
    }

    #[test]
    fn packets_come_at_equal_distances() {
        assert_eq!(times("Shaper(5)", 0.9), [0, 200_000, 400_000, 600_000, 800_000]);
        assert_eq!(times("Shaper(3)", 1.1), [0, 333_333, 666_666, 1_000_000]);
        assert_eq!(times("Shaper(0)", 1.1), Vec::<u64>::new());
    }

    #[test]
    fn bytes_come_at_equal_distances() {
        assert_eq!(times("BandwidthShaper(8kbps)", 0.35), [0, 100_000, 200_000, 300_000]);
    }

    #[test]
    fn a_high_rate_is_exact() {
        let mut run = Run::new(
            "InfiniteSource -> Queue -> Shaper(1000003) -> u :: Unqueue -> Discard; \
                TimedSource(2, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        let count: u64 = run.read("u.count").parse().unwrap();
        assert!((2_000_006 - 21..=2_000_007).contains(&count), "{count}");
    }

    #[test]
    fn packets_beyond_the_rate_leave_by_output_1() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 500) -> Queue -> s :: Shaper(10) -> a :: Collect; \
                s [1] -> b :: Collect; TimedSource(0.5, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        assert_eq!(run.read("a.lengths").lines().count(), 1);
        assert_eq!(run.read("b.lengths").lines().count(), 499);
    }
}
