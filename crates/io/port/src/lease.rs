//! Ports that several parts of one process use: opened once, their queues leased.
//!
//! A user joins a port, opens it (which does nothing when it is open), leases sides of its queues
//! and gives them back; the last one to leave closes it. So both directions of a port can belong to
//! different owners, and a port can pass from one owner to the next without being closed in
//! between. The choice of queues for users is not made here.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use linerate_memory::{Frame, PoolCache};

use crate::{
    counters::Counters,
    error::{OpenError, PortError},
    link::Link,
    open::open,
    port::{Context, DRAIN_LIMIT, Direction, PortInfo, Receive, Transmit, Wake, drain},
    uri::PortUri,
};

/// Interval at which a user of a full shared side looks for room.
const SHARED_RETRY: Duration = Duration::from_millis(1);

/// The ports of a process that are leased, by key. All users of a context have the same:
/// `context.shared.get::<Leases>()`.
#[derive(Default)]
pub struct Leases {
    ports: Mutex<HashMap<String, Weak<LeasedPort>>>,
}

impl Leases {
    /// Returns true if a port is leased under that key.
    pub fn is_open(&self, key: &str) -> bool {
        let ports = self.ports.lock().expect("no panic while held");
        ports.get(key).is_some_and(|port| port.strong_count() > 0)
    }

    /// Open ports, each with its link. A port that is opened more than once is there as often.
    pub fn links(&self) -> Vec<(PortInfo, Arc<Link>)> {
        let ports = self.ports.lock().expect("no panic while held");
        let open: Vec<_> = ports.values().filter_map(Weak::upgrade).collect();
        // Those ports may go now, which must not find this lock held.
        drop(ports);
        let links = open.iter().filter_map(|port| Some((port.info()?, Arc::clone(&port.link))));
        links.collect()
    }

    /// Joins the users of a port. Each must [leave](LeasedPort::leave).
    pub fn join(&self, key: &str, uri: &PortUri) -> Arc<LeasedPort> {
        let mut ports = self.ports.lock().expect("no panic while held");
        ports.retain(|_, port| port.strong_count() > 0);
        let port = ports.get(key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let port = Arc::new(LeasedPort {
                uri: uri.clone(),
                lost: AtomicBool::new(false),
                link: Arc::new(Link::new("it is not open")),
                inner: Mutex::default(),
            });
            ports.insert(key.into(), Arc::downgrade(&port));
            port
        });
        port.inner().users += 1;
        port
    }
}

/// A port that is leased.
pub struct LeasedPort {
    uri: PortUri,
    /// The port no longer works and must be opened again.
    lost: AtomicBool,
    /// Of all its openings.
    link: Arc<Link>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    users: usize,
    info: Option<PortInfo>,
    /// By queue; `None` while it is leased.
    receives: Vec<Option<Box<dyn Receive>>>,
    transmits: Vec<TransmitLease>,
    /// Sides leased to one user alone.
    exclusive: usize,
}

/// Lease of the transmitting side of a queue.
enum TransmitLease {
    /// Not leased.
    Free(Box<dyn Transmit>),
    /// One user alone.
    Exclusive,
    /// Several users, which lock it.
    Shared(Arc<Mutex<Box<dyn Transmit>>>),
}

