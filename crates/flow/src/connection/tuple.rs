//! What packets of one connection have in common.

use crate::edit::Ip;
use crate::key::extract::{ICMP, ICMPV6, LATER_FRAGMENT, SCTP, TCP, UDP};

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
    /// An error that is about a packet: where that one's header of IP begins. The tuple is that of the
    /// packet's answer, as the error goes the same way.
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

/// Where addresses are, behind the beginning of a header of IP.
pub(super) const fn addresses_at(v6: bool) -> (usize, usize) {
    if v6 { (8, 24) } else { (12, 16) }
}

fn is_error(protocol: u8, kind: u8) -> bool {
    match protocol {
        // Unreachable, quench, redirect, exceeded, bad parameter.
        ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        ICMPV6 => matches!(kind, 1..=4),
        _ => false,
    }
}

/// Ports, or what stands for them.
fn ports(bytes: &[u8], at: usize, protocol: u8) -> Option<(u16, u16, (u8, u8))> {
    let need = match protocol {
        TCP => 20,
        SCTP => 12,
        _ => 8,
    };
    match protocol {
        TCP | UDP | SCTP => {
            bytes.get(at..at + need)?;
            Some((word(bytes, at)?, word(bytes, at + 2)?, (0, 0)))
        }
        ICMP | ICMPV6 => {
            let identifier = word(bytes, at + 4)?;
            Some((identifier, identifier, (bytes[at], bytes[at + 1])))
        }
        _ => Some((0, 0, (0, 0))),
    }
}

impl Parsed {
    /// Of a packet of IP that is no fragment but a first one.
    pub(super) fn of(bytes: &[u8], zone: u16) -> Option<Parsed> {
        let ip = Ip::of(bytes)?;
        if ip.fragment & LATER_FRAGMENT != 0 || (ip.v6 && ip.protocol == ICMP) {
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
            return Some(Parsed { tuple, ip, about: Some(about) });
        }
        let (source, destination, message) = ports(inside, ip.transport, ip.protocol)?;
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

/// What a packet carries that an error is about, and where that begins. All of the header before is there.
pub(super) fn transport_inside(bytes: &[u8], at: usize, v6: bool) -> Option<(u8, usize)> {
    let head = bytes.get(at..)?;
    if v6 {
        let head = head.first_chunk::<40>()?;
        // Extension headers of what an error is about are not followed.
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
    let (source, destination, message) = match protocol {
        TCP | UDP | SCTP => {
            bytes.get(transport..transport + 8)?;
            (word(bytes, transport)?, word(bytes, transport + 2)?, (0, 0))
        }
        // No error is about an error.
        ICMP | ICMPV6 if is_error(protocol, *bytes.get(transport)?) => return None,
        _ => ports(bytes, transport, protocol)?,
    };
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
