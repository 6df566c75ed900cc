//! Connection tracking (conntrack): connections of packets, their state, and translation of
//! addresses.
//!
//! It carries `ct` out, as Open vSwitch's own tracker does: connections are looked up by addresses,
//! protocol and ports in a zone; those that are remembered (`commit`) have a mark, a label, and
//! addresses and ports they are translated to, and are forgotten when their time is over. TCP is
//! followed with its windows; errors of ICMP belong to the connection they are about, and the
//! packets they quote are translated with them, to what their sender has sent. Of SCTP the checksum
//! is right also where the quote is cut, by the length in its header, where Open vSwitch's is over
//! what is quoted; that of a fragment stays. Fragments wait until all of their packet are there; it
//! is tracked as a whole, and they go on as they came.
//!
//! # Not there
//!
//! There are no helpers (FTP, TFTP): further connections of such protocols are not known to belong
//! to the first. Checksums are not verified but those of the headers of fragments. SCTP is followed
//! as UDP is, and identifiers of ICMP are not translated: where two hosts behind one address use
//! the same to the same host, the second connection is not remembered.

mod display;
mod fragments;
mod limits;
mod per_zone;
mod state;
mod table;
mod timeouts;
mod translation;
mod tuple;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use display::{Address, ConnectionInfo, Direction, Ends};
pub use fragments::{Fragment, FragmentCounts, FragmentLimits, Incomplete};
pub use limits::ZoneLimit;
pub use timeouts::TimeoutPolicy;

use crate::edit::Ip;
use crate::key::extract::{ICMP, ICMPV6, TCP};
use crate::key::{CONNECTION, FOUND, Key};
use crate::wire::{Action, Ct, Field, Nat, NatFlags};
use fragments::{FragmentFate, Fragments, Reassembled};
use per_zone::PerZone;
use state::{PacketRelation, ProtocolState, Segment};
use table::{AddError, Connection, NewConnection, Table};
use timeouts::timeout;
use tuple::{Parsed, Tuple};

const NEW: u32 = 1;
const ESTABLISHED: u32 = 1 << 1;
const RELATED: u32 = 1 << 2;
const REPLY: u32 = 1 << 3;
const INVALID: u32 = 1 << 4;
const TRACKED: u32 = 1 << 5;
const SOURCE: u32 = 1 << 6;
const DESTINATION: u32 = 1 << 7;
const TRANSLATED: u32 = SOURCE | DESTINATION;

/// Connections by default; Open vSwitch's number.
const ROOM: usize = 3_000_000;

/// Connections that are known. All workers share it: locks are of a part of the connections, and
/// held for some hundred nanoseconds.
#[derive(Debug)]
pub struct Tracker {
    table: Table,
    fragments: Fragments,
    timeouts: PerZone<Arc<TimeoutPolicy>>,
    /// Seed of the flag `random`.
    random: AtomicU64,
}

impl Default for Tracker {
    fn default() -> Tracker {
        Tracker::with_room(ROOM)
    }
}

/// The outcome of tracking a packet.
#[derive(Debug)]
#[must_use = "a fragment may wait"]
pub enum Tracked {
    /// It goes on.
    One,
    /// It is a fragment, and waits for the others of its packet.
    Waits,
    /// It was the fragment that was missing: all of the packet go on, in order, with the same
    /// connection.
    All(Vec<Fragment>),
}

/// Result of a packet's lookup.
struct LookupResult {
    state: u32,
    connection: Option<Arc<Connection>>,
    original: Option<Tuple>,
}

impl LookupResult {
    /// A packet that is of no connection.
    const INVALID: LookupResult = LookupResult { state: INVALID, connection: None, original: None };
}

/// The parts of a packet that its connection's state depends on.
#[derive(Clone, Copy)]
struct PacketSummary<'a> {
    parsed: &'a Parsed,
    segment: Option<Segment>,
    /// Its state in this zone so far.
    before: u32,
}

