//! Fragments: they wait until their packet is complete, which is then tracked as a whole, and go on
//! as they came.
//!
//! Limits apply to the time that a packet's fragments wait, to their number in all and of one
//! source, and to their bytes. A fragment without room is an invalid packet, and so is one that
//! overlaps another or, without being the last, is shorter than a sender has reason to make it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use linerate_packet::checksum::checksum;

use super::display::Address;
use crate::edit::Ip;
use crate::key::extract::{AUTHENTICATION, FRAGMENT_HEADER, is_extension};
use crate::key::{CONNECTION, Key, extract};
use crate::wire::Field;

const SECOND: u64 = 1_000_000_000;
/// Time that a packet's fragments wait for the others: Open vSwitch's.
const REASSEMBLY_TIMEOUT: u64 = 15 * SECOND;
/// Waiting fragments, by default, and at most: Open vSwitch's numbers.
const MOST: u32 = 1000;
const MOST_OF_ALL: u32 = 5000;
/// One source may have one in so many of them, and of their bytes.
const SHARE: u32 = 4;
/// Bytes of waiting fragments: as many as with Linux.
const BYTES: usize = 4 << 20;
/// Least lengths of a fragment of each version that is not the last, from the header of IP on, by
/// default, and at least: Open vSwitch's numbers.
const SHORTEST: [u32; 2] = [1200, 1280];
const SHORTEST_OF_ALL: u32 = 400;
/// The longest packet of IPv4, and the longest payload of IPv6.
const LONGEST: usize = 0xffff;

/// The flags of IPv4 that a packet keeps when it is put together: reserved, and not to be cut.
const KEPT: u8 = 0xc0;

/// Limits of the fragments that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentLimits {
    /// Waiting fragments, at most.
    pub most: u32,
    /// Least lengths of a fragment of IPv4 and of IPv6 that is not the last, from the header of IP
    /// on.
    pub shortest: [u32; 2],
}

/// Counts of fragments, by their fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FragmentCounts {
    /// Fragments that wait.
    pub waiting: u32,
    /// Fragments that waited, or completed a packet.
    pub accepted: u64,
    /// Fragments that went on with all of their packet.
    pub completed: u64,
    /// Fragments that were dropped, as others did not come in time or made too long a packet.
    pub expired: u64,
    /// Fragments that were too short.
    pub short: u64,
    /// Fragments that overlapped another, or came twice.
    pub overlapping: u64,
    /// Fragments dropped for lack of room.
    pub refused: u64,
}

/// A packet of which fragments wait for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incomplete {
    /// From where.
    pub source: Address,
    /// To where.
    pub destination: Address,
    /// Its protocol of IP.
    pub protocol: u8,
    /// Identification of its fragments (RFC 791, RFC 8200).
    pub number: u32,
    /// The zone it is tracked in.
    pub zone: u16,
    /// Number of its fragments that wait.
    pub fragments: usize,
    /// Whether the first of them does.
    pub has_first: bool,
    /// Whether the last does.
    pub has_last: bool,
}

/// A fragment that goes on.
#[derive(Debug)]
pub struct Fragment {
    /// Its bytes.
    pub packet: Vec<u8>,
    /// Its key, with the fields of its connection.
    pub key: Key,
}

#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicU64,
    completed: AtomicU64,
    expired: AtomicU64,
    short: AtomicU64,
    overlapping: AtomicU64,
    refused: AtomicU64,
}

/// The identity of a fragmented packet: addresses, protocol, identification, zone, ingress port,
/// and the continuation that its fragments are at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct DatagramKey {
    source: u128,
    destination: u128,
    v6: bool,
    protocol: u8,
    number: u32,
    zone: u16,
    port: u32,
    continuation: u32,
}

/// Offsets in a fragment, and its part of the packet.
#[derive(Debug, Clone, Copy)]
struct Piece {
    name: DatagramKey,
    /// Offset of IP, ...
    ip: usize,
    /// ... where its part of the packet begins, ...
    data: usize,
    /// ... and where IP ends.
    end: usize,
    /// Offset of its part in the packet.
    from: usize,
    /// Whether another one follows.
    more: bool,
}

