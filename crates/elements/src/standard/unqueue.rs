//! `Unqueue`: where pull becomes push.

use linerate_graph::{
    Arg, Class, Context, Element, Handler, HandlerError, Make, Next, parse_bool, parse_integer,
};
use linerate_memory::Frame;

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "Unqueue",
    family: FAMILY,
    summary: "pulls packets as fast as they come and pushes them on",
    description: "Stops while everything behind it is full.",
    ports: "1/1",
    processing: "l/h",
    args: &[
        Arg::optional("BURST", "packets", "frame limit", "most packets moved at a time"),
        Arg::keyword("ACTIVE", "bool", "true", "whether it moves packets"),
        Arg::keyword("LIMIT", "packets", "-1: no limit", "packets to move in all"),
    ],
    handlers: &[
        Handler::count("count", "packets moved"),
        Handler::value("active", "whether it moves packets"),
        Handler::value("burst", "most packets moved at a time"),
        Handler::value("limit", "packets to move in all"),
        Handler::button("reset", "sets the count to zero, so that the limit is moved again"),
    ],
    cost: "A copy of eight bytes per packet, out of the queue.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue -> Unqueue -> Discard;",
    make: |make| Box::new(Unqueue::new(make)),
    ..Class::EMPTY
};

struct Unqueue {
    burst: usize,
    active: bool,
    limit: i64,
    count: u64,
}

impl Unqueue {
    fn new(make: &mut Make<'_>) -> Unqueue {
        Unqueue {
            burst: make.burst("BURST"),
            active: make.or("ACTIVE", true),
            limit: make.or("LIMIT", -1),
            count: 0,
        }
    }
}

impl Element for Unqueue {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let mut burst = self.burst.min(cx.downstream_room());
        if let Ok(limit) = u64::try_from(self.limit) {
            burst = burst.min(limit.saturating_sub(self.count) as usize);
        }
        if !self.active || burst == 0 {
            return Next::Sleep;
        }
        match cx.pull(0, burst, frame) {
            0 => cx.nothing_pulled(),
            pulled => {
                self.count += pulled as u64;
                Next::Again
            }
        }
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

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "count" => Ok(self.count.to_string()),
            "active" => Ok(self.active.to_string()),
            "burst" => Ok(self.burst.to_string()),
            "limit" => Ok(self.limit.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let number = || parse_integer(value).ok_or_else(|| HandlerError::refused("invalid number"));
        match handler {
            "reset" => self.count = 0,
            "burst" => self.burst = number()?.clamp(1, cx.frame_limit() as i128) as usize,
            "limit" => self.limit = number()?.clamp(-1, i64::MAX.into()) as i64,
            "active" => {
                self.active =
                    parse_bool(value).ok_or_else(|| HandlerError::refused("syntax error"))?;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        cx.schedule();
        Ok(String::new())
    }
}
