//! `SetTimestamp`, `SetTimestampDelta`, `AdjustTimestamp`.
//!
//! Timestamps are nanoseconds in the annotations, differences of them in two's
//! complement. Zero means none.

use linerate_graph::{
    Arguments, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Scope, SignedTime, Step, Value, Verdict,
};
use linerate_memory::{Frame, PacketMut};

use super::FAMILY;
use linerate_element_support::annotations::{first_time, set_first_time};

const COST: &str = "Writes a line of annotations per packet; copies of packets become copies of \
    their own.";

pub(super) const SET: Class = Class {
    name: "SetTimestamp",
    family: FAMILY,
    summary: "sets the timestamp of packets",
    description: "To `TIMESTAMP`, or to the time at which their frame arrives.",
    ports: "1/1",
    annotates: true,
    cost: COST,
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetTimestamp(1.5) -> Discard;",
    ..Set::CLASS
};

pub(super) const SET_DELTA: Class = Class {
    name: "SetTimestampDelta",
    summary: "replaces timestamps by differences",
    description: "`TYPE RANGE`: to the first timestamp seen. `NOW`: to the time at which the \
        packets' frame arrives. `FIRST`: to their first timestamps. Packets without timestamp \
        stay so.",
    args: SetDelta::ARGS,
    handlers: SetDelta::HANDLERS,
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetTimestamp -> SetTimestampDelta -> Discard;",
    make: Class::for_element::<SetDelta>().make,
    ..SET
};

pub(super) const ADJUST: Class = Class {
    name: "AdjustTimestamp",
    summary: "adds to the timestamp of packets",
    description: "`TIME` may be negative. Packets without timestamp stay so, unless `ALL` is true.",
    args: Adjust::ARGS,
    handlers: Adjust::HANDLERS,
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetTimestamp -> AdjustTimestamp(-1) -> Discard;",
    make: Adjust::CLASS.make,
    ..SET
};

#[derive(Arguments)]
#[arguments(check = Set::check)]
struct Set {
    /// the time to set
    #[arg(optional, name = "TIMESTAMP", kind = "time", shown = "now")]
    given: Option<SignedTime>,
    /// whether to set the first timestamp instead
    #[arg(keyword, default = false)]
    first: bool,
    /// refused when true: see SetTimestampDelta
    #[arg(keyword, default = false)]
    delta: bool,
    /// Time that the packets of a frame get.
    time: u64,
}

impl Set {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        if self.given.is_some_and(|time| time.nanos < 0) {
            make.error("TIMESTAMP: parse error");
        }
        if self.delta {
            make.error("SetTimestamp(DELTA) is deprecated, use SetTimestampDelta(TYPE FIRST)");
        }
    }
}

impl Step for Set {
    #[inline]
    fn begin(&mut self, cx: &mut Context, _: &mut Frame) -> bool {
        self.time = self.given.map_or_else(|| cx.now(), |time| time.nanos.cast_unsigned());
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        let meta = packet.meta_mut();
        if self.first {
            set_first_time(meta, self.time);
        } else {
            meta.timestamp = self.time;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Range,
    Now,
    First,
}

#[derive(Arguments)]
#[arguments(handlers = [
    Handler::read("first", "the first timestamp seen"),
    Handler::button("reset", "forgets the first timestamp seen"),
])]
struct SetDelta {
    /// what the difference is to
    #[arg(keyword, name = "TYPE", kind = "RANGE, NOW or FIRST", shown = "RANGE", with = from)]
    from: From,
    /// Zero before a timestamp has been seen.
    first: u64,
    /// When the frame came, where that is asked for.
    now: u64,
}

fn from(make: &mut ElementBuilder<'_>, name: &str) -> From {
    match make.or(name, String::from("RANGE")).as_str() {
        "RANGE" => From::Range,
        "NOW" => From::Now,
        "FIRST" => From::First,
        _ => {
            make.error("bad TYPE");
            From::Range
        }
    }
}

impl Step for SetDelta {
    #[inline]
    fn begin(&mut self, cx: &mut Context, _: &mut Frame) -> bool {
        if self.from == From::Now {
            self.now = cx.now();
        }
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        let meta = packet.meta_mut();
        let time = meta.timestamp;
        if time == 0 {
            return Ok(());
        }
        let from = match self.from {
            From::Range => {
                if self.first == 0 {
                    self.first = time;
                }
                self.first
            }
            From::Now => self.now,
            From::First => first_time(meta),
        };
        meta.timestamp = time.wrapping_sub(from);
        Ok(())
    }
}

