//! MAC table of a switch: the ports of hosts.
//!
//! A key is an Ethernet address, its first byte lowest, and above it the VLAN. The state of a host
//! is one word, so that a frame's lookups touch 16 bytes per host: when it was last seen, and the
//! port. Ageing is decided by that word when a host is looked for; a wheel removes hosts that no
//! lookup finds.
//!
//! Each worker has a table of its own. It writes new hosts down for the others ([`LearnLog`]),
//! which look for them once per frame. Each forgets by itself the hosts at a port whose link went
//! down, and older news about them.

use std::{
    collections::{HashMap, VecDeque},
    num::NonZeroU64,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use linerate_element_support::links::LinkWatcher;
use linerate_graph::{ElementBuilder, Seconds, Text, lang::config::words};
use linerate_packet::MacAddr;
use linerate_tables::{
    exact::{Backing, Entry, Table},
    wheel::Wheel,
};

/// Hosts unless told otherwise, and at most.
pub(super) const CAPACITY: u32 = 65_536;
const CAPACITY_LIMIT: u32 = 1 << 22;
/// Seconds a host is remembered unless told otherwise.
const TIMEOUT: u32 = 300;
/// Hosts looked at for expiry at a time.
const BUDGET: usize = 64;
/// Pieces of news kept for workers that have not read them, at least.
const LOG: usize = 65_536;

/// The output of packets that go to all others.
pub(super) const FLOOD: u32 = u32::MAX;
/// The output of packets that go nowhere.
pub(super) const NOWHERE: u32 = u32::MAX - 1;
/// The key of no host: packets too short to have one.
pub(super) const NO_HOST: u64 = u64::MAX;

const ADDRESS: u64 = (1 << 48) - 1;

/// The keys of the destination and the source of an Ethernet packet in VLAN 0.
#[inline(always)]
pub(super) fn keys_of(bytes: &[u8]) -> (u64, u64) {
    let Some(head) = bytes.first_chunk::<14>() else { return (NO_HOST, NO_HOST) };
    let word = |at: usize| head[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    (word(0) & ADDRESS, word(4) >> 16)
}

/// Returns true if a key is that of one host.
#[inline(always)]
fn is_host(key: u64) -> bool {
    key & 1 == 0
}

/// When a host was last seen, in milliseconds, in the upper 48 bits, and its
/// port, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Host(NonZeroU64);

impl Host {
    #[inline(always)]
    fn new(now: u64, port: u16) -> Host {
        Host(NonZeroU64::MIN.saturating_add(now << 16 | u64::from(port)))
    }

    #[inline(always)]
    fn place(self) -> u16 {
        self.0.get() as u16
    }

    #[inline(always)]
    fn port(self) -> u16 {
        self.place().wrapping_sub(1)
    }

    /// The host, seen at another port then.
    fn at(self, port: u16) -> Host {
        Host::new(self.seen(), port)
    }

    #[inline(always)]
    fn seen(self) -> u64 {
        self.0.get() >> 16
    }
}

/// Log of learnt hosts, from each replica of a switch to the others.
struct LearnLog {
    /// Pieces ever written.
    written: AtomicU64,
    /// The last of them: key, and where and when it was seen.
    log: Mutex<VecDeque<(u64, Host)>>,
    /// Pieces kept for replicas that have not read them.
    limit: usize,
}

impl LearnLog {
    /// Of tables of so many hosts: all that one has taken over has room.
    fn new(hosts: usize) -> LearnLog {
        LearnLog { written: AtomicU64::new(0), log: Mutex::default(), limit: hosts.max(LOG) }
    }

    fn publish(&self, fresh: &mut Vec<(u64, Host)>) {
        // A thread that panicked has left whole pieces behind.
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        self.written.fetch_add(fresh.len() as u64, Ordering::Release);
        log.extend(fresh.drain(..));
        let surplus = log.len().saturating_sub(self.limit);
        log.drain(..surplus);
    }

    /// Returns the pieces written after `read`, which is brought up to date.
    fn since(&self, read: &mut u64) -> Vec<(u64, Host)> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.written.load(Ordering::Acquire);
        let fresh = usize::try_from(written - *read).unwrap_or(usize::MAX).min(log.len());
        *read = written;
        log.iter().skip(log.len() - fresh).copied().collect()
    }
}

/// The keys of hosts, without a VLAN, and the ports that own them: from pairs of a port's number and
/// an address.
fn owned_hosts(text: &str, ports: usize) -> Option<HashMap<u64, u16>> {
    let words = words(text);
    let (pairs, rest) = words.as_chunks();
    let pair = |[port, mac]: &[&str; 2]| {
        let port = port.parse().ok().filter(|port| usize::from(*port) < ports)?;
        let [a, b, c, d, e, f] = mac.parse::<MacAddr>().ok()?.0;
        Some((u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), port))
    };
    if rest.is_empty() { pairs.iter().map(pair).collect() } else { None }
}