/// A fragment that waits.
#[derive(Debug)]
struct Waiting {
    piece: Piece,
    packet: Vec<u8>,
    key: Key,
}

impl Piece {
    fn length(&self) -> usize {
        self.end - self.data
    }

    /// Behind its part of the packet.
    fn to(&self) -> usize {
        self.from + self.length()
    }

    /// Of a fragment; `None` where its headers are not as they should be.
    fn parse(ip: &Ip, zone: u16, key: &Key, packet: &[u8]) -> Option<Piece> {
        let (at, end) = (ip.at, ip.end);
        let word = |at: usize| Some(u16::from_be_bytes(*packet.get(at..at + 2)?.first_chunk()?));
        let (data, offset, more, number, protocol) = if ip.v6 {
            let header = fragment_header(packet, at, end)?;
            let word = word(header + 2)?;
            let number = u32::from_be_bytes(*packet.get(header + 4..)?.first_chunk()?);
            (header + 8, word & 0xfff8, word & 1 != 0, number, 0)
        } else {
            let word = word(at + 6)?;
            if checksum(packet.get(at..ip.transport)?) != 0 {
                return None;
            }
            let number = u16::from_be_bytes([packet[at + 4], packet[at + 5]]).into();
            (ip.transport, (word & 0x1fff) << 3, word & 0x2000 != 0, number, ip.protocol)
        };
        let (source, destination) = super::tuple::addresses(packet, at, ip.v6)?;
        let name = DatagramKey {
            source,
            destination,
            v6: ip.v6,
            protocol,
            number,
            zone,
            port: key.get(Field::InPort) as u32,
            continuation: key.continuation(),
        };
        // All but the last are of whole units.
        let length = end.checked_sub(data).filter(|length| *length > 0)?;
        let is_whole = !more || length.is_multiple_of(8);
        let piece = Piece { name, ip: at, data, end, from: offset.into(), more };
        is_whole.then_some(piece)
    }
}

/// Returns the offset of the fragment header of IPv6.
fn fragment_header(packet: &[u8], ip: usize, end: usize) -> Option<usize> {
    let mut next = packet[ip + 6];
    let mut at = ip + 40;
    while is_extension(next) {
        let head: [u8; 8] = *packet.get(at..end)?.first_chunk()?;
        if next == FRAGMENT_HEADER {
            if u16::from_be_bytes([head[2], head[3]]) & 0xfff9 != 0 {
                return Some(at);
            }
            at += 8;
        } else if next == AUTHENTICATION {
            at += 8 + usize::from(head[1]) * 4;
        } else {
            at += 8 + usize::from(head[1]) * 8;
        }
        next = head[0];
    }
    None
}

/// The fragments of a packet.
#[derive(Debug)]
struct Packet {
    /// In the order of their parts.
    fragments: Vec<Waiting>,
    /// Its length, once the last fragment has come.
    length: Option<usize>,
    /// It would be too long: fragments of it are invalid until its time is over.
    failed: bool,
    due: Due,
}

/// Time-out of a packet, and its number among those of that time.
type Due = (u64, u64);

/// Fragments that wait, and their bytes.
#[derive(Debug, Clone, Copy, Default)]
struct SourceLoad {
    count: u32,
    bytes: usize,
}

impl SourceLoad {
    fn add(&mut self, other: SourceLoad) {
        (self.count, self.bytes) = (self.count + other.count, self.bytes + other.bytes);
    }

    fn remove(&mut self, other: SourceLoad) {
        (self.count, self.bytes) = (self.count - other.count, self.bytes - other.bytes);
    }

    fn is_within(self, count: u32, bytes: usize) -> bool {
        self.count <= count && self.bytes <= bytes
    }
}

#[derive(Debug, Default)]
struct Inner {
    packets: HashMap<DatagramKey, Packet>,
    /// In the order their time is over.
    due: BTreeMap<Due, DatagramKey>,
    /// Packets so far.
    serial: u64,
    /// Load of each source.
    sources: HashMap<(bool, u128), SourceLoad>,
    all: SourceLoad,
}

