//! IP header of a packet, for elements that look at it or change it.
//!
//! `CheckIPHeader` and `MarkIPHeader` mark the place of the header. Click fails where that has not
//! been done; here such packets are dropped under a reason of their own.

use linerate_graph::{DropReason, NoBuffer, Plan, parse_integer};
use linerate_memory::{Arena, Meta, PacketMut, Slot};
use linerate_packet::{
    IpProtocol,
    checksum::{self, Sum},
};

/// Length of a header without options.
pub const LEAST: usize = 20;
/// As [`LEAST`], in words.
pub const WORDS: usize = LEAST / 4;
/// Ethernet header.
pub const ETHERNET: usize = 14;

/// Places in the header.
pub const TOTAL_LENGTH: usize = 2;
/// Identification.
pub const IDENT: usize = 4;
/// Flags and fragment offset.
pub const FRAGMENT: usize = 6;
/// Time to live.
pub const TTL: usize = 8;
/// Protocol.
pub const PROTOCOL: usize = 9;
/// Header checksum.
pub const CHECKSUM: usize = 10;
/// Source address.
pub const SOURCE: usize = 12;
/// Destination address.
pub const DESTINATION: usize = 16;

/// Of [`FRAGMENT`]: not to be cut.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// Of [`FRAGMENT`]: more fragments follow.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// Of [`FRAGMENT`]: where this one begins, in units of eight bytes.
pub const FRAGMENT_OFFSET: u16 = 0x1fff;

/// no IP header
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
pub struct NoHeader;

/// Drop reason of elements that need the header and drop packets for nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
pub enum HeaderReason {
    /// no buffer
    #[from(NoBuffer)]
    NoBuffer,
    /// no IP header
    #[from(NoHeader)]
    NoHeader,
}

/// Most fragments of a packet of at most `longest` bytes, by the argument `MTU` of an element, each of
/// which has at most `header` bytes in front of its data ([`Class::multiplies`](linerate_graph::Class)).
pub fn fragments(plan: &Plan, element: usize, longest: usize, header: usize) -> usize {
    let mtu = plan.argument(element, "MTU").and_then(|text| parse_integer(text.trim()));
    let mtu = mtu.and_then(|mtu| usize::try_from(mtu).ok()).unwrap_or_default();
    // Fragments begin at multiples of eight bytes.
    let data = (mtu.saturating_sub(header) & !7).max(8);
    longest.saturating_sub(LEAST).div_ceil(data).max(1)
}

/// Two bytes at `at`, which are there.
#[inline(always)]
pub fn get16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |two| u16::from_be_bytes(*two))
}

/// Writes two bytes at `at`, which are there.
#[inline(always)]
pub fn put16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(two) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *two = value.to_be_bytes();
    }
}

/// Four bytes at `at`, which are there.
#[inline(always)]
pub fn get_four(bytes: &[u8], at: usize) -> [u8; 4] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
}

/// The header of a packet and its payload, at least [`LEAST`] bytes.
#[inline(always)]
pub fn ip<'a>(arena: &'a Arena, slot: &'a Slot) -> Option<&'a [u8]> {
    arena.packet(slot).get(arena.network(slot)..).filter(|ip| ip.len() >= LEAST)
}

/// As `ip`, from the bytes of a packet with its network header at `network`, for writing.
#[inline(always)]
pub fn ip_mut(bytes: &mut [u8], network: usize) -> Option<&mut [u8]> {
    bytes.get_mut(network..).filter(|ip| ip.len() >= LEAST)
}

/// The options of a header, given the bytes behind its fixed part, up to their end or one that is
/// not sound: offset and bytes of each. Those of one byte are skipped.
#[inline]
pub fn options(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            match *bytes.get(at..)? {
                [1, ..] => at += 1,
                [] | [_] | [0, ..] => return None,
                [_, length, ..] => {
                    let option = bytes.get(at..at + usize::from(length))?;
                    let found = Some((at, option)).filter(|_| length >= 2);
                    at += option.len();
                    return found;
                }
            }
        }
    })
}

/// The length that the header gives; at least [`LEAST`] and at most the bytes there.
#[inline(always)]
pub fn header_length(ip: &[u8]) -> usize {
    (usize::from(ip[0] & 15) * 4).max(LEAST).min(ip.len())
}

/// Returns true if it is no fragment, or the first.
#[inline(always)]
pub fn is_first_fragment(ip: &[u8]) -> bool {
    get16(ip, FRAGMENT) & FRAGMENT_OFFSET == 0
}

/// Returns true if an address is that of a group.
#[inline(always)]
pub fn is_multicast(address: [u8; 4]) -> bool {
    address[0] & 0xf0 == 0xe0
}

/// Writes the header's checksum anew.
#[inline]
pub fn fill_checksum(ip: &mut [u8]) {
    let length = header_length(ip);
    let mut sum = Sum::default();
    // The old value is subtracted: the words it is in could not be read until a zero had arrived.
    sum.add_u16(!get16(ip, CHECKSUM));
    match ip.first_chunk::<LEAST>() {
        // Without options, as nearly all are, there is no loop.
        Some(head) if length == LEAST => sum.add_bytes(head),
        _ => sum.add_bytes(&ip[..length]),
    }
    put16(ip, CHECKSUM, sum.finish());
}

/// A word of the header has changed.
#[inline(always)]
pub fn update_checksum(ip: &mut [u8], old: u16, new: u16) {
    let sum = get16(ip, CHECKSUM);
    put16(ip, CHECKSUM, checksum::update16(sum, old, new));
}

/// The protocol.
#[inline(always)]
pub fn protocol(ip: &[u8]) -> IpProtocol {
    IpProtocol(ip.get(PROTOCOL).copied().unwrap_or_default())
}

/// A packet from its IP header on and its annotations, for steps: packets without a header are
/// dropped.
#[inline(always)]
pub fn known<'p>(packet: &'p mut PacketMut<'_>) -> Result<(&'p mut [u8], &'p mut Meta), NoHeader> {
    let network = packet.network();
    let (bytes, meta) = packet.parts();
    match ip_mut(bytes, network) {
        Some(ip) => Ok((ip, meta)),
        None => Err(NoHeader),
    }
}

/// Its IP header without options.
#[inline(always)]
pub fn head<'p>(packet: &'p mut PacketMut<'_>) -> Result<&'p mut [u8; LEAST], NoHeader> {
    let head = known(packet)?.0.first_chunk_mut();
    head.ok_or(NoHeader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_end_with_their_list_or_with_one_that_is_not_sound() {
        let found =
            |bytes: &[u8]| options(bytes).map(|(at, it)| (at, it.len())).collect::<Vec<_>>();
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[1, 7, 3, 4, 1, 131, 2, 0, 9, 2]), [(1, 3), (5, 2)]);
        assert_eq!(found(&[7, 2, 9, 1, 7, 2]), [(0, 2)], "too short to be one");
        assert_eq!(found(&[7, 2, 9, 5, 0]), [(0, 2)], "longer than what is there");
        assert_eq!(found(&[7]), []);
    }
}
