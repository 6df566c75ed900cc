//! `TimerTest`: a timer and what becomes of it.

use std::time::Duration;

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, parse_bool,
    parse_time,
};
use linerate_memory::Frame;

use super::FAMILY;

/// The only timer.
const TIMER: u32 = 0;
/// Nanoseconds of a microsecond, the grain of what is shown, and those of a second.
const MICROSECOND: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;

pub(super) const CLASS: Class = Class {
    name: "TimerTest",
    family: FAMILY,
    summary: "a timer that says when it fires",
    description: "With `DELAY` its timer fires so long after the start, with `SCHEDULE` at once; \
        handlers set it later. It then writes `TIME: NAME :: TimerTest fired`. Without any of them \
        it sets timers and clears them again when the router starts, and says which.",
    ports: "0/0",
    args: &[
        Arg::keyword("BENCHMARK", "count", "0", "sets and moves that many timers at the start"),
        Arg::keyword("DELAY", "time", "none", "fires so long after the start"),
        Arg::keyword("SCHEDULE", "bool", "false", "fires at the start"),
    ],
    handlers: &[
        Handler::value("scheduled", "whether the timer is set; true sets it as it was before"),
        Handler::read("expiry", "when it fires, or was to fire"),
        Handler::write("schedule_after", "fires after that time"),
        Handler::write("unschedule", "clears the timer"),
    ],
    cost: "Nothing while packets are handled.",
    example: "t :: TimerTest(DELAY 10ms);\nScript(wait 20ms, stop);",
    make: |make| Box::new(TimerTest::new(make)),
    ..Class::here()
};

struct TimerTest {
    benchmark: u32,
    delay: Option<u64>,
    /// When the timer fires, or was to fire.
    expiry: u64,
}

impl TimerTest {
    fn new(make: &mut ElementBuilder<'_>) -> TimerTest {
        let schedule = make.or("SCHEDULE", false);
        let delay = make.get::<Duration>("DELAY").map(|time| time.as_nanos() as u64);
        let delay = delay.filter(|delay| *delay > 0);
        TimerTest {
            benchmark: make.or("BENCHMARK", 0),
            delay: delay.or(schedule.then_some(0)),
            expiry: 0,
        }
    }

    fn set(&mut self, cx: &mut Context, at: u64) {
        self.expiry = at;
        cx.set_timer(TIMER, at);
    }
}

/// A time as Click shows it.
fn shown(time: u64) -> String {
    format!("{}.{:06}", time / SECOND, time % SECOND / MICROSECOND)
}

impl Element for TimerTest {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if let Some(delay) = self.delay {
            self.set(cx, cx.steady().saturating_add(delay));
            return Ok(());
        }
        let now = cx.steady();
        if self.benchmark == 0 {
            let name = &cx.plan().elements[cx.element()].name;
            let said = format!(
                "Initializing default_constructor_timer\n\
                 initializing Timer {name} :: {} which does nothing\n\
                 Initializing explicit_do_nothing_timer\n",
                CLASS.name
            );
            cx.console().report(&said);
            for timer in [1, 2] {
                cx.set_timer(timer, now.saturating_add(SECOND));
            }
        }
        // Every one is moved six times, here and there within ten seconds.
        for round in 0..7u64 {
            for timer in 1..=self.benchmark {
                let place = u64::from(timer).wrapping_mul(7919 + round) % 10_000;
                cx.set_timer(timer, now.saturating_add(place * MICROSECOND * 1_000));
            }
        }
        let most = if self.benchmark == 0 { 2 } else { self.benchmark };
        for timer in 1..=most {
            if cx.timer(timer).is_none() {
                return Err(format!("timer {timer} was set and is not"));
            }
            cx.clear_timer(timer);
            if cx.timer(timer).is_some() {
                return Err(format!("timer {timer} was cleared and is set"));
            }
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        let name = &cx.plan().elements[cx.element()].name;
        let text = format!("{}: {name} :: {} fired\n", shown(self.expiry), CLASS.name);
        cx.console().report(&text);
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "scheduled" => Ok(cx.timer(TIMER).is_some().to_string()),
            "expiry" => Ok(shown(self.expiry)),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let wrong = || HandlerError::Refused("syntax error".into());
        match handler {
            "scheduled" if parse_bool(value).ok_or_else(wrong)? => self.set(cx, self.expiry),
            "scheduled" | "unschedule" => cx.clear_timer(TIMER),
            "schedule_after" => {
                let delay = parse_time(value).filter(|delay| *delay >= 0.0).ok_or_else(wrong)?;
                self.set(cx, cx.steady().saturating_add(delay as u64));
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn timers_fire_in_order_and_can_be_moved() {
        let mut run = Run::new(
            "a :: TimerTest(DELAY .03s); b :: TimerTest(DELAY .02s); c :: TimerTest(DELAY .01s);
            d :: TimerTest(DELAY .01s);
            DriverManager(write d.unschedule, write a.schedule_after 0, wait .05s,
                print d.scheduled, stop)",
        );
        run.run();
        let output = run.output();
        let names: Vec<_> = output
            .lines()
            .map(|line| line.split_once(": ").map_or(line, |parts| parts.1))
            .collect();
        // Click's order.
        assert_eq!(
            names,
            ["a :: TimerTest fired", "c :: TimerTest fired", "b :: TimerTest fired", "false"]
        );
    }

    #[test]
    fn many_timers_are_set_and_cleared() {
        let mut run = Run::new("t :: TimerTest(BENCHMARK 1000); Script(wait 1ms, stop)");
        run.run();
        assert_eq!(run.read("t.scheduled"), "false");
    }
}
