//! State of a connection: checks of its packets, and its phase.
//!
//! TCP is followed with the windows of both ends, after Guido van Rooij, "Real Stateful TCP Packet
//! Filtering in IP Filter" (2001), as in pf and in Open vSwitch.

use super::timeouts::Phase;
use super::tuple::Tuple;
use crate::key::extract::{ICMP, ICMPV6, TCP};

/// Relation of a packet to its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketRelation {
    /// It belongs to it, and is not its beginning.
    Valid,
    /// It may belong to it, as far as is known, but does not make it remembered longer.
    Tolerated,
    /// It belongs to it, and is its beginning: of TCP a SYN once more, of others a packet before an
    /// answer.
    New,
    /// It does not belong to it.
    Invalid,
    /// It begins another connection in its place.
    Reopens,
}

/// State of a connection.
#[derive(Debug, Clone)]
pub(super) enum ProtocolState {
    /// Of TCP: each end, the initiator first.
    Tcp([Peer; 2]),
    /// Of ICMP: whether there was an answer.
    Icmp(bool),
    /// Of others: whether there was a second packet, and an answer.
    Other { more: bool, answered: bool },
}

/// States of an end of TCP, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Closed,
    SynSent,
    Established,
    Closing,
    FinWait2,
    TimeWait,
}

/// An end of TCP.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    stage: Stage,
    /// End of the data it has sent.
    low: u32,
    /// End of the data it may send.
    high: u32,
    /// The widest window it has offered, not scaled.
    window: u32,
    /// Scaling of its windows.
    scale: Scale,
}

/// Scaling of windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// Not, as the SYN has not said so.
    Not,
    /// So much.
    By(u8),
    /// The SYN was not seen: the greatest scale is assumed.
    Unknown,
}

/// Fields of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    flags: u8,
    sequence: u32,
    acknowledged: u32,
    window: u32,
    payload: u32,
    scale: Option<u8>,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;
const URG: u8 = 32;

/// Greatest distance of an acknowledgement from the data sent.
const SLACK: u32 = 0xffff + 1500;
/// The greatest scale (RFC 7323, section 2.3).
const MAX_SCALE: u8 = 14;

impl Segment {
    /// Parses the payload of IP, up to its end.
    pub(super) fn parse(bytes: &[u8]) -> Option<Segment> {
        let head = bytes.first_chunk::<20>()?;
        let length = usize::from(head[12] >> 4) * 4;
        let payload = bytes.len().checked_sub(length)?;
        if length < 20 {
            return None;
        }
        let number =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        Some(Segment {
            flags: head[13],
            sequence: number(4),
            acknowledged: number(8),
            window: u16::from_be_bytes([head[14], head[15]]).into(),
            payload: payload as u32,
            scale: scale(&bytes[20..length]),
        })
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Behind its last number.
    fn end(&self) -> u32 {
        let numbers = u32::from(self.has(SYN)) + u32::from(self.has(FIN));
        self.sequence.wrapping_add(self.payload).wrapping_add(numbers)
    }

    /// Flags no segment has together.
    fn is_absurd(&self) -> bool {
        if self.has(SYN) {
            return self.has(RST) || self.has(FIN);
        }
        !self.has(ACK) && (!self.has(RST) || self.has(FIN) || self.has(PSH) || self.has(URG))
    }
}

/// The scale of windows among options.
fn scale(mut options: &[u8]) -> Option<u8> {
    loop {
        match options {
            [1, rest @ ..] => options = rest,
            [3, 3, scale, ..] => return Some((*scale).min(MAX_SCALE)),
            [kind, length, ..] if *kind != 0 && *length >= 2 => {
                options = options.get(usize::from(*length)..)?;
            }
            _ => return None,
        }
    }
}

/// Returns true if a number is another, or behind it.
fn at_least(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) as i32 >= 0
}

