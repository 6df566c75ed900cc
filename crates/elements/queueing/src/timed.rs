//! `TimedSource` and `TimedSink`: make or pull a packet per interval.

use std::time::Duration;

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, parse_bool,
    parse_integer, parse_time,
};
use linerate_memory::Frame;

use super::{FAMILY, TIMER};
use linerate_element_support::{
    handler_values::integer,
    rate::interval_text,
    template::{Template, stamp},
};

/// Click's default headroom of packets.
const HEADROOM: u32 = 28;

pub(super) const SOURCE: Class = Class {
    name: "TimedSource",
    family: FAMILY,
    summary: "makes a packet per interval",
    description: "Makes a packet with the bytes of `DATA` every `INTERVAL`, the first after one \
        interval, `LIMIT` in all. `STOP true` asks for the end of the run an interval after the \
        last.",
    ports: "0/1",
    processing: "h/h",
    args: &[
        Arg::optional("INTERVAL", "time", "500 ms", "time between packets"),
        Arg::optional("DATA", "string", "a text of 69 bytes", "the packets' bytes"),
        Arg::keyword("LIMIT", "packets", "-1: no limit", "packets to make in all"),
        Arg::keyword("ACTIVE", "bool", "true", "whether it makes packets"),
        Arg::keyword("STOP", "bool", "false", "whether the end of the limit ends the run"),
        Arg::keyword("HEADROOM", "bytes", "28", "is kept; packets have the arena's headroom"),
        Arg::keyword("LENGTH", "bytes", "length of DATA", "length of the packets"),
    ],
    handlers: &[
        Handler::count("count", "packets made"),
        Handler::button("reset", "sets the count to zero, so that the limit is made again"),
        Handler::value("data", "the packets' bytes").flags("%."),
        Handler::value("interval", "time between packets").flags("."),
        Handler::value("limit", "packets to make in all").flags("."),
        Handler::value("active", "whether it makes packets").flags(".c"),
        Handler::value("headroom", "bytes of headroom of its packets").flags("."),
    ],
    cost: "A timer per packet.",
    example: "TimedSource(10ms, LIMIT 3, STOP true) -> Discard;",
    make: |make| Box::new(TimedSource::new(make)),
    ..Class::here()
};

pub(super) const SINK: Class = Class {
    name: "TimedSink",
    family: FAMILY,
    summary: "pulls and discards a packet per interval",
    description: "Pulls a packet every `INTERVAL`, the first after one interval.",
    ports: "1/0",
    processing: "l/l",
    args: &[Arg::optional("INTERVAL", "time", "500 ms", "time between packets")],
    handlers: &[Handler::value("interval", "time between packets").flags(".")],
    cost: "A timer per packet.",
    example: "InfiniteSource(LIMIT 5) -> Queue -> Counter(COUNT_CALL 5 stop) -> TimedSink(10ms);",
    make: |make| Box::new(TimedSink { interval: interval(make) }),
    ..Class::here()
};

/// The argument `INTERVAL` in nanoseconds.
fn interval(make: &mut ElementBuilder<'_>) -> u64 {
    let interval = make.or("INTERVAL", Duration::from_millis(500));
    u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX)
}

/// Parses a value written to the handler `interval`.
fn written_interval(value: &str) -> Result<u64, HandlerError> {
    let interval = parse_time(value).filter(|time| *time >= 1.0);
    interval.map(|time| time as u64).ok_or_else(|| HandlerError::refused("bad interval"))
}

/// Sets the timer an interval after it was due, or after now when that has
/// passed: the distances are exact over any time.
fn again(cx: &mut Context, due: u64, interval: u64) -> u64 {
    let now = cx.steady();
    let next = due.saturating_add(interval);
    // An interval of zero is the shortest possible.
    let next = if next > now { next } else { now.saturating_add(interval.max(1)) };
    cx.set_timer(TIMER, next);
    next
}

