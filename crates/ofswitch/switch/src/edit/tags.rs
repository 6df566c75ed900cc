//! Pushing and popping tags and labels.
//!
//! Their places are those of Open vSwitch: a tag goes in front of all others, a label behind those
//! tags that were added or looked at. A header of backbone bridging goes in front of all, with the
//! addresses it finds there.

use linerate_packet::checksum::update16;

use super::Bytes;
use super::headers::Link;
use crate::key::extract::{BACKBONE, MPLS, MPLS_MULTICAST, is_tag};

/// Bytes of both addresses.
const ADDRESSES: usize = 12;
/// Bytes of a label and the header of Ethernet in front of it.
const LABELLED_BYTES: usize = 18;
/// Bytes that backbone bridging adds: a type, its tag, and addresses.
const BACKBONE_BYTES: usize = 18;

pub(crate) fn push_vlan(packet: &mut impl Bytes, kind: u16, tci: u16) -> bool {
    if packet.bytes().len() < ADDRESSES + 2 {
        return true;
    }
    if !packet.prepend(4) {
        return false;
    }
    let bytes = packet.bytes_mut();
    bytes.copy_within(4..4 + ADDRESSES, 0);
    bytes[12..14].copy_from_slice(&kind.to_be_bytes());
    bytes[14..16].copy_from_slice(&(tci & 0xefff).to_be_bytes());
    true
}

pub(crate) fn pop_vlan(packet: &mut impl Bytes) {
    let bytes = packet.bytes_mut();
    if bytes.len() >= 18 && is_tag(u16::from_be_bytes([bytes[12], bytes[13]])) {
        bytes.copy_within(..ADDRESSES, 4);
        let _ = packet.pull(4);
    }
}

pub(crate) fn push_mpls(packet: &mut impl Bytes, kind: u16, entry: u32, tags: u8) -> bool {
    let link = Link::behind_tags(packet.bytes(), tags.into());
    let Some(Link { kind_at, .. }) = link else { return true };
    if !packet.prepend(4) {
        return false;
    }
    let bytes = packet.bytes_mut();
    bytes.copy_within(4..4 + kind_at, 0);
    bytes[kind_at..kind_at + 2].copy_from_slice(&kind.to_be_bytes());
    bytes[kind_at + 2..kind_at + 6].copy_from_slice(&entry.to_be_bytes());
    true
}

pub(crate) fn pop_mpls(packet: &mut impl Bytes, kind: u16) {
    let bytes = packet.bytes_mut();
    let Some(link) = Link::parse(bytes) else { return };
    if link.behind(bytes, [MPLS, MPLS_MULTICAST], 4).is_some() {
        bytes.copy_within(..link.kind_at, 4);
        bytes[link.kind_at + 4..link.kind_at + 6].copy_from_slice(&kind.to_be_bytes());
        let _ = packet.pull(4);
    }
}

pub(crate) fn encap_mpls(packet: &mut impl Bytes, kind: u16, entry: u32) -> bool {
    if packet.bytes().len() < ADDRESSES + 2 {
        return true;
    }
    if !packet.prepend(LABELLED_BYTES) {
        return false;
    }
    let bytes = packet.bytes_mut();
    bytes[..ADDRESSES].fill(0);
    bytes[12..14].copy_from_slice(&kind.to_be_bytes());
    bytes[14..18].copy_from_slice(&entry.to_be_bytes());
    true
}

pub(crate) fn decap_mpls(packet: &mut impl Bytes) {
    let bytes = packet.bytes();
    if bytes.len() >= LABELLED_BYTES
        && matches!(u16::from_be_bytes([bytes[12], bytes[13]]), MPLS | MPLS_MULTICAST)
    {
        let _ = packet.pull(LABELLED_BYTES);
    }
}

pub(crate) fn push_pbb(packet: &mut impl Bytes, kind: u16, service: u32) -> bool {
    let bytes = packet.bytes();
    if bytes.len() < ADDRESSES + 2 {
        return true;
    }
    // The priority of a tag becomes that of the service.
    let tagged = bytes.len() >= 18 && is_tag(u16::from_be_bytes([bytes[12], bytes[13]]));
    let priority = if tagged { u32::from(bytes[14] >> 5) } else { 0 };
    if !packet.prepend(BACKBONE_BYTES) {
        return false;
    }
    let bytes = packet.bytes_mut();
    bytes.copy_within(BACKBONE_BYTES..BACKBONE_BYTES + ADDRESSES, 0);
    bytes[12..14].copy_from_slice(&kind.to_be_bytes());
    let tag = priority << 29 | service & 0x00ff_ffff;
    bytes[14..18].copy_from_slice(&tag.to_be_bytes());
    true
}

/// Removes a backbone header. The inner addresses remain, then tags that were in front of it, and
/// the rest behind it.
pub(crate) fn pop_pbb(packet: &mut impl Bytes) {
    let bytes = packet.bytes_mut();
    let Some(link) = Link::parse(bytes) else { return };
    if link.behind(bytes, [BACKBONE; 2], 4 + ADDRESSES + 2).is_none() {
        return;
    }
    let inside = link.kind_at + 6;
    if link.kind_at > ADDRESSES {
        // Tags between the addresses and the type go behind the inner addresses.
        bytes[ADDRESSES..inside + ADDRESSES].rotate_left(link.kind_at - ADDRESSES);
    }
    let _ = packet.pull(BACKBONE_BYTES);
}

/// Returns the offsets of the outer label and of the time to live behind it, and whether that is in
/// a header of IPv4.
fn times(bytes: &[u8]) -> Option<(usize, usize, bool)> {
    let at = Link::parse(bytes)?.behind(bytes, [MPLS, MPLS_MULTICAST], 4)?;
    let next = at + 4;
    if bytes[at + 2] & 1 == 0 {
        return (bytes.len() >= next + 4).then_some((at, next + 3, false));
    }
    match bytes.get(next)? >> 4 {
        4 if bytes.len() >= next + 20 => Some((at, next + 8, true)),
        6 if bytes.len() >= next + 40 => Some((at, next + 7, false)),
        _ => None,
    }
}

pub(crate) fn copy_ttl_out(packet: &mut impl Bytes) {
    let bytes = packet.bytes_mut();
    if let Some((label, inner, _)) = times(bytes) {
        bytes[label + 3] = bytes[inner];
    }
}

pub(crate) fn copy_ttl_in(packet: &mut impl Bytes) {
    let bytes = packet.bytes_mut();
    let Some((label, inner, v4)) = times(bytes) else { return };
    let (before, after) = (bytes[inner], bytes[label + 3]);
    bytes[inner] = after;
    if v4 {
        // The checksum is of words, and this is the upper half of one.
        let at = inner + 2;
        let checksum = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let mended = update16(checksum, u16::from(before) << 8, u16::from(after) << 8);
        bytes[at..at + 2].copy_from_slice(&mended.to_be_bytes());
    }
}
