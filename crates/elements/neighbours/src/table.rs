//! Neighbour table, and the packets that wait for its answers.
//!
//! This is the state all workers share, behind a lock. It is asked for
//! addresses that are new, about to be asked for again, or unknown; those in
//! use are remembered by each querier for itself.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
};

use linerate_memory::{MemoryError, Slot};
use linerate_packet::MacAddr;
use linerate_tables::exact::{Backing, Entry, Table};

use super::Address;
use linerate_element_support::ether::mac_text;

mod discovery;
mod retry;

pub use discovery::Advertised;
pub use retry::RetryWork;

/// Entries there can be, and are where no limit is given.
pub const ENTRIES_LIMIT: u32 = 1 << 18;
const ENTRIES: u32 = 1 << 16;
/// Packets that wait, where no limit is given.
const PACKETS: u32 = 1 << 16;
/// Limits of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Packets that wait; 0 for as many as there may be.
    pub packets: u32,
    /// Entries; 0 for as many as there may be.
    pub entries: u32,
    /// Packets that wait for one address; 0 for no limit of its own.
    pub entry_packets: u32,
    /// One part in so many of the waiting packets goes when there are too many.
    pub slim_factor: u32,
    /// Milliseconds an entry is good for; 0 for ever.
    pub timeout: u64,
}

impl Limits {
    /// Those of Click.
    pub const DEFAULT: Limits =
        Limits { packets: 2048, entries: 0, entry_packets: 0, slim_factor: 2, timeout: 300_000 };

    fn most_packets(&self) -> usize {
        if self.packets == 0 { PACKETS as usize } else { self.packets as usize }
    }

    fn most_entries(&self) -> usize {
        match self.entries {
            0 => ENTRIES as usize,
            entries => entries.min(ENTRIES_LIMIT) as usize,
        }
    }
}

/// One neighbour.
#[derive(Debug)]
struct Neighbour {
    mac: MacAddr,
    known: bool,
    /// Queries since the last reply.
    polls: u8,
    /// When it was last heard of, or first asked for, in milliseconds; or when it was last
    /// wanted, if that was too long ago then.
    live: u64,
    /// Whether it was.
    lapsed: bool,
    /// When it was last asked for; queries were allowed from before the start.
    polled: Option<u64>,
    /// Its place in the order of age.
    age: (u64, u64),
    packets: VecDeque<Slot>,
}

impl Neighbour {
    fn expired(&self, now: u64, timeout: u64) -> bool {
        timeout > 0 && self.live + timeout < now
    }

    fn is_known(&self, now: u64, timeout: u64) -> bool {
        self.known && !self.expired(now, timeout)
    }

    /// When it may be asked for again.
    fn next_poll<A: Address>(&self) -> u64 {
        let interval = if self.polls >= A::QUICK { A::SLOW_INTERVAL } else { A::QUICK_INTERVAL };
        self.polled.map_or(0, |polled| polled + interval)
    }

    /// Whether to ask for it now, which is then done.
    fn poll<A: Address>(&mut self, now: u64) -> bool {
        let due = now >= self.next_poll::<A>();
        if due {
            self.polled = Some(now);
            self.polls = self.polls.saturating_add(1);
        }
        due
    }
}

/// A neighbour's address, and its age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// From when on, in milliseconds, it must be asked for here again.
    pub until: u64,
    /// Whether a query is to be sent, as the address gets old.
    pub query: bool,
}

/// Result of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateResult {
    /// As asked for, or as it was.
    Expected,
    /// No query had asked for it.
    Unsolicited,
    /// Another address than was known.
    Changed,
    /// It was not taken.
    Refused,
}

/// The table.
#[derive(Debug)]
pub struct Neighbours<A: Address> {
    table: Table<A::Key, Neighbour>,
    /// From the one that was not heard of for longest.
    ages: BTreeMap<(u64, u64), A>,
    /// In the same order, those with an unknown address.
    unknown: BTreeMap<(u64, u64), A>,
    sequence: u64,
    /// Limits of the table.
    pub limits: Limits,
    packets: usize,
    /// Packets that were dropped while they waited, or that could not wait.
    pub drops: u64,
    /// Those of them that are to be given back.
    dropped: Vec<Slot>,
}

