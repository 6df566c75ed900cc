//! Failures of packet checks: counts, and reports.

use linerate_graph::{Arguments, Context, DropReason, Exit, Handler, HandlerError, HandlerResult};

use crate::log_once::LogOnce;

/// The handler that `DETAILS` adds.
const DETAILS: Handler = Handler::count("drop_details", "packets that were not sound, by reason");

/// Arguments, counts and reports of an element that checks packets. Packets can be wrong for the
/// first `N` of the class's drop reasons.
#[derive(Debug, Arguments)]
#[arguments(handlers = [Handler::count("drops", "packets that were not sound")])]
pub struct CheckFailures<const N: usize> {
    /// reports every bad packet
    #[arg(keyword, default = false)]
    verbose: bool,
    /// whether there is a handler drop_details
    #[arg(keyword, default = false)]
    details: bool,
    #[init([0; N])]
    counts: [u64; N],
    #[init(LogOnce::for_element(make))]
    said: LogOnce,
    /// Reasons of the failures of the frame.
    found: Vec<usize>,
}

impl<const N: usize> CheckFailures<N> {
    /// Counts a failure for this reason; returns the exit of the packet.
    #[cold]
    pub fn refuse<R: DropReason>(&mut self, reason: R) -> Exit<R> {
        self.found.push(reason.index());
        Exit::ErrorOutput(reason)
    }

    /// Counts the packets of a frame that were wrong. The first of all, or each, is reported
    /// in a line that ends with the reason.
    #[cold]
    pub fn report(&mut self, cx: &Context, line: impl Fn() -> String) {
        let mut text = String::new();
        for reason in self.found.drain(..) {
            if self.verbose || self.said.first() {
                text += &format!("{}: {}\n", line(), reasons(cx)[reason]);
            }
            self.counts[reason] += 1;
        }
        if !text.is_empty() {
            cx.console().report(&text);
        }
    }

    /// Handlers that are read.
    pub fn read(&self, cx: &Context, handler: &str) -> HandlerResult {
        match handler {
            "drops" => Ok(self.counts.iter().sum::<u64>().to_string()),
            "drop_details" if self.details => {
                let lines = self.counts.iter().zip(reasons(cx));
                Ok(lines.map(|(count, reason)| format!("{count}\t{reason}\n")).collect())
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    /// For [`Element::handler`](linerate_graph::Element::handler).
    pub fn handler(&self, name: &str) -> Option<&'static Handler> {
        (self.details && name == DETAILS.name).then_some(&DETAILS)
    }

    /// For [`Element::handler_names`](linerate_graph::Element::handler_names).
    pub fn handler_names(&self) -> Vec<String> {
        self.details.then(|| DETAILS.name.to_owned()).into_iter().collect()
    }
}

fn reasons(cx: &Context) -> &'static [&'static str] {
    cx.plan().elements[cx.element()].class.drops
}
