//! Limits of a listener's connections.
//!
//! A connection is half-open until its peer has sent a hello, after the TLS handshake where the
//! listener requires TLS. Half-open connections have few places, for a short time; when all are
//! taken, the source with the most loses its oldest, so a source that opens connections and sends
//! nothing displaces only its own. A hello that arrives before the displaced connection is closed
//! gives it a controller's place all the same: among many connections the thread that reads it may
//! run late. After the hello a connection is a controller. The controllers of one source are
//! limited, and the last places of a listener are reserved for the administrators of this machine.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::waker::Waker;

/// Limits of each listener's connections, and of their memory and time.
///
/// A source is a user where the peer is on this machine, else an address (of IPv6 the first 64
/// bits). An administrator is root, or the user the switch runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most controllers at a time.
    pub controllers: usize,
    /// Most controllers of one source, unless it is an administrator.
    pub of_source: usize,
    /// Places among the controllers' that are reserved for administrators.
    pub reserved: usize,
    /// Most connections without a hello.
    pub half_open: usize,
    /// Most connections without a hello of one source.
    pub half_open_of_source: usize,
    /// Most bytes of messages in the bundles of the controllers of all listeners, in addition to
    /// the bytes that each controller may always have.
    pub bundled: usize,
    /// Time limit of the hello, with the TLS handshake before it.
    pub hello: Duration,
    /// Time limit from the first byte of a message to its last.
    pub message: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            controllers: 64,
            of_source: 16,
            reserved: 8,
            half_open: 32,
            half_open_of_source: 8,
            bundled: 128 << 20,
            hello: Duration::from_secs(10),
            message: Duration::from_secs(30),
        }
    }
}

/// Origin of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// A user of this machine.
    User(u32),
    /// A host, by its IPv4 address or its IPv6 /64 network.
    Host(IpAddr),
}

impl Source {
    pub(super) fn host(address: IpAddr) -> Source {
        Source::Host(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
            }
        })
    }

    pub(super) fn is_administrator(self) -> bool {
        let own = || rustix::process::geteuid().as_raw();
        matches!(self, Source::User(user) if user == 0 || user == own())
    }
}