/// The table.
pub(super) struct MacTable {
    table: Table<u64, Host>,
    wheel: Wheel,
    /// Milliseconds.
    now: u64,
    /// Milliseconds; 0 when nothing is learnt.
    timeout: u64,
    /// Hosts at each port, and at most.
    hosts: Vec<u32>,
    port_limit: u32,
    /// Hosts that have come up at another port.
    pub(super) moves: u64,
    /// Hosts there was no room for.
    pub(super) refused: u64,
    /// The log of the replicas, when there are several, and the position read.
    news: Option<(Arc<LearnLog>, u64)>,
    fresh: Vec<(u64, Host)>,
    /// Hosts that are learnt at one port only.
    owned: HashMap<u64, u16>,
    /// Names of the ports, where they have any.
    names: Vec<String>,
    /// The links of the ports, and when the hosts at each were forgotten last.
    links: LinkWatcher,
    forgotten: Vec<u64>,
    /// Whether nothing is learnt at a port: its link is down, and packets that still come were
    /// received before.
    unlinked: Vec<bool>,
    /// Sources of a frame, then destinations.
    keys: Vec<u64>,
    found: Vec<Option<Entry>>,
    outputs: Vec<u32>,
}

impl MacTable {
    /// From the arguments `TIMEOUT`, `CAPACITY`, `PORT_CAPACITY`, `NAMES` and `OWNED`. `None` when
    /// there is no memory for it, which was then said.
    pub(super) fn from_args(make: &mut ElementBuilder<'_>, ports: usize) -> Option<MacTable> {
        let Seconds::<0>(timeout) = make.or("TIMEOUT", Seconds(TIMEOUT));
        let capacity: u32 = make.or("CAPACITY", CAPACITY);
        if capacity > CAPACITY_LIMIT {
            make.error(format!("CAPACITY: out of range, bound {CAPACITY_LIMIT}"));
        }
        let port_limit = match make.or("PORT_CAPACITY", 0) {
            0 => u32::MAX,
            limit => limit,
        };
        if ports >= usize::from(u16::MAX) {
            make.error("too many ports");
        }
        let Text(names) = make.or("NAMES", Text(String::new()));
        let names: Vec<String> = words(&names).into_iter().map(str::to_owned).collect();
        let repeated = names.iter().enumerate().any(|(at, name)| names[..at].contains(name));
        if repeated || !(names.is_empty() || names.len() == ports) {
            make.error(format!("NAMES: need {ports} different names, one per port"));
        }
        let Text(owned) = make.or("OWNED", Text(String::new()));
        let owned = owned_hosts(&owned, ports).unwrap_or_else(|| {
            make.error("OWNED: need pairs of a port's number and an Ethernet address");
            HashMap::new()
        });
        let limit = capacity.min(CAPACITY_LIMIT) as usize;
        let made = Table::new(limit, Backing::OnDemand)
            .and_then(|table| Ok((Wheel::new(0, table.limit(), Backing::OnDemand)?, table)));
        let (wheel, table) = match made {
            Ok(made) => made,
            Err(error) => {
                make.error(format!("no memory for {limit} hosts: {error}"));
                return None;
            }
        };
        let news = (make.replica().count > 1).then(|| (make.shared(|| LearnLog::new(limit)), 0));
        let links = LinkWatcher::new(make);
        let frame_limit = make.world.frame_limit;
        Some(MacTable {
            timeout: u64::from(timeout) * 1000,
            port_limit,
            news,
            owned,
            names,
            ..MacTable::new((table, wheel), links, ports, frame_limit)
        })
    }