impl Tracker {
    /// With room for so many connections. One more is not remembered, and its packets stay new.
    #[must_use]
    pub fn with_room(room: usize) -> Tracker {
        Tracker {
            table: Table::with_room(room),
            fragments: Fragments::default(),
            timeouts: PerZone::default(),
            random: AtomicU64::new(0),
        }
    }

    /// Looks the connection of a packet up, and carries the action out: its fields of `key` are
    /// set, it is remembered where that is wanted, and addresses are translated in `packet` and in
    /// `key`. A fragment waits for the others of its packet.
    ///
    /// `key` has the fields of `packet` as it is now, and the connection fields so far: in the same
    /// zone a packet is not translated again.
    pub fn track(
        &self,
        action: &Ct,
        zone: u16,
        key: &mut Key,
        packet: &mut [u8],
        now: u64,
    ) -> Tracked {
        let ip = Ip::parse(packet);
        if let Some(ip) = &ip
            && ip.fragment != 0
        {
            return self.track_fragment(action, (ip, zone), key, packet, now);
        }
        self.track_whole(action, (ip, zone), key, packet, now);
        Tracked::One
    }

    fn track_fragment(
        &self,
        action: &Ct,
        (ip, zone): (&Ip, u16),
        key: &mut Key,
        packet: &[u8],
        now: u64,
    ) -> Tracked {
        match self.fragments.take(ip, zone, key, packet, now) {
            FragmentFate::Waits => Tracked::Waits,
            FragmentFate::Refused => {
                set_known(key, zone, &LookupResult::INVALID, false);
                Tracked::One
            }
            FragmentFate::Complete(mut whole) => {
                let ip = Ip::parse(&whole.packet);
                let Reassembled { key, packet, .. } = &mut *whole;
                self.track_whole(action, (ip, zone), key, packet, now);
                // The next time it is put together again, and is a packet of its own.
                set_found(key, false);
                Tracked::All(whole.into_fragments())
            }
        }
    }

    fn track_whole(
        &self,
        action: &Ct,
        (ip, zone): (Option<Ip>, u16),
        key: &mut Key,
        packet: &mut [u8],
        now: u64,
    ) {
        let parsed = ip.and_then(|ip| Parsed::parse(packet, ip, zone));
        let found = match parsed {
            Some(parsed) => self.find(action, &parsed, key, packet, now),
            None => LookupResult::INVALID,
        };
        if let Some(connection) = found.connection.as_ref().filter(|_| action.commit) {
            let mut entry = connection.lock();
            action.actions.iter().for_each(|action| entry.set(action));
        }
        set_known(key, zone, &found, nat_of(action).is_none());
    }

    fn find(
        &self,
        action: &Ct,
        parsed: &Parsed,
        key: &mut Key,
        packet: &mut [u8],
        now: u64,
    ) -> LookupResult {
        let nat = nat_of(action);
        let segment = match parsed.tuple.protocol {
            TCP if parsed.about.is_none() => {
                Segment::parse(&packet[parsed.ip.transport..parsed.ip.end])
            }
            _ => None,
        };
        let seen = PacketSummary { parsed, segment, before: known_of(key, parsed.tuple.zone) };
        if let Some((connection, reply)) = self.look_up(&seen, nat.is_none(), key, now) {
            if action.force && reply {
                // The asker is taken to have begun.
                self.table.remove(&connection);
            } else if was_found(key) && seen.before != 0 && !action.force {
                let mut state = seen.before;
                if nat.is_some() && state & TRANSLATED == 0 {
                    state |= translate(&connection, reply, parsed, key, packet);
                }
                let original = Some(connection.original);
                return LookupResult { state, connection: Some(connection), original };
            } else if let Some(found) = self.belongs(
                &connection,
                reply,
                &seen,
                nat.is_some(),
                (&mut *key, &mut *packet),
                now,
            ) {
                return found;
            }
        }
        let original = Some(parsed.tuple);
        let invalid = LookupResult { state: INVALID, connection: None, original };
        if parsed.about.is_some() {
            return invalid;
        }
        let Some(state) = ProtocolState::begin(&parsed.tuple, segment.as_ref()) else {
            return invalid;
        };
        let new = LookupResult { state: NEW, connection: None, original };
        if !action.commit {
            return new;
        }
        match self.remember(parsed, nat, state, now) {
            Ok(connection) => {
                let flags = translate(&connection, false, parsed, key, packet);
                LookupResult { state: NEW | flags, connection: Some(connection), original }
            }
            // Another worker has remembered it meanwhile.
            Err(AddError::Known) => {
                let found = self.table.find(&parsed.tuple, now).and_then(|(connection, reply)| {
                    let seen = PacketSummary { before: 0, ..seen };
                    self.belongs(&connection, reply, &seen, nat.is_some(), (key, packet), now)
                });
                found.unwrap_or(new)
            }
            Err(AddError::Taken | AddError::Full) => new,
        }
    }

