//! Use of ports by the elements of a graph, known before any port is opened, so that each is opened
//! once, in the directions and with the queues that are needed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use linerate_graph::{BuildContext, ElementBuilder, Replica, Text, Value};
use linerate_port::{Context as PortContext, Direction, LeasedPort, Leases, PortUri};

/// The port elements of a graph, by the port's name.
#[derive(Default)]
pub(super) struct PortUsers {
    ports: Mutex<HashMap<String, Users>>,
}

#[derive(Default)]
struct Users {
    /// Elements that receive.
    receivers: BTreeMap<usize, Receiver>,
    /// Elements that send, with the number of the replica.
    senders: BTreeSet<(usize, usize)>,
}

/// An element that receives.
#[derive(Debug, Clone, Copy)]
struct Receiver {
    replicas: usize,
    sharing: Sharing,
}

/// Reception from a port that other elements receive from as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sharing {
    /// It gets all packets, by an opening of its own.
    Apart,
    /// The sharers of the queues of one opening get each packet once. The number gives their order.
    Queues(u32),
}

/// Share of one user in a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// Number of its opening of the port: each further element that receives from the same port has
    /// one of its own.
    pub(super) opening: usize,
    /// Directions it is opened in.
    pub(super) direction: Direction,
    /// Queues it should have.
    pub(super) queues: usize,
    /// This user's number among those in its direction.
    pub(super) number: usize,
    /// Users in its direction.
    pub(super) users: usize,
}

impl PortUsers {
    pub(super) fn receives(
        &self,
        uri: &PortUri,
        element: usize,
        replica: Replica,
        sharing: Sharing,
    ) {
        let mut ports = self.ports.lock().expect("no panic while held");
        let all = ports.entry(uri.to_string()).or_default();
        all.receivers.insert(element, Receiver { replicas: replica.count, sharing });
    }

    pub(super) fn sends(&self, uri: &PortUri, element: usize, replica: Replica) {
        let mut ports = self.ports.lock().expect("no panic while held");
        let all = ports.entry(uri.to_string()).or_default();
        all.senders.insert((element, replica.index));
    }

    pub(super) fn receiver(&self, uri: &PortUri, element: usize, replica: Replica) -> Share {
        let ports = self.ports.lock().expect("no panic while held");
        let all = &ports[&uri.to_string()];
        let shares = all.receivers[&element].sharing != Sharing::Apart;
        let (opening, before, users) = if shares {
            let before = all.sharers().take_while(|(at, _)| *at != element);
            (0, before.map(|(_, one)| one.replicas).sum(), all.shared())
        } else {
            let apart = |one: &&Receiver| one.sharing == Sharing::Apart;
            let place = all.receivers.range(..element).filter(|(_, one)| apart(one)).count();
            (place + usize::from(all.shared() > 0), 0, replica.count)
        };
        let sends = opening == 0 && !all.senders.is_empty();
        Share {
            opening,
            direction: if sends { Direction::Both } else { Direction::Receive },
            queues: if opening == 0 { all.queues() } else { replica.count },
            number: before + replica.index,
            users,
        }
    }

    pub(super) fn sender(&self, uri: &PortUri, element: usize, replica: Replica) -> Share {
        let ports = self.ports.lock().expect("no panic while held");
        let all = &ports[&uri.to_string()];
        let user = (element, replica.index);
        let receives = !all.receivers.is_empty();
        Share {
            opening: 0,
            direction: if receives { Direction::Both } else { Direction::Transmit },
            queues: all.queues(),
            number: all.senders.iter().position(|at| *at == user).unwrap_or(0),
            users: all.senders.len(),
        }
    }
}

impl Users {
    /// The elements that share queues, in their order.
    fn sharers(&self) -> impl Iterator<Item = (usize, Receiver)> {
        let receivers = self.receivers.iter().map(|(element, one)| (*element, *one));
        let mut sharers: Vec<_> =
            receivers.filter(|(_, one)| one.sharing != Sharing::Apart).collect();
        sharers.sort_by_key(|(element, one)| (one.sharing, *element));
        sharers.into_iter()
    }

    /// Returns the number of sharers of queues.
    fn shared(&self) -> usize {
        self.sharers().map(|(_, one)| one.replicas).sum()
    }

    fn queues(&self) -> usize {
        let first = self.receivers.values().next().map_or(1, |first| first.replicas);
        let receivers = match self.shared() {
            0 => first,
            shared => shared,
        };
        let elements: BTreeSet<usize> = self.senders.iter().map(|(element, _)| *element).collect();
        let senders = self.senders.len().checked_div(elements.len()).unwrap_or(1);
        receivers.max(senders)
    }
}

impl Share {
    /// Returns the context for opening the port.
    pub(super) fn context(&self, ports: &PortContext) -> PortContext {
        PortContext { queues: Some(self.queues), ..ports.toward(self.direction) }
    }

    /// Opens the port, or joins an earlier opening. Also without success there is a port, to be
    /// tried again. `sides` counts the sides, of which this user needs one to be `used`.
    pub(super) fn open(
        &self,
        uri: &PortUri,
        world: &BuildContext,
        sides: fn(&LeasedPort) -> usize,
        used: &str,
    ) -> (Arc<LeasedPort>, Result<(), String>) {
        let ports = &world.ports;
        // Each opening is lent apart from the others.
        let port = ports.shared.get::<Leases>().join(&format!("{uri} {}", self.opening), uri);
        let opened = match port.open(&self.context(ports)) {
            Err(error) => Err(world.failed(error)),
            Ok(()) if sides(&port) == 0 => Err(format!("{uri}: it cannot be {used}")),
            Ok(()) => Ok(()),
        };
        (port, opened)
    }
}

/// The port an argument names; a stand-in after an error.
pub(super) fn port_argument(make: &mut ElementBuilder<'_>, name: &str) -> PortUri {
    let text = make.need::<Text>(name).0;
    if text.is_empty() {
        return PortUri::new("null", "");
    }
    let text = make.parse::<String>(&text).unwrap_or(text);
    text.parse().unwrap_or_else(|error: linerate_port::UriError| {
        make.error(format!("{name}: {error}"));
        PortUri::new("null", "")
    })
}

/// Returns true if the class being made has an argument of that name.
pub(super) fn has(make: &ElementBuilder<'_>, name: &str) -> bool {
    make.plan().elements[make.element()].class.arg(name).is_some()
}

/// Returns an argument's value if there is one that parses: for a look before arguments are
/// checked, which then reports errors.
pub(super) fn quietly<T: Value>(make: &mut ElementBuilder<'_>, name: &str) -> Option<T> {
    let Text(text) = make.get(name)?;
    make.parse(&text).ok()
}
