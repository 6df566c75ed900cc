//! Tuple: the fields that packets of one connection share.

use crate::edit::Ip;
use crate::key::Key;
use crate::key::extract::{ICMP, ICMPV6, SCTP, TCP, UDP};
use crate::wire::Field;

/// One end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct End {
    /// Its address; one of IPv4 is the number it is.
    pub(super) address: u128,
    /// Its port; for ICMP the identifier, at both ends.
    pub(super) port: u16,
}

/// From where to where, and in which zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Tuple {
    pub(super) source: End,
    pub(super) destination: End,
    pub(super) protocol: u8,
    pub(super) v6: bool,
    pub(super) zone: u16,
    /// For ICMP its type and code, as a message in this direction has them.
    pub(super) message: (u8, u8),
}

impl Tuple {
    /// The other direction.
    pub(super) fn reverse(&self) -> Tuple {
        let message = match (self.protocol, self.message.0) {
            (ICMP, 8) => (0, 0),
            (ICMP, 0) => (8, 0),
            (ICMP, kind) if let Some(other) = partner(kind) => (other, 0),
            (ICMPV6, 128) => (129, 0),
            (ICMPV6, 129) => (128, 0),
            _ => self.message,
        };
        let (source, destination) = (self.destination, self.source);
        Tuple { source, destination, message, ..*self }
    }
}

impl Tuple {
    /// The first packet of a connection that is known of a packet with this tuple.
    pub(super) fn of_connection(key: &Key, packet: &Tuple) -> Option<Tuple> {
        let protocol = key.get(Field::CtProto) as u8;
        let (source, destination) = if packet.v6 {
            (Field::CtIpv6Src, Field::CtIpv6Dst)
        } else {
            (Field::CtIpv4Src, Field::CtIpv4Dst)
        };
        let ends = (key.get(Field::CtTpSrc) as u16, key.get(Field::CtTpDst) as u16);
        let (ports, message) = match protocol {
            0 => return None,
            ICMP | ICMPV6 => {
                ((packet.source.port, packet.destination.port), (ends.0 as u8, ends.1 as u8))
            }
            _ => (ends, (0, 0)),
        };
        Some(Tuple {
            source: End { address: key.get(source), port: ports.0 },
            destination: End { address: key.get(destination), port: ports.1 },
            protocol,
            message,
            ..*packet
        })
    }
}

/// Questions and answers of ICMP beside echo: timestamps, information, address masks.
fn partner(kind: u8) -> Option<u8> {
    Some(match kind {
        13 => 14,
        14 => 13,
        15 => 16,
        16 => 15,
        17 => 18,
        18 => 17,
        _ => return None,
    })
}

/// A packet whose connection can be found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parsed {
    pub(super) tuple: Tuple,
    pub(super) ip: Ip,
    /// An error that is about a packet: where that one's header of IP begins. The tuple is that of
    /// the packet's answer, as the error goes the same way.
    pub(super) about: Option<usize>,
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn address(bytes: &[u8], at: usize, v6: bool) -> Option<u128> {
    let bytes = bytes.get(at..)?;
    Some(if v6 {
        u128::from_be_bytes(*bytes.first_chunk()?)
    } else {
        u32::from_be_bytes(*bytes.first_chunk()?).into()
    })
}

/// Returns the offsets of the addresses in a header of IP.
pub(super) const fn addresses_at(v6: bool) -> (usize, usize) {
    if v6 { (8, 24) } else { (12, 16) }
}

/// Source and destination of a header of IP.
pub(super) fn addresses(bytes: &[u8], ip: usize, v6: bool) -> Option<(u128, u128)> {
    let (source, destination) = addresses_at(v6);
    Some((address(bytes, ip + source, v6)?, address(bytes, ip + destination, v6)?))
}

fn is_error(protocol: u8, kind: u8) -> bool {
    match protocol {
        // Unreachable, quench, redirect, exceeded, bad parameter.
        ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        ICMPV6 => matches!(kind, 1..=4),
        _ => false,
    }
}

/// Returns true if a message of ICMP has an identifier, so that it can begin a connection.
fn is_identified(protocol: u8, kind: u8, code: u8) -> bool {
    let known = match protocol {
        ICMP => matches!(kind, 0 | 8) || partner(kind).is_some(),
        _ => matches!(kind, 128 | 129),
    };
    known && code == 0
}