    /// Returns the connection of a packet, and whether the packet is an answer.
    ///
    /// One that was translated in this zone is as the other end sees it: the lookup is by its
    /// answers, or else by the tuple of its first packet.
    fn look_up(
        &self,
        seen: &PacketSummary<'_>,
        by_original: bool,
        key: &Key,
        now: u64,
    ) -> Option<(Arc<Connection>, bool)> {
        let tuple = &seen.parsed.tuple;
        if seen.before & TRANSLATED == 0 {
            return self.table.find(tuple, now);
        }
        let found = self.table.find(&tuple.reverse(), now);
        let found = found.map(|(connection, reply)| (connection, !reply));
        found.or_else(|| {
            let original = Tuple::of_connection(key, tuple).filter(|_| by_original)?;
            self.table.find(&original, now).map(|(connection, _)| (connection, false))
        })
    }

    /// Applies a packet to the connection found; returns `None` where it begins another one.
    fn belongs(
        &self,
        connection: &Arc<Connection>,
        reply: bool,
        seen: &PacketSummary<'_>,
        nat: bool,
        (key, packet): (&mut Key, &mut [u8]),
        now: u64,
    ) -> Option<LookupResult> {
        let answers = if reply { REPLY } else { 0 };
        let mut state = seen.before & !INVALID;
        if seen.parsed.about.is_some() {
            state |= RELATED | answers;
        } else {
            let mut entry = connection.lock();
            let relation = entry.state.see(reply, seen.segment.as_ref());
            let phase = entry.state.phase(relation);
            drop(entry);
            match relation {
                PacketRelation::Valid | PacketRelation::Tolerated => {
                    state = state & !NEW | ESTABLISHED | answers;
                }
                PacketRelation::New => state |= NEW,
                PacketRelation::Invalid => state = INVALID,
                PacketRelation::Reopens => {
                    self.table.remove(connection);
                    return None;
                }
            }
            if matches!(relation, PacketRelation::Valid | PacketRelation::New) {
                let timeout = timeout(connection.timeouts.as_deref(), phase);
                self.table.keep(connection, now.saturating_add(timeout), now);
            }
        }
        if nat && seen.before & TRANSLATED == 0 {
            state |= translate(connection, reply, seen.parsed, key, packet);
        }
        let original = Some(connection.original);
        Some(LookupResult { state, connection: Some(Arc::clone(connection)), original })
    }

