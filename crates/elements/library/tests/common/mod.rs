//! Elements that number packets and check the numbers.
#![allow(dead_code, reason = "each test program uses some of it")]

pub(crate) mod bed;

use std::time::Duration;

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerRef,
    HandlerResult, Library, Next, Plan,
    lang::{Globals, config::shift_word},
    load,
};
use linerate_memory::{Frame, Slot};

/// The element library and the elements below.
pub(crate) fn numbered_library() -> Library {
    Library::new(
        linerate_elements::library().iter().chain([&SOURCE, &SINK, &PIN, &LOSE, &SPLIT, &ASK]),
    )
}

/// Loads a configuration; errors are in Click's words.
pub(crate) fn load_text(text: &str, library: &Library) -> Result<Plan, String> {
    let mut loader = |_: &str, _: &str| Err(None);
    let loaded = load("config", text, library, &Globals::default(), &mut loader);
    loaded.plan.ok_or_else(|| loaded.found.click())
}

/// Flows the source takes turns with.
const FLOWS: u64 = 4;

/// Makes packets with a flow number and a sequence number in each.
pub(crate) const SOURCE: Class = Class {
    name: "Numbered",
    ports: "0/1",
    processing: "h/h",
    args: &[
        Arg::keyword("LIMIT", "packets", "none", "packets to make, then the run ends"),
        Arg::keyword("BURST", "packets", "frame limit", "packets at a time"),
        Arg::keyword("EVERY", "time", "0", "time from one burst to the next"),
    ],
    handlers: &[Handler::count("made", "packets made")],
    make: |make| {
        Box::new(Source {
            made: 0,
            limit: make.or("LIMIT", u64::MAX),
            burst: make.burst("BURST"),
            every: make.or("EVERY", Duration::ZERO).as_nanos() as u64,
        })
    },
    ..Class::here()
};

struct Source {
    made: u64,
    limit: u64,
    burst: usize,
    every: u64,
}

impl Element for Source {
    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        if self.made >= self.limit {
            cx.driver.stop();
            return Next::Sleep;
        }
        if cx.is_downstream_full() {
            return Next::Sleep;
        }
        let count = self.burst.min(frame.room()).min((self.limit - self.made) as usize);
        if cx.pool.take(frame, count, 64) == 0 {
            return Next::Idle;
        }
        cx.pool.arena().for_each_mut(frame, |bytes| {
            bytes[..8].copy_from_slice(&(self.made % FLOWS).to_be_bytes());
            bytes[8..16].copy_from_slice(&(self.made / FLOWS).to_be_bytes());
            self.made += 1;
        });
        cx.begin_packets(frame);
        if self.every > 0 {
            cx.set_timer(0, cx.steady() + self.every);
            return Next::Sleep;
        }
        Next::Again
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        cx.schedule();
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        self.made = old.downcast_mut::<Source>().expect("the same class").made;
    }

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> HandlerResult {
        Ok(self.made.to_string())
    }
}

/// Checks that each flow's numbers come one after the other.
pub(crate) const SINK: Class = Class {
    name: "Check",
    ports: "1/0",
    processing: "h/h",
    args: &[Arg::keyword("GAPS", "bool", "false", "whether missing numbers are right")],
    handlers: &[
        Handler::count("seen", "packets seen"),
        Handler::count("wrong", "packets that were not the next of their flow"),
    ],
    make: |make| Box::new(Sink { gaps: make.or("GAPS", false), ..Sink::default() }),
    ..Class::here()
};

#[derive(Default)]
struct Sink {
    next: [u64; FLOWS as usize],
    seen: u64,
    wrong: u64,
    gaps: bool,
}

impl Element for Sink {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        for bytes in cx.pool.arena().packets(frame) {
            let field = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
            let next = &mut self.next[field(0) as usize];
            let wrong = if self.gaps { field(8) < *next } else { field(8) != *next };
            self.wrong += u64::from(wrong);
            *next = field(8) + 1;
            self.seen += 1;
        }
        cx.discard(frame);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        std::mem::swap(self, old.downcast_mut::<Sink>().expect("the same class"));
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        Ok(if handler == "seen" { self.seen } else { self.wrong }.to_string())
    }
}

/// Places elements on workers.
pub(crate) const PIN: Class = Class {
    name: "Pin",
    args: &[Arg::rest("PLACES", "ELEMENT WORKER", "where elements run")],
    prepare: Some(|make: &mut ElementBuilder<'_>, preparation| {
        for place in make.rest() {
            let (element, worker) = shift_word(&place);
            let element = make.plan().find(element).expect("an element");
            preparation.workers.push((element, worker.trim().parse().expect("a number")));
        }
    }),
    ..Class::here()
};

/// lost on purpose
#[derive(Clone, Copy, DropReason)]
struct OnPurpose;

/// Takes the packet of that number out.
const LOSE: Class = Class {
    name: "Lose",
    ports: "1/1",
    args: &[Arg::required("NTH", "number", "which one")],
    drops: OnPurpose::REASONS,
    make: |make| Box::new(Lose(make.need("NTH"))),
    ..Class::here()
};

struct Lose(u64);

impl Element for Lose {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let mut lost: Vec<Slot> = Vec::new();
        frame.retain(
            |_| {
                self.0 = self.0.wrapping_sub(1);
                self.0 != 0
            },
            |slot| lost.push(slot),
        );
        lost.into_iter().for_each(|slot| cx.drop_packet(slot, OnPurpose));
    }
}

/// Sends each packet by the next output.
const SPLIT: Class = Class {
    name: "TakeTurns",
    ports: "1/1-",
    processing: "h/h",
    make: |_| Box::new(Split(0)),
    ..Class::here()
};

struct Split(usize);

impl Element for Split {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let outputs = cx.out.count();
        let count = frame.len();
        frame.drain_front(count, |slot| {
            cx.out.emit(self.0 % outputs, slot);
            self.0 += 1;
        });
    }
}

/// Reads a handler of another element again and again; that it is answered with
/// anything but a number is a failure, unless the run ends.
const ASK: Class = Class {
    name: "Asks",
    args: &[Arg::required("HANDLER", "handler", "what it reads")],
    make: |make| Box::new(Ask(make.get("HANDLER"))),
    ..Class::here()
};

struct Ask(Option<HandlerRef>);

impl Element for Ask {
    fn run(&mut self, cx: &mut Context, _: &mut Frame) -> Next {
        let handler = self.0.as_ref().expect("there are no elements without");
        match cx.read_handler(handler, "") {
            Ok(text) => drop(text.parse::<u64>().expect("a count")),
            Err(HandlerError::Unanswered(_)) if cx.driver.count() <= 0 => {}
            Err(error) => assert_eq!(error.to_string(), HandlerError::Replaced.to_string()),
        }
        Next::Again
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }
}
