//! Handlers of `linerate forward` for clients of its control socket.

use std::{
    fmt::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
};

use linerate_graph::{Class, Handler, HandlerError, HandlerResult};
use linerate_worker::{Stop, UsageReader};

use super::{Flow, FlowCounts, Totals};
use crate::remote::{COMMAND, CommandHandlers};

pub(super) const CLASS: Class = Class {
    name: "Forward",
    file: file!(),
    summary: "what `linerate forward` does",
    handlers: &[
        Handler::read(
            "counts",
            "a line for each direction and port: the port, received or sent, packets, bytes, \
             packets dropped",
        ),
        Handler::read("count", "packets sent, in all directions"),
        Handler::read("received", "packets received"),
        Handler::read("dropped", "packets dropped"),
        Handler::button("clear", "has counts begin at zero; table and summary go on"),
        Handler::button("stop", "ends it, as Ctrl-C does"),
    ],
    ..COMMAND
};

/// The figures, for the table and for clients.
pub(super) struct ForwardCommands {
    state: Mutex<State>,
    stop: Stop,
}

#[derive(Default)]
struct State {
    /// Up to when the ports were opened that are open now.
    before: Totals,
    /// Over these ports.
    flows: Vec<Flow>,
    readers: Vec<UsageReader>,
    /// Counts at the time when a client cleared them.
    cleared: Vec<FlowCounts>,
}

impl State {
    fn now(&self) -> Totals {
        self.before.now(&self.flows, &self.readers)
    }
}

impl ForwardCommands {
    pub(super) fn new(stop: &Stop) -> ForwardCommands {
        ForwardCommands { state: Mutex::default(), stop: stop.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ports have been opened, and workers are about to start.
    pub(super) fn begin(&self, flows: Vec<Flow>, readers: Vec<UsageReader>) {
        let mut state = self.state();
        (state.flows, state.readers) = (flows, readers);
    }

    /// All figures so far.
    pub(super) fn now(&self) -> Totals {
        self.state().now()
    }

    /// The workers have ended.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.before = state.now();
        (state.flows, state.readers) = (Vec::new(), Vec::new());
    }

    /// Directions with their counts since a client cleared them.
    fn since_cleared(&self) -> Vec<([String; 2], FlowCounts)> {
        let state = self.state();
        let now = state.now();
        let counts = now.flows.iter().enumerate().map(|(at, flow)| {
            let before = state.cleared.get(at).copied().unwrap_or_default();
            FlowCounts { received: flow.received - before.received, sent: flow.sent - before.sent }
        });
        now.ends.iter().cloned().zip(counts).collect()
    }
}

impl CommandHandlers for ForwardCommands {
    fn read(&self, handler: &str) -> HandlerResult {
        let flows = self.since_cleared();
        let sum = |of: fn(&FlowCounts) -> u64| -> HandlerResult {
            Ok(flows.iter().map(|(_, flow)| of(flow)).sum::<u64>().to_string())
        };
        match handler {
            "count" => sum(|flow| flow.sent.packets),
            "received" => sum(|flow| flow.received.packets),
            "dropped" => sum(|flow| flow.received.dropped() + flow.sent.dropped()),
            "counts" => {
                let mut text = String::new();
                for ([from, to], flow) in &flows {
                    for (port, way, counts) in
                        [(from, "received", &flow.received), (to, "sent", &flow.sent)]
                    {
                        let (packets, bytes) = (counts.packets, counts.bytes);
                        let dropped = counts.dropped();
                        let _ = writeln!(text, "{port}\t{way}\t{packets}\t{bytes}\t{dropped}");
                    }
                }
                Ok(text)
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&self, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "clear" => {
                let mut state = self.state();
                state.cleared = state.now().flows;
            }
            "stop" => self.stop.raise(),
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
