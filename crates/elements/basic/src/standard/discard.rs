//! `Discard` and `Idle`: the ends of a graph.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next,
    parse_bool,
};
use linerate_memory::Frame;

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "Discard",
    family: FAMILY,
    summary: "ends the way of packets",
    description: "With a pull input it pulls as fast as packets come, `BURST` at a time, all there are when that is 0.",
    ports: "1/0",
    args: &[
        Arg::keyword("ACTIVE", "bool", "true", "whether a pulling Discard pulls"),
        Arg::keyword("BURST", "packets", "frame limit", "most packets pulled at a time"),
    ],
    handlers: &[
        Handler::count("count", "packets discarded"),
        Handler::button("reset_counts", "sets the count to zero"),
        Handler::value("active", "whether it pulls").flags("c"),
    ],
    cost: "The buffers of a frame go back in one piece: below a cycle per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Discard;",
    make: |make| Box::new(Discard::new(make)),
    writes: false,
    ..Class::here()
};

struct Discard {
    count: u64,
    /// Packets it pulls in a turn, when that is given.
    burst: Option<usize>,
    active: bool,
    pulls: bool,
}

impl Discard {
    fn new(make: &mut ElementBuilder<'_>) -> Discard {
        let pulls = make.input_is_pull(0);
        let active = make.or("ACTIVE", true);
        if !active && !pulls {
            make.error("ACTIVE is meaningless in push context");
        }
        let burst = match make.get::<u32>("BURST") {
            Some(0) => Some(usize::MAX),
            burst => burst.map(|burst| burst as usize),
        };
        Discard { count: 0, active, burst, pulls }
    }
}

impl Element for Discard {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.count += frame.len() as u64;
        cx.discard(frame);
    }

    fn burst(&self) -> Option<usize> {
        self.burst
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if !self.active {
            return Next::Sleep;
        }
        let burst = self.burst.unwrap_or(frame.limit());
        let mut left = burst;
        loop {
            let asked = left.min(frame.limit());
            let pulled = cx.pull(0, asked, frame);
            self.push(cx, 0, frame);
            left -= pulled;
            // Schedulers give less where the sources might run before the next packet.
            let ended = if self.burst.is_some() { pulled == 0 } else { pulled < asked };
            if left == 0 || ended {
                break;
            }
        }
        if left == burst { cx.nothing_pulled() } else { Next::Again }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if self.pulls && self.active {
            cx.schedule();
        }
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Discard>() {
            self.count += old.count;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.count.to_string()),
            "active" => Ok(self.active.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "reset_counts" => self.count = 0,
            "active" => {
                self.active =
                    parse_bool(value).ok_or_else(|| HandlerError::refused("syntax error"))?;
                if self.pulls && self.active {
                    cx.schedule();
                }
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

pub(super) const IDLE: Class = Class {
    name: "Idle",
    family: FAMILY,
    summary: "never produces a packet and discards those it gets",
    description: "Connect it to ports that must be connected to something.",
    ports: "-/-",
    processing: "a/a",
    flow: "x/y",
    signals: linerate_graph::Signals { empty: true, full: false },
    cost: "As Discard.",
    example: "Idle -> Queue -> Discard;",
    make: |_| Box::new(Idle),
    ..Class::here()
};

struct Idle;

impl Element for Idle {
    fn ready(&self) -> Option<usize> {
        Some(0)
    }

    fn pull(&mut self, _: &mut Context, _: usize, _: usize, _: &mut Frame) {}
}