/// Returns the ports, or the fields in their place, of a packet with so many bytes from its
/// transport on.
///
/// A port is never 0, and messages of ICMP without an identifier are of no connection.
fn ports(bytes: &[u8], at: usize, protocol: u8, need: usize) -> Option<(u16, u16, (u8, u8))> {
    bytes.get(at..at + need)?;
    match protocol {
        TCP | UDP | SCTP => {
            let (source, destination) = (word(bytes, at)?, word(bytes, at + 2)?);
            (source != 0 && destination != 0).then_some((source, destination, (0, 0)))
        }
        ICMP | ICMPV6 => {
            let (kind, code) = (bytes[at], bytes[at + 1]);
            let identifier = word(bytes, at + 4)?;
            is_identified(protocol, kind, code).then_some((identifier, identifier, (kind, code)))
        }
        _ => Some((0, 0, (0, 0))),
    }
}

/// Returns the least length of a protocol's header.
const fn least(protocol: u8) -> usize {
    match protocol {
        TCP => 20,
        UDP | ICMP | ICMPV6 => 8,
        SCTP => 12,
        _ => 0,
    }
}

/// Returns true if the length in a UDP header is valid, and not beyond the packet.
fn has_length(inside: &[u8], at: usize) -> bool {
    let there = inside.len().saturating_sub(at);
    word(inside, at + 4).is_some_and(|length| (8..=there).contains(&usize::from(length)))
}

impl Parsed {
    /// Of a packet of IP that is no fragment.
    pub(super) fn parse(bytes: &[u8], ip: Ip, zone: u16) -> Option<Parsed> {
        if ip.fragment != 0 || (ip.v6 && ip.protocol == ICMP) {
            return None;
        }
        if !ip.v6 && ip.protocol == ICMPV6 {
            return None;
        }
        let inside = bytes.get(..ip.end)?;
        let (at_source, at_destination) = addresses_at(ip.v6);
        let kind = *inside.get(ip.transport).unwrap_or(&0);
        if is_error(ip.protocol, kind) {
            let about = ip.transport + 8;
            let tuple = packet_inside(inside, about, ip.v6, zone)?.reverse();
            // It goes to the host that sent the quoted packet.
            let told = address(inside, ip.at + at_destination, ip.v6)?;
            let is_told = told == tuple.destination.address;
            return is_told.then_some(Parsed { tuple, ip, about: Some(about) });
        }
        if ip.protocol == UDP && !has_length(inside, ip.transport) {
            return None;
        }
        let (source, destination, message) =
            ports(inside, ip.transport, ip.protocol, least(ip.protocol))?;
        let end = |at, port| Some(End { address: address(inside, ip.at + at, ip.v6)?, port });
        let tuple = Tuple {
            source: end(at_source, source)?,
            destination: end(at_destination, destination)?,
            protocol: ip.protocol,
            v6: ip.v6,
            zone,
            message,
        };
        Some(Parsed { tuple, ip, about: None })
    }
}

/// Returns the protocol and the offset of the payload in a packet quoted by an error. All of the
/// header before is there.
pub(super) fn transport_inside(bytes: &[u8], at: usize, v6: bool) -> Option<(u8, usize)> {
    let head = bytes.get(at..)?;
    if v6 {
        let head = head.first_chunk::<40>()?;
        // Extension headers of a quoted packet are not followed.
        return (head[0] >> 4 == 6).then_some((head[6], at + 40));
    }
    let head = head.first_chunk::<20>()?;
    let length = usize::from(head[0] & 0xf) * 4;
    let first = u16::from_be_bytes([head[6], head[7]]) & 0x1fff == 0;
    let whole = length >= 20 && bytes.len() >= at + length;
    (head[0] >> 4 == 4 && whole && first).then_some((head[9], at + length))
}

fn packet_inside(bytes: &[u8], at: usize, v6: bool, zone: u16) -> Option<Tuple> {
    let (protocol, transport) = transport_inside(bytes, at, v6)?;
    // An error of ICMP quotes eight bytes at least, one of ICMPv6 as much as there is room for; and
    // none is about an error.
    let need = if v6 { least(protocol) } else { least(protocol).min(8) };
    let (source, destination, message) = ports(bytes, transport, protocol, need)?;
    let (at_source, at_destination) = addresses_at(v6);
    let end = |from, port| Some(End { address: address(bytes, at + from, v6)?, port });
    Some(Tuple {
        source: end(at_source, source)?,
        destination: end(at_destination, destination)?,
        protocol,
        v6,
        zone,
        message,
    })
}