impl Element for SetDelta {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.pass(cx, frame);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<SetDelta>() {
            self.first = old.first;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "first" => Ok(SignedTime::from_nanos(self.first).to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "reset" => self.first = 0,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

/// A time that is added: shown with a unit.
#[derive(Debug, Clone, Copy, Default)]
struct Interval(SignedTime);

impl Value for Interval {
    const KIND: &'static str = "time";
    const EXPECTED: &'static str = "time in seconds";

    fn parse(text: &str, scope: &Scope<'_>) -> Result<Interval, String> {
        Value::parse(text, scope).map(Interval)
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.0.interval()
    }
}

#[derive(Arguments)]
struct Adjust {
    /// what to add
    #[arg(optional, default = "0")]
    #[handler(value, help = "what is added")]
    time: Interval,
    /// whether to add to the first timestamp instead
    #[arg(keyword, default = false)]
    first: bool,
    /// whether to add where there is none
    #[arg(keyword, default = false)]
    all: bool,
}

impl Step for Adjust {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        let (by, all) = (self.time.0.nanos.cast_unsigned(), self.all);
        let adjusted = |time: u64| if time != 0 || all { time.wrapping_add(by) } else { 0 };
        let meta = packet.meta_mut();
        if self.first {
            set_first_time(meta, adjusted(first_time(meta)));
        } else {
            meta.timestamp = adjusted(meta.timestamp);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Returns the first timestamp, seen by a `SetTimestampDelta` at the end.
    fn time_after(path: &str) -> String {
        let times = [1, 256].map(|frame_limit| {
            let mut run = Run::new(&format!(
                "InfiniteSource(LIMIT 3, STOP true, TIMESTAMP false) -> {path} -> end :: SetTimestampDelta -> Discard"
            ))
            .frame_limit(frame_limit);
            run.run();
            run.read("end.first")
        });
        assert_eq!(times[0], times[1]);
        times[0].clone()
    }

    #[test]
    fn timestamps_are_set_and_changed() {
        for (path, time) in [
            ("Null", "0.000000"),
            ("SetTimestamp(1.123456789)", "1.123456789"),
            ("SetTimestamp", "1000000000.000000"),
            ("SetTimestamp(5s, FIRST true)", "0.000000"),
            ("SetTimestamp(1.5) -> AdjustTimestamp(-0.25)", "1.250000"),
            ("SetTimestamp(1.5) -> AdjustTimestamp(-2.25)", "-0.750000"),
            ("AdjustTimestamp(7)", "0.000000"),
            ("AdjustTimestamp(7, ALL true)", "7.000000"),
            ("SetTimestamp(9) -> AdjustTimestamp(7, FIRST true)", "9.000000"),
            ("SetTimestamp(1000000000) -> SetTimestampDelta(TYPE NOW)", "0.000000"),
            ("SetTimestamp(999999998.5) -> SetTimestampDelta(TYPE NOW)", "-1.500000"),
            (
                "SetTimestamp(2, FIRST true) -> AdjustTimestamp(1, FIRST true)
                    -> SetTimestamp(4.5) -> SetTimestampDelta(TYPE FIRST)",
                "1.500000",
            ),
        ] {
            assert_eq!(time_after(path), time, "{path}");
        }
    }

    #[test]
    fn copies_have_times_of_their_own() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 1, STOP true) -> SetTimestamp(1) -> t :: Tee -> SetTimestamp(2)
                -> a :: SetTimestampDelta -> Discard; t [1] -> b :: SetTimestampDelta -> Discard;",
        );
        run.run();
        assert_eq!(
            (run.read("a.first"), run.read("b.first")),
            ("2.000000".into(), "1.000000".into())
        );
        run.write("a.reset", "").unwrap();
        assert_eq!(run.read("a.first"), "0.000000");
    }

    /// As Click 2.1 answers.
    #[test]
    fn errors_and_handlers_are_click_s() {
        for (element, error) in [
            ("SetTimestamp(-1)", "TIMESTAMP: parse error"),
            ("SetTimestamp(x)", "TIMESTAMP: parse error"),
            (
                "SetTimestamp(DELTA true)",
                "SetTimestamp(DELTA) is deprecated, use SetTimestampDelta(TYPE FIRST)",
            ),
            ("SetTimestampDelta(TYPE x)", "bad TYPE"),
            ("AdjustTimestamp(foo)", "TIME: parse error"),
        ] {
            let errors = Run::errors(&format!("Idle -> {element} -> Discard"));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
        let mut run = Run::new("Idle -> a :: AdjustTimestamp(0.5) -> Discard");
        assert_eq!(run.read("a.time"), "500ms");
        run.write("a.time", "90").unwrap();
        assert_eq!(run.read("a.time"), "90.000000s");
        assert!(run.write("a.time", "x").is_err());
    }
}