/// The connections of a listener.
#[derive(Debug)]
pub(super) struct Admission {
    limits: Limits,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    last: u64,
    /// Connections in the order of arrival.
    all: Vec<Connection>,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    source: Source,
    is_controller: bool,
    ending: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Connections {
    fn count(&self, is: impl Fn(&Connection) -> bool) -> usize {
        self.all.iter().filter(|connection| is(connection)).count()
    }

    fn half_open_of(&self, source: Source) -> usize {
        self.count(|connection| !connection.is_controller && connection.source == source)
    }

    /// Ends the oldest half-open connection of a source.
    fn end_oldest(&mut self, source: Source) {
        let is = |connection: &Connection| !connection.is_controller && connection.source == source;
        if let Some(at) = self.all.iter().position(is) {
            let connection = self.all.remove(at);
            connection.ending.store(true, Ordering::Release);
            connection.waker.wake();
        }
    }
}

impl Admission {
    pub(super) fn new(limits: Limits) -> Arc<Admission> {
        Arc::new(Admission { limits, connections: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a half-open connection, and ends another one if there are too many.
    pub(super) fn admit(self: &Arc<Admission>, source: Source, waker: Arc<Waker>) -> Ticket {
        let mut connections = self.lock();
        // An administrator's scripts open many connections at once.
        let most_of_source = if source.is_administrator() {
            self.limits.half_open
        } else {
            self.limits.half_open_of_source
        };
        if connections.half_open_of(source) >= most_of_source.max(1) {
            connections.end_oldest(source);
        } else if connections.count(|one| !one.is_controller) >= self.limits.half_open.max(1) {
            let half_open = connections.all.iter().filter(|one| !one.is_controller);
            let mut most = None;
            for connection in half_open {
                let count = connections.half_open_of(connection.source);
                if most.is_none_or(|(greatest, _)| count > greatest) {
                    most = Some((count, connection.source));
                }
            }
            if let Some((_, source)) = most {
                connections.end_oldest(source);
            }
        }
        connections.last += 1;
        let (number, ending) = (connections.last, Arc::new(AtomicBool::new(false)));
        connections.all.push(Connection {
            number,
            source,
            is_controller: false,
            ending: Arc::clone(&ending),
            waker: Arc::clone(&waker),
        });
        Ticket { admission: Arc::clone(self), number, source, ending, waker }
    }
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    admission: Arc<Admission>,
    number: u64,
    source: Source,
    ending: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Ticket {
    /// Returns true if the place was given to another connection.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Makes the connection a controller, after its hello, even if it has lost its half-open place.
    /// Returns false if there is no place for another controller.
    pub(super) fn establish(&self) -> bool {
        let limits = &self.admission.limits;
        let mut connections = self.admission.lock();
        let source = self.source;
        let controllers = connections.count(|one| one.is_controller);
        let of_source = connections.count(|one| one.is_controller && one.source == source);
        let has_place = if source.is_administrator() {
            controllers < limits.controllers
        } else {
            controllers < limits.controllers.saturating_sub(limits.reserved)
                && of_source < limits.of_source
        };
        if !has_place {
            return false;
        }
        match connections.all.iter_mut().find(|one| one.number == self.number) {
            Some(own) => own.is_controller = true,
            None => {
                self.ending.store(false, Ordering::Release);
                connections.all.push(Connection {
                    number: self.number,
                    source,
                    is_controller: true,
                    ending: Arc::clone(&self.ending),
                    waker: Arc::clone(&self.waker),
                });
            }
        }
        true
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.admission.lock().all.retain(|connection| connection.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(change: impl FnOnce(&mut Limits)) -> Arc<Admission> {
        let mut limits = Limits::default();
        change(&mut limits);
        Admission::new(limits)
    }

    fn come(admission: &Arc<Admission>, source: Source) -> Ticket {
        admission.admit(source, Arc::new(Waker::new().expect("an eventfd")))
    }

    fn host(number: u8) -> Source {
        Source::host(IpAddr::from([192, 0, 2, number]))
    }

    /// A user that is not this test's.
    fn other() -> Source {
        Source::User(rustix::process::geteuid().as_raw() + 1000)
    }

    #[test]
    fn a_source_of_many_half_open_connections_ends_its_own() {
        let admission = admission(|limits| {
            (limits.half_open, limits.half_open_of_source) = (6, 4);
        });
        let quiet = come(&admission, host(1));
        let flood: Vec<Ticket> = (0..5).map(|_| come(&admission, host(2))).collect();
        let ending =
            |tickets: &[Ticket]| -> Vec<bool> { tickets.iter().map(Ticket::is_ending).collect() };
        assert_eq!(ending(&flood), [true, false, false, false, false]);
        // The places are short: the source with most of them loses one, and neither of the others.
        let third = come(&admission, host(3));
        let fourth = come(&admission, host(4));
        assert_eq!(ending(&flood), [true, true, false, false, false]);
        assert!(!quiet.is_ending() && !third.is_ending() && !fourth.is_ending());
        assert!(quiet.establish());
        drop(flood);
        assert_eq!(admission.lock().all.len(), 3);
    }

    #[test]
    fn a_stranger_that_has_said_hello_is_a_controller_though_its_place_is_gone() {
        let admission = admission(|limits| {
            (limits.half_open, limits.half_open_of_source, limits.of_source) = (6, 2, 1);
        });
        let late: Vec<Ticket> = (0..4).map(|_| come(&admission, host(1))).collect();
        assert!(late[0].is_ending() && late[1].is_ending());
        assert!(late[0].establish() && !late[0].is_ending());
        // Controllers' places are as many as ever.
        assert!(!late[1].establish() && late[1].is_ending());
        come(&admission, host(1));
        assert!(!late[0].is_ending(), "a controller makes room for no half-open connection");
        drop(late);
        assert!(admission.lock().all.is_empty());
    }

    #[test]
    fn administrators_have_places_of_their_own() {
        let admission = admission(|limits| {
            (limits.controllers, limits.of_source, limits.reserved) = (6, 3, 2);
        });
        let many: Vec<Ticket> = (0..4).map(|_| come(&admission, host(1))).collect();
        let established: Vec<bool> = many.iter().map(Ticket::establish).collect();
        assert_eq!(established, [true, true, true, false], "so many of one source");
        let user = come(&admission, other());
        assert!(user.establish());
        let last = come(&admission, host(2));
        assert!(!last.establish(), "the last places are not for other users");
        let own = Source::User(rustix::process::geteuid().as_raw());
        let own: Vec<Ticket> = (0..3).map(|_| come(&admission, own)).collect();
        let established: Vec<bool> = own.iter().map(Ticket::establish).collect();
        assert_eq!(established, [true, true, false]);
        drop(many);
        assert!(last.establish());
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let source = |text: &str| Source::host(text.parse().expect("an address"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert!(Source::User(0).is_administrator() && !other().is_administrator());
    }
}
