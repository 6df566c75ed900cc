//! Connections: which packets belong together, what is remembered of them, and translation of addresses.
//!
//! It does what `ct` says, as Open vSwitch's own tracker does: connections are looked up by addresses,
//! protocol and ports in a zone; those that are remembered (`commit`) have a mark, a label, and
//! addresses and ports they are translated to, and are forgotten when their time is over. TCP is followed
//! with its windows; errors of ICMP belong to the connection they are about, and what they quote is
//! translated with them.
//!
//! # What is not there
//!
//! There are no helpers (FTP, TFTP): further connections of such protocols are not known to belong to
//! the first. Fragments are not put together: the first of a packet is looked up by its ports,
//! the others are invalid. Checksums are not verified. SCTP is followed as UDP is, and identifiers of ICMP
//! are not translated: where two hosts behind one address use the same to the same host, the second
//! connection is not remembered.

mod state;
mod table;
mod translation;
mod tuple;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::key::Key;
use crate::key::extract::{ICMP, ICMPV6, TCP};
use crate::wire::{Action, Ct, Field, Nat, NatFlags};
use state::{Fit, Segment, State};
use table::{Connection, Refused, Table};
use tuple::{Parsed, Tuple};

const NEW: u32 = 1;
const ESTABLISHED: u32 = 1 << 1;
const RELATED: u32 = 1 << 2;
const REPLY: u32 = 1 << 3;
const INVALID: u32 = 1 << 4;
const TRACKED: u32 = 1 << 5;
const SOURCE: u32 = 1 << 6;
const DESTINATION: u32 = 1 << 7;

/// How many connections there may be unless said otherwise; Open vSwitch's number.
const ROOM: usize = 3_000_000;

/// Connections that are known. All workers share it: locks are of a part of the connections, and held for
/// some hundred nanoseconds.
#[derive(Debug)]
pub struct Tracker {
    table: Table,
    /// What `random` chooses by.
    random: AtomicU64,
}

impl Default for Tracker {
    fn default() -> Tracker {
        Tracker::with_room(ROOM)
    }
}

/// A connection, for who asks which there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The zone.
    pub zone: u16,
    /// The protocol of IP.
    pub protocol: u8,
    /// Whether addresses are of IPv6.
    pub v6: bool,
    /// Source and destination of its first packet: address and port.
    pub original: ((u128, u16), (u128, u16)),
    /// Source and destination of answers.
    pub reply: ((u128, u16), (u128, u16)),
    /// Its mark.
    pub mark: u32,
    /// Its label.
    pub label: u128,
    /// When it is forgotten unless there is another packet, in nanoseconds of the steady clock.
    pub expires: u64,
}

/// What was found of a packet's connection.
struct Found {
    state: u32,
    connection: Option<Arc<Connection>>,
    original: Option<Tuple>,
}

impl Tracker {
    /// With room for so many connections. One more is not remembered, and its packets stay new.
    #[must_use]
    pub fn with_room(room: usize) -> Tracker {
        Tracker { table: Table::with_room(room), random: AtomicU64::new(0) }
    }

    /// Looks the connection of a packet up, and does what the action says: its fields of `key` are set, it
    /// is remembered where that is wanted, and addresses are translated in `packet` and in `key`.
    ///
    /// `key` is what was found in `packet`, as it is now.
    pub fn track(&self, action: &Ct, zone: u16, key: &mut Key, packet: &mut [u8], now: u64) {
        let found = match Parsed::of(packet, zone) {
            Some(parsed) => self.find(action, &parsed, key, packet, now),
            None => Found { state: INVALID, connection: None, original: None },
        };
        key.set(Field::CtState, (found.state | TRACKED).into());
        key.set(Field::CtZone, zone.into());
        let (mark, label) = match &found.connection {
            Some(connection) => {
                let mut inside = connection.lock();
                if action.commit {
                    for action in &action.actions {
                        inside.set(action);
                    }
                }
                (inside.mark, inside.label)
            }
            None => (0, 0),
        };
        key.set(Field::CtMark, mark.into());
        key.set(Field::CtLabel, label);
        set_original(key, found.original.as_ref());
    }