/// The fragments that wait.
#[derive(Debug)]
pub(super) struct Fragments {
    inner: Mutex<Inner>,
    /// Packets of which fragments wait, so that a reader need not take the lock.
    packets: AtomicUsize,
    most: AtomicU32,
    shortest: [AtomicU32; 2],
    counts: [Counts; 2],
    /// Fragments dropped since [`Fragments::take_lost`].
    lost: AtomicU64,
}

/// The fate of a fragment.
pub(super) enum FragmentFate {
    /// It waits.
    Waits,
    /// It is of no packet.
    Refused,
    /// Its packet is there.
    Complete(Box<Reassembled>),
}

/// A packet, and the fragments it came in.
pub(super) struct Reassembled {
    /// The packet, as if it had not been cut.
    pub(super) packet: Vec<u8>,
    /// The key of its first fragment.
    pub(super) key: Key,
    /// Offset of the data that fragments have parts of.
    data: usize,
    fragments: Vec<Waiting>,
}

impl Default for Fragments {
    fn default() -> Fragments {
        Fragments {
            inner: Mutex::default(),
            packets: AtomicUsize::new(0),
            most: AtomicU32::new(MOST),
            shortest: SHORTEST.map(AtomicU32::new),
            counts: Default::default(),
            lost: AtomicU64::new(0),
        }
    }
}

fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(more as u64, Relaxed);
}

impl Fragments {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A fragment has come.
    pub(super) fn take(
        &self,
        ip: &Ip,
        zone: u16,
        key: &Key,
        packet: &[u8],
        now: u64,
    ) -> FragmentFate {
        let counts = &self.counts[usize::from(ip.v6)];
        let Some(piece) = Piece::parse(ip, zone, key, packet) else { return FragmentFate::Refused };
        let shortest = self.shortest[usize::from(ip.v6)].load(Relaxed) as usize;
        if piece.more && piece.end - piece.ip < shortest {
            add(&counts.short, 1);
            return FragmentFate::Refused;
        }
        let mut inner = self.lock();
        self.forget_late(&mut inner, now);
        let most = self.most.load(Relaxed);
        let source = (piece.name.v6, piece.name.source);
        let load = SourceLoad { count: 1, bytes: packet.len() };
        let (mut all, mut own) =
            (inner.all, inner.sources.get(&source).copied().unwrap_or_default());
        all.add(load);
        own.add(load);
        let has_room = all.is_within(most, BYTES)
            && own.is_within(most.div_ceil(SHARE), BYTES / SHARE as usize);
        if !has_room {
            add(&counts.refused, 1);
            return FragmentFate::Refused;
        }
        let name = piece.name;
        let inner = &mut *inner;
        let of = inner.packets.entry(name).or_insert_with(|| {
            let due = (now.saturating_add(REASSEMBLY_TIMEOUT), inner.serial);
            inner.serial += 1;
            inner.due.insert(due, name);
            Packet { fragments: Vec::new(), length: None, failed: false, due }
        });
        if of.failed {
            return FragmentFate::Refused;
        }
        if !of.put(Waiting { piece, packet: packet.to_vec(), key: *key }) {
            add(&counts.overlapping, 1);
            return FragmentFate::Refused;
        }
        add(&counts.accepted, 1);
        inner.sources.insert(source, own);
        inner.all = all;
        let taken =
            if of.is_complete() { self.complete(inner, &name) } else { FragmentFate::Waits };
        self.packets.store(inner.packets.len(), Relaxed);
        taken
    }

    /// All fragments of a packet are there.
    fn complete(&self, inner: &mut Inner, name: &DatagramKey) -> FragmentFate {
        let counts = &self.counts[usize::from(name.v6)];
        let Some(packet) = inner.packets.get_mut(name) else { return FragmentFate::Refused };
        let fragments = std::mem::take(&mut packet.fragments);
        let count = fragments.len();
        let whole = Reassembled::from_fragments(fragments);
        packet.failed = whole.is_none();
        let bytes = whole.as_ref().map_or(0, Reassembled::bytes);
        inner.leave(name, SourceLoad { count: count as u32, bytes });
        let Some(whole) = whole else {
            add(&counts.expired, count);
            add(&self.lost, count);
            return FragmentFate::Waits;
        };
        inner.forget(name);
        add(&counts.completed, count);
        FragmentFate::Complete(Box::new(whole))
    }