impl ProtocolState {
    /// Of a packet that may begin a connection; `None` where it may not.
    pub(super) fn begin(tuple: &Tuple, segment: Option<&Segment>) -> Option<ProtocolState> {
        Some(match tuple.protocol {
            TCP => {
                let segment = segment?;
                // Established connections are picked up, those being established are not.
                if segment.is_absurd() || (segment.has(SYN) && segment.has(ACK)) {
                    return None;
                }
                ProtocolState::Tcp(begin(segment))
            }
            ICMP | ICMPV6 => {
                let asks = match tuple.protocol {
                    ICMP => matches!(tuple.message.0, 8 | 13 | 15 | 17),
                    _ => tuple.message.0 == 128,
                };
                if !asks {
                    return None;
                }
                ProtocolState::Icmp(false)
            }
            _ => ProtocolState::Other { more: false, answered: false },
        })
    }

    /// Applies a packet, of the initiator or an answer.
    pub(super) fn see(&mut self, answer: bool, segment: Option<&Segment>) -> PacketRelation {
        match self {
            ProtocolState::Tcp(peers) => {
                segment.map_or(PacketRelation::Invalid, |segment| see(peers, answer, segment))
            }
            ProtocolState::Icmp(answered) => {
                *answered |= answer;
                if *answered { PacketRelation::Valid } else { PacketRelation::New }
            }
            ProtocolState::Other { more, answered } => {
                *answered |= answer;
                *more = true;
                if *answered { PacketRelation::Valid } else { PacketRelation::New }
            }
        }
    }

    /// Returns the phase after a packet, whose time-out the connection then has.
    pub(super) fn phase(&self, relation: PacketRelation) -> Phase {
        match self {
            ProtocolState::Tcp(_) if relation == PacketRelation::New => Phase::TcpSynSent,
            ProtocolState::Tcp([one, other]) => {
                let (least, most) = (one.stage.min(other.stage), one.stage.max(other.stage));
                if least >= Stage::FinWait2 {
                    Phase::TcpClose
                } else if least >= Stage::Closing {
                    Phase::TcpTimeWait
                } else if least < Stage::Established {
                    Phase::TcpSynRecv
                } else if most >= Stage::Closing {
                    Phase::TcpFinWait
                } else {
                    Phase::TcpEstablished
                }
            }
            ProtocolState::Icmp(false) => Phase::IcmpFirst,
            ProtocolState::Icmp(true) => Phase::IcmpReply,
            ProtocolState::Other { answered: true, .. } => Phase::UdpMultiple,
            ProtocolState::Other { more: true, .. } => Phase::UdpSingle,
            ProtocolState::Other { .. } => Phase::UdpFirst,
        }
    }
}

impl ProtocolState {
    /// Returns the state of a TCP connection, in Open vSwitch's words: that of its further end.
    pub(super) fn name(&self) -> Option<&'static str> {
        let ProtocolState::Tcp([one, other]) = self else { return None };
        Some(match one.stage.max(other.stage) {
            Stage::Closed => "CLOSED",
            Stage::SynSent => "SYN_SENT",
            Stage::Established => "ESTABLISHED",
            Stage::Closing => "CLOSING",
            Stage::FinWait2 | Stage::TimeWait => "TIME_WAIT",
        })
    }
}

/// The scale a SYN says.
fn window_scale(segment: &Segment) -> Scale {
    segment.scale.map_or(Scale::Not, Scale::By)
}

/// The window of a SYN, which is not scaled, as later ones say it.
fn unscaled(window: u32, scale: u8) -> u32 {
    window.div_ceil(1 << scale)
}

fn begin(segment: &Segment) -> [Peer; 2] {
    let high = segment.end().wrapping_add(1);
    let first = Peer {
        stage: Stage::SynSent,
        low: segment.sequence,
        high,
        window: match segment.scale {
            Some(scale) if segment.has(SYN) => unscaled(segment.window.max(1), scale),
            _ => segment.window.max(1),
        },
        scale: if segment.has(SYN) { window_scale(segment) } else { Scale::Unknown },
    };
    let scale = if segment.has(SYN) { Scale::Not } else { Scale::Unknown };
    let other = Peer { stage: Stage::Closed, low: 0, high: 1, window: 1, scale };
    [first, other]
}

