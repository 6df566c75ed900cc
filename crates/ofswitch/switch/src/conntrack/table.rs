//! Table of connections, by both directions and by time-out.
//!
//! Parts are by a hash of the direction, each with a lock; a connection is in the parts of both of
//! its directions, and in the wheel of the first one's. A wheel has a slot for each second of an
//! hour and more; a connection that was used meanwhile is put in again when its slot comes, so that
//! packets never touch the wheel.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::display::{ConnectionInfo, connection_info};
use super::limits::Zones;
use super::state::ProtocolState;
use super::timeouts::TimeoutPolicy;
use super::tuple::Tuple;
use crate::wire::{Action, Entry, Field};

const PARTS: usize = 64;
const SECOND: u64 = 1_000_000_000;
/// Slots of a wheel, of a second each.
const SLOTS: u64 = 4096;
/// Connections of a part that are looked at in one call.
const AT_ONCE: usize = 256;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// Its first packet.
    pub(super) original: Tuple,
    /// Answers to it, as they come.
    pub(super) reply: Tuple,
    /// End that is translated, as a flag of a packet's state; 0 for none.
    pub(super) translated: u32,
    /// The time-outs of its zone when it began, where that had any.
    pub(super) timeouts: Option<Arc<TimeoutPolicy>>,
    entry: Mutex<ConntrackEntry>,
    expires: AtomicU64,
    gone: AtomicBool,
    /// An older connection with a direction that equals this one's answers, and whether it is that
    /// of its answers, too: packets of it are this one's as long as this one is remembered.
    hides: OnceLock<(Weak<Connection>, bool)>,
}

/// Mutable part of a connection.
#[derive(Debug)]
pub(super) struct ConntrackEntry {
    pub(super) state: ProtocolState,
    pub(super) mark: u32,
    pub(super) label: u128,
}

impl ConntrackEntry {
    /// Carries out an action inside of `ct`.
    pub(super) fn set(&mut self, action: &Action) {
        let Action::SetField(entry) = action else { return };
        let merged = |old: u128, entry: &Entry| old & !entry.mask() | entry.value();
        match entry.field() {
            Field::CtMark => self.mark = merged(self.mark.into(), entry) as u32,
            Field::CtLabel => self.label = merged(self.label, entry),
            _ => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    pub(super) fn lock(&self) -> MutexGuard<'_, ConntrackEntry> {
        lock(&self.entry)
    }

    /// When it is forgotten unless there is another packet.
    pub(super) fn expires(&self) -> u64 {
        self.expires.load(Relaxed)
    }

    fn is_over(&self, now: u64) -> bool {
        self.gone.load(Relaxed) || self.expires() <= now
    }

    /// The older connection it hides, if that is remembered yet.
    fn hidden(&self) -> Option<(Arc<Connection>, bool)> {
        let (older, reply) = self.hides.get()?;
        let older = older.upgrade().filter(|older| !older.gone.load(Relaxed))?;
        Some((older, *reply))
    }
}

#[derive(Debug, Default)]
struct Part {
    /// Each direction; whether it is that of answers.
    known: HashMap<Tuple, (Arc<Connection>, bool)>,
    wheel: Wheel,
}

#[derive(Debug, Default)]
struct Wheel {
    /// Connections by the second of their check.
    slots: BTreeMap<u64, VecDeque<Weak<Connection>>>,
}

impl Wheel {
    fn put(&mut self, connection: &Arc<Connection>, now: u64) {
        // A far time-out is looked at half-way.
        let (due, now) = (connection.expires.load(Relaxed) / SECOND + 1, now / SECOND);
        let slot = due.clamp(now + 1, now + SLOTS);
        self.slots.entry(slot).or_default().push_back(Arc::downgrade(connection));
    }