impl LeasedPort {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no panic while held")
    }

    /// Its name.
    pub fn uri(&self) -> &PortUri {
        &self.uri
    }

    /// Link of the port, up while its other end is there. Goes on when the port is opened again;
    /// always up while a port is open that has no other end which comes and goes.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Description of the open port; `None` while it is not open.
    pub fn info(&self) -> Option<PortInfo> {
        self.inner().info.clone()
    }

    /// Opens the port, or the directions that are not open yet. A port that was
    /// [lost](LeasedPort::lose) stays lost until all its sides are back.
    ///
    /// # Errors
    ///
    /// When it cannot be had.
    pub fn open(&self, context: &Context) -> Result<(), OpenError> {
        let mut inner = self.inner();
        if self.is_lost() && !inner.drop_lost() {
            return Ok(());
        }
        let wanted = context.direction;
        let missing = match inner.info {
            None => Some(wanted),
            Some(_) => missing(wanted, !inner.receives.is_empty(), !inner.transmits.is_empty()),
        };
        if let Some(direction) = missing {
            let link = Some(Arc::clone(&self.link));
            let port = open(&self.uri, &Context { link, ..context.toward(direction) })?;
            for queue in port.queues {
                inner.receives.extend(queue.receive.map(Some));
                inner.transmits.extend(queue.transmit.map(TransmitLease::Free));
            }
            if port.info.link.is_none() {
                self.link.set(true, "");
            }
            inner.info = Some(port.info);
        }
        self.lost.store(false, Ordering::Release);
        Ok(())
    }

    /// Queues that can be received from.
    pub fn receives(&self) -> usize {
        self.inner().receives.len()
    }

    /// Queues that can be sent to.
    pub fn transmits(&self) -> usize {
        self.inner().transmits.len()
    }

    /// Leases the receiving side of a queue; `None` while another has it.
    pub fn take_receive(&self, queue: usize) -> Option<Box<dyn Receive>> {
        let mut inner = self.inner();
        let side = inner.receives.get_mut(queue)?.take()?;
        inner.exclusive += 1;
        Some(side)
    }

    /// Gives the receiving side of a queue back.
    pub fn give_receive(&self, queue: usize, mut side: Box<dyn Receive>, pool: &mut PoolCache) {
        let mut inner = self.inner();
        inner.exclusive -= 1;
        if self.is_lost() {
            side.close(pool);
        } else if let Some(place) = inner.receives.get_mut(queue) {
            *place = Some(side);
        }
    }

    /// Leases the transmitting side of a queue, alone or together with
    /// others; `None` while another has it in another way. A shared side is
    /// locked for every frame.
    pub fn take_transmit(&self, queue: usize, alone: bool) -> Option<Box<dyn Transmit>> {
        let mut inner = self.inner();
        let place = inner.transmits.get_mut(queue)?;
        let side = match std::mem::replace(place, TransmitLease::Exclusive) {
            TransmitLease::Free(side) => side,
            TransmitLease::Exclusive => return None,
            TransmitLease::Shared(shared) if alone => match Arc::try_unwrap(shared) {
                Ok(side) => side.into_inner().expect("no panic while held"),
                Err(shared) => {
                    *place = TransmitLease::Shared(shared);
                    return None;
                }
            },
            TransmitLease::Shared(shared) => {
                let side = SharedTransmit::new(&shared);
                *place = TransmitLease::Shared(shared);
                return Some(Box::new(side));
            }
        };
        if alone {
            inner.exclusive += 1;
            return Some(side);
        }
        let shared = Arc::new(Mutex::new(side));
        let side = SharedTransmit::new(&shared);
        *place = TransmitLease::Shared(shared);
        Some(Box::new(side))
    }

    /// Gives the transmitting side of a queue back.
    pub fn give_transmit(&self, queue: usize, mut side: Box<dyn Transmit>, pool: &mut PoolCache) {
        let mut inner = self.inner();
        let lost = self.is_lost();
        if !matches!(inner.transmits.get(queue), Some(TransmitLease::Exclusive)) {
            return;
        }
        inner.exclusive -= 1;
        if lost {
            side.close(pool);
        } else {
            inner.transmits[queue] = TransmitLease::Free(side);
        }
    }

    /// Says that the port no longer works: every user gives its sides back, and
    /// it is opened again.
    pub fn lose(&self) {
        self.lost.store(true, Ordering::Release);
        self.link.watch_by(None);
        self.link.set(false, "it no longer works, and is to be opened again");
    }

    /// Returns true if the port no longer works.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// One user is done with the port. The last closes it: sends the packets on the way, for a
    /// while at most, and gives buffers back.
    ///
    /// # Errors
    ///
    /// The first failure to send packets on the way.
    pub fn leave(&self, pool: &mut PoolCache) -> Result<(), PortError> {
        let mut inner = self.inner();
        inner.users -= 1;
        if inner.users > 0 {
            return Ok(());
        }
        let lost = self.lost.swap(false, Ordering::AcqRel);
        let Inner { receives, transmits, .. } = std::mem::take(&mut *inner);
        let deadline = Instant::now() + DRAIN_LIMIT;
        let mut nothing = Frame::new(1);
        let mut outcome = Ok(());
        for lease in transmits {
            let mut side = match lease {
                TransmitLease::Free(side) => side,
                TransmitLease::Exclusive => continue,
                TransmitLease::Shared(shared) => match Arc::try_unwrap(shared) {
                    Ok(side) => side.into_inner().expect("no panic while held"),
                    Err(_) => continue,
                },
            };
            if !lost {
                outcome = outcome.and(drain(&mut *side, pool, &mut nothing, deadline));
            }
            side.refresh();
            side.close(pool);
        }
        for mut side in receives.into_iter().flatten() {
            side.close(pool);
        }
        outcome
    }
}