    /// One that knows no host, of ports without names.
    fn new(
        (table, wheel): (Table<u64, Host>, Wheel),
        links: LinkWatcher,
        ports: usize,
        frame_limit: usize,
    ) -> MacTable {
        MacTable {
            table,
            wheel,
            now: 0,
            timeout: 0,
            hosts: vec![0; ports],
            port_limit: u32::MAX,
            moves: 0,
            refused: 0,
            news: None,
            fresh: Vec::new(),
            owned: HashMap::new(),
            names: Vec::new(),
            links,
            forgotten: vec![0; ports],
            unlinked: vec![false; ports],
            keys: Vec::with_capacity(2 * frame_limit),
            found: vec![None; 2 * frame_limit],
            outputs: Vec::with_capacity(frame_limit),
        }
    }

    /// Number of hosts known at a steady time.
    pub(super) fn count(&mut self, steady: u64) -> usize {
        self.begin(steady, 0);
        self.expire(usize::MAX);
        self.table.len()
    }

    /// Returns true if hosts are learnt.
    #[inline]
    pub(super) fn learns(&self) -> bool {
        self.timeout > 0
    }

    /// Seconds a host is remembered.
    pub(super) fn timeout(&self) -> u64 {
        self.timeout / 1000
    }

    /// Hosts are remembered for so many seconds from now on, those already known
    /// too. When that is less than it was, all are looked at once.
    pub(super) fn set_timeout(&mut self, seconds: u32) {
        let before = std::mem::replace(&mut self.timeout, u64::from(seconds) * 1000);
        if seconds == 0 {
            self.clear();
        } else if self.timeout < before {
            // The wheel would come to them when the old time is over.
            let MacTable { table, wheel, timeout, .. } = self;
            for (entry, _, host) in table.iter() {
                wheel.schedule(entry.number() as u32, host.seen() + *timeout);
            }
        }
    }

    /// Begins a frame of so many packets at a steady time in nanoseconds. The keys of their sources
    /// and of their destinations are to be put into the returned slices, which hold those of
    /// another frame.
    #[inline]
    pub(super) fn begin(&mut self, steady: u64, packets: usize) -> (&mut [u64], &mut [u64]) {
        self.now = steady / 1_000_000;
        if self.wheel.next().is_some_and(|next| next <= self.now) {
            self.expire(BUDGET);
        }
        if self.links.has_news() {
            self.forget_unlinked();
        }
        if let Some((news, read)) = &self.news
            && news.written.load(Ordering::Relaxed) != *read
        {
            self.read_log();
        }
        self.keys.resize(2 * packets, NO_HOST);
        self.keys.split_at_mut(packets)
    }

    /// Learns that the sources are at `port`, and returns for each destination
    /// the port it is at, or [`FLOOD`].
    #[inline]
    pub(super) fn forward(&mut self, port: u16) -> &mut Vec<u32> {
        let count = self.keys.len() / 2;
        let all = &mut self.found[..2 * count];
        self.table.lookup_many(&self.keys[..2 * count], all);
        let here = Host::new(self.now, port);
        // With other replicas to be told, hosts are refreshed an eighth of the time-out apart, and
        // so are those known from the news.
        let step = if self.news.is_some() { self.timeout / 8 } else { 0 };
        let MacTable { table, keys, found, fresh, now, .. } = self;
        // Packets come in trains: work just done for a host is not repeated.
        let mut last = None;
        let mut all_known = found[..count].first().is_none_or(Option::is_some);
        for (entry, key) in found[..count].iter().zip(keys.iter()) {
            if *entry == last {
                continue;
            }
            last = *entry;
            match entry.and_then(|entry| table.get_mut(entry)) {
                Some(host) if host.place() == here.place() => {
                    if step == 0 {
                        *host = here;
                    } else if now.saturating_sub(host.seen()) >= step {
                        *host = here;
                        fresh.push((*key, here));
                    }
                }
                _ => all_known = false,
            }
        }
        let changed = !all_known && self.learn_all(count, here);
        if changed {
            // The others of the frame may be for the host that has just been learnt.
            self.table.lookup_many(&self.keys[..2 * count], &mut self.found[..2 * count]);
        }
        if !self.fresh.is_empty() {
            self.publish();
        }
        self.outputs.clear();
        let MacTable { table, now, timeout, found, outputs, .. } = self;
        let (mut last, mut output) = (None, FLOOD);
        outputs.extend(found[count..2 * count].iter().map(|entry| {
            if *entry != last {
                last = *entry;
                output = match entry.and_then(|entry| table.get(entry)) {
                    Some(host) if now.saturating_sub(host.seen()) < *timeout => {
                        u32::from(host.port())
                    }
                    _ => FLOOD,
                };
            }
            output
        }));
        outputs
    }

