//! Connection tracking (conntrack): connections of packets, their state, and network address
//! translation (NAT).
//!
//! The tracker carries the action `ct` out, as the userspace tracker of Open vSwitch does. A connection
//! is looked up by zone, addresses, protocol and ports. Once committed it has a mark, a label and
//! perhaps translated addresses and ports, until it times out. TCP is tracked with its windows. An ICMP
//! error is related to the connection of the packet that it quotes, and the quoted packet is translated
//! back to the one that its sender has sent. The SCTP checksum of a quoted packet is updated by the
//! length in its IP header, so it is right even if the quote is cut, where Open vSwitch computes one
//! over the quoted bytes; that of a quoted fragment is left alone. Fragments are held until their packet
//! is complete; the packet is tracked as a whole, and the fragments go on as they arrived.
//!
//! # Limitations
//!
//! There are no helpers (FTP, TFTP), so the data connections of such protocols are not related to the
//! control connection. Checksums are not verified, except those of the IP headers of fragments. SCTP is
//! tracked like UDP. ICMP identifiers are not translated: if two hosts behind one address use the same
//! identifier to the same host, the second connection is not committed.

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

// Bits of `ct_state`, as in OpenFlow matches of Open vSwitch.
const NEW: u32 = 1;
const ESTABLISHED: u32 = 1 << 1;
const RELATED: u32 = 1 << 2;
const REPLY: u32 = 1 << 3;
const INVALID: u32 = 1 << 4;
const TRACKED: u32 = 1 << 5;
const SOURCE: u32 = 1 << 6;
const DESTINATION: u32 = 1 << 7;
const TRANSLATED: u32 = SOURCE | DESTINATION;

/// Most connections by default, as in Open vSwitch.
const DEFAULT_LIMIT: usize = 3_000_000;

/// Connection tracker, shared by all workers: each lock covers a part of the connections, and is held
/// for some hundred nanoseconds.
#[derive(Debug)]
pub struct Tracker {
    table: Table,
    fragments: Fragments,
    timeouts: PerZone<Arc<TimeoutPolicy>>,
    /// Seed of port choices under the NAT flag `random`.
    random: AtomicU64,
}

impl Default for Tracker {
    fn default() -> Tracker {
        Tracker::with_room(DEFAULT_LIMIT)
    }
}

/// The outcome of tracking a packet.
#[derive(Debug)]
#[must_use = "a fragment may wait"]
pub enum Tracked {
    /// The packet goes on.
    One,
    /// The packet is a fragment, and is held until the others have arrived.
    Waits,
    /// The packet was the last missing fragment: all fragments go on, in order, with the same
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
    /// Result for a packet without a connection.
    const INVALID: LookupResult = LookupResult { state: INVALID, connection: None, original: None };
}

/// The parts of a packet that its connection's state depends on.
#[derive(Clone, Copy)]
struct PacketSummary<'a> {
    parsed: &'a Parsed,
    segment: Option<Segment>,
    /// Its `ct_state` in this zone before the action.
    before: u32,
}

impl Tracker {
    /// Creates a tracker for at most `room` connections. Further ones are not committed, and their
    /// packets stay new.
    #[must_use]
    pub fn with_room(room: usize) -> Tracker {
        Tracker {
            table: Table::with_room(room),
            fragments: Fragments::default(),
            timeouts: PerZone::default(),
            random: AtomicU64::new(0),
        }
    }