    fn find(
        &self,
        action: &Ct,
        parsed: &Parsed,
        key: &mut Key,
        packet: &mut [u8],
        now: u64,
    ) -> Found {
        let nat = action.actions.iter().find_map(|action| match action {
            Action::Nat(nat) => Some(&**nat),
            _ => None,
        });
        let segment = match parsed.tuple.protocol {
            TCP if parsed.about.is_none() => {
                Segment::of(&packet[parsed.ip.transport..parsed.ip.end])
            }
            _ => None,
        };
        if let Some((connection, reply)) = self.table.find(&parsed.tuple, now) {
            if action.force && reply && parsed.about.is_none() {
                // Who asks is taken to have begun.
                self.table.remove(&connection);
            } else if let Some(found) =
                self.belongs(&connection, reply, parsed, (nat, segment), key, packet, now)
            {
                return found;
            }
        }
        if parsed.about.is_some() {
            return Found { state: INVALID, connection: None, original: None };
        }
        let Some(state) = State::begin(&parsed.tuple, segment.as_ref()) else {
            return Found { state: INVALID, connection: None, original: Some(parsed.tuple) };
        };
        let new = Found { state: NEW, connection: None, original: Some(parsed.tuple) };
        if !action.commit {
            return new;
        }
        match self.remember(parsed, nat, state, now) {
            Ok(connection) => {
                let mut flags = NEW;
                if nat.is_some() {
                    flags |= translate(&connection, false, parsed, key, packet);
                }
                Found { state: flags, connection: Some(connection), ..new }
            }
            // Somebody else has remembered it meanwhile.
            Err(Refused::Known) => {
                let found = self.table.find(&parsed.tuple, now).and_then(|(connection, reply)| {
                    self.belongs(&connection, reply, parsed, (nat, segment), key, packet, now)
                });
                found.unwrap_or(new)
            }
            Err(Refused::Taken | Refused::Full) => new,
        }
    }

    /// What a packet is to a connection that was found; `None` where it begins another one.
    #[expect(clippy::too_many_arguments, reason = "the parts of a packet")]
    fn belongs(
        &self,
        connection: &Arc<Connection>,
        reply: bool,
        parsed: &Parsed,
        (nat, segment): (Option<&Nat>, Option<Segment>),
        key: &mut Key,
        packet: &mut [u8],
        now: u64,
    ) -> Option<Found> {
        let mut flags = if reply { REPLY } else { 0 };
        if parsed.about.is_some() {
            flags |= RELATED;
        } else {
            let mut inside = connection.lock();
            match inside.state.see(reply, segment.as_ref()) {
                Fit::Valid => flags |= ESTABLISHED,
                Fit::New => flags |= NEW,
                Fit::Invalid => {
                    drop(inside);
                    let original = Some(connection.original);
                    let connection = Some(Arc::clone(connection));
                    return Some(Found { state: INVALID, connection, original });
                }
                Fit::Reopens => {
                    drop(inside);
                    self.table.remove(connection);
                    return None;
                }
            }
            let timeout = inside.state.timeout();
            drop(inside);
            self.table.keep(connection, now.saturating_add(timeout), now);
        }
        if nat.is_some() {
            flags |= translate(connection, reply, parsed, key, packet);
        }
        let original = Some(connection.original);
        Some(Found { state: flags, connection: Some(Arc::clone(connection)), original })
    }

    fn remember(
        &self,
        parsed: &Parsed,
        nat: Option<&Nat>,
        state: State,
        now: u64,
    ) -> Result<Arc<Connection>, Refused> {
        let expires = now.saturating_add(state.timeout());
        let original = parsed.tuple;
        let wants = NatFlags(NatFlags::SOURCE.0 | NatFlags::DESTINATION.0);
        let Some(nat) = nat.filter(|nat| nat.flags.0 & wants.0 != 0) else {
            return self.table.add(original, original.reverse(), state, (expires, now));
        };
        let random = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed) ^ now;
        for after in translation::candidates(&original, nat, random) {
            match self.table.add(original, after.reverse(), state.clone(), (expires, now)) {
                Err(Refused::Taken) => {}
                done => return done,
            }
        }
        Err(Refused::Taken)
    }

    /// Forgets connections whose time is over. Called now and then, it does a part of the work each time:
    /// 16,384 connections at most.
    pub fn expire(&self, now: u64) {
        self.table.expire(now);
    }

    /// Forgets all connections, or those of a zone.
    pub fn flush(&self, zone: Option<u16>) {
        self.table.flush(zone);
    }

    /// How many connections there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All connections.
    #[must_use]
    pub fn all(&self) -> Vec<Shown> {
        self.table.all()
    }
}

/// Whose packets are translated how: the flags that say so.
fn translate(
    connection: &Connection,
    reply: bool,
    parsed: &Parsed,
    key: &mut Key,
    packet: &mut [u8],
) -> u32 {
    let to = if reply { connection.original } else { connection.reply }.reverse();
    let mut flags = 0;
    if to.source != parsed.tuple.source {
        flags |= SOURCE;
    }
    if to.destination != parsed.tuple.destination {
        flags |= DESTINATION;
    }
    if flags != 0 {
        translation::translate(parsed, &to, key, packet);
    }
    flags
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

/// Forgets what is known of the packet's connection.
pub fn clear(key: &mut Key) {
    for field in [Field::CtState, Field::CtZone, Field::CtMark, Field::CtLabel] {
        key.set(field, 0);
    }
    set_original(key, None);
}