impl<A: Address> Neighbours<A> {
    /// An empty one.
    pub fn new(limits: Limits) -> Result<Neighbours<A>, MemoryError> {
        Ok(Neighbours {
            table: Table::new(ENTRIES_LIMIT as usize, Backing::OnDemand)?,
            ages: BTreeMap::new(),
            unknown: BTreeMap::new(),
            sequence: 0,
            limits,
            packets: 0,
            drops: 0,
            dropped: Vec::new(),
        })
    }

    /// Entries.
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// Packets that wait.
    pub fn length(&self) -> usize {
        self.packets
    }

    /// Packets dropped since the last call, to be given back.
    pub fn take_dropped(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.dropped)
    }

    fn find(&self, ip: A) -> Option<Entry> {
        self.table.lookup(&ip.key())
    }

    /// The address of a neighbour, if it is known. It is to be asked for again
    /// from `poll_timeout` milliseconds on; never when that is 0.
    pub fn resolve(&mut self, ip: A, now: u64, poll_timeout: u64) -> Option<Answer> {
        let timeout = self.limits.timeout;
        let entry = self.find(ip)?;
        let neighbour = self.table.get_mut(entry)?;
        if !neighbour.is_known(now, timeout) {
            return None;
        }
        let mut query = false;
        let mut until = if timeout > 0 { neighbour.live + timeout + 1 } else { u64::MAX };
        if poll_timeout > 0 {
            let old = neighbour.live + poll_timeout;
            query = now >= old && neighbour.poll::<A>(now);
            until = until.min(old.max(neighbour.next_poll::<A>()));
        }
        Some(Answer { mac: neighbour.mac, until, query })
    }

    /// A packet is to wait for an address, which is not known. Whether to ask
    /// for it now, if it may be asked for at all.
    pub fn wait(&mut self, ip: A, slot: Slot, now: u64, ask: bool) -> bool {
        let Some(entry) = self.ensure(ip, now) else {
            self.drop_slot(slot);
            return false;
        };
        let timeout = self.limits.timeout;
        // An address that is not known any more is asked for anew, at once, and as new as if it had
        // never been known, with every packet that comes: packets that wait for it may not go with
        // those that are old.
        if let Some(neighbour) = self.table.get_mut(entry)
            && (neighbour.lapsed || neighbour.expired(now, timeout))
        {
            if std::mem::replace(&mut neighbour.known, false) {
                (neighbour.polls, neighbour.polled) = (0, None);
            }
            neighbour.lapsed = true;
            self.move_to(entry, now);
        }
        let most = self.limits.entry_packets as usize;
        let waiting = self.table.get(entry).map_or(0, |neighbour| neighbour.packets.len());
        if most > 0 && waiting >= most {
            self.drop_slot(slot);
            return false;
        }
        if self.packets + 1 > self.limits.most_packets() {
            self.slim_packets();
        }
        match self.table.get_mut(entry) {
            Some(neighbour) => {
                self.packets += 1;
                neighbour.packets.push_back(slot);
                ask && neighbour.poll::<A>(now)
            }
            None => {
                self.drop_slot(slot);
                false
            }
        }
    }

    /// A neighbour has an address, or with the broadcast address: it is not
    /// known. Returns the packets that waited for it.
    pub fn insert(&mut self, ip: A, mac: MacAddr, now: u64) -> VecDeque<Slot> {
        let Some(entry) = self.ensure(ip, now) else { return VecDeque::new() };
        if let Some(neighbour) = self.table.get_mut(entry) {
            neighbour.mac = mac;
            neighbour.known = !mac.is_broadcast();
            neighbour.lapsed = false;
            (neighbour.polls, neighbour.polled) = (0, None);
        }
        self.move_to(entry, now);
        let waiting = self.table.get_mut(entry).map(|neighbour| &mut neighbour.packets);
        waiting.map(std::mem::take).unwrap_or_default()
    }

    /// Packets that [`insert`](Self::insert) has returned wait on.
    pub fn keep_waiting(&mut self, ip: A, waiting: VecDeque<Slot>) {
        let entry = self.find(ip);
        match entry.and_then(|entry| self.table.get_mut(entry)) {
            Some(neighbour) => neighbour.packets = waiting,
            None => self.dropped.extend(waiting),
        }
    }

    /// Learns an address from a reply. As [`insert`](Self::insert), but one without a query makes
    /// no room for itself, and is not taken at all unless `unsolicited` ones are.
    pub fn learn(
        &mut self,
        ip: A,
        mac: MacAddr,
        now: u64,
        unsolicited: bool,
    ) -> (UpdateResult, VecDeque<Slot>) {
        let timeout = self.limits.timeout;
        let known = self.find(ip).and_then(|entry| self.table.get(entry));
        let learnt = match known {
            Some(known) if known.is_known(now, timeout) && known.mac != mac => {
                UpdateResult::Changed
            }
            Some(known) if known.polls > 0 || known.mac == mac => UpdateResult::Expected,
            _ => UpdateResult::Unsolicited,
        };
        let asked = known.is_some_and(|known| known.polls > 0 || known.mac == mac);
        let full = known.is_none() && self.count() >= self.limits.most_entries();
        if full || (!asked && !unsolicited) {
            return (UpdateResult::Refused, VecDeque::new());
        }
        let packets = self.insert(ip, mac, now);
        self.packets -= packets.len();
        (learnt, packets)
    }

    /// The entry of an address, new if it has none.
    fn ensure(&mut self, ip: A, now: u64) -> Option<Entry> {
        if let Some(entry) = self.find(ip) {
            return Some(entry);
        }
        while self.count() >= self.limits.most_entries() && self.count() > 0 {
            self.remove_oldest(now);
        }
        self.sequence += 1;
        let age = (now, self.sequence);
        let neighbour = Neighbour {
            mac: MacAddr::BROADCAST,
            known: false,
            polls: 0,
            live: now,
            lapsed: false,
            polled: None,
            age,
            packets: VecDeque::new(),
        };
        let (entry, _) = self.table.insert(ip.key(), neighbour).ok()?;
        self.ages.insert(age, ip);
        self.unknown.insert(age, ip);
        Some(entry)
    }

    /// An entry was last heard of at `live`.
    fn move_to(&mut self, entry: Entry, live: u64) {
        self.sequence += 1;
        let age = (live, self.sequence);
        let Some(neighbour) = self.table.get_mut(entry) else { return };
        let old = std::mem::replace(&mut neighbour.age, age);
        neighbour.live = live;
        self.unknown.remove(&old);
        if let Some(ip) = self.ages.remove(&old) {
            self.ages.insert(age, ip);
            if !neighbour.known {
                self.unknown.insert(age, ip);
            }
        }
    }

    /// Room for a new entry: one that has expired goes, or one nothing is known
    /// of, or else the oldest.
    fn remove_oldest(&mut self, now: u64) {
        let timeout = self.limits.timeout;
        let expired = self
            .ages
            .first_key_value()
            .filter(|((live, _), _)| timeout > 0 && live + timeout < now);
        let unknown = || self.unknown.first_key_value();
        let first = expired.or_else(unknown).or_else(|| self.ages.first_key_value());
        if let Some((_, ip)) = first {
            self.remove(*ip);
        }
    }

    fn remove(&mut self, ip: A) {
        let Some(neighbour) = self.table.remove(&ip.key()) else { return };
        self.ages.remove(&neighbour.age);
        self.unknown.remove(&neighbour.age);
        self.packets -= neighbour.packets.len();
        self.drops += neighbour.packets.len() as u64;
        self.dropped.extend(neighbour.packets);
    }

    /// Packets that waited in vain are dropped.
    pub fn drop_waiting(&mut self, packets: Vec<Slot>) {
        packets.into_iter().for_each(|slot| self.drop_slot(slot));
    }

    fn drop_slot(&mut self, slot: Slot) {
        self.drops += 1;
        self.dropped.push(slot);
    }

    /// Removes expired entries.
    pub fn expire(&mut self, now: u64) {
        let timeout = self.limits.timeout;
        while timeout > 0
            && let Some(((live, _), ip)) = self.ages.first_key_value()
            && live + timeout < now
        {
            self.remove(*ip);
        }
    }

    /// Room for a packet: a part of those that wait is dropped, those for the
    /// oldest entries first.
    fn slim_packets(&mut self) {
        let most = self.limits.most_packets();
        let goal = (most - most / self.limits.slim_factor.max(1) as usize).max(1);
        let Neighbours { table, ages, packets, drops, dropped, .. } = self;
        for ip in ages.values() {
            if *packets < goal {
                return;
            }
            let entry = table.lookup(&ip.key());
            let Some(neighbour) = entry.and_then(|entry| table.get_mut(entry)) else { continue };
            while *packets >= goal
                && let Some(slot) = neighbour.packets.pop_front()
            {
                *packets -= 1;
                *drops += 1;
                dropped.push(slot);
            }
        }
    }

    /// Forgets everything; the packets that waited are dropped.
    pub fn clear(&mut self) {
        let all: Vec<A> = self.ages.values().copied().collect();
        all.into_iter().for_each(|ip| self.remove(ip));
    }

    /// Takes over the entries of another table, and the packets that wait there.
    pub fn take_from(&mut self, old: &mut Neighbours<A>) {
        let ages = std::mem::take(&mut old.ages);
        for (_, ip) in ages {
            let Some(neighbour) = old.table.remove(&ip.key()) else { continue };
            let Some(entry) = self.ensure(ip, neighbour.live) else {
                self.dropped.extend(neighbour.packets);
                continue;
            };
            if let Some(place) = self.table.get_mut(entry) {
                self.packets += neighbour.packets.len();
                place.packets.extend(neighbour.packets);
                (place.mac, place.known) = (neighbour.mac, neighbour.known);
                (place.polls, place.polled) = (neighbour.polls, neighbour.polled);
                place.lapsed = neighbour.lapsed;
            }
            self.move_to(entry, neighbour.live);
        }
        old.unknown.clear();
        old.packets = 0;
        self.drops += std::mem::take(&mut old.drops);
        self.dropped.append(&mut old.dropped);
    }

    /// The entries as Click shows them: address, whether it is known, Ethernet
    /// address, and for some addresses seconds since it was heard of. Those of which that is
    /// longer ago than an entry is good for, but that are still wanted, are that old, and stand
    /// in front of those as old, the one that was asked for last first.
    pub fn text(&self, now: u64) -> String {
        let timeout = self.limits.timeout;
        let line = |(ip, place): (&A, i64)| {
            let ip = *ip;
            let neighbour = self.table.get(self.find(ip)?)?;
            let known = u8::from(neighbour.is_known(now, timeout));
            let age = now.saturating_sub(neighbour.live) + u64::from(neighbour.lapsed) * timeout;
            let mac = if neighbour.mac.is_broadcast() { A::UNKNOWN } else { neighbour.mac };
            let (ip, mac) = (ip.text(), mac_text(mac));
            let (seconds, micros) = (age / 1000, age % 1000 * 1000);
            let place = if neighbour.lapsed { -place } else { place };
            Some(if A::AGES {
                ((Reverse(age), place), format!("{ip} {known} {mac} {seconds}.{micros:06}\n"))
            } else {
                ((Reverse(0), place.abs()), format!("{ip} {known} {mac}\n"))
            })
        };
        let mut lines: Vec<_> = self.ages.values().zip(1..).filter_map(line).collect();
        lines.sort_by_key(|(order, _)| *order);
        lines.into_iter().map(|(_, line)| line).collect()
    }
}
