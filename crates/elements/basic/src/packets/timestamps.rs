//! `SetTimestamp`, `SetTimestampDelta`, `AdjustTimestamp`.
//!
//! Timestamps are nanoseconds in the annotations, differences of them in two's
//! complement. Zero means none.

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make, SignedTime};
use linerate_memory::{Frame, Meta};

use super::FAMILY;
use linerate_kit::annotations::{first_time, set_first_time};

/// Drop reason.
const NO_BUFFER: usize = 0;

const COST: &str = "Writes a line of annotations per packet; copies of packets become copies of \
    their own.";

pub(super) const SET: Class = Class {
    name: "SetTimestamp",
    family: FAMILY,
    summary: "sets the timestamp of packets",
    description: "To `TIMESTAMP`, or to the time at which their frame arrives.",
    ports: "1/1",
    args: &[
        Arg::optional("TIMESTAMP", "time", "now", "the time to set"),
        Arg::keyword("FIRST", "bool", "false", "whether to set the first timestamp instead"),
        Arg::keyword("DELTA", "bool", "false", "refused when true: see SetTimestampDelta"),
    ],
    annotates: true,
    drops: &["no buffer"],
    cost: COST,
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetTimestamp(1.5) -> Discard;",
    make: |make| Box::new(Set::new(make)),
    ..Class::EMPTY
};

pub(super) const SET_DELTA: Class = Class {
    name: "SetTimestampDelta",
    summary: "replaces timestamps by differences",
    description: "`TYPE RANGE`: to the first timestamp seen. `NOW`: to the time at which the \
        packets' frame arrives. `FIRST`: to their first timestamps. Packets without timestamp \
        stay so.",
    args: &[Arg::keyword("TYPE", "RANGE, NOW or FIRST", "RANGE", "what the difference is to")],
    handlers: &[
        Handler::read("first", "the first timestamp seen"),
        Handler::button("reset", "forgets the first timestamp seen"),
    ],
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetTimestamp -> SetTimestampDelta -> Discard;",
    make: |make| Box::new(SetDelta::new(make)),
    ..SET
};

pub(super) const ADJUST: Class = Class {
    name: "AdjustTimestamp",
    summary: "adds to the timestamp of packets",
    description: "`TIME` may be negative. Packets without timestamp stay so, unless `ALL` is true.",
    args: &[
        Arg::optional("TIME", "time", "0", "what to add"),
        Arg::keyword("FIRST", "bool", "false", "whether to add to the first timestamp instead"),
        Arg::keyword("ALL", "bool", "false", "whether to add where there is none"),
    ],
    handlers: &[Handler::value("time", "what is added")],
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetTimestamp -> AdjustTimestamp(-1) -> Discard;",
    make: |make| Box::new(Adjust::new(make)),
    ..SET
};

/// Calls `change` with the annotations of every packet.
fn for_each_meta(cx: &mut Context, frame: &mut Frame, change: impl FnMut(&mut Meta)) {
    cx.unshare(frame, NO_BUFFER);
    let arena = cx.pool.arena();
    frame.slots_mut().iter_mut().filter_map(|slot| arena.meta_mut(slot)).for_each(change);
}

struct Set {
    time: Option<SignedTime>,
    first: bool,
}

impl Set {
    fn new(make: &mut Make<'_>) -> Set {
        let time: Option<SignedTime> = make.get("TIMESTAMP");
        if time.is_some_and(|time| time.nanos < 0) {
            make.error("TIMESTAMP: parse error");
        }
        if make.or("DELTA", false) {
            make.error("SetTimestamp(DELTA) is deprecated, use SetTimestampDelta(TYPE FIRST)");
        }
        Set { time, first: make.or("FIRST", false) }
    }
}

impl Element for Set {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let time = self.time.map_or_else(|| cx.now(), |time| time.nanos.cast_unsigned());
        if self.first {
            for_each_meta(cx, frame, |meta| set_first_time(meta, time));
        } else {
            for_each_meta(cx, frame, |meta| meta.timestamp = time);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum From {
    Range,
    Now,
    First,
}

struct SetDelta {
    from: From,
    /// Zero before a timestamp has been seen.
    first: u64,
}

impl SetDelta {
    fn new(make: &mut Make<'_>) -> SetDelta {
        let from = match make.or("TYPE", String::from("RANGE")).as_str() {
            "RANGE" => From::Range,
            "NOW" => From::Now,
            "FIRST" => From::First,
            _ => {
                make.error("bad TYPE");
                From::Range
            }
        };
        SetDelta { from, first: 0 }
    }
}

impl Element for SetDelta {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let SetDelta { from, ref mut first } = *self;
        let now = match from {
            From::Now => cx.now(),
            _ => 0,
        };
        for_each_meta(cx, frame, |meta| {
            let time = meta.timestamp;
            if time == 0 {
                return;
            }
            meta.timestamp = match from {
                From::Range => {
                    if *first == 0 {
                        *first = time;
                    }
                    time.wrapping_sub(*first)
                }
                From::Now => time.wrapping_sub(now),
                From::First => time.wrapping_sub(first_time(meta)),
            };
        });
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<SetDelta>() {
            self.first = old.first;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "first" => Ok(SignedTime::of(self.first).to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "reset" => self.first = 0,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

struct Adjust {
    time: SignedTime,
    first: bool,
    all: bool,
}

impl Adjust {
    fn new(make: &mut Make<'_>) -> Adjust {
        Adjust {
            time: make.or("TIME", SignedTime::default()),
            first: make.or("FIRST", false),
            all: make.or("ALL", false),
        }
    }
}

impl Element for Adjust {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let (by, all) = (self.time.nanos.cast_unsigned(), self.all);
        let adjusted = |time: u64| if time != 0 || all { time.wrapping_add(by) } else { 0 };
        if self.first {
            for_each_meta(cx, frame, |meta| set_first_time(meta, adjusted(first_time(meta))));
        } else {
            for_each_meta(cx, frame, |meta| meta.timestamp = adjusted(meta.timestamp));
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "time" => Ok(self.time.interval()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(
        &mut self,
        _: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match handler {
            "time" => {
                let time = SignedTime::read(value.trim());
                let expected = || HandlerError::refused("expected time in seconds");
                self.time = time.ok_or_else(expected)?;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    /// What the first timestamp is, seen by a `SetTimestampDelta` at the end.
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