    /// Drops the fragments of packets that have timed out.
    fn forget_late(&self, inner: &mut Inner, now: u64) {
        while let Some((&(due, _), &name)) = inner.due.first_key_value()
            && due <= now
        {
            let Some(packet) = inner.forget(&name) else { return };
            let count = packet.fragments.len();
            let bytes = packet.fragments.iter().map(|fragment| fragment.packet.len()).sum();
            inner.leave(&name, SourceLoad { count: count as u32, bytes });
            add(&self.counts[usize::from(name.v6)].expired, count);
            add(&self.lost, count);
        }
    }

    pub(super) fn expire(&self, now: u64) {
        if self.packets.load(Relaxed) > 0 {
            let mut inner = self.lock();
            self.forget_late(&mut inner, now);
            self.packets.store(inner.packets.len(), Relaxed);
        }
    }

    /// Returns true if fragments wait: one load.
    pub(super) fn wait(&self) -> bool {
        self.packets.load(Relaxed) > 0
    }

    /// Returns the number of fragments dropped since the last call.
    pub(super) fn take_lost(&self) -> u64 {
        if self.lost.load(Relaxed) == 0 { 0 } else { self.lost.swap(0, Relaxed) }
    }

    pub(super) fn limits(&self) -> FragmentLimits {
        let shortest = [0, 1].map(|version: usize| self.shortest[version].load(Relaxed));
        FragmentLimits { most: self.most.load(Relaxed), shortest }
    }

    pub(super) fn set_limits(&self, limits: FragmentLimits) -> Result<(), String> {
        if limits.most > MOST_OF_ALL {
            return Err(format!("at most {MOST_OF_ALL} fragments may wait"));
        }
        if let Some(short) = limits.shortest.iter().find(|length| **length < SHORTEST_OF_ALL) {
            let least = format!("the shortest fragment has at least {SHORTEST_OF_ALL} bytes");
            return Err(format!("{least}, not {short}"));
        }
        self.most.store(limits.most, Relaxed);
        for (own, length) in self.shortest.iter().zip(limits.shortest) {
            own.store(length, Relaxed);
        }
        Ok(())
    }

    /// The packets of which some wait, the oldest first.
    pub(super) fn incomplete(&self) -> Vec<Incomplete> {
        let inner = self.lock();
        let packets = inner.due.values().filter_map(|name| Some((name, inner.packets.get(name)?)));
        let told = packets.filter(|(_, packet)| !packet.failed).map(|(name, packet)| Incomplete {
            source: Address::from_bits(name.source, name.v6),
            destination: Address::from_bits(name.destination, name.v6),
            protocol: name.protocol,
            number: name.number,
            zone: name.zone,
            fragments: packet.fragments.len(),
            has_first: packet.fragments.first().is_some_and(|first| first.piece.from == 0),
            has_last: packet.length.is_some(),
        });
        told.collect()
    }

    /// The counts of IPv4 and of IPv6.
    pub(super) fn counts(&self) -> [FragmentCounts; 2] {
        let inner = self.lock();
        let waiting = |v6: bool| {
            let of = inner.sources.iter().filter(|((of, _), _)| *of == v6);
            of.map(|(_, load)| load.count).sum()
        };
        [false, true].map(|v6| {
            let counts = &self.counts[usize::from(v6)];
            FragmentCounts {
                waiting: waiting(v6),
                accepted: counts.accepted.load(Relaxed),
                completed: counts.completed.load(Relaxed),
                expired: counts.expired.load(Relaxed),
                short: counts.short.load(Relaxed),
                overlapping: counts.overlapping.load(Relaxed),
                refused: counts.refused.load(Relaxed),
            }
        })
    }
}

impl Inner {
    fn forget(&mut self, name: &DatagramKey) -> Option<Packet> {
        let packet = self.packets.remove(name)?;
        self.due.remove(&packet.due);
        Some(packet)
    }

