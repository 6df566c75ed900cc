//! Handlers of a switch for clients of its control socket: its ports, and requests for others.
//!
//! A handler must not wait for the graph it is a part of to be replaced. So a request is written
//! with a number that the client has chosen, and its result is read when it is done.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    mpsc::{SyncSender, TrySendError},
};

use linerate_graph::{Class, Handler, HandlerError, HandlerResult, Right};
use linerate_packet::MacAddr;
use serde_json::{Value, json};

use crate::{
    port_spec::PortSpec,
    remote::{COMMAND, CommandHandlers},
};

/// Outcomes that are kept for clients to read.
const OUTCOMES: usize = 256;

pub(super) const CLASS: Class = Class {
    name: "SwitchPorts",
    file: file!(),
    summary: "what `linerate switch` is asked and told",
    handlers: &[
        Handler::read("ports", "the ports, an object of JSON a line"),
        Handler::write(
            "add",
            "adds a port: [NAME=]PORT, and on lines of their own, where wanted, vlan VLANS, mac \
             MAC, ticket NUMBER",
        )
        .write_needs(Right::Replace),
        Handler::write("remove", "takes a port out: its name, and ticket NUMBER on a line"),
        Handler::read(
            "outcomes",
            "what has become of what was asked for with a ticket, an object of JSON a line",
        ),
    ],
    ..COMMAND
};

/// A change of the ports that a client requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PortRequest {
    Add { spec: PortSpec, vlan: Option<String>, macs: Vec<MacAddr> },
    Remove { name: String },
}

/// A request, with the number by which a client reads its outcome.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) ticket: Option<u64>,
    pub(super) wanted: PortRequest,
}

impl Request {
    /// Reads the text written to a handler.
    fn parse(handler: &str, text: &str) -> Result<Request, String> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let what = lines.next().ok_or("expected a port")?;
        let (mut ticket, mut vlan, mut macs) = (None, None, Vec::new());
        for line in lines {
            let (word, value) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "ticket" => ticket = Some(value.parse().map_err(|_| "expected ticket NUMBER")?),
                "vlan" if handler == "add" => vlan = Some(value.to_owned()),
                "mac" if handler == "add" => {
                    macs.push(value.parse().map_err(|error| format!("{value}: {error}"))?);
                }
                _ => return Err(format!("unknown line {line:?}")),
            }
        }
        let wanted = match handler {
            "add" => PortRequest::Add { spec: what.parse()?, vlan, macs },
            _ => PortRequest::Remove { name: what.to_owned() },
        };
        Ok(Request { ticket, wanted })
    }
}

/// Requests of clients for the thread that runs the switch, and the status that they read.
pub(super) struct RequestQueue {
    requests: SyncSender<Request>,
    status: Mutex<Status>,
}

#[derive(Default)]
struct Status {
    ports: String,
    outcomes: Vec<Value>,
}

impl RequestQueue {
    pub(super) fn new(requests: SyncSender<Request>) -> RequestQueue {
        RequestQueue { requests, status: Mutex::default() }
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the status that clients read. It does not keep the queue of requests open.
pub(super) struct StatusWriter(std::sync::Weak<RequestQueue>);

impl StatusWriter {
    pub(super) fn new(queue: &std::sync::Arc<RequestQueue>) -> StatusWriter {
        StatusWriter(std::sync::Arc::downgrade(queue))
    }

    /// Sets the ports.
    pub(super) fn set_ports(&self, ports: String) {
        if let Some(queue) = self.0.upgrade() {
            queue.status().ports = ports;
        }
    }

    /// Adds the outcome of a request: none, or an exit code and the reason.
    pub(super) fn set_outcome(&self, ticket: u64, outcome: Result<(), (u8, String)>) {
        let Some(queue) = self.0.upgrade() else { return };
        let told = match outcome {
            Ok(()) => json!({"ticket": ticket}),
            Err((code, error)) => json!({"ticket": ticket, "code": code, "error": error}),
        };
        let mut status = queue.status();
        if status.outcomes.len() >= OUTCOMES {
            status.outcomes.remove(0);
        }
        status.outcomes.push(told);
    }
}

impl CommandHandlers for RequestQueue {
    fn read(&self, handler: &str) -> HandlerResult {
        match handler {
            "ports" => Ok(self.status().ports.clone()),
            "outcomes" => {
                Ok(self.status().outcomes.iter().map(|told| format!("{told}\n")).collect())
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&self, handler: &str, value: &str) -> HandlerResult {
        if !matches!(handler, "add" | "remove") {
            return Err(HandlerError::missing(handler));
        }
        let request = Request::parse(handler, value).map_err(HandlerError::refused)?;
        self.requests.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => HandlerError::refused("too much is asked for at a time"),
            TrySendError::Disconnected(_) => HandlerError::refused("the switch ends"),
        })?;
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc::sync_channel};

    use super::*;

    #[test]
    fn requests_are_lines() {
        let text = "a=tap:x\nvlan access 10\nmac 02:00:00:00:00:01\nticket 7\n";
        let request = Request::parse("add", text).unwrap();
        assert_eq!(request.ticket, Some(7));
        let PortRequest::Add { spec, vlan, macs } = request.wanted else { panic!("{text}") };
        assert_eq!((spec, vlan.as_deref()), ("a=tap:x".parse().unwrap(), Some("access 10")));
        assert_eq!(macs.len(), 1);
        let remove = Request::parse("remove", "a").unwrap();
        assert_eq!(remove.wanted, PortRequest::Remove { name: "a".into() });
        for (handler, text) in [
            ("add", ""),
            ("add", "eth0"),
            ("add", "a=tap:x\nticket x"),
            ("add", "a=tap:x\nmac 1"),
            ("add", "a=tap:x\nfoo 1"),
            ("remove", "a\nvlan 1"),
        ] {
            assert!(Request::parse(handler, text).is_err(), "{handler} {text}");
        }
    }

    #[test]
    fn outcomes_are_read_until_there_are_many_newer_ones() {
        let (requests, waiting) = sync_channel(1);
        let queue = Arc::new(RequestQueue::new(requests));
        let status = StatusWriter::new(&queue);
        queue.write("remove", "a").unwrap();
        assert!(queue.write("remove", "b").is_err());
        assert_eq!(waiting.recv().unwrap().wanted, PortRequest::Remove { name: "a".into() });
        status.set_outcome(0, Err((2, "no".into())));
        let told = r#"{"code":2,"error":"no","ticket":0}"#;
        assert_eq!(queue.read("outcomes").unwrap(), format!("{told}\n"));
        (1..=OUTCOMES as u64).for_each(|ticket| status.set_outcome(ticket, Ok(())));
        let all = queue.read("outcomes").unwrap();
        assert_eq!(all.lines().count(), OUTCOMES);
        assert!(!all.contains("error"));
        drop(queue);
        // No client is left.
        status.set_ports(String::new());
        assert!(waiting.recv().is_err());
    }
}
