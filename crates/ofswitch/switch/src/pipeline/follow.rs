//! Complete trace: repeated lookups of a packet are traced, too.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use super::{Continuation, Select, SharedState, Step, trace};
use crate::conntrack;
use crate::edit;
use crate::key::extract::{SCTP, TCP, UDP};
use crate::key::{self, Key};
use crate::table::Snapshot;
use crate::text::Syntax;
use crate::wire::{Action, Ct, Entry, Field, Match, Nat, NatAddresses, NatFlags, Version};

/// Repeated lookups of a packet and its copies, at most.
const LOOKUPS: usize = 64;

/// The default state of a connection: that of a new one.
pub const ASSUMED: u32 = 0x21;
/// The bit for a tracked packet.
const TRACKED: u32 = 0x20;

/// A packet that is to be looked up again.
struct Next {
    from: Arc<Continuation>,
    packet: Vec<u8>,
    known: Key,
    /// If its connection was looked up: the zone, and the packet before it was translated.
    tracked: Option<(u16, Vec<u8>)>,
    why: String,
}

struct Follow {
    next: VecDeque<Next>,
    /// Whether the packet's length is that of a packet that came.
    is_real: bool,
}

/// As [`trace`](super::trace()), and follows repeated lookups. `packet` is the packet, where there
/// is one. `states` are the assumed states of its connections, one for each time that one is looked
/// up, and [`ASSUMED`] behind the last; addresses are translated to the first of a range.
#[must_use]
pub fn follow(
    snapshot: &Snapshot,
    shared_state: &SharedState,
    key: &Key,
    packet: Option<&[u8]>,
    states: &[u32],
    now: u64,
) -> String {
    let (decision, mut text) = trace(snapshot, shared_state, key, None, now);
    let mut follow = Follow { next: VecDeque::new(), is_real: packet.is_some() };
    let bytes = packet.map_or_else(|| key::compose(key), <[u8]>::to_vec);
    follow.steps(&decision.steps, bytes, *key);
    let mut states = states.iter();
    for _ in 0..LOOKUPS {
        let Some(next) = follow.next.pop_front() else { return text };
        let Next { from, packet, mut known, tracked, why } = next;
        let _ = write!(text, "\nas {}: {why}", from.number);
        if let Some((zone, before)) = tracked {
            let said = states.next();
            let state = said.copied().unwrap_or(ASSUMED) | TRACKED;
            conntrack::assume(state, zone, &mut known, &before);
            let shown = Match::new().with_masked(Field::CtState, state.into(), state.into());
            let shown = Syntax::new(Version::V15).print_match(&shown);
            let _ = write!(text, ", taken to be {shown}");
            if said.is_none() {
                text.push_str(" (--ct-next says another)");
            }
        }
        text.push('\n');
        known.set_continuation(from.number);
        key::extract(&packet, &mut known);
        let (decision, more) = trace(snapshot, shared_state, &known, Some(&from), now);
        text += &more;
        follow.steps(&decision.steps, packet, known);
    }
    if !follow.next.is_empty() {
        let _ = write!(text, "\nit was looked up {LOOKUPS} times: the rest is not told\n");
    }
    text
}

impl Follow {
    /// Does steps with a packet, and writes each.
    fn steps(&mut self, steps: &[Step], mut packet: Vec<u8>, mut known: Key) {
        let mut tracked: Option<(u16, Vec<u8>)> = None;
        for step in steps {
            match step {
                Step::Copy(steps) => self.steps(steps, packet.clone(), known),
                Step::Select(select) => self.ways(select, &packet, &known),
                Step::Continue(next) => {
                    let why = match tracked {
                        Some((zone, _)) => format!("its connection was looked up in zone {zone}"),
                        None => "its headers are looked at again".into(),
                    };
                    return self.go_on(next, packet, known, tracked, why);
                }
                Step::Larger { length, larger, other } => {
                    let ways = [(larger, true), (other, false)];
                    let is_larger = packet.len() > usize::from(*length);
                    for (next, way) in ways {
                        if !self.is_real || way == is_larger {
                            let than = if way { "longer" } else { "not longer" };
                            let why = format!("it is {than} than {length}");
                            self.go_on(next, packet.clone(), known, None, why);
                        }
                    }
                    return;
                }
                Step::Track { action, zone: number } => {
                    tracked = Some((*number, packet.clone()));
                    translate(action, &mut packet);
                }
                Step::ClearTrack => {
                    conntrack::clear(&mut known);
                    tracked = None;
                }
                // A vector has room for every header.
                other => {
                    let _has_room = other.apply(&mut packet);
                }
            }
        }
    }

    fn ways(&mut self, select: &Select, packet: &[u8], known: &Key) {
        for (_, _, steps) in &select.ways {
            self.steps(steps, packet.to_vec(), *known);
        }
    }

    fn go_on(
        &mut self,
        next: &Arc<Continuation>,
        packet: Vec<u8>,
        known: Key,
        tracked: Option<(u16, Vec<u8>)>,
        why: String,
    ) {
        self.next.push_back(Next { from: Arc::clone(next), packet, known, tracked, why });
    }
}

/// Translates a packet to the first addresses and ports of an action.
fn translate(action: &Ct, packet: &mut [u8]) {
    let nats = action.actions.iter().filter_map(|action| match action {
        Action::Nat(nat) => Some(&**nat),
        _ => None,
    });
    for nat in nats {
        for entry in first_of(nat, packet) {
            let _ = edit::set(&entry, packet);
        }
    }
}

fn first_of(nat: &Nat, packet: &[u8]) -> Vec<Entry> {
    let source = nat.flags.contains(NatFlags::SOURCE);
    if !source && !nat.flags.contains(NatFlags::DESTINATION) {
        return Vec::new();
    }
    let mut key = Key::default();
    key::extract(packet, &mut key);
    let side = |of_source, of_destination| if source { of_source } else { of_destination };
    let mut entries = Vec::new();
    match nat.addresses {
        NatAddresses::V4(first, _) => {
            let field = side(Field::Ipv4Src, Field::Ipv4Dst);
            entries.push(Entry::exact(field, u32::from(first).into()));
        }
        NatAddresses::V6(first, _) => {
            let field = side(Field::Ipv6Src, Field::Ipv6Dst);
            entries.push(Entry::exact(field, first.into()));
        }
        NatAddresses::Unchanged => {}
    }
    let port = match key.get(Field::IpProto) as u8 {
        TCP => Some(side(Field::TcpSrc, Field::TcpDst)),
        UDP => Some(side(Field::UdpSrc, Field::UdpDst)),
        SCTP => Some(side(Field::SctpSrc, Field::SctpDst)),
        _ => None,
    };
    if let (Some(field), Some((first, _))) = (port, nat.ports) {
        entries.push(Entry::exact(field, first.into()));
    }
    entries
}
