//! `RatedSource`: makes packets at a rate.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next,
    Signals, parse_bool, parse_integer,
};
use linerate_memory::Frame;

use super::{FAMILY, TIMER, wake_at};
use linerate_element_support::{
    rate::{Bucket, Rate, Unit},
    template::{Template, stamp},
};

pub(super) const CLASS: Class = Class {
    name: "RatedSource",
    family: FAMILY,
    summary: "makes packets at a rate",
    description: "Makes `RATE` packets per second (`10/min`, `1/hr` for less than one), `LIMIT` \
        in all, with the bytes of `DATA`, repeated to or cut at `LENGTH`. It begins with a burst \
        of a hundredth of `RATE`, at least 2, and makes up for delays by as many. `BANDWIDTH` \
        gives the rate in bytes. `STOP true` asks for the end of the run when the limit is \
        reached.",
    ports: "0/1",
    args: &[
        Arg::optional("DATA", "string", "a text of 69 bytes", "the packets' bytes"),
        Arg::optional("RATE", "packets per second", "10", "packets made per second"),
        Arg::optional("LIMIT", "packets", "-1: no limit", "packets to make in all"),
        Arg::optional("ACTIVE", "bool", "true", "whether it makes packets"),
        Arg::keyword("LENGTH", "bytes", "length of DATA", "length of the packets"),
        Arg::keyword("DATASIZE", "bytes", "length of DATA", "older name of LENGTH"),
        Arg::keyword("STOP", "bool", "false", "whether the end of the limit ends the run"),
        Arg::keyword("BANDWIDTH", "bandwidth", "", "bytes made per second, instead of RATE"),
    ],
    handlers: &[
        Handler::count("count", "packets made"),
        Handler::button("reset", "sets the count to zero, so that the limit is made again"),
        Handler::value("data", "the packets' bytes").flags("%."),
        Handler::value("rate", "packets made per second"),
        Handler::value("limit", "packets to make in all").flags("."),
        Handler::value("active", "whether it makes packets").flags("c"),
        Handler::value("length", "length of the packets; -1 for that of the data"),
        Handler::value("datasize", "older name of length").flags("D"),
    ],
    signals: Signals { empty: true, full: false },
    cost: "A clock reading per frame; writes every packet whole. Those of a millisecond are made \
        together.",
    example: "RatedSource(RATE 1000, LIMIT 10, STOP true) -> Discard;",
    make: |make| Box::new(RatedSource::new(make)),
    ..Class::here()
};

struct RatedSource {
    template: Template,
    bucket: Bucket,
    /// Packets to make in all, no limit below zero.
    limit: i64,
    count: u64,
    active: bool,
    stop: bool,
    pushes: bool,
}

/// Returns the packets that go at once.
fn burst(rate: Rate) -> u64 {
    if rate.tokens < 200 { 2 } else { rate.tokens / 100 }
}

impl RatedSource {
    fn new(make: &mut ElementBuilder<'_>) -> RatedSource {
        let template = Template::from_args(make);
        let mut rate = Rate::per_second(10);
        if make.is_given("RATE") {
            rate = Unit::Packets.argument(make);
        }
        let mut capacity = burst(rate);
        let bandwidth = make.or("BANDWIDTH", linerate_graph::Bandwidth::default()).bytes as u64;
        if bandwidth > 0 {
            rate = Rate::per_second(bandwidth / template.length().max(1) as u64);
            let length = template.length_text().parse().unwrap_or(0);
            capacity = burst(rate).max(2 * length);
        }
        RatedSource {
            template,
            bucket: Bucket::new(rate, capacity),
            limit: make.or("LIMIT", -1),
            count: 0,
            active: make.or("ACTIVE", true),
            stop: make.or("STOP", false),
            pushes: make.output_is_push(0),
        }
    }