    /// Fragments of a packet wait no more.
    fn leave(&mut self, name: &DatagramKey, load: SourceLoad) {
        let source = (name.v6, name.source);
        self.all.remove(load);
        if let Some(own) = self.sources.get_mut(&source) {
            own.remove(load);
            if own.count == 0 {
                self.sources.remove(&source);
            }
        }
    }
}

impl Packet {
    /// Adds a fragment, if it has no byte that another has, and none behind the last.
    fn put(&mut self, new: Waiting) -> bool {
        let (from, to) = (new.piece.from, new.piece.to());
        let at = self.fragments.partition_point(|fragment| fragment.piece.from < from);
        let before = at.checked_sub(1).map_or(0, |at| self.fragments[at].piece.to());
        let after = self.fragments.get(at).map_or(usize::MAX, |fragment| fragment.piece.from);
        let is_apart = before <= from && to <= after;
        let is_inside = self.length.is_none_or(|length| new.piece.more && to <= length);
        let is_last = !new.piece.more;
        if !is_apart || !is_inside || (is_last && at != self.fragments.len()) {
            return false;
        }
        if is_last {
            self.length = Some(to);
        }
        self.fragments.insert(at, new);
        true
    }

    fn is_complete(&self) -> bool {
        let Some(length) = self.length else { return false };
        let mut to = 0;
        for fragment in &self.fragments {
            if fragment.piece.from != to {
                return false;
            }
            to = fragment.piece.to();
        }
        to == length
    }
}

impl Reassembled {
    /// `None` where it is too long.
    fn from_fragments(fragments: Vec<Waiting>) -> Option<Reassembled> {
        let first = fragments.first()?;
        let Piece { ip, data, name, .. } = first.piece;
        let length = fragments.last()?.piece.to();
        let headers = if name.v6 { data - ip - 40 } else { data - ip };
        if headers + length > LONGEST {
            return None;
        }
        let total = ((headers + length) as u16).to_be_bytes();
        let mut packet = first.packet[..data].to_vec();
        for fragment in &fragments {
            packet.extend_from_slice(&fragment.packet[fragment.piece.data..fragment.piece.end]);
        }
        if name.v6 {
            packet[ip + 4..ip + 6].copy_from_slice(&total);
            // One that is the whole packet is no fragment.
            packet[data - 6..data - 4].fill(0);
        } else {
            packet[ip + 2..ip + 4].copy_from_slice(&total);
            packet[ip + 6] &= KEPT;
            packet[ip + 7] = 0;
            set_checksum(&mut packet[ip..data]);
        }
        let mut key = first.key;
        extract(&packet, &mut key);
        Some(Reassembled { packet, key, data, fragments })
    }

    fn bytes(&self) -> usize {
        self.fragments.iter().map(|fragment| fragment.packet.len()).sum()
    }

    /// Returns the fragments as they go on: with the changes of the packet, and with the connection
    /// fields of now.
    pub(super) fn into_fragments(self) -> Vec<Fragment> {
        let Reassembled { packet: whole, key: found, data, fragments } = self;
        let Some(first) = fragments.first().map(|fragment| fragment.piece) else {
            return Vec::new();
        };
        let of_addresses = if first.name.v6 { 8..40 } else { 12..20 };
        let addresses = &whole[first.ip..][of_addresses.clone()];
        let changed = |fragment: Waiting| {
            let Waiting { piece, mut packet, mut key } = fragment;
            let part = &whole[data + piece.from..][..piece.length()];
            packet[piece.data..piece.end].copy_from_slice(part);
            packet[piece.ip..][of_addresses.clone()].copy_from_slice(addresses);
            if !piece.name.v6 {
                set_checksum(&mut packet[piece.ip..piece.data]);
            }
            extract(&packet, &mut key);
            key.words_mut()[CONNECTION].copy_from_slice(&found.words()[CONNECTION]);
            Fragment { packet, key }
        };
        fragments.into_iter().map(changed).collect()
    }
}

/// Sets the checksum of a header of IPv4.
fn set_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}