    /// Learns where the sources of a frame are that are not known to be there. Whether the table
    /// has changed.
    #[inline(never)]
    fn learn_all(&mut self, count: usize, here: Host) -> bool {
        let mut changed = false;
        for at in 0..count {
            let known = self.found[at].and_then(|entry| self.table.get(entry));
            if known.is_none_or(|host| host.place() != here.place()) && is_host(self.keys[at]) {
                changed |= self.learn(self.keys[at], here, true);
            }
        }
        changed
    }

    /// Takes the outputs of a frame back, which were taken from the result of
    /// [`forward`](Self::forward).
    pub(super) fn give_back(&mut self, outputs: Vec<u32>) {
        self.outputs = outputs;
    }

    /// The keys of the frame's destinations.
    #[inline]
    pub(super) fn destinations(&self) -> &[u64] {
        &self.keys[self.keys.len() / 2..]
    }

    /// A host that was not known, or is now elsewhere. Whether the table has
    /// changed.
    #[cold]
    fn learn(&mut self, key: u64, host: Host, tell: bool) -> bool {
        let port = usize::from(host.port());
        let before =
            self.table.lookup(&key).and_then(|entry| Some((entry, *self.table.get(entry)?)));
        // A frame may have the same new host many times.
        if before.is_some_and(|(_, before)| before.place() == host.place()) {
            return false;
        }
        if !self.may_be_at(key, host.port()) {
            return false;
        }
        if self.hosts.get(port).is_none_or(|hosts| *hosts >= self.port_limit) {
            self.refused += 1;
            return false;
        }
        if let Some((entry, before)) = before {
            if let Some(hosts) = self.hosts.get_mut(usize::from(before.port())) {
                *hosts -= 1;
            }
            if let Some(place) = self.table.get_mut(entry) {
                *place = host;
            }
            self.moves += 1;
        } else {
            let Ok((entry, _)) = self.table.insert(key, host) else {
                self.refused += 1;
                return false;
            };
            self.wheel.schedule(entry.number() as u32, host.seen() + self.timeout);
        }
        self.hosts[port] += 1;
        if tell && self.news.is_some() {
            self.fresh.push((key, host));
        }
        true
    }

    /// Returns true if the link of a port is not down, and a host not one that another port owns.
    fn may_be_at(&self, key: u64, port: u16) -> bool {
        if self.unlinked.get(usize::from(port)) == Some(&true) {
            return false;
        }
        self.owned.get(&(key & ADDRESS)).is_none_or(|owner| *owner == port)
    }

    #[cold]
    fn publish(&mut self) {
        if let Some((news, _)) = &self.news {
            news.publish(&mut self.fresh);
        }
    }

    /// Reads the hosts that others have learnt.
    #[cold]
    fn read_log(&mut self) {
        let Some((news, read)) = &mut self.news else { return };
        for (key, host) in news.since(read) {
            let forgotten = self.forgotten.get(usize::from(host.port()));
            if forgotten.is_some_and(|forgotten| host.seen() <= *forgotten) {
                continue;
            }
            self.learn_from_another(key, host);
        }
    }

    /// Learns a host known to another table, unless it was seen since.
    fn learn_from_another(&mut self, key: u64, host: Host) {
        match self.table.lookup(&key).and_then(|entry| self.table.get_mut(entry)) {
            Some(known) if known.seen() > host.seen() => {}
            Some(known) if known.place() == host.place() => *known = host,
            _ => {
                self.learn(key, host, false);
            }
        }
    }

