//! Execution of decisions on packets.

use std::sync::Arc;

use linerate_memory::{Frame, Slot};

use super::classify::LookupResult;
use super::tables::clear_connection;
use super::tally::count;
use super::{
    Drop, FlowCache, NONE, OUTPUTS, Outlet, TO_DROP, TO_GO_ON, TO_STEPS, TO_UNDECIDED, Tables,
};
use crate::conntrack::{Fragment, Tracked};
use crate::counters::Counters;
use crate::key::{Key, Mask};
use crate::meter::Verdict;
use crate::pipeline::{Continuation, Decision, Select, Step};
use crate::table::PortCount;
use crate::wire::{Entry, Field};

/// Limits of repeated lookups on one path of a packet, and on all paths of its copies together: two
/// copies that are looked up again by the same flow are four the next time.
const DEPTH: u32 = 64;
const LOOKUPS: u32 = 4096;

/// State of a packet during execution, beside its bytes.
struct PacketState {
    /// The port it came by.
    place: usize,
    /// Its metadata fields, filled on first use.
    key: Option<Key>,
    /// Number of repeated lookups.
    again: u32,
}

impl PacketState {
    fn new(place: usize) -> PacketState {
        PacketState { place, key: None, again: 0 }
    }
}

impl FlowCache {
    /// Executes the decisions of the classified packets of a frame and takes them out, up to one
    /// that may have changed the decisions of those behind it. Returns true if the frame is done;
    /// packets in it then were left there by `out`.
    #[inline]
    pub(super) fn carry_out<T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        place: usize,
        frame: &mut Frame,
        now: u64,
    ) -> bool {
        let most = self.outputs.iter().fold(0, |most, output| most.max(*output));
        if most < OUTPUTS && self.outputs.len() == frame.len() {
            if self.observed.is_some() {
                self.observe_outputs(out.pool().arena(), place, frame, now);
            }
            out.distribute(frame, &self.outputs);
            return true;
        }
        self.carry_out_each(tables, out, place, frame, now);
        frame.is_empty()
    }

    /// Likewise, packet by packet.
    #[inline(never)]
    pub(super) fn carry_out_each<T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        place: usize,
        frame: &mut Frame,
        now: u64,
    ) {
        let mut queue = std::mem::take(&mut self.queue);
        frame.drain_front(frame.len(), |slot| queue.push(slot));
        let mut slots = queue.drain(..);
        let mut known: Option<(u32, Arc<Decision>)> = None;
        for at in 0..self.outputs.len() {
            let Some(slot) = slots.next() else { break };
            if self.observed.is_some() {
                self.observe(place, at, out.pool().arena().packet(&slot), now);
            }
            match self.outputs[at] {
                TO_DROP => out.drop_packet(slot, Drop::Flows),
                TO_UNDECIDED => out.drop_packet(slot, Drop::Budget),
                TO_STEPS | TO_GO_ON => {
                    let entry = self.found[at];
                    if known.as_ref().is_none_or(|(of, _)| *of != entry || entry == NONE) {
                        known = if entry == NONE {
                            let decision = self.alone.pop_front().unwrap_or_default();
                            count(&decision, 1, slot.len() as u64, now);
                            Some((entry, decision))
                        } else {
                            let cold = self.entries.cold(entry);
                            cold.map(|cold| (entry, Arc::clone(&cold.decision)))
                        };
                    }
                    let Some((_, decision)) = &known else {
                        out.drop_packet(slot, Drop::Flows);
                        continue;
                    };
                    let epoch = self.epoch;
                    let mut state = PacketState::new(place);
                    self.lookups = 0;
                    self.steps(tables, out, slot, &decision.steps, &mut state, now);
                    if self.epoch != epoch {
                        self.take_back(at + 1, slots.as_slice());
                        break;
                    }
                }
                output => out.send(output as usize, slot),
            }
        }
        for slot in slots {
            if let Err(slot) = frame.push(slot) {
                out.drop_packet(slot, Drop::Room);
            }
        }
        self.queue = queue;
    }

    /// Every packet is decided by itself.
    #[cold]
    pub(super) fn decide_each<T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        place: usize,
        frame: &mut Frame,
        now: u64,
    ) {
        frame.drain_front(frame.len(), |slot| {
            let key = self.key_of(place, out.pool().arena().packet(&slot));
            let decision = tables.decide(&self.snapshot, &key, None, now);
            self.counts.decided += 1;
            count(&decision, 1, slot.len() as u64, now);
            if self.observed.is_some() {
                let packet = out.pool().arena().packet(&slot);
                self.observe_decided(place, &decision, packet, now);
            }
            let mut state = PacketState::new(place);
            self.lookups = 0;
            self.steps(tables, out, slot, &decision.steps, &mut state, now);
            self.refresh(tables);
        });
    }

    /// Takes packets back that were classified, to be classified anew.
    #[cold]
    fn take_back(&mut self, from: usize, slots: &[Slot]) {
        for (entry, slot) in self.found[from..].iter().zip(slots) {
            if let Some(hot) = self.entries.hot.get_mut(*entry as usize) {
                hot.packets = hot.packets.saturating_sub(1);
                hot.bytes = hot.bytes.saturating_sub(slot.len() as u64);
            }
        }
        self.alone.clear();
    }

    /// Executes a decision on one packet outside a frame, as for packets sent by a controller. The
    /// key has the metadata fields of the packet.
    pub fn inject<T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        slot: Slot,
        (key, decision): (&Key, &Decision),
        now: u64,
    ) {
        count(decision, 1, slot.len() as u64, now);
        let number = key.get(Field::InPort) as u32;
        let place = self.ports.iter().position(|port| port.number == number);
        let place = place.unwrap_or(self.ports.len());
        let mut state = PacketState { key: Some(*key), ..PacketState::new(place) };
        self.lookups = 0;
        self.steps(tables, out, slot, &decision.steps, &mut state, now);
    }

    /// Returns the present key of a packet.
    fn key_now<O: Outlet>(&self, out: &mut O, slot: &Slot, state: &mut PacketState) -> Key {
        let key = state.key.get_or_insert_with(|| self.base_of(state.place));
        let mut key = *key;
        crate::key::extract(out.pool().arena().packet(slot), &mut key);
        key
    }

    fn steps<T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        mut slot: Slot,
        steps: &[Step],
        state: &mut PacketState,
        now: u64,
    ) {
        // Set once a copy of the packet has been sent.
        let mut is_sent = false;
        for (at, step) in steps.iter().enumerate() {
            let is_last = at + 1 == steps.len();
            match step {
                Step::Output { port, max_len, .. } => {
                    let length = max_len.map_or(usize::MAX, |length| length as usize);
                    if is_last {
                        return self.output(out, slot, *port, length, is_sent);
                    }
                    match out.pool().share(&mut slot) {
                        Some(copy) => self.output(out, copy, *port, length, true),
                        None => return finish(out, slot, is_sent, Drop::Room),
                    }
                    is_sent = true;
                }
                Step::Meter(meter) => match meter.pass(slot.len(), now) {
                    Verdict::Pass => {}
                    Verdict::Drop => return finish(out, slot, is_sent, Drop::Meter),
                    Verdict::Remark(levels) => {
                        let key = self.key_now(out, &slot, state);
                        if let Some(step) = remarked(&key, levels)
                            && !change(out, &mut slot, &step)
                        {
                            return finish(out, slot, is_sent, Drop::Room);
                        }
                    }
                },
                Step::Count(counters) => counters.add(1, slot.len() as u64, now),
                Step::Select(select) => {
                    let key = self.key_now(out, &slot, state);
                    let Some((counters, steps)) = chosen(select, &key) else { continue };
                    counters.add(1, slot.len() as u64, now);
                    if is_last {
                        return self.steps(tables, out, slot, steps, state, now);
                    }
                    is_sent |= self.copy(tables, out, &mut slot, steps, state, now);
                }
                Step::Copy(steps) => {
                    if is_last {
                        return self.steps(tables, out, slot, steps, state, now);
                    }
                    is_sent |= self.copy(tables, out, &mut slot, steps, state, now);
                }
                Step::Controller(punt) => {
                    let key = self.key_now(out, &slot, state);
                    if !tables.punt(punt, &key, out.pool().arena().packet(&slot))
                        && let Some(port) = self.ports.get_mut(state.place)
                    {
                        port.counted[PortCount::PuntsDropped as usize] += 1;
                    }
                    is_sent = true;
                }
                Step::Track { action, zone } => {
                    let mut key = self.key_now(out, &slot, state);
                    if !out.pool().unshare(&mut slot) {
                        return finish(out, slot, is_sent, Drop::Room);
                    }
                    let bytes = out.pool().arena().packet_mut(&mut slot);
                    let tracked = bytes.map_or(Tracked::One, |bytes| {
                        tables.track(action, *zone, &mut key, bytes, now)
                    });
                    match tracked {
                        Tracked::One => state.key = Some(key),
                        // It is kept with the connections.
                        Tracked::Waits => return out.pool().give_one(slot),
                        Tracked::All(fragments) => {
                            let rest = (fragments, &steps[at + 1..]);
                            return self.go_on_with(tables, out, slot, rest, state, now);
                        }
                    }
                }
                Step::ClearTrack => {
                    let mut key = self.key_now(out, &slot, state);
                    clear_connection(&mut key);
                    state.key = Some(key);
                }
                Step::Continue(next) => {
                    return self.go_on(tables, out, slot, next, (state, is_sent), now);
                }
                Step::Larger { length, larger, other } => {
                    let is_larger = slot.len() > usize::from(*length);
                    let next = if is_larger { larger } else { other };
                    return self.go_on(tables, out, slot, next, (state, is_sent), now);
                }
                Step::Sample(action) => {
                    if self.observed.is_some() {
                        let packet = out.pool().arena().packet(&slot);
                        self.observe_sample(state.place, (action, &steps[at..]), packet, now);
                    }
                }
                Step::Set(_)
                | Step::PushVlan { .. }
                | Step::PopVlan
                | Step::PushMpls { .. }
                | Step::PopMpls(_)
                | Step::EncapMpls { .. }
                | Step::DecapMpls
                | Step::EncapNsh { .. }
                | Step::DecapNsh
                | Step::PushPbb { .. }
                | Step::PopPbb
                | Step::CopyTtlOut
                | Step::CopyTtlIn => {
                    if !change(out, &mut slot, step) {
                        return finish(out, slot, is_sent, Drop::Room);
                    }
                }
            }
        }
        finish(out, slot, is_sent, Drop::Flows);
    }

    /// Executes steps on a copy. Returns true if there was a buffer for one.
    fn copy<T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        slot: &mut Slot,
        steps: &[Step],
        state: &mut PacketState,
        now: u64,
    ) -> bool {
        let Some(copy) = out.pool().share(slot) else { return false };
        let mut own = PacketState { place: state.place, key: state.key, again: state.again };
        self.steps(tables, out, copy, steps, &mut own, now);
        true
    }

    /// The rest of the steps is done with all fragments of a packet, the last of which had come as
    /// `slot`.
    #[cold]
    #[inline(never)]
    fn go_on_with<T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        mut slot: Slot,
        (fragments, steps): (Vec<Fragment>, &[Step]),
        state: &PacketState,
        now: u64,
    ) {
        for fragment in fragments {
            match slot_of(out, &fragment.packet) {
                Some(own) => {
                    let key = Some(fragment.key);
                    let mut own_state = PacketState { place: state.place, key, again: state.again };
                    self.steps(tables, out, own, steps, &mut own_state, now);
                }
                None => {
                    if let Some(copy) = out.pool().share(&mut slot) {
                        out.drop_packet(copy, Drop::Room);
                    }
                }
            }
        }
        out.pool().give_one(slot);
    }

    /// Looks a packet up again.
    fn go_on<T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        slot: Slot,
        next: &Continuation,
        (state, is_sent): (&mut PacketState, bool),
        now: u64,
    ) {
        state.again += 1;
        self.lookups += 1;
        if state.again > DEPTH || self.lookups > LOOKUPS {
            return finish(out, slot, is_sent, Drop::Loop);
        }
        let mut key = self.key_now(out, &slot, state);
        key.set_continuation(next.number);
        if let Some(known) = &mut state.key {
            // Fragments wait for those that have come as far.
            known.set_continuation(next.number);
        }
        let place = self.ports.len();
        let (entry, decision) = match self.search(tables, place, &key) {
            LookupResult::Entry(entry) => {
                let Some(cold) = self.entries.cold(entry) else { return };
                (Some(entry), Arc::clone(&cold.decision))
            }
            LookupResult::Stale | LookupResult::Miss => {
                let decided = self.decide(tables, place, &key, Some(next), now);
                self.refresh(tables);
                decided
            }
        };
        match entry {
            Some(entry) => self.count_one(entry, slot.len() as u64),
            None => count(&decision, 1, slot.len() as u64, now),
        }
        self.steps(tables, out, slot, &decision.steps, state, now);
    }

    /// Sends a packet by a port.
    fn output<O: Outlet>(
        &mut self,
        out: &mut O,
        mut slot: Slot,
        port: u32,
        length: usize,
        is_sent: bool,
    ) {
        let Some(place) = self.ports.iter().position(|own| own.number == port) else {
            return finish(out, slot, is_sent, Drop::Port);
        };
        let port = &mut self.ports[place];
        if !port.forwards {
            port.counted[PortCount::SentDropped as usize] += 1;
            return finish(out, slot, is_sent, Drop::Port);
        }
        slot.truncate(length.min(slot.len()));
        port.counted[PortCount::Sent as usize] += 1;
        port.counted[PortCount::SentBytes as usize] += slot.len() as u64;
        out.send(place, slot);
    }
}