    /// Makes the packets that are due; returns true if there is nothing to wait for.
    fn produce(&mut self, cx: &mut Context, count: usize, frame: &mut Frame) -> bool {
        if !self.active {
            return true;
        }
        let mut count = count as u64;
        if let Ok(limit) = u64::try_from(self.limit) {
            if self.count >= limit {
                if self.stop {
                    cx.driver.stop();
                }
                return true;
            }
            count = count.min(limit - self.count);
        }
        self.bucket.fill(cx.steady());
        count = count.min(self.bucket.tokens());
        if count == 0 {
            wake_at(cx, self.bucket.look_at(1));
            return true;
        }
        let made = self.template.make(cx, count as usize, frame);
        stamp(cx, frame);
        self.bucket.take(made as u64);
        self.count += made as u64;
        false
    }
}

impl Element for RatedSource {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if self.produce(cx, frame.limit(), frame) {
            Next::Sleep
        } else if frame.is_empty() {
            // All buffers are on their way: they come back.
            Next::Idle
        } else {
            Next::Again
        }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        self.produce(cx, count, frame);
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        if self.pushes {
            cx.schedule();
        } else {
            cx.notify();
        }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if self.pushes {
            cx.schedule();
        }
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<RatedSource>() {
            self.count = old.count;
            self.bucket.take_state(&old.bucket);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.count.to_string()),
            "data" => Ok(self.template.text()),
            "rate" => Ok(self.bucket.rate().text(Unit::Packets)),
            "limit" => Ok(self.limit.max(-1).to_string()),
            "active" => Ok(self.active.to_string()),
            "length" | "datasize" => Ok(self.template.length_text()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let syntax = || HandlerError::refused("syntax error");
        let number = || parse_integer(value).ok_or_else(syntax);
        match handler {
            "reset" => {
                self.count = 0;
                self.bucket.set(1);
            }
            "data" => self.template.set_data(value),
            "rate" => {
                let rate = Rate::packets(value).map_err(|_| syntax())?;
                self.bucket.change(rate, burst(rate));
            }
            "limit" => self.limit = number()?.clamp(-1, i64::MAX.into()) as i64,
            "length" | "datasize" => self.template.set_length(number()?),
            "active" => self.active = parse_bool(value).ok_or_else(syntax)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        cx.clear_timer(TIMER);
        self.timer(cx, TIMER, &mut Frame::new(1));
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    fn times(source: &str) -> Vec<u64> {
        let mut run = Run::new(&format!("s :: {source} -> c :: Collect"));
        run.run();
        run.read("c.times").lines().map(|time| time.parse::<u64>().unwrap() / 1000).collect()
    }

    #[test]
    fn packets_come_at_equal_distances_after_a_burst() {
        // As in Click.
        assert_eq!(
            times("RatedSource(RATE 100, LIMIT 6, STOP true)"),
            [0, 0, 11_000, 21_000, 31_000, 41_000]
        );
        assert_eq!(
            times("RatedSource(RATE 3, LIMIT 5, STOP true)"),
            [0, 0, 334_000, 667_000, 1_001_000]
        );
        let hour = 3_600_000_000;
        let late = [0, 0, 1, 1, 1].map(|milliseconds| 1000 * milliseconds);
        assert_eq!(
            times("RatedSource(RATE 1/hr, LIMIT 5, STOP true)"),
            [0, 0, hour, 2 * hour, 3 * hour]
                .iter()
                .zip(late)
                .map(|(a, b)| a + b)
                .collect::<Vec<_>>()
        );
        let burst = times("RatedSource(RATE 5000, LIMIT 60, STOP true)");
        assert_eq!(burst.iter().filter(|time| **time == 0).count(), 50);
        assert_eq!(burst[50..56], [1000, 1000, 1000, 1000, 1000, 2000]);
    }

    #[test]
    fn a_pulled_source_wakes_its_puller() {
        assert_eq!(
            times("RatedSource(RATE 100, LIMIT 4, STOP true) -> Unqueue"),
            [0, 0, 11_000, 21_000]
        );
    }

    #[test]
    fn a_bandwidth_is_a_rate() {
        let mut run =
            Run::new("s :: RatedSource(LENGTH 125, BANDWIDTH 1Mbps, ACTIVE false) -> Discard");
        assert_eq!(run.read("s.rate"), "1000");
        assert_eq!(run.read("s.length"), "125");
        assert_eq!(run.read("s.limit"), "-1");
    }
}
