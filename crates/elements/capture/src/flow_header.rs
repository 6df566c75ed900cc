//! Header fields that identify a packet's flow.

use linerate_memory::{Arena, Slot};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
/// ICMP types that have the packet they are about behind their header:
/// unreachable, source quench, redirect, time exceeded, parameter problem.
const ERRORS: [u8; 5] = [3, 4, 5, 11, 12];

/// The addresses and ports of a packet of TCP or UDP, or of the one an ICMP
/// error is about.
#[derive(Debug)]
pub(super) struct FlowHeader {
    /// Whether it is of TCP.
    pub(super) is_tcp: bool,
    pub(super) source: u32,
    pub(super) destination: u32,
    pub(super) id: u16,
    /// Flags and offset of the fragment.
    offset: u16,
    /// Source and destination port.
    pub(super) ports: Option<u32>,
    /// Flags of the TCP header of the packet itself.
    pub(super) flags: Option<u8>,
    /// Whether the packet is an ICMP error about the one described.
    pub(super) is_error: bool,
}

impl FlowHeader {
    /// Returns true if it is a fragment.
    pub(super) fn is_fragment(&self) -> bool {
        self.offset & 0x3fff != 0
    }

    /// Returns true if it is whole or the first fragment, which has the ports.
    pub(super) fn is_first(&self) -> bool {
        self.offset & 0x1fff == 0
    }

    /// Reads the fields of a packet; `None` where it is not of TCP or UDP, nor, where `icmp` allows
    /// it, an error about such a packet.
    pub(super) fn parse(arena: &Arena, slot: &Slot, icmp: bool) -> Option<FlowHeader> {
        let bytes = arena.packet(slot);
        let outer = bytes.get(arena.network(slot)..)?;
        let header: &[u8; 20] = outer.first_chunk()?;
        let protocol = header[9];
        let is_first = header[6] & 0x1f == 0 && header[7] == 0;
        let transport = arena.meta(slot).transport.index(slot.headroom());
        let transport = bytes.get(transport..).unwrap_or_default();
        let is_error = protocol == ICMP && is_first && icmp;
        if is_error && !ERRORS.contains(transport.first()?) {
            return None;
        }
        let ip = if is_error { transport.get(8..)? } else { outer };
        let header: &[u8; 20] = ip.first_chunk()?;
        let [_, _, _, _, i, d, f, o, _, inner, _, _, addresses @ ..] = *header;
        let [a, b, c, d2, e, g, h, j] = addresses;
        let source = u32::from_be_bytes([a, b, c, d2]);
        let destination = u32::from_be_bytes([e, g, h, j]);
        let length = usize::from(header[0] & 15) * 4;
        if !matches!(inner, TCP | UDP) || (source, destination) == (0, 0) || length < 20 {
            return None;
        }
        let ports = ip.get(length..).and_then(|rest| rest.first_chunk());
        let has_flags = protocol == TCP && is_first && transport.len() >= 14;
        Some(FlowHeader {
            is_tcp: inner == TCP,
            source,
            destination,
            id: u16::from_be_bytes([i, d]),
            offset: u16::from_be_bytes([f, o]),
            ports: ports.map(|ports| u32::from_be_bytes(*ports)),
            flags: has_flags.then(|| transport[13]),
            is_error,
        })
    }
}