/// Returns a packet with these bytes.
fn slot_of<O: Outlet>(out: &mut O, bytes: &[u8]) -> Option<Slot> {
    let pool = out.pool();
    if bytes.len() > pool.arena().room() {
        return None;
    }
    let mut slot = pool.take_one(bytes.len())?;
    if let Some(meta) = pool.arena().meta_mut(&mut slot) {
        meta.reset();
    }
    pool.arena().packet_mut(&mut slot)?.copy_from_slice(bytes);
    Some(slot)
}

/// Ends a packet's way: frees a copy that is not needed, or drops the packet.
fn finish<O: Outlet>(out: &mut O, slot: Slot, is_sent: bool, why: Drop) {
    if is_sent {
        out.pool().give_one(slot);
    } else {
        out.drop_packet(slot, why);
    }
}

/// Changes a packet's headers; `false` where there is no room.
fn change<O: Outlet>(out: &mut O, slot: &mut Slot, step: &Step) -> bool {
    let pool = out.pool();
    if !pool.unshare(slot) {
        return false;
    }
    let Some(mut packet) = pool.arena().writable(slot) else { return false };
    step.apply(&mut packet)
}

/// The step that raises the precedence with which a packet may be dropped, where it is of a class
/// that has such (assured forwarding, RFC 2597).
fn remarked(key: &Key, levels: u8) -> Option<Step> {
    let class = key.get(Field::IpDscp) as u8;
    let (group, precedence) = (class >> 3, class >> 1 & 3);
    let is_assured = (1..=4).contains(&group) && precedence > 0 && class & 1 == 0;
    let raised = precedence.saturating_add(levels).min(3);
    (is_assured && raised != precedence)
        .then(|| Step::Set(Entry::exact(Field::IpDscp, u128::from(group << 3 | raised << 1))))
}

