//! `Unqueue`: turns pull into push.

use linerate_element_support::burst::move_burst;
use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next,
    parse_bool, parse_integer,
};
use linerate_memory::Frame;

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "Unqueue",
    family: FAMILY,
    summary: "pulls packets as fast as they come and pushes them on",
    description: "Moves up to `BURST` packets in a turn. Without `BURST` it moves one, and takes as \
        many turns at once as there is room for behind it: a queue it pushes to drops what comes \
        when it is full, never for a burst that nobody asked for.",
    ports: "1/1",
    processing: "l/h",
    args: &[
        Arg::optional(
            "BURST",
            "packets",
            "1, many times",
            "most packets moved in a turn; no limit below zero",
        ),
        Arg::keyword("ACTIVE", "bool", "true", "whether it moves packets"),
        Arg::keyword("LIMIT", "packets", "-1: no limit", "packets to move in all"),
    ],
    handlers: &[
        Handler::count("count", "packets moved"),
        Handler::value("active", "whether it moves packets").flags("c"),
        Handler::value("burst", "most packets moved at a time"),
        Handler::value("limit", "packets to move in all"),
        Handler::button("reset", "sets the count to zero, so that the limit is moved again"),
        Handler::button("reset_counts", "the same").flags("U"),
    ],
    cost: "A copy of eight bytes per packet, out of the queue.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue -> Unqueue -> Discard;",
    make: |make| Box::new(Unqueue::new(make)),
    writes: false,
    ..Class::here()
};

struct Unqueue {
    /// Packets it moves in a turn, when that is given.
    burst: Option<usize>,
    active: bool,
    limit: i64,
    count: u64,
}

/// A burst below zero is one without a limit: as long as packets come.
fn unlimited_below_zero(burst: i32) -> usize {
    usize::try_from(burst).unwrap_or(i32::MAX as usize)
}

impl Unqueue {
    fn new(make: &mut ElementBuilder<'_>) -> Unqueue {
        Unqueue {
            burst: make.get::<i32>("BURST").map(unlimited_below_zero),
            active: make.or("ACTIVE", true),
            limit: make.or("LIMIT", -1),
            count: 0,
        }
    }
}

impl Element for Unqueue {
    fn burst(&self) -> Option<usize> {
        self.burst
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        // Like Click it goes on when all behind it is full.
        let mut burst = self.burst.unwrap_or(frame.limit());
        if let Ok(limit) = u64::try_from(self.limit) {
            burst = burst.min(limit.saturating_sub(self.count) as usize);
        }
        if !self.active || burst == 0 {
            return Next::Sleep;
        }
        let moved = move_burst(cx, burst, self.burst.is_some(), frame);
        self.count += moved as u64;
        if moved == 0 { cx.nothing_pulled() } else { Next::Again }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Unqueue>() {
            self.count = old.count;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.count.to_string()),
            "active" => Ok(self.active.to_string()),
            "burst" => Ok(self.burst.unwrap_or(1).to_string()),
            "limit" => Ok(self.limit.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let syntax = || HandlerError::refused("syntax error");
        let number = || parse_integer(value).ok_or_else(syntax);
        match handler {
            "reset" | "reset_counts" => self.count = 0,
            "burst" => {
                let burst = i32::try_from(number()?).map_err(|_| syntax())?;
                self.burst = Some(unlimited_below_zero(burst));
            }
            "limit" => self.limit = number()?.clamp(-1, i64::MAX.into()) as i64,
            "active" => {
                self.active = parse_bool(value).ok_or_else(syntax)?;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        cx.schedule();
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn no_more_than_the_limit() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 900) -> Queue -> u :: Unqueue(LIMIT 700, BURST -1) -> Discard; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        assert_eq!((run.read("u.count"), run.read("u.burst")), ("700".into(), "2147483647".into()));
    }

    #[test]
    fn a_full_queue_behind_it_drops() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 900) -> Queue -> u :: Unqueue -> q :: Queue(10) -> Idle; \
                TimedSource(1, LIMIT 0, STOP true) -> Discard",
        );
        run.run();
        assert_eq!((run.read("q.length"), run.read("q.drops")), ("10".into(), "890".into()));
    }

    /// As Click prints and has them: elements without a task have only descriptive handlers.
    #[test]
    fn handlers_of_a_task_are_written() {
        let text = "s :: InfiniteSource(LIMIT 10) -> q :: Queue(100) -> u :: Unqueue -> Discard";
        let mut run = Run::new(text);
        for (value, tickets) in [("512", "512"), ("0", "1"), ("99999", "32768"), ("7", "7")] {
            run.write("u.tickets", value).unwrap();
            assert_eq!(run.read("u.tickets"), tickets);
        }
        assert_eq!(run.write("u.tickets", "many").unwrap_err().to_string(), "syntax error");
        run.write("u.home_thread", "0").unwrap();
        assert_eq!(run.read("u.home_thread"), "0");
        assert_eq!(run.write("u.home_thread", "-1").unwrap_err().to_string(), "bad thread");
        assert_eq!(run.write("u.home_thread", "99").unwrap_err().to_string(), "bad thread");
        assert!(run.write("q.tickets", "1").is_err());
        let handlers = run.read("u.handlers");
        for line in
            ["tickets\trw", "home_thread\trw", "active\trwc", "reset_counts\twUb", "name\tr."]
        {
            assert!(handlers.lines().any(|found| found == line), "{line}: {handlers}");
        }
        assert!(run.read("q.handlers").contains("tickets\tr\n"));
        assert!(run.read("s.handlers").contains("burstsize\trw.D\n"));
    }
}