impl Inner {
    /// Drops the sides of a port that was lost, if all of them are back.
    fn drop_lost(&mut self) -> bool {
        let shared = |lease: &TransmitLease| match lease {
            TransmitLease::Shared(side) => Arc::strong_count(side) > 1,
            _ => false,
        };
        if self.exclusive > 0 || self.transmits.iter().any(shared) {
            return false;
        }
        self.info = None;
        self.receives.clear();
        self.transmits.clear();
        true
    }
}

/// The directions of `wanted` that are not there.
fn missing(wanted: Direction, receives: bool, transmits: bool) -> Option<Direction> {
    match (wanted.receives() && !receives, wanted.transmits() && !transmits) {
        (false, false) => None,
        (true, false) => Some(Direction::Receive),
        (false, true) => Some(Direction::Transmit),
        (true, true) => Some(Direction::Both),
    }
}

/// One of several users' lease of a transmitting side.
struct SharedTransmit {
    side: Arc<Mutex<Box<dyn Transmit>>>,
    counters: Arc<Counters>,
}

impl SharedTransmit {
    fn new(side: &Arc<Mutex<Box<dyn Transmit>>>) -> SharedTransmit {
        let counters = Arc::clone(side.lock().expect("no panic while held").counters());
        SharedTransmit { side: Arc::clone(side), counters }
    }

    fn side(&self) -> MutexGuard<'_, Box<dyn Transmit>> {
        self.side.lock().expect("no panic while held")
    }
}

impl Transmit for SharedTransmit {
    fn transmit(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        self.side().transmit(pool, frame)
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<usize, PortError> {
        self.side().flush(pool)
    }

    fn wake(&mut self) -> Wake<'_> {
        Wake::At(Instant::now() + SHARED_RETRY)
    }

    fn refresh(&mut self) {
        self.side().refresh();
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").finish_non_exhaustive()
    }
}

impl fmt::Debug for LeasedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedPort").field("uri", &self.uri).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use linerate_memory::ArenaOptions;

    use super::*;

    fn joined() -> (Context, Arc<LeasedPort>) {
        let arena = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let context = Context::new(arena.create().unwrap());
        let uri = "ring:r?loop".parse().unwrap();
        let port = context.shared.get::<Leases>().join("r", &uri);
        port.open(&context).unwrap();
        (context, port)
    }

    #[test]
    fn a_side_has_one_user_at_a_time_and_survives_a_change_of_users() {
        let (context, port) = joined();
        let mut pool = context.arena.cache(64);
        let mut transmit = port.take_transmit(0, true).unwrap();
        assert!(port.take_transmit(0, true).is_none() && port.take_transmit(0, false).is_none());
        let mut frame = Frame::new(4);
        pool.take(&mut frame, 4, 60);
        assert_eq!(transmit.transmit(&mut pool, &mut frame).unwrap(), 4);
        port.give_transmit(0, transmit, &mut pool);

        let again = context.shared.get::<Leases>().join("r", port.uri());
        again.open(&context).unwrap();
        port.leave(&mut pool).unwrap();
        let mut receive = again.take_receive(0).unwrap();
        assert_eq!(receive.receive(&mut pool, &mut frame).unwrap(), 4);
        pool.give(&mut frame);
        again.give_receive(0, receive, &mut pool);
        again.leave(&mut pool).unwrap();
        drop(pool);
        assert_eq!(context.arena.accounting().held, 0);
    }

    #[test]
    fn a_shared_side_is_had_alone_when_the_others_are_gone() {
        let (context, port) = joined();
        let mut pool = context.arena.cache(64);
        let first = port.take_transmit(0, false).unwrap();
        let second = port.take_transmit(0, false).unwrap();
        assert!(port.take_transmit(0, true).is_none());
        port.give_transmit(0, first, &mut pool);
        port.give_transmit(0, second, &mut pool);
        let alone = port.take_transmit(0, true).unwrap();
        port.give_transmit(0, alone, &mut pool);
        port.leave(&mut pool).unwrap();
    }

    #[test]
    fn a_lost_port_is_opened_again_when_all_sides_are_back() {
        let arena = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let context = Context::new(arena.create().unwrap());
        let mut pool = context.arena.cache(64);
        let port = context.shared.get::<Leases>().join("n", &"null:".parse().unwrap());
        port.open(&context).unwrap();
        let (receive, transmit) = (port.take_receive(0).unwrap(), port.take_transmit(0, true));
        port.lose();
        port.give_receive(0, receive, &mut pool);
        port.open(&context).unwrap();
        assert!(port.is_lost() && port.take_receive(0).is_none());
        port.give_transmit(0, transmit.unwrap(), &mut pool);
        port.open(&context).unwrap();
        assert!(!port.is_lost() && port.take_receive(0).is_some());
        assert_eq!((port.link().is_up(), port.link().changes()), (true, 3));
    }
}