struct TimedSource {
    template: Template,
    interval: u64,
    limit: i64,
    count: u64,
    active: bool,
    stop: bool,
    /// Shown only: buffers have the headroom they have.
    headroom: u32,
    /// When the timer is or was last due.
    due: u64,
}

impl TimedSource {
    fn new(make: &mut ElementBuilder<'_>) -> TimedSource {
        TimedSource {
            template: Template::from_args(make),
            interval: interval(make),
            limit: make.or("LIMIT", -1),
            count: 0,
            active: make.or("ACTIVE", true),
            stop: make.or("STOP", false),
            headroom: make.or("HEADROOM", HEADROOM),
            due: 0,
        }
    }
}

impl Element for TimedSource {
    fn timer(&mut self, cx: &mut Context, _: u32, frame: &mut Frame) {
        if !self.active {
            return;
        }
        if u64::try_from(self.limit).is_ok_and(|limit| self.count >= limit) {
            if self.stop {
                cx.driver.stop();
            }
            return;
        }
        self.count += self.template.make(cx, 1, frame) as u64;
        stamp(cx, frame);
        self.due = again(cx, self.due, self.interval);
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if self.active {
            self.due = again(cx, cx.steady(), self.interval);
        }
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<TimedSource>() {
            self.count = old.count;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.count.to_string()),
            "data" => Ok(self.template.text()),
            "interval" => Ok(interval_text(self.interval)),
            "limit" => Ok(self.limit.to_string()),
            "active" => Ok(self.active.to_string()),
            "headroom" => Ok(self.headroom.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "reset" => self.count = 0,
            "data" => self.template.set_data(value),
            "interval" => self.interval = written_interval(value)?,
            "limit" => {
                self.limit = integer::<i32>(value)?.into();
            }
            "headroom" => {
                let headroom = parse_integer(value).and_then(|bytes| u32::try_from(bytes).ok());
                self.headroom = headroom.ok_or_else(|| HandlerError::refused("bad headroom"))?;
            }
            "active" => {
                self.active =
                    parse_bool(value).ok_or_else(|| HandlerError::refused("bad active"))?;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        let starts = matches!(handler, "reset" | "active");
        if starts && self.active && cx.timer(TIMER).is_none() {
            self.due = cx.steady();
            cx.set_timer(TIMER, self.due);
        }
        Ok(String::new())
    }
}

struct TimedSink {
    interval: u64,
}

impl Element for TimedSink {
    fn timer(&mut self, cx: &mut Context, _: u32, frame: &mut Frame) {
        cx.pull(0, 1, frame);
        cx.discard(frame);
        again(cx, cx.steady(), self.interval);
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        again(cx, cx.steady(), self.interval);
        Ok(())
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "interval" => Ok(interval_text(self.interval)),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "interval" => self.interval = written_interval(value)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn a_packet_per_interval() {
        let mut run = Run::new("t :: TimedSource(0.3, \"ab\", LIMIT 4, STOP true) -> c :: Collect");
        run.run();
        // As Click has it.
        assert_eq!(run.read("c.times"), "300000000\n600000000\n900000000\n1200000000");
        assert_eq!(run.read("c.packets"), "6162\n6162\n6162\n6162");
        assert_eq!(run.read("t.interval"), "300ms");
        assert_eq!(run.read("t.headroom"), "28");
        run.write("t.headroom", "4").unwrap();
        run.write("t.limit", "-5").unwrap();
        assert_eq!((run.read("t.headroom"), run.read("t.limit")), ("4".into(), "-5".into()));
        assert_eq!(run.write("t.headroom", "x").unwrap_err().to_string(), "bad headroom");
        assert_eq!(run.write("t.interval", "0").unwrap_err().to_string(), "bad interval");
    }

    #[test]
    fn a_packet_per_interval_is_pulled() {
        let mut run = Run::new(
            "InfiniteSource -> q :: Queue -> c :: Counter -> s :: TimedSink(1h); \
                TimedSource(100h, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        assert!(["99", "100"].contains(&run.read("c.count").as_str()));
        assert_eq!(run.read("s.interval"), "3600.000000s");
    }
}
