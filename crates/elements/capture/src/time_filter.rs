//! `TimeFilter`: passes packets of a range of times.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
};
use linerate_memory::Frame;

use super::{FAMILY, stamp::Stamp};
use linerate_element_support::{
    call::{self, End},
    run_end::RunEnd,
};

pub(super) const CLASS: Class = Class {
    name: "TimeFilter",
    family: FAMILY,
    summary: "passes packets of a range of times",
    description: "Packets whose time is before the start, or not before the end, leave by output \
        1. `END_CALL` is written when the first packet behind the end comes; if it moves the end \
        (`extend_interval`), that packet may pass. `$t` in its value is the packet's time.",
    ports: "1/1-2",
    processing: "a/ah",
    args: &[
        Arg::optional("START", "time", "", "first time that passes, since the epoch"),
        Arg::optional("END", "time", "", "first time that no longer passes, since the epoch"),
        Arg::keyword("START_DELAY", "time", "", "the start, from now"),
        Arg::keyword("END_DELAY", "time", "", "the end, from now"),
        Arg::keyword("START_AFTER", "time", "", "the start, since the first packet"),
        Arg::keyword("END_AFTER", "time", "", "the end, since the first packet"),
        Arg::keyword("INTERVAL", "time", "", "the end, since the start"),
        Arg::keyword("STOP", "bool", "false", "whether the end ends the run"),
        Arg::keyword("END_CALL", "HANDLER [VALUE]", "", "writes a handler at the end"),
    ],
    handlers: &[
        Handler::value("start", "the start"),
        Handler::value("end", "the end"),
        Handler::value("interval", "from the start to the end"),
        Handler::write("extend_interval", "moves the end by a time"),
    ],
    annotates: true,
    calls: |plan, at| plan.is_given(at, "END_CALL"),
    cost: "A line of metadata and two comparisons per packet: some three cycles.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> TimeFilter(END_AFTER 1s) -> Discard;",
    make: |make| Box::new(TimeFilter::new(make)),
    ..Class::here()
};

/// The last time there is.
const NEVER: Stamp = Stamp(i64::MAX as u64);

/// Base of a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum TimeOrigin {
    #[default]
    Epoch,
    FirstPacket,
    Now,
    Start,
}

#[derive(Default)]
struct TimeFilter {
    start: (Stamp, TimeOrigin),
    end: (Stamp, TimeOrigin),
    /// Whether a packet has been seen and all times are absolute.
    ready: bool,
    at_end: End,
    run_end: RunEnd,
    /// Whether the end is still to be acted upon.
    armed: bool,
    chosen: Vec<bool>,
}

impl TimeFilter {
    fn new(make: &mut ElementBuilder<'_>) -> TimeFilter {
        let mut given = |names: &[(&str, TimeOrigin)]| -> Vec<(Stamp, TimeOrigin)> {
            let times = names.iter().filter_map(|(name, base)| Some((make.get(name)?, *base)));
            times.filter(|(time, _)| *time != Stamp(0)).collect()
        };
        let starts = given(&[
            ("START", TimeOrigin::Epoch),
            ("START_DELAY", TimeOrigin::Now),
            ("START_AFTER", TimeOrigin::FirstPacket),
        ]);
        let ends = given(&[
            ("END", TimeOrigin::Epoch),
            ("END_AFTER", TimeOrigin::FirstPacket),
            ("END_DELAY", TimeOrigin::Now),
            ("INTERVAL", TimeOrigin::Start),
        ]);
        if starts.len() > 1 {
            make.error("START, START_AFTER, and START_AFTER_INIT are mutually exclusive");
        }
        if ends.len() > 1 {
            make.error("END, END_AFTER, END_AFTER_INIT, and INTERVAL are mutually exclusive");
        }
        let at_end = End::from_args(make);
        TimeFilter {
            start: starts.first().copied().unwrap_or((Stamp(0), TimeOrigin::FirstPacket)),
            end: ends.first().copied().unwrap_or((NEVER, TimeOrigin::Epoch)),
            ready: false,
            armed: at_end.is_set(),
            at_end,
            run_end: RunEnd::new(make),
            chosen: Vec::new(),
        }
    }

    #[cold]
    fn first_packet(&mut self, time: Stamp) {
        if self.start.1 == TimeOrigin::FirstPacket {
            self.start = (self.start.0.plus(time), TimeOrigin::Epoch);
        }
        self.end.0 = match self.end.1 {
            TimeOrigin::FirstPacket => self.end.0.plus(time),
            TimeOrigin::Start => self.end.0.plus(self.start.0),
            TimeOrigin::Epoch | TimeOrigin::Now => self.end.0,
        };
        self.end.1 = TimeOrigin::Epoch;
        self.ready = true;
    }

    /// Returns true if a packet of this time passes.
    #[inline]
    fn passes(&mut self, cx: &mut Context, time: Stamp) -> bool {
        if !self.ready {
            self.first_packet(time);
        }
        if time < self.start.0 {
            return false;
        }
        if time >= self.end.0 && self.armed {
            self.reach_end(cx, time);
        }
        time < self.end.0
    }