    fn remember(
        &self,
        parsed: &Parsed,
        nat: Option<&Nat>,
        state: ProtocolState,
        now: u64,
    ) -> Result<Arc<Connection>, AddError> {
        let original = parsed.tuple;
        let timeouts = self.timeouts.get(original.zone);
        let expires =
            now.saturating_add(timeout(timeouts.as_deref(), state.phase(PacketRelation::New)));
        let reply = original.reverse();
        let mut begun = NewConnection { original, reply, translated: 0, state, timeouts, expires };
        let translated = nat.map_or(0, |nat| match nat.flags {
            flags if flags.contains(NatFlags::SOURCE) => SOURCE,
            flags if flags.contains(NatFlags::DESTINATION) => DESTINATION,
            _ => 0,
        });
        let Some(nat) = nat.filter(|_| translated != 0) else {
            return self.table.add(begun, now);
        };
        begun.translated = translated;
        let random = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed) ^ now;
        for after in translation::candidates(&original, nat, random) {
            let begun = NewConnection { reply: after.reverse(), ..begun.clone() };
            match self.table.add(begun, now) {
                Err(AddError::Taken) => {}
                done => return done,
            }
        }
        Err(AddError::Taken)
    }

    /// Removes connections and fragments that have timed out. Called now and then, it does a part
    /// of the work each time: 16,384 connections at most.
    pub fn expire(&self, now: u64) {
        self.table.expire(now);
        self.expire_fragments(now);
    }

    /// Drops fragments that have timed out: one load where none wait.
    pub fn expire_fragments(&self, now: u64) {
        self.fragments.expire(now);
    }

    /// Removes the wanted connections, and returns their number. It may be called while packets
    /// come.
    pub fn flush(&self, wanted: impl Fn(&ConnectionInfo) -> bool) -> usize {
        self.table.flush(wanted)
    }

    /// Returns the number of connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns true if there are no connections.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns so many of the wanted connections, in no order, and the number of further ones.
    #[must_use]
    pub fn list(
        &self,
        now: u64,
        most: usize,
        wanted: impl Fn(&ConnectionInfo) -> bool,
    ) -> (Vec<ConnectionInfo>, usize) {
        self.table.list(now, most, wanted)
    }

    /// Limits the connections of a zone, or with `None` of each zone without its own limit; or
    /// removes the limit. Existing connections stay.
    pub fn set_limit(&self, zone: Option<u16>, limit: Option<u32>) {
        self.table.zones.set(zone, limit);
    }

    /// The limit of zones that have none of their own, and the zones that have one.
    #[must_use]
    pub fn limits(&self) -> (Option<u32>, Vec<ZoneLimit>) {
        self.table.zones.all()
    }

    /// Sets the time-outs of a zone, or with `None` of each zone without its own; or removes them.
    /// Existing connections keep theirs.
    pub fn set_timeouts(&self, zone: Option<u16>, policy: Option<TimeoutPolicy>) {
        self.timeouts.set(zone, policy.map(Arc::new));
    }

    /// The time-outs of zones that have none of their own, and those of zones that have.
    #[must_use]
    pub fn timeouts(&self) -> (TimeoutPolicy, Vec<(u16, TimeoutPolicy)>) {
        let (default, of) = self.timeouts.all();
        let of = of.into_iter().map(|(zone, policy)| (zone, TimeoutPolicy::clone(&policy)));
        (default.map(Arc::unwrap_or_clone).unwrap_or_default(), of.collect())
    }

    /// The limits of fragments that wait.
    #[must_use]
    pub fn fragment_limits(&self) -> FragmentLimits {
        self.fragments.limits()
    }

    /// Sets the limits; an error names the one out of range.
    pub fn set_fragment_limits(&self, limits: FragmentLimits) -> Result<(), String> {
        self.fragments.set_limits(limits)
    }

    /// The counts of fragments of IPv4, and of IPv6.
    #[must_use]
    pub fn fragment_counts(&self) -> [FragmentCounts; 2] {
        self.fragments.counts()
    }

    /// The packets of which fragments wait for the others, the oldest first.
    #[must_use]
    pub fn incomplete_packets(&self) -> Vec<Incomplete> {
        self.fragments.incomplete()
    }

    /// Returns true if fragments wait for others: one load.
    #[must_use]
    pub fn has_fragments(&self) -> bool {
        self.fragments.wait()
    }

    /// Returns the number of fragments dropped since the last call, as others of their packets did
    /// not come.
    #[must_use]
    pub fn take_lost_fragments(&self) -> u64 {
        self.fragments.take_lost()
    }
}

