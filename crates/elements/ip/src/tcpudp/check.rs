//! What `CheckTCPHeader`, `CheckUDPHeader` and `CheckICMPHeader` have in common:
//! all but what a sound header is.

use std::cell::Cell;

use linerate_graph::{Arg, Context, Element, Handler, HandlerError, Make};
use linerate_memory::{Frame, Slot};

use linerate_kit::ip::ip;

pub(crate) const ARGS: &[Arg] = &[
    Arg::keyword("VERBOSE", "bool", "false", "reports every bad packet"),
    Arg::keyword("DETAILS", "bool", "false", "whether there is a handler drop_details"),
];

pub(crate) const HANDLERS: &[Handler] = &[Handler::count("drops", "packets that were not sound")];

/// The handler that `DETAILS` adds.
const DETAILS: Handler = Handler::count("drop_details", "packets that were not sound, by reason");

/// What is wrong with a packet: also the drop reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    Protocol,
    Length,
    Checksum,
}

/// A check of a protocol's header.
pub(crate) struct Check {
    /// The protocol's name.
    pub(crate) protocol: &'static str,
    /// Whether the element says who it is.
    pub(crate) names_itself: bool,
    /// Drop reasons and what is said of them.
    pub(crate) reasons: &'static [&'static str; 3],
    /// Looks at a packet from its IP header on; what follows the IP packet is
    /// still there.
    pub(crate) check: fn(&[u8]) -> Result<(), Wrong>,
}

pub(crate) struct CheckHeader {
    check: &'static Check,
    verbose: bool,
    details: bool,
    has_other: bool,
    counts: [u64; 3],
    failed: Vec<(Slot, Wrong)>,
}

impl CheckHeader {
    pub(crate) fn new(make: &mut Make<'_>, check: &'static Check) -> CheckHeader {
        CheckHeader {
            check,
            verbose: make.or("VERBOSE", false),
            details: make.or("DETAILS", false),
            has_other: make.outputs() > 1,
            counts: [0; 3],
            failed: Vec::new(),
        }
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Context) {
        let Check { protocol, names_itself, reasons, .. } = *self.check;
        let mut text = String::new();
        for (slot, wrong) in self.failed.drain(..) {
            if self.verbose || self.counts == [0; 3] {
                if names_itself {
                    let class = cx.plan().elements[cx.element()].class.name;
                    text += &format!("{} :: {class}: ", cx.name());
                }
                let reason = reasons[wrong as usize];
                text += &format!("{protocol} header check failed: {reason}\n");
            }
            self.counts[wrong as usize] += 1;
            if self.has_other {
                cx.out.emit(1, slot);
            } else {
                cx.drop_packet(slot, wrong as usize);
            }
        }
        cx.console().report(&text);
    }
}

impl Element for CheckHeader {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let arena = cx.pool.arena();
        let found = Cell::new(Wrong::Protocol);
        let sound = |slot: &mut Slot| {
            let packet = ip(arena.packet(slot), arena.meta(slot));
            let result = packet.ok_or(Wrong::Protocol).and_then(self.check.check);
            found.set(result.err().unwrap_or(Wrong::Protocol));
            result.is_ok()
        };
        frame.sift(sound, |slot| self.failed.push((slot, found.get())));
        if !self.failed.is_empty() {
            self.refuse(cx);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.counts.iter().sum::<u64>().to_string()),
            "drop_details" if self.details => {
                let lines = self.counts.iter().zip(self.check.reasons);
                Ok(lines.map(|(count, reason)| format!("{count}\t{reason}\n")).collect())
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        (self.details && name == DETAILS.name).then_some(&DETAILS)
    }

    fn handler_names(&self) -> Vec<String> {
        self.details.then(|| DETAILS.name.to_owned()).into_iter().collect()
    }
}