    #[cold]
    fn reach_end(&mut self, cx: &mut Context, time: Stamp) {
        loop {
            let before = self.end.0;
            self.armed = false;
            match self.at_end.clone() {
                End::Nothing => {}
                End::Stop => self.run_end.ask(cx),
                // The called handler may call back.
                End::Call(made) => cx.stand_in(self, |cx| {
                    let expand = |value: &str| value.replace("$t", &time.to_string());
                    call::perform_standing_in(&made, cx, expand);
                }),
            }
            if time < self.end.0 || !self.armed || self.end.0 <= before {
                return;
            }
        }
    }
}

impl Element for TimeFilter {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let mut chosen = std::mem::take(&mut self.chosen);
        chosen.clear();
        for at in 0..frame.len() {
            let time = Stamp(cx.pool.arena().meta(&frame.slots()[at]).timestamp);
            chosen.push(self.passes(cx, time));
        }
        if chosen.contains(&false) {
            let mut next = chosen.iter();
            let out = &mut cx.out;
            frame.retain(|_| next.next() == Some(&true), |slot| out.emit(1, slot));
        }
        self.chosen = chosen;
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let now = Stamp(cx.now());
        for time in [&mut self.start, &mut self.end] {
            if time.1 == TimeOrigin::Now {
                *time = (time.0.plus(now), TimeOrigin::Epoch);
            }
        }
        Ok(())
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "start" => Ok(self.start.0.to_string()),
            "end" => Ok(self.end.0.to_string()),
            "interval" => Ok(Stamp(self.end.0.0.saturating_sub(self.start.0.0)).to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let time = Stamp::parse(value).ok_or_else(|| HandlerError::refused("expected time"))?;
        match handler {
            "start" => {
                if !self.ready {
                    self.first_packet(time);
                }
                self.start = (time, TimeOrigin::Epoch);
                return Ok(String::new());
            }
            "end" => self.end = (time, TimeOrigin::Epoch),
            "interval" => self.end.0 = self.start.0.plus(time),
            "extend_interval" => self.end.0 = self.end.0.plus(time),
            _ => return Err(HandlerError::missing(handler)),
        }
        self.armed = self.at_end.is_set();
        self.run_end.rearm();
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Packets of 1, 2, .. 9 s.
    const SOURCE: &str = "FromIPSummaryDump(STOP true, FIELDS ts ip_len,
        DATA \"1 40\\n2 41\\n3 42\\n4 43\\n5 44\\n6 45\\n7 46\\n8 47\\n9 48\\n\")";

    #[test]
    fn ranges_are_absolute_or_relative() {
        for limit in [1, 256] {
            for (arguments, passed, others) in [
                ("", "9", "0"),
                ("START 3", "7", "2"),
                ("3, 5", "2", "7"),
                ("START_AFTER 3", "6", "3"),
                ("END_AFTER 3", "3", "6"),
                ("START 2, INTERVAL 3", "3", "6"),
                ("START_AFTER 1, INTERVAL 3s", "3", "6"),
                ("END 4, END_CALL f.extend_interval 3", "9", "0"),
                ("END 4, END_CALL c.reset", "3", "6"),
            ] {
                let text = format!(
                    "{SOURCE} -> f :: TimeFilter({arguments}) -> c :: Counter -> d :: Discard;
                     f [1] -> e :: Discard"
                );
                let mut run = Run::new(&text).frame_limit(limit);
                run.run();
                assert_eq!(run.read("d.count"), passed, "{arguments}");
                assert_eq!(run.read("e.count"), others, "{arguments}");
            }
        }
    }

    #[test]
    fn handlers_move_the_range() {
        let mut run = Run::new("i :: Idle -> f :: TimeFilter(2, 5.5) -> Discard");
        assert_eq!(run.read("f.start"), "2.000000");
        assert_eq!(run.read("f.end"), "5.500000");
        assert_eq!(run.read("f.interval"), "3.500000");
        run.write("f.interval", "10").unwrap();
        assert_eq!(run.read("f.end"), "12.000000");
        run.write("f.end", "20").unwrap();
        run.write("f.extend_interval", "1ms").unwrap();
        assert_eq!(run.read("f.end"), "20.001000");
        assert!(run.write("f.start", "soon").is_err());
    }

    #[test]
    fn contradictions_are_refused() {
        let errors = Run::errors("Idle -> TimeFilter(1, 2, START_AFTER 1) -> Discard");
        assert!(errors.contains("START, START_AFTER, and START_AFTER_INIT are mutually exclusive"));
        let errors = Run::errors("Idle -> TimeFilter(1, 2, INTERVAL 1) -> Discard");
        assert!(errors.contains("END, END_AFTER, END_AFTER_INIT, and INTERVAL are mutually"));
    }
}
