//! Asynchronous messages of the switch to all controllers, and its time-outs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::peers::Peer;
use super::shared::Shared;
use super::{FailMode, PacketRate};
use crate::key::Key;
use crate::switch::{Event, Punted, Subscription};
use crate::wire::{
    AsyncKind, Field, FlowRemoved, Match, Message, NiciraMessage, PacketIn, PacketInFormat,
    PacketInReason, Version,
};

/// Interval of the switch's time-outs.
const TICK: Duration = Duration::from_millis(100);

/// Flows that are expired at a time before other events are sent.
const EXPIRED: usize = 65_536;

/// Serves events until the agent stops.
pub(super) fn run(shared: &Arc<Shared>, subscription: &Subscription) {
    let mut events = Events::new(Arc::clone(shared));
    let mut last = Instant::now();
    while !shared.stop.is_set() {
        match subscription.events.recv_timeout(TICK / 2) {
            Ok(event) => events.send_event(&event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK / 2),
        }
        shared.monitors.send_updates();
        if last.elapsed() >= TICK {
            last = Instant::now();
            let now = shared.now();
            shared.switch.expire(now, EXPIRED);
            shared.switch.free_unused();
            shared.switch.shared_state().tracker.expire(now);
            events.mind_controllers();
            shared.lost_events.store(subscription.lost(), Ordering::Relaxed);
        }
    }
    // The next controller sets it anew.
    shared.switch.set_stands_alone(false);
}

struct Events {
    shared: Arc<Shared>,
    tokens: Option<Tokens>,
    /// When there was a controller last.
    controlled: Instant,
}

impl Events {
    fn new(shared: Arc<Shared>) -> Events {
        let tokens = shared.options.packet_rate.map(Tokens::new);
        Events { shared, tokens, controlled: Instant::now() }
    }

    fn send_event(&mut self, event: &Event) {
        match event {
            Event::PacketIn(packet) => self.packet_in(packet),
            Event::FlowRemoved(removed) => self.flow_removed(removed),
            Event::PortStatus(status) => {
                let message = Message::PortStatus((**status).clone());
                self.to_all(AsyncKind::PortStatus, status.reason.number(), &message);
            }
            Event::TableStatus(status) => {
                let message = Message::TableStatus(**status);
                self.to_all(AsyncKind::TableStatus, status.reason.number(), &message);
            }
        }
    }

    fn to_all(&self, kind: AsyncKind, reason: u8, message: &Message) {
        for peer in &self.shared.peers.lock().peers {
            if let Some(version) = peer.hears(kind, reason) {
                peer.send_message(message, version);
            }
        }
    }

    fn flow_removed(&self, removed: &FlowRemoved) {
        for peer in &self.shared.peers.lock().peers {
            let Some(version) = peer.hears_removed(removed.reason) else { continue };
            let message = Message::FlowRemoved(removed.clone());
            let bytes = message.encode(version, 0).or_else(|_| {
                // OpenFlow 1.0 lacks some fields, Nicira's extension has them.
                Message::Nicira(NiciraMessage::FlowRemoved(removed.clone())).encode(version, 0)
            });
            if let Ok(bytes) = bytes {
                peer.outbox.offer(bytes, false);
            }
        }
    }

