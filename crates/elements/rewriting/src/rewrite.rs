//! Flow state shown by a packet, and rewriting of a packet by a mapping.

use linerate_packet::checksum::udp_nonzero;

use super::{
    mapping::{Mapping, flags, updated},
    rewriter_type::RewriterKind,
};

/// Offsets of the headers of a packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HeaderOffsets {
    pub(super) network: u16,
    pub(super) transport: u16,
}

/// Change of a flow by a packet, besides the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    None,
    /// New flags or packets in its direction.
    Seen,
    /// The connection is closed both ways.
    Reset,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

/// State of a direction after a packet has gone that way, and the change by it.
#[derive(Debug, Clone, Copy)]
pub(super) struct DirectionState {
    pub(super) flags: u8,
    pub(super) packets: u8,
    pub(super) event: Event,
}

impl Mapping {
    /// Takes over the state that a packet has shown.
    #[inline(always)]
    pub(super) fn learn(&mut self, shown: DirectionState) {
        (self.flags, self.packets) = (shown.flags, shown.packets);
    }
}

/// Returns the state shown by a packet, which is the one the mapping was found for.
#[inline(always)]
pub(super) fn shown(
    kind: RewriterKind,
    packet: &[u8],
    place: HeaderOffsets,
    mapping: &Mapping,
) -> DirectionState {
    let nothing =
        DirectionState { flags: mapping.flags, packets: mapping.packets, event: Event::None };
    if matches!(kind, RewriterKind::Address | RewriterKind::Pair | RewriterKind::Ping) {
        return nothing;
    }
    let (network, transport) = (usize::from(place.network), usize::from(place.transport));
    let Some(ip) = packet.get(network..).and_then(|ip| ip.first_chunk::<20>()) else {
        return nothing;
    };
    if kind == RewriterKind::Tcp || kind == RewriterKind::Ip && ip[9] == 6 {
        let header = packet.get(transport..).and_then(|tcp| tcp.first_chunk::<18>());
        let length = u16::from_be_bytes([ip[2], ip[3]]);
        return header.map_or(nothing, |tcp| watch(tcp, transport - network, length, nothing));
    }
    match mapping.packets {
        3.. => nothing,
        packets => DirectionState { packets: packets + 1, event: Event::Seen, ..nothing },
    }
}

/// Gives a packet the addresses, ports and checksums of a mapping. The packet is one the mapping was
/// found for, so its IP header is whole.
#[inline(always)]
pub(super) fn rewrite(
    kind: RewriterKind,
    packet: &mut [u8],
    place: HeaderOffsets,
    mapping: &Mapping,
) {
    let (network, transport) = (usize::from(place.network), usize::from(place.transport));
    let Some((ip, payload)) =
        packet.get_mut(network..).and_then(|ip| ip.split_at_mut_checked(transport - network))
    else {
        return;
    };
    let Some(ip) = ip.first_chunk_mut::<20>() else { return };
    let reply = mapping.is_reply();
    let (src, dst) = (mapping.to.src.octets(), mapping.to.dst.octets());
    if kind != RewriterKind::Address || !reply {
        ip[12..16].copy_from_slice(&src);
    }
    if kind != RewriterKind::Address || reply {
        ip[16..20].copy_from_slice(&dst);
    }
    let protocol = ip[9];
    let first = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff == 0;
    patch(ip, 10, mapping.ip_delta);
    match kind {
        RewriterKind::Address | RewriterKind::Pair => {
            if first {
                patch_transport(protocol, payload, mapping.transport_delta);
            }
        }
        RewriterKind::Ping => {
            let identifier = if reply { mapping.to.dst_port } else { mapping.to.src_port };
            set(payload, 4, identifier);
            patch(payload, 2, mapping.transport_delta);
            // The sum of nothing but zeros has no complement of zero.
            if payload.iter().all(|byte| *byte == 0) {
                set(payload, 2, 0xffff);
            }
        }
        RewriterKind::Ip | RewriterKind::Tcp if kind == RewriterKind::Tcp || protocol == 6 => {
            if payload.len() >= 18 {
                set_ports(payload, mapping);
                patch(payload, 16, mapping.transport_delta);
            }
        }
        RewriterKind::Ip | RewriterKind::Tcp | RewriterKind::Udp => {
            set_ports(payload, mapping);
            patch_transport(protocol, payload, mapping.transport_delta);
        }
    }
}

#[inline(always)]
fn set(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// Changes a checksum by a [`delta`](super::mapping::delta).
#[inline(always)]
fn patch(bytes: &mut [u8], at: usize, delta: u16) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>())
        && delta != 0
    {
        *place = updated(u16::from_be_bytes(*place), delta).to_be_bytes();
    }
}

/// As `patch`, for TCP and UDP, where a checksum of zero is none.
#[inline(always)]
fn patch_transport(protocol: u8, payload: &mut [u8], delta: u16) {
    match protocol {
        6 if payload.len() >= 18 => patch(payload, 16, delta),
        17 if payload.len() >= 8 && payload[6..8] != [0, 0] && delta != 0 => {
            let check = u16::from_be_bytes([payload[6], payload[7]]);
            set(payload, 6, udp_nonzero(updated(check, delta)));
        }
        _ => {}
    }
}

#[inline(always)]
fn set_ports(payload: &mut [u8], mapping: &Mapping) {
    if let Some(ports) = payload.first_chunk_mut::<4>() {
        let [a, b] = mapping.to.src_port.to_be_bytes();
        let [c, d] = mapping.to.dst_port.to_be_bytes();
        *ports = [a, b, c, d];
    }
}

/// Follows a TCP connection on from the state `before`.
#[inline(always)]
fn watch(tcp: &[u8; 18], header: usize, length: u16, before: DirectionState) -> DirectionState {
    let mut flags = before.flags;
    let has_payload = header + usize::from(tcp[12] >> 4) * 4 < usize::from(length);
    let bits = tcp[13];
    if bits & (RST | FIN) != 0 {
        flags |= flags::DONE;
    } else if bits & SYN != 0 || has_payload {
        flags &= !flags::DONE;
    }
    if has_payload {
        flags |= flags::DATA;
    }
    let event = match () {
        () if bits & RST != 0 => Event::Reset,
        () if flags == before.flags => Event::None,
        () => Event::Seen,
    };
    DirectionState { flags, event, ..before }
}
