//! Translation of addresses: choice of the new ones, and changes of packets.

use linerate_packet::checksum::{checksum, update16};

use super::tuple::{Parsed, Tuple, addresses_at, transport_inside};
use crate::edit::{self, sctp};
use crate::key::Key;
use crate::key::extract::{ICMP, ICMPV6, SCTP, TCP, UDP};
use crate::wire::{Entry, Field, Nat, NatAddresses, NatFlags};

/// Ends that are tried for a connection before it is given up.
const TRIES: u64 = 4096;
/// Ports to choose from if the connection's own is in use and the action has none: those of its
/// kind, as some services check that.
fn ports_like(port: u16) -> (u16, u16) {
    match port {
        0..512 => (1, 511),
        512..1024 => (600, 1023),
        _ => (1024, u16::MAX),
    }
}

fn mix(hash: u64, number: u64) -> u64 {
    let sum = (hash ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let sum = (sum ^ sum >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let sum = (sum ^ sum >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    sum ^ sum >> 31
}

fn mix_address(hash: u64, address: u128) -> u64 {
    mix(mix(hash, address as u64), (address >> 64) as u64)
}

/// Addresses of a range: the first, and how many there are, at most 2^64.
fn addresses(nat: &Nat, v6: bool) -> Option<(u128, u64)> {
    let range = |first: u128, last: u128| {
        let count = last.saturating_sub(first).saturating_add(1);
        (first, u64::try_from(count).unwrap_or(u64::MAX))
    };
    match nat.addresses {
        NatAddresses::V4(first, last) if !v6 => {
            let last = last.unwrap_or(first);
            Some(range(u32::from(first).into(), u32::from(last).into()))
        }
        NatAddresses::V6(first, last) if v6 => {
            let last = last.unwrap_or(first);
            Some(range(first.into(), last.into()))
        }
        _ => None,
    }
}

/// Returns the ends that may be taken for a connection, in the order they are tried: each is the
/// connection's tuple after translation.
///
/// `random` is the seed of the flag `random`.
pub(super) fn candidates(
    tuple: &Tuple,
    nat: &Nat,
    random: u64,
) -> impl Iterator<Item = Tuple> + use<> {
    let tuple = *tuple;
    let source = nat.flags.contains(NatFlags::SOURCE);
    let own = if source { tuple.source } else { tuple.destination };
    let basis = if nat.flags.contains(NatFlags::RANDOM) {
        random
    } else if nat.flags.contains(NatFlags::PERSISTENT) {
        // Equal for all connections of a host.
        mix_address(0, tuple.source.address)
    } else {
        let both = mix_address(mix_address(0, tuple.source.address), tuple.destination.address);
        let ports = u64::from(tuple.source.port) << 16 | u64::from(tuple.destination.port);
        mix(both, ports << 8 | u64::from(tuple.protocol))
    };
    // Without a new address, or with zero, it stays.
    let said = addresses(nat, tuple.v6).filter(|(first, _)| *first != 0);
    let (first, count) = said.unwrap_or((own.address, 1));
    let has_ports = matches!(tuple.protocol, TCP | UDP | SCTP);
    let wanted = nat.ports.map(|(first, last)| (first, last.unwrap_or(first)));
    let others = ports_like(tuple.source.port);
    let (low, high) = wanted.unwrap_or(others);
    let (low, high) = (low.min(high), low.max(high));
    // The port stays if it can; without new ports it is the next one otherwise.
    let keeps = wanted.is_none() || (low..=high).contains(&own.port);
    let span = if has_ports { u64::from(high - low) + 1 } else { 1 };
    let is_random = nat.flags.contains(NatFlags::RANDOM);
    let next = u64::from(tuple.source.port.saturating_sub(others.0));
    let start = if wanted.is_some() || is_random { mix(basis, 1) } else { next };
    let address = move |nth: u64| first + u128::from((basis % count + nth) % count);
    let first_try = move |nth: u64| (address(nth), own.port);
    let more = move |nth: u64| {
        let (nth_address, nth_port) = (nth / span, nth % span);
        (address(nth_address % count), low + ((start % span + nth_port) % span) as u16)
    };
    let may_change = has_ports && (source || wanted.is_some());
    let plain = if !may_change {
        count
    } else if keeps {
        1
    } else {
        0
    };
    let searched = if may_change { span.saturating_mul(count) } else { 0 };
    let kept = (0..plain.min(TRIES)).map(first_try);
    let searched = (0..searched.min(TRIES)).map(more);
    let translated = move |(address, port): (u128, u16)| {
        let mut translated = tuple;
        let end = if source { &mut translated.source } else { &mut translated.destination };
        (end.address, end.port) = (address, port);
        translated
    };
    // A destination without new ports keeps its own, so only the source's may change.
    let other = (!source && has_ports).then(|| {
        let to = translated((address(0), if keeps { own.port } else { low }));
        let (low, span) = (others.0, u64::from(others.1 - others.0) + 1);
        let start = if is_random { start } else { next };
        (0..span.min(TRIES)).map(move |nth| {
            let mut translated = to;
            translated.source.port = low + ((start % span + nth) % span) as u16;
            translated
        })
    });
    kept.chain(searched).map(translated).chain(other.into_iter().flatten())
}

/// Translates a packet, and its key with it.
pub(super) fn translate(parsed: &Parsed, to: &Tuple, key: &mut Key, packet: &mut [u8]) {
    let from = &parsed.tuple;
    let (source, destination) =
        if from.v6 { (Field::Ipv6Src, Field::Ipv6Dst) } else { (Field::Ipv4Src, Field::Ipv4Dst) };
    let mut set = |field: Field, value: u128| {
        key.set(field, value);
        let _ = edit::set(&Entry::exact(field, value), packet);
    };
    if from.source.address != to.source.address {
        set(source, to.source.address);
    }
    if from.destination.address != to.destination.address {
        set(destination, to.destination.address);
    }
    if let Some(about) = parsed.about {
        return translate_inside(parsed, about, to, packet);
    }
    let (source, destination) = match from.protocol {
        TCP => (Field::TcpSrc, Field::TcpDst),
        UDP => (Field::UdpSrc, Field::UdpDst),
        SCTP => (Field::SctpSrc, Field::SctpDst),
        _ => return,
    };
    if from.source.port != to.source.port {
        set(source, to.source.port.into());
    }
    if from.destination.port != to.destination.port {
        set(destination, to.destination.port.into());
    }
}

/// The sum of 16-bit words, with carries added.
fn sum(bytes: &[u8]) -> u16 {
    !checksum(bytes)
}

fn checksum_at(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

/// Returns the place of the checksum of a quoted packet, if it has one and its header is quoted as
/// far as Open vSwitch wants it.
fn checksum_inside(
    packet: &[u8],
    (protocol, v6): (u8, bool),
    transport: usize,
    end: usize,
) -> Option<usize> {
    let (at, least) = match protocol {
        TCP => (16, 20),
        UDP => (6, 8),
        ICMPV6 if v6 => (2, 4),
        _ => return None,
    };
    let is_there = transport + least <= end;
    let has_one = || protocol != UDP || checksum_at(packet, transport + at) != 0;
    (is_there && has_one()).then_some(transport + at)
}

/// Returns the length of a quoted packet from its transport on, by its header: it may be cut. `None`
/// of a fragment, whose transport goes on in others.
fn length_inside(packet: &[u8], about: usize, transport: usize, v6: bool) -> Option<u16> {
    let head = packet.get(about..)?.first_chunk::<8>()?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let is_fragment = !v6 && word(6) & 0x3fff != 0;
    let header = u16::try_from(transport - about).ok()?;
    let length = if v6 { word(4) } else { word(2).checked_sub(header)? };
    (!is_fragment).then_some(length)
}

/// Changes the packet an error is about. The error goes the way of `to`, that packet went the other
/// way.
fn translate_inside(parsed: &Parsed, about: usize, to: &Tuple, packet: &mut [u8]) {
    let (start, end) = (parsed.ip.transport, parsed.ip.end);
    let (v6, from) = (parsed.ip.v6, &parsed.tuple);
    let Some((protocol, transport)) = transport_inside(packet, about, v6) else { return };
    let Some(message) = packet.get(start..end) else { return };
    let before = sum(message);
    let (at_source, at_destination) = addresses_at(v6);
    let header = about..transport;
    let header_before = sum(&packet[header.clone()]);
    let addresses = about + at_source..about + at_destination + if v6 { 16 } else { 4 };
    let addresses_before = sum(&packet[addresses.clone()]);
    let mut put = |at: usize, address: u128| {
        if v6 {
            packet[at..at + 16].copy_from_slice(&address.to_be_bytes());
        } else {
            packet[at..at + 4].copy_from_slice(&(address as u32).to_be_bytes());
        }
    };
    if from.source.address != to.source.address {
        put(about + at_destination, to.source.address);
    }
    if from.destination.address != to.destination.address {
        put(about + at_source, to.destination.address);
    }
    if !v6 {
        let header_after = sum(&packet[header]);
        let mended = update16(checksum_at(packet, about + 10), header_before, header_after);
        packet[about + 10..about + 12].copy_from_slice(&mended.to_be_bytes());
    }
    let ports = transport..(transport + 4).min(end);
    let ports_before = sum(&packet[ports.clone()]);
    if matches!(protocol, TCP | UDP | SCTP)
        && let Some(quoted) = packet.get_mut(transport..end)
        && let Some(place) = quoted.first_chunk_mut::<4>()
    {
        let [[a, b], [c, d]] = [to.destination.port, to.source.port].map(u16::to_be_bytes);
        let new = [a, b, c, d];
        let old = std::mem::replace(place, new);
        if protocol == SCTP
            && let Some(length) = length_inside(packet, about, transport, v6)
        {
            sctp::update_checksum(&mut packet[transport..end], length, old, new);
        }
    }
    if let Some(at) = checksum_inside(packet, (protocol, v6), transport, end) {
        let mut mended = checksum_at(packet, at);
        mended = update16(mended, addresses_before, sum(&packet[addresses]));
        if protocol != ICMPV6 {
            mended = update16(mended, ports_before, sum(&packet[ports]));
        }
        // In UDP zero is no checksum.
        let mended = if protocol == UDP && mended == 0 { 0xffff } else { mended };
        packet[at..at + 2].copy_from_slice(&mended.to_be_bytes());
    }
    debug_assert!(matches!(parsed.ip.protocol, ICMP | ICMPV6));
    let after = sum(&packet[start..end]);
    let mended = update16(checksum_at(packet, start + 2), before, after);
    packet[start + 2..start + 4].copy_from_slice(&mended.to_be_bytes());
}