    /// Carries the action `ct` out: looks up the connection of a packet, commits it if the action says
    /// so, sets the connection fields of `key`, and translates addresses in `packet` and `key`. A
    /// fragment is held until its packet is complete.
    ///
    /// On entry `key` has the fields of `packet`, and the connection fields of earlier actions: a packet
    /// is translated once in a zone.
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
                set_connection_fields(key, zone, &LookupResult::INVALID, false);
                Tracked::One
            }
            FragmentFate::Complete(mut whole) => {
                let ip = Ip::parse(&whole.packet);
                let Reassembled { key, packet, .. } = &mut *whole;
                self.track_whole(action, (ip, zone), key, packet, now);
                // The next `ct` reassembles the fragments into a packet of its own.
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
        set_connection_fields(key, zone, &found, find_nat(action).is_none());
    }

    fn find(
        &self,
        action: &Ct,
        parsed: &Parsed,
        key: &mut Key,
        packet: &mut [u8],
        now: u64,
    ) -> LookupResult {
        let nat = find_nat(action);
        let segment = match parsed.tuple.protocol {
            TCP if parsed.about.is_none() => {
                Segment::parse(&packet[parsed.ip.transport..parsed.ip.end])
            }
            _ => None,
        };
        let seen = PacketSummary { parsed, segment, before: state_in_zone(key, parsed.tuple.zone) };
        if let Some((connection, reply)) = self.look_up(&seen, nat.is_none(), key, now) {
            if action.force && reply {
                // With `force` the sender of a reply becomes the originator of a new connection.
                self.table.remove(&connection);
            } else if was_found(key) && seen.before != 0 && !action.force {
                let mut state = seen.before;
                if nat.is_some() && state & TRANSLATED == 0 {
                    state |= translate(&connection, reply, parsed, key, packet);
                }
                let original = Some(connection.original);
                return LookupResult { state, connection: Some(connection), original };
            } else if let Some(found) = self.apply_packet(
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
        match self.commit(parsed, nat, state, now) {
            Ok(connection) => {
                let flags = translate(&connection, false, parsed, key, packet);
                LookupResult { state: NEW | flags, connection: Some(connection), original }
            }
            // Another worker has committed the connection meanwhile.
            Err(AddError::Known) => {
                let found = self.table.find(&parsed.tuple, now).and_then(|(connection, reply)| {
                    let seen = PacketSummary { before: 0, ..seen };
                    self.apply_packet(&connection, reply, &seen, nat.is_some(), (key, packet), now)
                });
                found.unwrap_or(new)
            }
            Err(AddError::Taken | AddError::Full) => new,
        }
    }

    /// Returns the connection of a packet, and true if the packet is a reply.
    ///
    /// A packet that was translated in this zone before has addresses as the other end sees them: the
    /// lookup is by the tuple of its reply, or else by the original tuple in the connection fields.
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

    /// Applies a packet to its connection; `None` if the packet begins a new connection in its place.
    fn apply_packet(
        &self,
        connection: &Arc<Connection>,
        reply: bool,
        seen: &PacketSummary<'_>,
        nat: bool,
        (key, packet): (&mut Key, &mut [u8]),
        now: u64,
    ) -> Option<LookupResult> {
        let reply_flag = if reply { REPLY } else { 0 };
        let mut state = seen.before & !INVALID;
        if seen.parsed.about.is_some() {
            state |= RELATED | reply_flag;
        } else {
            let mut entry = connection.lock();
            let relation = entry.state.see(reply, seen.segment.as_ref());
            let phase = entry.state.phase(relation);
            drop(entry);
            match relation {
                PacketRelation::Valid | PacketRelation::Tolerated => {
                    state = state & !NEW | ESTABLISHED | reply_flag;
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

    /// Adds the connection of a packet to the table, with the first free translation.
    fn commit(
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

    /// Removes connections and fragments that have timed out, examining at most 16,384 connections per
    /// call.
    pub fn expire(&self, now: u64) {
        self.table.expire(now);
        self.expire_fragments(now);
    }

    /// Drops fragments that have timed out; costs one load if none are held.
    pub fn expire_fragments(&self, now: u64) {
        self.fragments.expire(now);
    }

    /// Removes the wanted connections, and returns their number. Packets may be tracked meanwhile.
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

    /// Returns at most `most` of the wanted connections, in no order, and the number of further ones.
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

    /// Returns the limit of zones without one of their own, and the limits of the others.
    #[must_use]
    pub fn limits(&self) -> (Option<u32>, Vec<ZoneLimit>) {
        self.table.zones.all()
    }

    /// Sets the time-outs of a zone, or with `None` of each zone without its own; or removes them.
    /// Existing connections keep theirs.
    pub fn set_timeouts(&self, zone: Option<u16>, policy: Option<TimeoutPolicy>) {
        self.timeouts.set(zone, policy.map(Arc::new));
    }

    /// Returns the time-outs of zones without their own, and those of the others.
    #[must_use]
    pub fn timeouts(&self) -> (TimeoutPolicy, Vec<(u16, TimeoutPolicy)>) {
        let (default, zones) = self.timeouts.all();
        let zones = zones.into_iter().map(|(zone, policy)| (zone, TimeoutPolicy::clone(&policy)));
        (default.map(Arc::unwrap_or_clone).unwrap_or_default(), zones.collect())
    }

    /// Returns the limits of held fragments.
    #[must_use]
    pub fn fragment_limits(&self) -> FragmentLimits {
        self.fragments.limits()
    }

    /// Sets the limits of held fragments; an error names the limit that is out of range.
    pub fn set_fragment_limits(&self, limits: FragmentLimits) -> Result<(), String> {
        self.fragments.set_limits(limits)
    }

    /// Returns the fragment counters of IPv4, and of IPv6.
    #[must_use]
    pub fn fragment_counts(&self) -> [FragmentCounts; 2] {
        self.fragments.counts()
    }

    /// Returns the packets of which some fragments are missing, the oldest first.
    #[must_use]
    pub fn incomplete_packets(&self) -> Vec<Incomplete> {
        self.fragments.incomplete()
    }

    /// Returns true if fragments are held; costs one load.
    #[must_use]
    pub fn has_fragments(&self) -> bool {
        self.fragments.wait()
    }

    /// Returns the number of fragments dropped since the last call because their packets stayed
    /// incomplete.
    #[must_use]
    pub fn take_lost_fragments(&self) -> u64 {
        self.fragments.take_lost()
    }
}

/// Returns the connection state (`ct_state`) of a packet in this zone; 0 if it was looked up in
/// another.
fn state_in_zone(key: &Key, zone: u16) -> u32 {
    if key.get(Field::CtZone) == zone.into() { key.get(Field::CtState) as u32 } else { 0 }
}

/// Returns the NAT of an action, if it has one.
fn find_nat(action: &Ct) -> Option<&Nat> {
    action.actions.iter().find_map(|action| match action {
        Action::Nat(nat) => Some(&**nat),
        _ => None,
    })
}

/// Returns true if the last `ct` found the packet's connection: the next `ct` in the same zone does not
/// apply the packet to the connection again.
fn was_found(key: &Key) -> bool {
    key.words()[FOUND.word] >> FOUND.shift & 1 != 0
}

fn set_found(key: &mut Key, found: bool) {
    let word = &mut key.words_mut()[FOUND.word];
    *word = *word & !(1 << FOUND.shift) | u64::from(found) << FOUND.shift;
}

/// Sets the connection fields of a key. The flag of [`was_found`] is set if the packet is `unchanged`,
/// since a translated packet is looked up anew.
fn set_connection_fields(key: &mut Key, zone: u16, found: &LookupResult, unchanged: bool) {
    set_found(key, unchanged && found.connection.is_some());
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

/// Sets the connection fields of a key as if a lookup in the zone had found that state, for traces.
pub fn assume(state: u32, zone: u16, key: &mut Key, packet: &[u8]) {
    let parsed = Ip::parse(packet).and_then(|ip| Parsed::parse(packet, ip, zone));
    let original = parsed.map(|parsed| parsed.tuple);
    let original = original.map(|tuple| if state & REPLY == 0 { tuple } else { tuple.reverse() });
    set_connection_fields(key, zone, &LookupResult { state, connection: None, original }, false);
}

/// Applies the NAT of a connection to a packet, and returns the flag of `ct_state` for it.
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

/// Sets the fields of the original tuple, which is that of the connection's first packet.
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