fn see(peers: &mut [Peer; 2], answer: bool, segment: &Segment) -> PacketRelation {
    if segment.is_absurd() {
        return PacketRelation::Invalid;
    }
    let [began, answers] = peers;
    let (from, to) = if answer { (answers, began) } else { (began, answers) };
    if segment.has(SYN) && !segment.has(ACK) {
        if from.stage >= Stage::FinWait2 && to.stage >= Stage::FinWait2 {
            return PacketRelation::Reopens;
        }
        if from.stage <= Stage::SynSent {
            // It was not heard: the same once more.
            from.stage = Stage::SynSent;
            return PacketRelation::New;
        }
    }
    // Windows are scaled where both ends said so, but never in the segments that say it.
    let (mut from_scale, mut to_scale) = match (from.scale, to.scale) {
        (Scale::By(one), Scale::By(other)) if !segment.has(SYN) => (one, other),
        (Scale::Unknown, Scale::Unknown) if !segment.has(SYN) => (MAX_SCALE, MAX_SCALE),
        _ => (0, 0),
    };
    let mut end = segment.end();
    let mut sequence = segment.sequence;
    let mut window = segment.window;
    let mut acknowledges_anything = false;
    if from.stage < Stage::SynSent {
        if segment.has(SYN)
            && let Scale::By(other) = to.scale
        {
            from.scale = window_scale(segment);
            if let Scale::By(scale) = from.scale {
                (from_scale, to_scale) = (scale, other);
                window = unscaled(window, scale);
            } else {
                // The other end's windows are not scaled, either: its first one was taken for
                // scaled.
                to.window = (to.window << other).min(0xffff);
                to.scale = Scale::Not;
            }
        }
        from.low = sequence;
        from.stage = Stage::SynSent;
        let high = end.wrapping_add((to.window << to_scale).max(1));
        if from.high == 1 || at_least(high, from.high) {
            from.high = high;
            // The first packet seen of a connection may be from its middle.
            acknowledges_anything = true;
        }
        from.window = from.window.max(window);
    }
    let mut acknowledged = segment.acknowledged;
    let resets = segment.flags & (ACK | RST) == ACK | RST;
    if !segment.has(ACK) || (acknowledged == 0 && resets) {
        acknowledged = to.low;
    }
    let nothing = sequence == end;
    if nothing {
        (sequence, end) = (from.low, from.low);
    }
    let skew = to.low.wrapping_sub(acknowledged) as i32;
    let is_close = skew >= -(SLACK as i32) && i64::from(skew) <= i64::from(SLACK << from_scale);
    let original = segment.sequence;
    let strict = at_least(from.high, end)
        && at_least(sequence, from.low.wrapping_sub(to.window << to_scale))
        && (acknowledges_anything || is_close)
        && (!segment.has(RST)
            || original == from.low
            || original == from.low.wrapping_add(1)
            || original.wrapping_add(1) == from.low);
    let loose = || {
        (to.stage < Stage::SynSent || to.stage >= Stage::FinWait2 || from.stage >= Stage::FinWait2)
            && at_least(from.high.wrapping_add(SLACK), end)
            && at_least(sequence, from.low.wrapping_sub(SLACK))
    };
    if !strict && !loose() {
        return PacketRelation::Invalid;
    }
    from.window = from.window.max(window);
    if at_least(end, from.low) {
        from.low = end;
    }
    let allowed = acknowledged.wrapping_add((window << from_scale).max(1));
    if at_least(allowed, to.high) {
        to.high = allowed;
    }
    if segment.has(FIN) {
        from.stage = from.stage.max(Stage::Closing);
    }
    if segment.has(ACK) && strict {
        match to.stage {
            Stage::SynSent => to.stage = Stage::Established,
            Stage::Closing => to.stage = Stage::FinWait2,
            _ => {}
        }
    }
    if segment.has(RST) {
        (from.stage, to.stage) = (Stage::TimeWait, Stage::TimeWait);
    }
    if strict { PacketRelation::Valid } else { PacketRelation::Tolerated }
}
