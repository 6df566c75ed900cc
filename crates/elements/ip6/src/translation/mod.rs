//! Translation between IPv4 and IPv6 (RFC 7915): headers, ICMP messages and the
//! packets they quote, checksums.

use std::net::Ipv6Addr;

use linerate_graph::{Class, DropReason, ElementBuilder, Ipv6Prefix, NoBuffer};
use linerate_packet::checksum::{checksum, update16};

use super::header::{get16, put16};

mod element;
mod icmp;
#[cfg(test)]
mod tests;
mod to_v4;
mod to_v6;

pub(super) const FROM_V4: Class = element::FROM_V4;
pub(super) const FROM_V6: Class = element::FROM_V6;

/// Protocols that change behind the header.
const ICMP: u8 = 1;
const IGMP: u8 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;

/// Length of an IPv4 header without options, and of an IPv6 header.
const V4: usize = 20;
const V6: usize = 40;
/// Length of a fragment header, and of an ICMP header.
const FRAGMENT_HEADER: usize = 8;
const MESSAGE: usize = 8;
/// The least MTU of an IPv6 link.
const LEAST_MTU: usize = 1280;

/// Reasons for which packets are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
    /// no sound packet
    Malformed,
    /// an address the other side cannot have
    Address,
    // A message or a header of this version alone.
    /// nothing the other side has
    Untranslatable,
}

/// The 96 bits in front of IPv4 addresses on the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prefix([u8; 12]);

impl Prefix {
    /// The prefix of addresses mapped to IPv6, `::ffff:0:0/96`.
    const MAPPED: Prefix = Prefix([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);

    /// Reads the prefix from an argument.
    fn from_args(make: &mut ElementBuilder<'_>, name: &str) -> Prefix {
        let Some(Ipv6Prefix { address, length }) = make.get(name) else {
            return Prefix::MAPPED;
        };
        if length != 96 {
            make.error(format!("{name}: must have 96 bits"));
        }
        let octets = address.octets();
        octets.first_chunk().map_or(Prefix::MAPPED, |bits| Prefix(*bits))
    }

    fn join(&self, v4: [u8; 4]) -> [u8; 16] {
        let mut v6 = [0; 16];
        v6[..12].copy_from_slice(&self.0);
        v6[12..].copy_from_slice(&v4);
        v6
    }

    /// The IPv4 address in an IPv6 address, which is not zero.
    fn part(&self, v6: [u8; 16]) -> Result<[u8; 4], Reason> {
        let v4 = v6.last_chunk().copied().unwrap_or_default();
        if v6[..12] == self.0 && v4 != [0; 4] { Ok(v4) } else { Err(Reason::Address) }
    }
}

/// The header a packet gets in place of its own.
#[derive(Debug)]
struct Head {
    bytes: [u8; V6 + FRAGMENT_HEADER],
    length: usize,
    /// Bytes of the headers it takes the place of.
    replaced: usize,
    /// Bytes behind them, by the length field.
    payload: usize,
    /// Protocol of these bytes in the new packet.
    protocol: u8,
    /// Whether they are a piece of a datagram, and not the first.
    is_fragment: bool,
    is_later: bool,
}

impl Head {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Result of a translation.
#[derive(Debug)]
enum Outcome {
    /// It gets another header.
    Header(Head),
    /// Likewise, with the ICMP message of the translator behind it.
    Message(Head),
}

/// A checksum after the even number of bytes `old` that it covers became `new`.
fn exchange(check: u16, old: &[u8], new: &[u8]) -> u16 {
    update16(check, !checksum(old), !checksum(new))
}

/// Makes the checksum of a TCP or UDP header, where there is one, that of the new
/// addresses.
fn readdress(payload: &mut [u8], protocol: u8, old: &[u8], new: &[u8]) {
    let at = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return,
    };
    let Some(field) = payload.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) else {
        return;
    };
    let check = u16::from_be_bytes(*field);
    if protocol == UDP && check == 0 {
        return;
    }
    let check = match exchange(check, old, new) {
        // Zero would mean no checksum.
        0 if protocol == UDP => 0xffff,
        check => check,
    };
    *field = check.to_be_bytes();
}

fn v6_at(bytes: &[u8], at: usize) -> Ipv6Addr {
    super::header::address(bytes, at).into()
}