/// Returns the connection state (`ct_state`) of a packet in this zone; 0 if it was looked up in
/// another.
fn known_of(key: &Key, zone: u16) -> u32 {
    if key.get(Field::CtZone) == zone.into() { key.get(Field::CtState) as u32 } else { 0 }
}

/// Returns the translation of an action.
fn nat_of(action: &Ct) -> Option<&Nat> {
    action.actions.iter().find_map(|action| match action {
        Action::Nat(nat) => Some(&**nat),
        _ => None,
    })
}

/// Returns true if the last `ct` found the packet's connection: the next one in its zone does not
/// apply the packet to it again.
fn was_found(key: &Key) -> bool {
    key.words()[FOUND.word] >> FOUND.shift & 1 != 0
}

fn set_found(key: &mut Key, found: bool) {
    let word = &mut key.words_mut()[FOUND.word];
    *word = *word & !(1 << FOUND.shift) | u64::from(found) << FOUND.shift;
}

/// Sets the connection fields of a key. With `stays` the packet is left as it is.
fn set_known(key: &mut Key, zone: u16, found: &LookupResult, stays: bool) {
    set_found(key, stays && found.connection.is_some());
    let (mark, label) = found.connection.as_ref().map_or((0, 0), |connection| {
        let entry = connection.lock();
        (entry.mark, entry.label)
    });
    key.set(Field::CtState, (found.state | TRACKED).into());
    key.set(Field::CtZone, zone.into());
    key.set(Field::CtMark, mark.into());
    key.set(Field::CtLabel, label);
    set_original(key, found.original.as_ref());
}

/// Sets the connection fields of a key as if the packet were looked up in a zone and found in that
/// state, for traces.
pub fn assume(state: u32, zone: u16, key: &mut Key, packet: &[u8]) {
    let parsed = Ip::parse(packet).and_then(|ip| Parsed::parse(packet, ip, zone));
    let original = parsed.map(|parsed| parsed.tuple);
    let original = original.map(|tuple| if state & REPLY == 0 { tuple } else { tuple.reverse() });
    set_known(key, zone, &LookupResult { state, connection: None, original }, false);
}

/// Translates a packet as its connection is, and returns the flag that says so.
fn translate(
    connection: &Connection,
    reply: bool,
    parsed: &Parsed,
    key: &mut Key,
    packet: &mut [u8],
) -> u32 {
    let flag = match (connection.translated, reply) {
        (0, _) => return 0,
        (SOURCE, true) => DESTINATION,
        (DESTINATION, true) => SOURCE,
        (flag, _) => flag,
    };
    let to = if reply { connection.original } else { connection.reply }.reverse();
    if to.source != parsed.tuple.source || to.destination != parsed.tuple.destination {
        translation::translate(parsed, &to, key, packet);
    }
    flag
}

/// Source and destination of the connection's first packet.
fn set_original(key: &mut Key, original: Option<&Tuple>) {
    let fields = [
        Field::CtProto,
        Field::CtTpSrc,
        Field::CtTpDst,
        Field::CtIpv4Src,
        Field::CtIpv4Dst,
        Field::CtIpv6Src,
        Field::CtIpv6Dst,
    ];
    for field in fields {
        key.set(field, 0);
    }
    let Some(tuple) = original else { return };
    let (source, destination) = if tuple.v6 {
        (Field::CtIpv6Src, Field::CtIpv6Dst)
    } else {
        (Field::CtIpv4Src, Field::CtIpv4Dst)
    };
    let (source_port, destination_port) = match tuple.protocol {
        ICMP | ICMPV6 => (tuple.message.0.into(), tuple.message.1.into()),
        _ => (tuple.source.port, tuple.destination.port),
    };
    key.set(source, tuple.source.address);
    key.set(destination, tuple.destination.address);
    key.set(Field::CtProto, tuple.protocol.into());
    key.set(Field::CtTpSrc, source_port.into());
    key.set(Field::CtTpDst, destination_port.into());
}

/// Clears the connection fields of a packet.
pub fn clear(key: &mut Key) {
    key.words_mut()[CONNECTION].fill(0);
}