    /// Publishes the hosts taken over, but for those that another replica has published already: a
    /// worker may have had no part in the old configuration, or have heard less of it.
    fn publish_all(&mut self) {
        let Some((news, _)) = &self.news else { return };
        let told: HashMap<u64, u64> =
            news.since(&mut 0).into_iter().map(|(key, host)| (key, host.seen())).collect();
        let untold = |key: &u64, host: &Host| told.get(key).is_none_or(|at| *at < host.seen());
        let all = self.table.iter().map(|(_, key, host)| (*key, *host));
        self.fresh.extend(all.filter(|(key, host)| untold(key, host)));
        self.publish();
    }

    fn expire(&mut self, budget: usize) {
        let MacTable { table, wheel, hosts, timeout, now, .. } = self;
        wheel.advance(*now, budget, |number, now| {
            let entry = table.entry(number as usize)?;
            let host = *table.get(entry)?;
            let deadline = host.seen() + *timeout;
            if deadline > now {
                return Some(deadline);
            }
            table.remove_entry(entry);
            if let Some(hosts) = hosts.get_mut(usize::from(host.port())) {
                *hosts -= 1;
            }
            None
        });
    }

    /// Forgets the hosts at ports whose links went down: they may come up anywhere. Another thread
    /// reports a link as down, while packets from there are still on their way.
    #[cold]
    fn forget_unlinked(&mut self) {
        for port in self.links.down() {
            self.forgotten[port] = self.now;
            self.forget(|host| usize::from(host.port()) == port);
        }
        self.unlinked.fill(false);
        for port in self.links.unlinked() {
            self.unlinked[port] = true;
        }
    }

    /// Forgets all hosts.
    pub(super) fn clear(&mut self) {
        self.forget(|_| true);
    }

    fn forget(&mut self, which: impl Fn(Host) -> bool) {
        let chosen = self.table.iter().filter(|(_, _, host)| which(**host));
        let entries: Vec<(Entry, u16)> =
            chosen.map(|(entry, _, host)| (entry, host.port())).collect();
        for (entry, port) in entries {
            self.wheel.cancel(entry.number() as u32);
            self.table.remove_entry(entry);
            if let Some(hosts) = self.hosts.get_mut(usize::from(port)) {
                *hosts -= 1;
            }
        }
    }

    /// Takes over another table's hosts that may be in their VLAN at their port. Where both name
    /// their ports, a host stays at the one of that name.
    pub(super) fn take_from(&mut self, old: &mut MacTable, allowed: impl Fn(u16, u16) -> bool) {
        // A worker without work has not looked at these for long. Links are looked at last: news it
        // has not heard may be older than their changes.
        old.read_log();
        if old.links.has_news() {
            old.forget_unlinked();
        }
        self.now = self.now.max(old.now);
        (self.moves, self.refused) = (self.moves + old.moves, self.refused + old.refused);
        if !self.learns() {
            return;
        }
        self.take_hosts(old, allowed);
        if self.news.is_some() {
            self.read_log();
            self.publish_all();
        }
    }

    fn take_hosts(&mut self, old: &mut MacTable, allowed: impl Fn(u16, u16) -> bool) {
        let ports = self.hosts.len() as u16;
        let named = !self.names.is_empty() && !old.names.is_empty();
        let places: Vec<Option<u16>> = if named {
            let place = |name| self.names.iter().position(|own| own == name);
            old.names.iter().map(|name| place(name).map(|at| at as u16)).collect()
        } else {
            (0..old.hosts.len() as u16).map(|port| (port < ports).then_some(port)).collect()
        };
        let place_of = |key: u64, host: Host| {
            let port = places.get(usize::from(host.port())).copied().flatten()?;
            allowed((key >> 48) as u16, port).then_some(port)
        };
        let alike = (self.table.limit(), self.timeout, self.port_limit)
            == (old.table.limit(), old.timeout, old.port_limit);
        if !(alike && self.table.is_empty()) {
            for (_, key, host) in old.table.iter() {
                if let Some(port) = place_of(*key, *host) {
                    self.learn_from_another(*key, host.at(port));
                }
            }
            return;
        }
        // As it is, so that packets do not wait until each host has been learnt again.
        std::mem::swap(&mut self.table, &mut old.table);
        std::mem::swap(&mut self.wheel, &mut old.wheel);
        let place = |(entry, key, host): (Entry, &u64, &Host)| {
            let port = place_of(*key, *host).filter(|port| self.may_be_at(*key, *port));
            (entry, *host, port)
        };
        let places: Vec<_> = self.table.iter().map(place).collect();
        for (entry, host, place) in places {
            let Some(port) = place else {
                self.wheel.cancel(entry.number() as u32);
                self.table.remove_entry(entry);
                continue;
            };
            if port != host.port()
                && let Some(value) = self.table.get_mut(entry)
            {
                *value = host.at(port);
            }
            self.hosts[usize::from(port)] += 1;
        }
    }