    /// Returns the next one whose second has come.
    fn next(&mut self, now: u64) -> Option<Weak<Connection>> {
        loop {
            let mut first = self.slots.first_entry().filter(|slot| *slot.key() <= now / SECOND)?;
            if let Some(connection) = first.get_mut().pop_front() {
                return Some(connection);
            }
            first.remove();
        }
    }
}

/// Why a connection is not remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddError {
    /// It is already.
    Known,
    /// Another has the answers that translation would give it, or its two ends are one.
    Taken,
    /// There is no room, or none for its zone.
    Full,
}

/// A connection that is to be remembered.
#[derive(Debug, Clone)]
pub(super) struct NewConnection {
    pub(super) original: Tuple,
    pub(super) reply: Tuple,
    pub(super) translated: u32,
    pub(super) state: ProtocolState,
    pub(super) timeouts: Option<Arc<TimeoutPolicy>>,
    pub(super) expires: u64,
}

#[derive(Debug)]
pub(super) struct Table {
    parts: Vec<Mutex<Part>>,
    hasher: RandomState,
    count: AtomicUsize,
    room: usize,
    pub(super) zones: Zones,
}

impl Table {
    pub(super) fn with_room(room: usize) -> Table {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Table {
            parts,
            hasher: RandomState::new(),
            count: AtomicUsize::new(0),
            room,
            zones: Zones::default(),
        }
    }

    fn part(&self, tuple: &Tuple) -> usize {
        self.hasher.hash_one(tuple) as usize % PARTS
    }

    /// Returns the connection of packets with this direction, and whether they are answers.
    pub(super) fn find(&self, tuple: &Tuple, now: u64) -> Option<(Arc<Connection>, bool)> {
        let (connection, reply) = {
            let part = lock(&self.parts[self.part(tuple)]);
            let (connection, reply) = part.known.get(tuple)?;
            (Arc::clone(connection), *reply)
        };
        if connection.is_over(now) {
            self.remove(&connection);
            return None;
        }
        Some((connection, reply))
    }

    /// Remembers a connection, if its first direction is not known yet and there is room. One that
    /// is translated has answers of its own; those of others are the youngest's, as in Open
    /// vSwitch.
    pub(super) fn add(&self, begun: NewConnection, now: u64) -> Result<Arc<Connection>, AddError> {
        let NewConnection { original, reply, translated, state, timeouts, expires } = begun;
        let (first, second) = (original, reply);
        let zone = original.zone;
        if self.count.fetch_add(1, Relaxed) >= self.room {
            self.count.fetch_sub(1, Relaxed);
            return Err(AddError::Full);
        }
        if !self.zones.take(zone) {
            self.count.fetch_sub(1, Relaxed);
            return Err(AddError::Full);
        }
        let connection = Arc::new(Connection {
            original,
            reply,
            translated,
            timeouts,
            entry: Mutex::new(ConntrackEntry { state, mark: 0, label: 0 }),
            expires: AtomicU64::new(expires),
            gone: AtomicBool::new(false),
            hides: OnceLock::new(),
        });
        let (one, other) = (self.part(&first), self.part(&second));
        // In the order of parts, so that two threads that add do not wait for each other.
        let mut low = lock(&self.parts[one.min(other)]);
        let mut high = (one != other).then(|| lock(&self.parts[one.max(other)]));
        let swapped = one > other;
        {
            let of_second = match (&high, swapped) {
                (Some(high), false) => high,
                _ => &low,
            };
            let of_first = match (&high, swapped) {
                (Some(high), true) => high,
                _ => &low,
            };
            let is_there = |part: &Part, tuple: &Tuple| {
                part.known.get(tuple).is_some_and(|(other, _)| !other.is_over(now))
            };
            // Two ends that are one cannot be told apart.
            let refused = if is_there(of_first, &first) {
                Some(AddError::Known)
            } else if first == second || translated != 0 && is_there(of_second, &second) {
                Some(AddError::Taken)
            } else {
                None
            };
            if let Some(refused) = refused {
                self.count.fetch_sub(1, Relaxed);
                self.zones.give(zone);
                return Err(refused);
            }
        }
        let of_first = match (&mut high, swapped) {
            (Some(high), true) => &mut **high,
            _ => &mut *low,
        };
        of_first.known.insert(first, (Arc::clone(&connection), false));
        of_first.wheel.put(&connection, now);
        let of_second = match (&mut high, swapped) {
            (Some(high), false) => &mut **high,
            _ => &mut *low,
        };
        let before = of_second.known.insert(second, (Arc::clone(&connection), true));
        if let Some((older, reply)) = before {
            let _ = connection.hides.set((Arc::downgrade(&older), reply));
        }
        Ok(connection)
    }