/// Selects the bucket of a packet, and returns its counters and steps.
fn chosen<'a>(select: &'a Select, key: &Key) -> Option<(&'a Counters, &'a [Step])> {
    let total: u64 = select.ways.iter().map(|(weight, ..)| u64::from(*weight)).sum();
    let hash = hash_of(key, &select.fields, select.basis);
    let mut left = (u64::from(hash) * total) >> 32;
    let way = select.ways.iter().find(|(weight, ..)| {
        let weight = u64::from(*weight);
        let is_it = left < weight;
        left = left.wrapping_sub(weight);
        is_it
    });
    way.map(|(_, counters, steps)| (&**counters, steps.as_slice()))
}

/// The hash of some fields, or of all addresses, protocol and ports: the same in every worker and
/// every run.
fn hash_of(key: &Key, fields: &Mask, basis: u32) -> u32 {
    let usual;
    let fields = if fields.is_empty() {
        let mut mask = Mask::default();
        let of = [Field::EthType, Field::IpProto, Field::Ipv4Src, Field::Ipv4Dst, Field::TcpSrc];
        of.into_iter().for_each(|field| mask.add_all(field));
        let others = [Field::TcpDst, Field::Ipv6Src, Field::Ipv6Dst, Field::EthSrc, Field::EthDst];
        others.into_iter().for_each(|field| mask.add_all(field));
        usual = mask;
        &usual
    } else {
        fields
    };
    let mut hash = u64::from(basis) ^ 0x9e37_79b9_7f4a_7c15;
    for (word, mask) in key.words().iter().zip(fields.words()) {
        if *mask != 0 {
            let product = u128::from(hash ^ word & mask) * 0x9fb2_1c65_1e98_df25_u128;
            hash = (product as u64 ^ (product >> 64) as u64).rotate_left(29) ^ hash << 1;
        }
    }
    let product = u128::from(hash) * 0xd6e8_feb8_6659_fd93_u128;
    (product as u64 ^ (product >> 64) as u64) as u32
}
