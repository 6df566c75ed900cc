//! State of a frame in a rewriter: the flows of its packets, found before the first is rewritten.

use std::net::Ipv4Addr;

use linerate_graph::{DropReason, NoBuffer};
use linerate_memory::{Arena, Frame, Slot};
use linerate_packet::{FlowV4, IpProtocol};
use linerate_tables::exact::Entry;

use super::{
    flow_set::FlowSet,
    rewrite::HeaderOffsets,
    rewriter_type::{PacketFlow, RewriterKind, RewriterType},
};

/// Reasons for which packets are dropped.
#[derive(Debug, Clone, Copy, DropReason)]
pub(super) enum Reason {
    /// no buffer for a copy
    #[from(NoBuffer)]
    NoBuffer,
    /// nothing it rewrites
    NotRewritten,
    /// dropped by specification
    Specified,
    /// no mapping left
    Failed,
}

/// Outputs from here on are drop reasons.
pub(super) const DROP: u32 = u32::MAX - Reason::Failed as u32;

/// The key of packets that are nothing a rewriter rewrites: no rewriter has this number.
const NO_FLOW_KEY: FlowV4 = FlowV4 {
    src: Ipv4Addr::UNSPECIFIED,
    dst: Ipv4Addr::UNSPECIFIED,
    src_port: 0,
    dst_port: 0,
    vlan: u16::MAX,
    protocol: IpProtocol(u8::MAX),
};

/// Flows and headers of the packets of a frame.
#[derive(Default)]
pub(super) struct BatchState {
    pub(super) places: Vec<HeaderOffsets>,
    pub(super) keys: Vec<FlowV4>,
    pub(super) found: Vec<Option<Entry>>,
    pub(super) outputs: Vec<u32>,
    /// Packets to be looked up the other way round.
    again: Vec<usize>,
    pub(super) dropped: [usize; Reason::REASONS.len()],
}

impl BatchState {
    /// Reads the flows of all packets of a frame.
    #[inline]
    pub(super) fn read<F: RewriterType>(&mut self, rewriter: u16, arena: &Arena, frame: &Frame) {
        self.places.resize(frame.len(), HeaderOffsets::default());
        self.keys.resize(frame.len(), NO_FLOW_KEY);
        let mut rows = self.places.iter_mut().zip(&mut self.keys);
        arena.for_each_described(frame, |slot, packet, meta| {
            let Some((row_place, row_key)) = rows.next() else { return };
            let (place, found) = read_flow(F::KIND, packet, meta.network.index(slot.headroom()));
            *row_place = place;
            *row_key = match found {
                PacketFlow::Flow(ends, map) => ends.key(rewriter, map),
                PacketFlow::Answer(ends) => ends.key(rewriter, IpProtocol::ICMP),
                PacketFlow::Other => NO_FLOW_KEY,
            };
        });
    }

    /// Looks all of them up.
    #[inline]
    pub(super) fn look_up(
        &mut self,
        kind: RewriterKind,
        set: &FlowSet,
        arena: &Arena,
        slots: &[Slot],
    ) {
        self.found.clear();
        self.found.resize(self.keys.len(), None);
        set.table.lookup_many(&self.keys, &mut self.found);
        if kind == RewriterKind::Address && self.found.contains(&None) {
            self.look_up_destinations(set, arena, slots);
        }
    }

    /// Looks up the destinations of packets without a mapping of their source, for one of those.
    fn look_up_destinations(&mut self, set: &FlowSet, arena: &Arena, slots: &[Slot]) {
        let BatchState { places, keys, found, again, .. } = self;
        again.clear();
        again.extend((0..keys.len()).filter(|at| found[*at].is_none() && keys[*at] != NO_FLOW_KEY));
        for group in again.chunks(64) {
            let mut others = [keys[group[0]]; 64];
            let mut answers = [None; 64];
            for (other, at) in others.iter_mut().zip(group) {
                let packet = arena.packet(&slots[*at]);
                *other = destination_key(packet, places[*at], keys[*at]);
            }
            set.table.lookup_many(&others[..group.len()], &mut answers[..group.len()]);
            for ((at, other), answer) in group.iter().zip(others).zip(answers) {
                if answer.is_some() {
                    (keys[*at], found[*at]) = (other, answer);
                }
            }
        }
    }

    pub(super) fn drop(&mut self, reason: Reason) -> u32 {
        self.dropped[reason.index()] += 1;
        DROP + reason.index() as u32
    }
}

/// The key of replies to a packet's destination.
pub(super) fn destination_key(packet: &[u8], place: HeaderOffsets, key: FlowV4) -> FlowV4 {
    let dst =
        packet.get(usize::from(place.network) + 16..).and_then(|rest| rest.first_chunk::<4>());
    FlowV4 { src: [0; 4].into(), dst: dst.map_or([0; 4].into(), |dst| (*dst).into()), ..key }
}

/// Returns the header offsets of a packet with its IP header at `network`, and its flow.
#[inline(always)]
pub(super) fn read_flow(
    kind: RewriterKind,
    packet: &[u8],
    network: usize,
) -> (HeaderOffsets, PacketFlow) {
    let none = (HeaderOffsets::default(), PacketFlow::Other);
    let Some(bytes) = packet.get(network..) else { return none };
    let Some(ip) = bytes.first_chunk::<20>() else { return none };
    let header = usize::from(ip[0] & 15) * 4;
    let Some(transport) = bytes.get(header..).filter(|_| ip[0] >> 4 == 4 && header >= 20) else {
        return none;
    };
    let place = HeaderOffsets { network: network as u16, transport: (network + header) as u16 };
    (place, kind.flow(ip, transport))
}