    /// Returns a port's name, or its number.
    pub(super) fn name_of(&self, port: u16) -> String {
        self.names.get(usize::from(port)).cloned().unwrap_or_else(|| port.to_string())
    }

    /// The hosts known at a steady time: address, VLAN and port, by address.
    pub(super) fn hosts(&mut self, steady: u64) -> Vec<(MacAddr, u16, u16)> {
        self.count(steady);
        let mut hosts: Vec<_> = (self.table.iter())
            .map(|(_, key, host)| {
                let bytes = (key & ADDRESS).to_le_bytes();
                let mac = MacAddr(bytes.first_chunk().copied().unwrap_or_default());
                (mac, (key >> 48) as u16, host.port())
            })
            .collect();
        hosts.sort_unstable_by_key(|(mac, vlan, _)| (*vlan, *mac));
        hosts
    }
}

#[cfg(test)]
mod tests {
    use linerate_element_support::links::Links;
    use linerate_port::Link;

    use super::*;

    const X: u64 = 0x0a00_0000_0002;
    const Y: u64 = 0x0b00_0000_0002;

    /// One of three ports, with or without others to tell.
    fn replica(news: Option<&Arc<LearnLog>>, links: LinkWatcher) -> MacTable {
        let table = Table::new(64, Backing::OnDemand).unwrap();
        let wheel = Wheel::new(0, table.limit(), Backing::OnDemand).unwrap();
        MacTable {
            timeout: 300_000,
            news: news.map(|news| (Arc::clone(news), 0)),
            ..MacTable::new((table, wheel), links, 3, 4)
        }
    }

    fn no_links() -> LinkWatcher {
        LinkWatcher::for_elements(Arc::default(), [])
    }

    fn news() -> Arc<LearnLog> {
        Arc::new(LearnLog::new(64))
    }

    /// A packet of a host comes by a port at a time in milliseconds.
    fn see(table: &mut MacTable, millis: u64, host: u64, port: u16) {
        table.begin(millis * 1_000_000, 1).0[0] = host;
        table.forward(port);
    }

    /// Returns the port of a host in this table, without a look at the others' news.
    fn port_of(table: &MacTable, host: u64) -> Option<u16> {
        table.table.lookup(&host).and_then(|entry| table.table.get(entry)).map(|host| host.port())
    }

    fn take(new: &mut MacTable, old: &mut MacTable) {
        new.take_from(old, |_, _| true);
    }

    #[test]
    fn unread_news_of_an_idle_worker_are_taken_over() {
        let news = news();
        let [mut busy, mut idle] = [(); 2].map(|()| replica(Some(&news), no_links()));
        see(&mut busy, 10, X, 1);
        assert_eq!(port_of(&idle, X), None);
        let mut new = replica(None, no_links());
        take(&mut new, &mut idle);
        assert_eq!((port_of(&new, X), new.hosts[1]), (Some(1), 1));
    }

    #[test]
    fn a_new_worker_gets_the_hosts_that_others_take_over() {
        let mut old = replica(None, no_links());
        see(&mut old, 10, X, 1);
        see(&mut old, 20, Y, 2);
        let news = news();
        let [mut heir, mut other, mut fresh] = [(); 3].map(|()| replica(Some(&news), no_links()));
        take(&mut heir, &mut old);
        // One that knows the same says nothing twice.
        let mut same = replica(None, no_links());
        see(&mut same, 10, X, 1);
        take(&mut other, &mut same);
        assert_eq!(news.written.load(Ordering::Relaxed), 2);
        fresh.begin(30_000_000, 0);
        for table in [&heir, &other, &fresh] {
            assert_eq!((port_of(table, X), port_of(table, Y)), (Some(1), Some(2)));
        }
    }

