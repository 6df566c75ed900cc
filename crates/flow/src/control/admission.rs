//! How many connections a listener has, and whose.
//!
//! A connection is a stranger's until its peer has shown what it has to: TLS where the listener wants it,
//! and a hello. Strangers have places of their own, few and for a short time; when these are short, the
//! source that has most of them loses its oldest one, so a source that opens connections and says nothing
//! is in nobody's way but its own. Behind the hello a source may have so many connections, and the last
//! places of a listener are for the administrators of this machine.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::waker::Waker;

/// How many connections a listener has, and what they may take.
///
/// A source is a user where the peer is on this machine, else an address (of IPv6 the first 64 bits). An
/// administrator is root, or the user the switch runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Controllers at a time.
    pub controllers: usize,
    /// Controllers of one source that is no administrator.
    pub of_source: usize,
    /// How many of the controllers' places only administrators have.
    pub reserved: usize,
    /// Connections that have said no hello yet.
    pub strangers: usize,
    /// Those of one source.
    pub strangers_of_source: usize,
    /// Bytes of messages that controllers of all listeners may have in bundles together, beside what each
    /// one may always have.
    pub bundled: usize,
    /// How long a connection may take to its hello, with TLS before it.
    pub hello: Duration,
    /// How long the rest of a message may take.
    pub message: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            controllers: 64,
            of_source: 16,
            reserved: 8,
            strangers: 32,
            strangers_of_source: 8,
            bundled: 512 << 20,
            hello: Duration::from_secs(10),
            message: Duration::from_secs(30),
        }
    }
}

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// A user of this machine.
    User(u32),
    /// A host, or a network of IPv6 that one host may have all addresses of.
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
    /// In the order they came.
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

    fn strangers_of(&self, source: Source) -> usize {
        self.count(|connection| !connection.is_controller && connection.source == source)
    }

    /// Has the oldest stranger of a source end.
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

    /// A stranger came. Where there are too many, another one ends.
    pub(super) fn admit(self: &Arc<Admission>, source: Source, waker: Arc<Waker>) -> Ticket {
        let mut connections = self.lock();
        // Scripts of an administrator open many connections at once.
        let most_of_source = if source.is_administrator() {
            self.limits.strangers
        } else {
            self.limits.strangers_of_source
        };
        if connections.strangers_of(source) >= most_of_source.max(1) {
            connections.end_oldest(source);
        } else if connections.count(|one| !one.is_controller) >= self.limits.strangers.max(1) {
            let strangers = connections.all.iter().filter(|one| !one.is_controller);
            let mut most = None;
            for stranger in strangers {
                let count = connections.strangers_of(stranger.source);
                if most.is_none_or(|(greatest, _)| count > greatest) {
                    most = Some((count, stranger.source));
                }
            }
            if let Some((_, source)) = most {
                connections.end_oldest(source);
            }
        }
        connections.last += 1;
        let (number, ending) = (connections.last, Arc::new(AtomicBool::new(false)));
        let is_controller = false;
        let ending_too = Arc::clone(&ending);
        connections.all.push(Connection { number, source, is_controller, ending, waker });
        Ticket { admission: Arc::clone(self), number, source, ending: ending_too }
    }
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    admission: Arc<Admission>,
    number: u64,
    source: Source,
    ending: Arc<AtomicBool>,
}

impl Ticket {
    /// Whether the place was given to another connection.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// The peer has said hello. Returns whether there is a place for one more controller.
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
        let own = connections.all.iter_mut().find(|one| one.number == self.number);
        match own {
            Some(own) if has_place => {
                own.is_controller = true;
                true
            }
            _ => false,
        }
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
    fn a_source_of_many_strangers_ends_its_own() {
        let admission = admission(|limits| {
            (limits.strangers, limits.strangers_of_source) = (6, 4);
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
        assert!(!flood[0].establish(), "its place is another's");
        drop(flood);
        assert_eq!(admission.lock().all.len(), 3);
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
        assert!(!last.establish(), "the last places are not for strangers");
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