    fn packet_in(&mut self, punted: &Punted) {
        let punt = &punted.punt;
        if self.tokens.as_mut().is_some_and(|tokens| !tokens.take()) {
            self.shared.unsent_packets.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // Packet-ins on a miss without a flow for it are OpenFlow 1.0's alone.
        let implicit = punt.reason == PacketInReason::NoMatch && punt.cookie == u64::MAX;
        let mut packet = None;
        let mut continuation = None;
        for peer in &self.shared.peers.lock().peers {
            // In OpenFlow 1.0 a flow that matches everything is one like others.
            let is_action = punt.reason == PacketInReason::NoMatch
                && !implicit
                && peer.version == Some(Version::V10);
            let reason = if is_action { PacketInReason::Action } else { punt.reason };
            let Some(version) = peer.hears_packet(reason) else { continue };
            if peer.id != punt.id || (implicit && version != Version::V10) {
                continue;
            }
            let packet = packet.get_or_insert_with(|| describe(punted)).clone();
            let packet = PacketIn { reason, ..packet };
            let message = match (peer.format, &punt.resume) {
                (PacketInFormat::Standard, _) => Message::PacketIn(packet),
                (PacketInFormat::Nicira, _) => Message::Nicira(NiciraMessage::PacketIn(packet)),
                (PacketInFormat::Nicira2, resume) => {
                    let keep = |resume| self.shared.continuations.keep(resume);
                    let told = resume
                        .as_ref()
                        .map(|resume| continuation.get_or_insert_with(|| keep(resume)).clone());
                    let continuation = told.unwrap_or_default();
                    let userdata = punt.userdata.clone();
                    let packet = PacketIn { userdata, continuation, ..packet };
                    Message::Nicira(NiciraMessage::PacketIn2(packet))
                }
            };
            send_packet(peer, &message, version);
        }
    }

    /// Returns true if there is a controller. Where the switch connects to some, only they count.
    fn is_controlled(&self) -> bool {
        let dials = self.shared.places.iter().any(|place| !place.target.is_passive());
        let peers = self.shared.peers.lock();
        peers.peers.iter().any(|peer| peer.version.is_some() && (peer.dialled || !dials))
    }

    /// Looks whether there is a controller, and forwards without one where that is wanted.
    fn mind_controllers(&mut self) {
        if self.shared.options.fail_mode == FailMode::Secure {
            return;
        }
        if self.is_controlled() {
            self.controlled = Instant::now();
            self.shared.switch.set_stands_alone(false);
        } else if self.controlled.elapsed() >= 3 * self.shared.options.probe_interval {
            self.shared.switch.set_stands_alone(true);
        }
    }
}

fn send_packet(peer: &Peer, message: &Message, version: Version) {
    if let Ok(bytes) = message.encode(version, 0) {
        peer.outbox.offer(bytes, true);
    }
}

/// Fields of packet-ins, sent where they are not zero.
const SAID: [Field; 30] = [
    Field::PacketType,
    Field::TunnelId,
    Field::TunnelIpv4Src,
    Field::TunnelIpv4Dst,
    Field::TunnelIpv6Src,
    Field::TunnelIpv6Dst,
    Field::Metadata,
    Field::PacketMark,
    Field::TunnelGbpId,
    Field::TunnelGbpFlags,
    Field::TunnelFlags,
    Field::CtZone,
    Field::CtMark,
    Field::CtLabel,
    Field::Reg0,
    Field::Reg1,
    Field::Reg2,
    Field::Reg3,
    Field::Reg4,
    Field::Reg5,
    Field::Reg6,
    Field::Reg7,
    Field::Reg8,
    Field::Reg9,
    Field::Reg10,
    Field::Reg11,
    Field::Reg12,
    Field::Reg13,
    Field::Reg14,
    Field::Reg15,
];

/// Fields of a connection's first packet, by the version of IP.
const CONNECTION: [[Field; 5]; 2] = [
    [Field::CtIpv4Src, Field::CtIpv4Dst, Field::CtProto, Field::CtTpSrc, Field::CtTpDst],
    [Field::CtIpv6Src, Field::CtIpv6Dst, Field::CtProto, Field::CtTpSrc, Field::CtTpDst],
];
/// Bits of the state of a packet that has a connection: new, established, an answer.
const CONNECTED: u128 = 0xb;

/// Adds the fields of the connection of a packet, each behind its prerequisites.
fn describe_connection(key: &Key, fields: Match) -> Match {
    let (state, kind) = (key.get(Field::CtState), key.get(Field::EthType));
    if state == 0 {
        return fields;
    }
    let mut fields = fields.with(Field::EthType, kind).with(Field::CtState, state);
    if state & CONNECTED != 0 && key.get(Field::CtProto) != 0 {
        let of = match kind {
            0x0800 => &CONNECTION[0][..],
            0x86dd => &CONNECTION[1],
            _ => &[],
        };
        for &field in of {
            fields = fields.with(field, key.get(field));
        }
    }
    fields
}

fn describe(punted: &Punted) -> PacketIn {
    let punt = &punted.punt;
    let known = punt.known(&punted.key);
    let fields = Match::new().with(Field::InPort, known.get(Field::InPort));
    let mut fields = describe_connection(&known, fields);
    for field in SAID {
        let value = known.get(field);
        if value != 0 {
            fields = fields.with(field, value);
        }
    }
    PacketIn {
        buffer: None,
        total_len: punted.length as u32,
        reason: punt.reason,
        table: punt.table,
        cookie: punt.cookie,
        fields,
        // The packet is cut to the length that the flow asks for.
        data: punted.packet.clone(),
        userdata: Vec::new(),
        continuation: Vec::new(),
    }
}

/// Token bucket: refilled at a rate, up to a burst.
struct Tokens {
    rate: PacketRate,
    left: f64,
    at: Instant,
}

impl Tokens {
    fn new(rate: PacketRate) -> Tokens {
        Tokens { rate, left: rate.burst.max(1).into(), at: Instant::now() }
    }

    fn take(&mut self) -> bool {
        let more = self.at.elapsed().as_secs_f64() * f64::from(self.rate.per_second);
        self.at = Instant::now();
        self.left = (self.left + more).min(self.rate.burst.max(1).into());
        let enough = self.left >= 1.0;
        if enough {
            self.left -= 1.0;
        }
        enough
    }
}