    #[test]
    fn of_two_that_know_a_host_the_later_is_right() {
        for swapped in [false, true] {
            for port_limit in [u32::MAX, 7] {
                let [mut early, mut late] = [(); 2].map(|()| replica(None, no_links()));
                see(&mut early, 10, X, 1);
                see(&mut late, 20, X, 2);
                let mut olds = [&mut early, &mut late];
                if swapped {
                    olds.reverse();
                }
                // One after the other by one heir, and each by one of its own.
                let mut heir = MacTable { port_limit, ..replica(None, no_links()) };
                let news = news();
                let mut heirs = [(); 2].map(|()| replica(Some(&news), no_links()));
                for (old, own) in olds.into_iter().zip(&mut heirs) {
                    let mut copy = replica(None, no_links());
                    for (_, key, host) in old.table.iter() {
                        copy.learn(*key, *host, false);
                    }
                    take(&mut heir, &mut copy);
                    take(own, old);
                }
                for table in heirs.iter_mut().chain([&mut heir]) {
                    table.begin(30_000_000, 0);
                    assert_eq!((port_of(table, X), &table.hosts[..]), (Some(2), &[0, 0, 1][..]));
                }
            }
        }
    }

    #[test]
    fn hosts_that_a_port_owns_are_forgotten_elsewhere() {
        let vlan = 5 << 48;
        for port_limit in [u32::MAX, 7] {
            let mut old = replica(None, no_links());
            see(&mut old, 10, X, 1);
            see(&mut old, 10, X | vlan, 2);
            see(&mut old, 10, Y, 1);
            let owned = owned_hosts("2 02-00-00-00-00-0A", 3).unwrap();
            let mut new = MacTable { owned, port_limit, ..replica(None, no_links()) };
            take(&mut new, &mut old);
            let ports = |table: &MacTable| [X, X | vlan, Y].map(|host| port_of(table, host));
            assert_eq!(ports(&new), [None, Some(2), Some(1)]);
            see(&mut new, 20, X, 0);
            assert_eq!((ports(&new), new.refused), ([None, Some(2), Some(1)], 0));
            see(&mut new, 20, X, 2);
            assert_eq!(ports(&new), [Some(2), Some(2), Some(1)]);
        }
        for wrong in ["1", "3 2:0:0:0:0:1", "1 x", "x 2:0:0:0:0:1", "0 2:0:0:0:0:1 1"] {
            assert_eq!(owned_hosts(wrong, 3), None, "{wrong}");
        }
    }

    #[test]
    fn packets_from_before_a_link_loss_teach_nothing() {
        let (links, link) = (Arc::new(Links::default()), Arc::new(Link::new("")));
        link.set(true, "");
        links.put(7, &link);
        let mut table = replica(None, LinkWatcher::for_elements(links, [(1, 7)]));
        see(&mut table, 10, X, 1);
        see(&mut table, 10, Y, 2);
        link.set(false, "");
        see(&mut table, 20, X, 1);
        see(&mut table, 20, Y, 2);
        assert_eq!((port_of(&table, X), port_of(&table, Y), table.hosts[1]), (None, Some(2), 0));
        link.set(true, "");
        see(&mut table, 30, X, 1);
        assert_eq!(port_of(&table, X), Some(1));
    }

    #[test]
    fn a_link_that_went_down_unseen_by_an_idle_worker_counts() {
        for has_heard in [false, true] {
            let (links, link) = (Arc::new(Links::default()), Arc::new(Link::new("")));
            link.set(true, "");
            links.put(7, &link);
            let news = news();
            let mut busy = replica(Some(&news), no_links());
            let mut idle = replica(Some(&news), LinkWatcher::for_elements(links, [(1, 7)]));
            see(&mut busy, 10, X, 1);
            see(&mut busy, 10, Y, 2);
            if has_heard {
                idle.begin(20_000_000, 0);
                assert_eq!(port_of(&idle, X), Some(1));
            }
            link.set(false, "");
            link.set(true, "");
            let mut new = replica(None, no_links());
            take(&mut new, &mut idle);
            assert_eq!((port_of(&new, X), port_of(&new, Y)), (None, Some(2)));
        }
    }
}
