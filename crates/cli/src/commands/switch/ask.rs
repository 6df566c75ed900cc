//! What clients of its control socket can ask a switch, and tell it: which ports it has, and to have
//! others.
//!
//! A handler must not wait for the graph it is a part of to be replaced. So what is wanted is written
//! with a number that the client has chosen, and what came of it is read when it is done.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    mpsc::{SyncSender, TrySendError},
};

use linerate_graph::{Class, Handler, HandlerError, HandlerResult, Right};
use linerate_packet::MacAddr;
use serde_json::{Value, json};

use super::port::PortSpec;
use crate::remote::{COMMAND, Commanded};

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

/// What is wanted of a switch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Add { spec: PortSpec, vlan: Option<String>, macs: Vec<MacAddr> },
    Remove { name: String },
}

/// The same, and by what number its outcome is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) ticket: Option<u64>,
    pub(super) wanted: Wanted,
}

impl Request {
    /// From what was written to a handler.
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
            "add" => Wanted::Add { spec: what.parse()?, vlan, macs },
            _ => Wanted::Remove { name: what.to_owned() },
        };
        Ok(Request { ticket, wanted })
    }
}

/// Between clients and who keeps the switch.
pub(super) struct Desk {
    requests: SyncSender<Request>,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    ports: String,
    outcomes: Vec<Value>,
}

impl Desk {
    pub(super) fn new(requests: SyncSender<Request>) -> Desk {
        Desk { requests, shown: Mutex::default() }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What who keeps the switch has clients see. Not a way to ask for anything: requests end when the
/// desk does.
pub(super) struct Board(std::sync::Weak<Desk>);

impl Board {
    pub(super) fn of(desk: &std::sync::Arc<Desk>) -> Board {
        Board(std::sync::Arc::downgrade(desk))
    }

    /// These are the ports now.
    pub(super) fn set_ports(&self, ports: String) {
        if let Some(desk) = self.0.upgrade() {
            desk.shown().ports = ports;
        }
    }

    /// That came of it: nothing wrong, or an exit code and why.
    pub(super) fn set_outcome(&self, ticket: u64, outcome: Result<(), (u8, String)>) {
        let Some(desk) = self.0.upgrade() else { return };
        let told = match outcome {
            Ok(()) => json!({"ticket": ticket}),
            Err((code, error)) => json!({"ticket": ticket, "code": code, "error": error}),
        };
        let mut shown = desk.shown();
        if shown.outcomes.len() >= OUTCOMES {
            shown.outcomes.remove(0);
        }
        shown.outcomes.push(told);
    }
}

impl Commanded for Desk {
    fn read(&self, handler: &str) -> HandlerResult {
        match handler {
            "ports" => Ok(self.shown().ports.clone()),
            "outcomes" => {
                Ok(self.shown().outcomes.iter().map(|told| format!("{told}\n")).collect())
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
        let Wanted::Add { spec, vlan, macs } = request.wanted else { panic!("{text}") };
        assert_eq!((spec, vlan.as_deref()), ("a=tap:x".parse().unwrap(), Some("access 10")));
        assert_eq!(macs.len(), 1);
        let remove = Request::parse("remove", "a").unwrap();
        assert_eq!(remove.wanted, Wanted::Remove { name: "a".into() });
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
        let desk = Arc::new(Desk::new(requests));
        let board = Board::of(&desk);
        desk.write("remove", "a").unwrap();
        assert!(desk.write("remove", "b").is_err());
        assert_eq!(waiting.recv().unwrap().wanted, Wanted::Remove { name: "a".into() });
        board.set_outcome(0, Err((2, "no".into())));
        let told = r#"{"code":2,"error":"no","ticket":0}"#;
        assert_eq!(desk.read("outcomes").unwrap(), format!("{told}\n"));
        (1..=OUTCOMES as u64).for_each(|ticket| board.set_outcome(ticket, Ok(())));
        let all = desk.read("outcomes").unwrap();
        assert_eq!(all.lines().count(), OUTCOMES);
        assert!(!all.contains("error"));
        drop(desk);
        // Nobody is left to ask.
        board.set_ports(String::new());
        assert!(waiting.recv().is_err());
    }
}
