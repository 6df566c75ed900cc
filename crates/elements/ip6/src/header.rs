//! Packets whose IPv6 header is known, for elements that look at it or change
//! it.
//!
//! `CheckIP6Header` and `MarkIP6Header` have marked the header. Click fails for unmarked packets;
//! here they are dropped under a reason of their own.

use linerate_graph::DropReason;
use linerate_memory::{Arena, PacketMut, Slot};
use linerate_packet::{IpProtocol, checksum};

pub(super) use linerate_element_support::ip::{get16, put16};

/// Length of a header without extensions.
pub(super) const LEAST: usize = 40;
/// Places in the header.
pub(super) const LENGTH: usize = 4;
pub(super) const NEXT: usize = 6;
pub(super) const HOPS: usize = 7;
pub(super) const SOURCE: usize = 8;
pub(super) const DESTINATION: usize = 24;
/// Place of the checksum in an `ICMPv6` message.
pub(super) const ICMP_CHECKSUM: usize = 2;

/// no IPv6 header
#[derive(Debug, Clone, Copy, DropReason)]
pub(super) struct NoHeader;

/// The address at `at`, which is there.
#[inline(always)]
pub(super) fn address(bytes: &[u8], at: usize) -> [u8; 16] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
}

/// Returns the header of a packet and the bytes behind it, at least [`LEAST`].
#[inline(always)]
pub(super) fn ip<'a>(arena: &'a Arena, slot: &'a Slot) -> Option<&'a [u8]> {
    arena.packet(slot).get(arena.network(slot)..).filter(|ip| ip.len() >= LEAST)
}

/// Likewise for the bytes of a packet with its network header at `network`, for writing.
#[inline(always)]
pub(super) fn ip_mut(bytes: &mut [u8], network: usize) -> Option<&mut [u8]> {
    bytes.get_mut(network..).filter(|ip| ip.len() >= LEAST)
}

/// Marks the place of the header, and the end of the fixed header as the transport header.
#[inline(always)]
pub(super) fn mark(packet: &mut PacketMut<'_>, offset: usize) {
    packet.mark_headers(offset, offset + LEAST);
}

/// Writes the checksum of an upper layer anew: of `bytes`, at `at` in them.
pub(super) fn fill_checksum(header: &[u8], protocol: u8, bytes: &mut [u8], at: usize) {
    put16(bytes, at, 0);
    let (source, destination) = (address(header, SOURCE), address(header, DESTINATION));
    let length = bytes.len() as u32;
    let protocol = IpProtocol(protocol);
    let mut sum = checksum::pseudo_v6(source.into(), destination.into(), protocol, length);
    sum.add_bytes(bytes);
    put16(bytes, at, sum.finish());
}

/// Returns a packet from its IPv6 header on, for steps: those without one are dropped.
#[inline(always)]
pub(super) fn known<'p>(packet: &'p mut PacketMut<'_>) -> Result<&'p mut [u8], NoHeader> {
    let network = packet.network();
    ip_mut(packet.bytes_mut(), network).ok_or(NoHeader)
}
