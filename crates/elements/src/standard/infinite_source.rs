//! `InfiniteSource`: packets as fast as they are taken.

use linerate_graph::{
    Arg, Class, Context, Element, Handler, HandlerError, Make, Next, parse_bool, parse_integer,
};
use linerate_memory::Frame;

use super::FAMILY;
use crate::template::Template;

pub(super) const CLASS: Class = Class {
    name: "InfiniteSource",
    family: FAMILY,
    summary: "makes packets as fast as they are taken",
    description: "Makes `LIMIT` packets with the bytes of `DATA`, repeated to or cut at \
        `LENGTH`, `BURST` at a time. With a push output it stops while everything behind it \
        is full. `STOP true` asks for the end of the run when the limit is reached.",
    ports: "0/1",
    args: &[
        Arg::optional("DATA", "string", "a text of 64 bytes", "the packets' bytes"),
        Arg::optional("LIMIT", "packets", "-1: no limit", "packets to make in all"),
        Arg::optional("BURST", "packets", "frame limit", "packets made at a time"),
        Arg::optional("ACTIVE", "bool", "true", "whether it makes packets"),
        Arg::keyword("LENGTH", "bytes", "length of DATA", "length of the packets"),
        Arg::keyword("STOP", "bool", "false", "whether the end of the limit ends the run"),
    ],
    handlers: &[
        Handler::count("count", "packets made"),
        Handler::button("reset", "sets the count to zero, so that the limit is made again"),
        Handler::value("data", "the packets' bytes"),
        Handler::value("limit", "packets to make in all"),
        Handler::value("burst", "packets made at a time"),
        Handler::value("active", "whether it makes packets"),
        Handler::value("length", "length of the packets; -1 for that of the data"),
    ],
    cost: "Writes every packet whole: about two cycles for 64 bytes at 256 per frame.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Discard;",
    make: |make| Box::new(InfiniteSource::new(make)),
    ..Class::EMPTY
};

struct InfiniteSource {
    template: Template,
    /// Packets still to make in all, no limit below zero.
    limit: i64,
    count: i64,
    burst: usize,
    active: bool,
    stop: bool,
    pushes: bool,
}

impl InfiniteSource {
    fn new(make: &mut Make<'_>) -> InfiniteSource {
        InfiniteSource {
            template: Template::from_args(make),
            limit: make.or("LIMIT", -1),
            count: 0,
            burst: make.burst("BURST"),
            active: make.or("ACTIVE", true),
            stop: make.or("STOP", false),
            pushes: make.output_is_push(0),
        }
    }

    /// Packets that may be made now, at most `count`.
    fn allowed(&self, count: usize) -> usize {
        match self.limit {
            _ if !self.active => 0,
            limit if limit < 0 => count,
            limit => count.min((limit - self.count).max(0) as usize),
        }
    }

    fn make(&mut self, cx: &mut Context, count: usize, frame: &mut Frame) -> usize {
        let made = self.template.make(cx, count, frame);
        self.count += made as i64;
        if made > 0 && self.limit >= 0 && self.count >= self.limit && self.stop {
            cx.driver.stop();
        }
        made
    }
}

impl Element for InfiniteSource {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let count = self.allowed(self.burst).min(cx.downstream_room());
        if count == 0 {
            return Next::Sleep;
        }
        match self.make(cx, count, frame) {
            // All buffers are on their way: they come back.
            0 => Next::Idle,
            _ => Next::Again,
        }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        let count = self.allowed(count);
        self.make(cx, count, frame);
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if self.pushes {
            cx.schedule();
        }
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<InfiniteSource>() {
            self.count = old.count;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "count" => Ok(self.count.to_string()),
            "data" => Ok(self.template.text()),
            "limit" => Ok(self.limit.to_string()),
            "burst" => Ok(self.burst.to_string()),
            "active" => Ok(self.active.to_string()),
            "length" => Ok(self.template.length_text()),
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
            "data" => self.template.set_data(value),
            "limit" => self.limit = number()?.clamp(-1, i64::MAX.into()) as i64,
            "burst" => self.burst = number()?.clamp(1, cx.frame_limit() as i128) as usize,
            "length" => self.template.set_length(number()?),
            "active" => {
                self.active =
                    parse_bool(value).ok_or_else(|| HandlerError::refused("syntax error"))?;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        if self.pushes {
            cx.schedule();
        } else {
            cx.notify();
        }
        Ok(String::new())
    }
}