    /// Sets its time-out, as it was used.
    pub(super) fn keep(&self, connection: &Arc<Connection>, expires: u64, now: u64) {
        let before = connection.expires.swap(expires, Relaxed);
        // A shorter time is not known to the wheel.
        if expires / SECOND < before / SECOND {
            let mut part = lock(&self.parts[self.part(&connection.original)]);
            part.wheel.put(connection, now);
        }
    }

    pub(super) fn remove(&self, connection: &Arc<Connection>) {
        if connection.gone.swap(true, Relaxed) {
            return;
        }
        for tuple in [connection.original, connection.reply] {
            let mut part = lock(&self.parts[self.part(&tuple)]);
            let is_it = |(known, _): &(Arc<Connection>, bool)| Arc::ptr_eq(known, connection);
            if !part.known.get(&tuple).is_some_and(is_it) {
                continue;
            }
            match connection.hidden().filter(|_| tuple == connection.reply) {
                Some(older) => part.known.insert(tuple, older),
                None => part.known.remove(&tuple),
            };
        }
        self.count.fetch_sub(1, Relaxed);
        self.zones.give(connection.original.zone);
    }

    pub(super) fn expire(&self, now: u64) {
        for part in &self.parts {
            let expired = lock(part).take_expired(now);
            expired.iter().for_each(|connection| self.remove(connection));
        }
    }

    /// Removes the wanted connections, and returns their number. No packet waits for more than a
    /// part.
    pub(super) fn flush(&self, wanted: impl Fn(&ConnectionInfo) -> bool) -> usize {
        let mut gone = 0;
        for part in &self.parts {
            for connection in originals(part) {
                if wanted(&connection_info(&connection)) {
                    self.remove(&connection);
                    gone += 1;
                }
            }
        }
        gone
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Returns so many of the wanted connections that have not timed out, and the number of further
    /// ones.
    pub(super) fn list(
        &self,
        now: u64,
        most: usize,
        wanted: impl Fn(&ConnectionInfo) -> bool,
    ) -> (Vec<ConnectionInfo>, usize) {
        let known = self.parts.iter().flat_map(originals);
        let there = known.filter(|connection| !connection.is_over(now));
        let mut wanted =
            there.map(|connection| connection_info(&connection)).filter(|info| wanted(info));
        let some = wanted.by_ref().take(most).collect();
        (some, wanted.count())
    }
}

/// The connections that are in a part by their first direction, though another one may hide it.
fn originals(part: &Mutex<Part>) -> Vec<Arc<Connection>> {
    let part = lock(part);
    let original = |(connection, reply): &(Arc<Connection>, bool)| {
        if !reply {
            return Some(Arc::clone(connection));
        }
        connection.hidden().filter(|(_, reply)| !reply).map(|(older, _)| older)
    };
    part.known.values().filter_map(original).collect()
}

impl Part {
    /// Removes connections that have timed out, some at once.
    fn take_expired(&mut self, now: u64) -> Vec<Arc<Connection>> {
        let mut expired = Vec::new();
        for _ in 0..AT_ONCE {
            let Some(connection) = self.wheel.next(now) else { break };
            let Some(connection) = connection.upgrade() else { continue };
            if connection.is_over(now) {
                expired.push(connection);
            } else {
                self.wheel.put(&connection, now);
            }
        }
        expired
    }
}
