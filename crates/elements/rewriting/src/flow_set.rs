//! Flow set: the flows of one rewriter, or of several that share a capacity.

use std::sync::{Arc, RwLock};

use linerate_memory::MemoryError;
use linerate_packet::{FlowV4, IpProtocol};
use linerate_tables::{
    exact::{Backing, Entry, Table},
    heap::Heap,
    wheel::Wheel,
};

use super::{
    mapping::{Ends, LastUse, Mapping, flags},
    port_alloc::Chooser,
    port_bitmap::PortBitmaps,
    rewriter_type::RewriterKind,
    sequence::Shift,
    spec::{Decision, Spec},
    times::{AllTimes, Times},
};

/// Flows looked at to find one that may be given up. More than one or two only where packets have
/// put off the end of many since a flow was last given up.
const TRIES: usize = 1024;
/// Flows looked at for such as have ended when nothing is left of a range.
const LEFTOVERS: usize = 4096;

/// One rewriter's part.
#[derive(Debug)]
pub(super) struct Rewriting {
    pub(super) kind: RewriterKind,
    pub(super) times: AllTimes,
    pub(super) specs: Vec<Spec>,
    pub(super) outputs: usize,
}

impl Rewriting {
    const NONE: Rewriting = Rewriting {
        kind: RewriterKind::Address,
        times: AllTimes { tcp: Times::plain(0, 0), other: Times::plain(0, 0) },
        specs: Vec::new(),
        outputs: 0,
    };

    fn times(&self, mapping: &Mapping) -> &Times {
        if mapping.flags & flags::TCP != 0 { &self.times.tcp } else { &self.times.other }
    }
}

/// Flows and when they end. Both directions of a flow are entries of one table, each with all that
/// is needed to rewrite a packet that goes its way; the other direction is touched when a flow
/// begins, ends, or is closed.
///
/// Flows are in one of two places: in a wheel when they had a packet within their guarantee, else in
/// a heap, which knows the one that ends first. Packets move no flow from one to the other: a flow
/// found in the wrong one is moved.
#[derive(Debug)]
pub(super) struct FlowSet {
    pub(super) table: Table<FlowV4, Mapping>,
    guaranteed: Wheel,
    unguaranteed: Heap,
    /// Most flows.
    capacity: usize,
    flows: usize,
    pub(super) rewriters: Vec<Rewriting>,
    /// The rewriters' names.
    names: Vec<String>,
    bitmaps: PortBitmaps,
    /// Changed sequence numbers, forward and reply.
    shifts: Vec<[Shift; 2]>,
    free_shifts: Vec<u32>,
    random: fastrand::Rng,
    /// Flows removed so far: an entry found before another may be another flow's.
    pub(super) removals: u64,
    /// The one that has taken everything over.
    pub(super) successor: Option<Arc<RwLock<FlowSet>>>,
}

/// A new flow has not got a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unmapped {
    /// By design: it leaves by an output as it is.
    Pass(u32),
    /// By design.
    Drop,
    /// No room, or nothing left of the range.
    Failed,
}

/// When something of a flow ends.
struct Life {
    /// It may be given up for another from here on.
    guaranteed: u64,
    /// It ends.
    end: u64,
    /// It would end, did it not have a guarantee.
    lapse: u64,
}

impl FlowSet {
    /// Flows there may be when nothing is said.
    pub(super) const DEFAULT_CAPACITY: usize = 1 << 20;
    /// Flows there may be at all.
    pub(super) const LIMIT: usize = 1 << 24;

    /// None yet, for the rewriters of these names.
    ///
    /// # Errors
    ///
    /// When the machine has not the addresses.
    pub(super) fn new(
        names: Vec<String>,
        capacity: usize,
        now: u64,
    ) -> Result<FlowSet, MemoryError> {
        let entries = 2 * capacity.clamp(FlowSet::DEFAULT_CAPACITY, FlowSet::LIMIT);
        Ok(FlowSet {
            table: Table::new(entries, Backing::OnDemand)?,
            guaranteed: Wheel::new(now, entries, Backing::OnDemand)?,
            unguaranteed: Heap::new(entries, Backing::OnDemand)?,
            capacity: capacity.min(FlowSet::LIMIT),
            flows: 0,
            rewriters: names.iter().map(|_| Rewriting::NONE).collect(),
            names,
            bitmaps: PortBitmaps::default(),
            shifts: Vec::new(),
            free_shifts: Vec::new(),
            random: fastrand::Rng::new(),
            removals: 0,
            successor: None,
        })
    }

    /// Takes the place of chance, for runs that must repeat.
    pub(super) fn seed(&mut self, seed: u64) {
        self.random = fastrand::Rng::with_seed(seed);
    }

    pub(super) fn len(&self) -> usize {
        self.flows
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Flows there can be without another table.
    pub(super) fn room(&self) -> usize {
        self.table.limit() / 2
    }

    /// Replaces a rewriter's configuration. Flows of inputs whose specification has changed go; the
    /// others have its times.
    pub(super) fn install(&mut self, rewriter: u16, mut new: Rewriting) {
        let at = usize::from(rewriter);
        let old = std::mem::replace(&mut self.rewriters[at], Rewriting::NONE);
        let mut changed = vec![true; old.specs.len().max(new.specs.len())];
        let same = (old.kind, old.outputs) == (new.kind, new.outputs);
        for (input, old) in old.specs.into_iter().enumerate().filter(|_| same) {
            if let Some(new) = new.specs.get_mut(input)
                && new.is_like(&old)
            {
                *new = old;
                changed[input] = false;
            }
        }
        let other_times = old.times != new.times;
        self.rewriters[at] = new;
        if self.flows > 0 && changed.contains(&true) {
            self.remove_where(|key, mapping| {
                key.vlan == rewriter && changed.get(usize::from(mapping.input)) != Some(&false)
            });
        }
        if self.flows > 0 && other_times {
            self.reschedule(rewriter);
        }
    }

    /// It is learnt anew when the flows of a rewriter end, by its times: perhaps sooner than was
    /// known.
    fn reschedule(&mut self, rewriter: u16) {
        let FlowSet { table, rewriters, guaranteed, unguaranteed, .. } = self;
        for (entry, key, mapping) in table.iter() {
            let is_anchor = !mapping.is_reply() || mapping.peer == entry;
            if key.vlan != rewriter || !is_anchor {
                continue;
            }
            let number = entry.number() as u32;
            let life = life(table, rewriters, number);
            match mapping.flags & flags::UNGUARANTEED {
                0 => guaranteed.schedule(number, life.guaranteed),
                _ => unguaranteed.schedule(number, life.end),
            }
        }
    }

    /// An input of a rewriter gets another specification; its flows go.
    pub(super) fn respecify(&mut self, rewriter: u16, input: usize, spec: Spec) {
        self.remove_where(|key, mapping| {
            key.vlan == rewriter && usize::from(mapping.input) == input
        });
        if let Some(old) = self.rewriters[usize::from(rewriter)].specs.get_mut(input) {
            *old = spec;
        }
    }

    /// Changes the most flows there may be; those above it go at once.
    pub(super) fn set_capacity(&mut self, capacity: usize, now: u64) {
        self.capacity = capacity.min(self.room());
        self.reap(now, usize::MAX);
        while self.flows > self.capacity && self.make_room(now, None) {}
        if self.flows <= self.capacity {
            return;
        }
        // All that are left have a guarantee: those go for which it is over first.
        let FlowSet { table, rewriters, .. } = &*self;
        let forward = table.iter().filter(|(entry, _, it)| !it.is_reply() || it.peer == *entry);
        let until = |number| life(table, rewriters, number).guaranteed;
        let numbers = forward.map(|(entry, ..)| entry.number() as u32);
        let mut left: Vec<(u64, u32)> = numbers.map(|number| (until(number), number)).collect();
        left.sort_unstable();
        for (_, number) in left.into_iter().take(self.flows - self.capacity) {
            self.remove(Entry::from_number(number));
        }
    }

    /// Removes all flows.
    pub(super) fn clear(&mut self) {
        self.remove_where(|_, _| true);
        self.bitmaps.clear();
    }

    fn remove_where(&mut self, is_meant: impl Fn(&FlowV4, &Mapping) -> bool) {
        let meant = self.table.iter().filter(|(_, key, mapping)| is_meant(key, mapping));
        let meant: Vec<Entry> = meant.map(|(entry, ..)| entry).collect();
        for entry in meant {
            self.remove(entry);
        }
    }

    /// The mapping of a key in a rewriter's map.
    pub(super) fn find(&self, rewriter: u16, map: IpProtocol, ends: Ends) -> Option<Entry> {
        self.table.lookup(&ends.key(rewriter, map))
    }

    /// The forward direction of an entry's flow.
    fn anchor(&self, entry: Entry) -> Option<Entry> {
        let mapping = self.table.get(entry)?;
        Some(if mapping.is_reply() { mapping.peer } else { entry })
    }

    /// A mapping for a flow that has none, as an input's specification says, and the output its
    /// first packet leaves by: when it is mapped to itself, those behind it are answers.
    pub(super) fn establish(
        &mut self,
        rewriter: u16,
        input: usize,
        map: IpProtocol,
        protocol: IpProtocol,
        flow: Ends,
        now: u64,
    ) -> Result<(Entry, u32), Unmapped> {
        let mut decision = self.decide(rewriter, input, map, flow);
        if matches!(decision, Decision::Exhausted) {
            // Ports of flows that have ended are free.
            let before = self.flows;
            self.reap(now, LEFTOVERS);
            if self.flows < before {
                decision = self.decide(rewriter, input, map, flow);
            }
        }
        let at = &mut self.rewriters[usize::from(rewriter)];
        let kind = at.kind;
        let (to, forward, reply) = match decision {
            Decision::Map { to, forward, reply } => (kind.completed(to), forward, reply),
            Decision::Pass(output) => return Err(Unmapped::Pass(output)),
            Decision::Drop => return Err(Unmapped::Drop),
            Decision::Exhausted => {
                let spec = &mut at.specs[input];
                spec.failures = spec.failures.wrapping_add(1);
                return Err(Unmapped::Failed);
            }
        };
        if !kind.allows(to) || forward.max(reply) as usize >= at.outputs {
            return Err(Unmapped::Drop);
        }
        let (guarantee, idle) = if kind.is_tcp(map) {
            (at.times.tcp.guarantee, at.times.tcp.idle)
        } else {
            (at.times.other.guarantee, at.times.other.idle)
        };
        let (key, back) = (flow.key(rewriter, map), to.reversed().key(rewriter, map));
        if let Some(other) = self.table.lookup(&back) {
            self.remove(other);
        }
        let rival = (guarantee == 0).then_some(now + idle);
        let room = self.flows < self.capacity || self.make_room(now, rival);
        let made = if room {
            self.add(key, back, to, (forward, reply), input, protocol, now)
        } else {
            None
        };
        let Some(entry) = made else {
            let spec = &mut self.rewriters[usize::from(rewriter)].specs[input];
            spec.failures = spec.failures.wrapping_add(1);
            return Err(Unmapped::Failed);
        };
        match guarantee {
            0 => self.schedule_unguaranteed(entry, now + idle),
            _ => self.guaranteed.schedule(entry.number() as u32, now + guarantee),
        }
        self.rewriters[usize::from(rewriter)].specs[input].count += 1;
        if !self.bitmaps.is_empty() {
            self.bitmaps.added(&back);
        }
        self.flows += 1;
        Ok((entry, forward))
    }

    /// Decides on a new flow by an input's specification.
    fn decide(&mut self, rewriter: u16, input: usize, map: IpProtocol, flow: Ends) -> Decision {
        let FlowSet { table, rewriters, bitmaps, random, .. } = self;
        let at = &mut rewriters[usize::from(rewriter)];
        let mut chooser = Chooser { table, bitmaps, random, rewriter, map, kind: at.kind };
        match at.specs.get_mut(input) {
            Some(spec) => spec.action.decide(flow, &mut chooser),
            None => Decision::Drop,
        }
    }

    /// Adds both directions; the one that packets of the flow take comes back, which is the reply
    /// direction where both are the same.
    #[allow(clippy::too_many_arguments, reason = "one caller, and all of it is about the flow")]
    fn add(
        &mut self,
        key: FlowV4,
        back: FlowV4,
        to: Ends,
        outputs: (u32, u32),
        input: usize,
        protocol: IpProtocol,
        now: u64,
    ) -> Option<Entry> {
        let kind = self.rewriters[usize::from(key.vlan)].kind;
        let tcp = if kind.is_tcp(key.protocol) { flags::TCP } else { 0 };
        // The peer of the first is not known yet.
        let mapping = |from: Ends, to: Ends, output: u32, reply: bool, peer: Entry| {
            let (ip_delta, transport_delta) = kind.deltas(from, to, reply);
            Mapping {
                last: LastUse::new(now),
                to,
                peer,
                output,
                shift: 0,
                ip_delta,
                transport_delta,
                input: input as u16,
                flags: tcp | if reply { flags::REPLY } else { 0 },
                packets: 0,
                reply_anno: 0,
                protocol: kind.remembered(key.protocol, protocol),
            }
        };
        let (flow, answer) = (Ends::from_key(&key), Ends::from_key(&back));
        let home = flow.reversed();
        // Any entry will do until the peer's is known.
        let (first, _) = self
            .table
            .insert(back, mapping(answer, home, outputs.1, true, Entry::from_number(0)))
            .ok()?;
        if key == back {
            let mapping = self.table.get_mut(first)?;
            mapping.peer = first;
            mapping.flags |= flags::BOTH;
            return Some(first);
        }
        let forward = mapping(flow, to, outputs.0, false, first);
        let Ok((entry, _)) = self.table.insert(key, forward) else {
            self.table.remove_entry(first);
            return None;
        };
        self.table.get_mut(first)?.peer = entry;
        Some(entry)
    }

    fn schedule_unguaranteed(&mut self, anchor: Entry, end: u64) {
        self.unguaranteed.schedule(anchor.number() as u32, end);
        if let Some(mapping) = self.table.get_mut(anchor) {
            mapping.flags |= flags::UNGUARANTEED;
        }
    }

    /// Removes the flow an entry is of.
    pub(super) fn remove(&mut self, entry: Entry) {
        let Some(anchor) = self.anchor(entry) else { return };
        let number = anchor.number() as u32;
        self.guaranteed.cancel(number);
        self.unguaranteed.cancel(number);
        let Some((key, mapping)) = self.table.remove_entry(anchor) else { return };
        let reply = match mapping.peer {
            own if own == anchor => key,
            peer => self.table.remove_entry(peer).map_or(key, |(key, _)| key),
        };
        let spec = self.rewriters[usize::from(key.vlan)].specs.get_mut(usize::from(mapping.input));
        if let Some(spec) = spec {
            spec.count = spec.count.saturating_sub(1);
        }
        if mapping.shift > 0 {
            self.shifts[mapping.shift as usize - 1] = Default::default();
            self.free_shifts.push(mapping.shift);
        }
        if !self.bitmaps.is_empty() {
            self.bitmaps.removed(&reply);
        }
        self.flows -= 1;
        self.removals += 1;
    }

    /// Gives up the flow without a guarantee that would end next. When there is none, or it ends
    /// after `rival`, says `false`.
    fn make_room(&mut self, now: u64, rival: Option<u64>) -> bool {
        self.release(now, TRIES);
        for _ in 0..TRIES {
            let FlowSet { table, rewriters, unguaranteed, .. } = self;
            let end = |number| life(table, rewriters, number).end;
            let Some(number) = unguaranteed.earliest(TRIES, end) else { return false };
            let life = life(table, rewriters, number);
            if life.guaranteed > now {
                self.unguaranteed.cancel(number);
                self.guaranteed.schedule(number, life.guaranteed);
                if let Some(mapping) = self.table.get_mut(Entry::from_number(number)) {
                    mapping.flags &= !flags::UNGUARANTEED;
                }
                continue;
            }
            if rival.is_some_and(|rival| rival < life.end) {
                return false;
            }
            self.remove(Entry::from_number(number));
            return true;
        }
        false
    }

    /// Moves flows whose guarantee has ended to the others; looks at no more than `budget`.
    fn release(&mut self, now: u64, budget: usize) -> usize {
        let FlowSet { table, rewriters, guaranteed, unguaranteed, .. } = self;
        guaranteed.advance(now, budget, |number, now| {
            let life = life(table, rewriters, number);
            if life.guaranteed > now {
                return Some(life.guaranteed);
            }
            unguaranteed.schedule(number, life.end);
            table.get_mut(Entry::from_number(number))?.flags |= flags::UNGUARANTEED;
            None
        })
    }

    /// Removes flows that have ended; looks at no more than `budget` of each kind. Whether there
    /// may be more.
    pub(super) fn reap(&mut self, now: u64, budget: usize) -> bool {
        let released = self.release(now, budget);
        let FlowSet { table, rewriters, unguaranteed, .. } = self;
        let mut ended = Vec::new();
        let looked = unguaranteed.advance(now, budget, |number, now| {
            let life = life(table, rewriters, number);
            if life.end > now {
                return Some(life.end);
            }
            ended.push(number);
            None
        });
        for number in ended {
            self.remove(Entry::from_number(number));
        }
        released.max(looked) >= budget
    }

    /// The first packet of a flow has been seen: where both directions are one, others
    /// are answers.
    pub(super) fn begun(&mut self, entry: Entry) {
        let Some(mapping) = self.table.get_mut(entry).filter(|it| it.is_both()) else { return };
        let seen = mapping.flags & (flags::DONE | flags::DATA);
        // A reset is for both.
        if mapping.flags & flags::DONE << flags::FIRST == 0 {
            mapping.flags &= !seen;
        }
        mapping.flags |= seen << flags::FIRST;
    }

    /// A flow has come to where it may end sooner than was known.
    #[cold]
    pub(super) fn reschedule_flow(&mut self, entry: Entry) {
        let Some(anchor) = self.anchor(entry) else { return };
        let number = anchor.number() as u32;
        let is_unguaranteed =
            self.table.get(anchor).is_some_and(|it| it.flags & flags::UNGUARANTEED != 0);
        if is_unguaranteed {
            let end = life(&self.table, &self.rewriters, number).end;
            self.unguaranteed.schedule(number, end);
        }
    }

    /// Returns true if the flow of an entry has ended and is only not removed yet.
    #[cold]
    pub(super) fn has_ended(&self, entry: Entry, now: u64) -> bool {
        self.end(entry) < now
    }

    /// When the flow of an entry ends.
    pub(super) fn end(&self, entry: Entry) -> u64 {
        let anchor = self.anchor(entry).unwrap_or(entry);
        life(&self.table, &self.rewriters, anchor.number() as u32).end
    }

    /// When it would end if it had no guarantee.
    pub(super) fn lapse(&self, entry: Entry) -> u64 {
        let anchor = self.anchor(entry).unwrap_or(entry);
        life(&self.table, &self.rewriters, anchor.number() as u32).lapse
    }

    /// Changes sequence numbers of the direction of an entry from one on. Whether it was done.
    pub(super) fn shift(&mut self, entry: Entry, from: u32, by: i32) -> bool {
        let Some(mapping) = self.table.get(entry) else { return false };
        let (reply, peer, mut at) = (mapping.is_reply(), mapping.peer, mapping.shift);
        if at == 0 {
            at = self.free_shifts.pop().unwrap_or_else(|| {
                self.shifts.push(Default::default());
                self.shifts.len() as u32
            });
            for direction in [entry, peer] {
                if let Some(mapping) = self.table.get_mut(direction) {
                    mapping.shift = at;
                }
            }
        }
        self.shifts[at as usize - 1][usize::from(reply)].add(from, by)
    }

    /// The changes of sequence numbers of a mapping, those of its direction first.
    pub(super) fn shifts_of(&mut self, at: u32, reply: bool) -> Option<(&mut Shift, &mut Shift)> {
        let [forward, back] = self.shifts.get_mut((at as usize).checked_sub(1)?)?;
        Some(if reply { (back, forward) } else { (forward, back) })
    }

    /// By how much the newest sequence numbers of a mapping are changed.
    pub(super) fn shift_now(&self, mapping: &Mapping) -> i32 {
        let shifts = (mapping.shift as usize).checked_sub(1).and_then(|at| self.shifts.get(at));
        shifts.map_or(0, |shifts| shifts[usize::from(mapping.is_reply())].now())
    }

    /// Takes the flows of another set over: all at once when both are of the same rewriters, else
    /// those of one rewriter. Whether it took all.
    pub(super) fn take(&mut self, old: &mut FlowSet, from: u16, to: u16) -> bool {
        if old.names == self.names && self.flows == 0 && old.room() >= self.capacity {
            self.swap_flows(old);
            return true;
        }
        let all = old.table.iter().filter(|(_, key, it)| key.vlan == from && !it.is_reply());
        let flows: Vec<(Entry, FlowV4)> = all.map(|(entry, key, _)| (entry, *key)).collect();
        for (entry, key) in flows {
            self.take_flow(old, entry, key, to);
        }
        false
    }

    fn swap_flows(&mut self, old: &mut FlowSet) {
        std::mem::swap(&mut self.table, &mut old.table);
        std::mem::swap(&mut self.guaranteed, &mut old.guaranteed);
        std::mem::swap(&mut self.unguaranteed, &mut old.unguaranteed);
        std::mem::swap(&mut self.flows, &mut old.flows);
        std::mem::swap(&mut self.bitmaps, &mut old.bitmaps);
        std::mem::swap(&mut self.shifts, &mut old.shifts);
        std::mem::swap(&mut self.free_shifts, &mut old.free_shifts);
        std::mem::swap(&mut self.rewriters, &mut old.rewriters);
        self.capacity = self.capacity.min(self.room());
        // The configuration just installed is installed again, which removes flows it has no place
        // for.
        for at in 0..self.rewriters.len() {
            let new = std::mem::replace(&mut old.rewriters[at], Rewriting::NONE);
            self.install(at as u16, new);
        }
    }

    fn take_flow(&mut self, old: &mut FlowSet, entry: Entry, key: FlowV4, to: u16) {
        let Some(there) = old.table.get(entry) else { return };
        let (input, protocol) = (usize::from(there.input), IpProtocol(there.protocol));
        let Some((back, answer)) =
            old.table.key(there.peer).copied().zip(old.table.get(there.peer))
        else {
            return;
        };
        let (key, back) = (FlowV4 { vlan: to, ..key }, FlowV4 { vlan: to, ..back });
        let here = &self.rewriters[usize::from(to)];
        let outputs = (there.output, answer.output);
        let fits = input < here.specs.len() && (outputs.0.max(outputs.1) as usize) < here.outputs;
        let taken = [key, back].iter().any(|key| self.table.lookup(key).is_some());
        if !fits || taken || self.flows >= self.capacity {
            return;
        }
        let (last, forward, reply) = (there.last.get().max(answer.last.get()), there, answer);
        let seen = [(forward.flags, forward.packets), (reply.flags, reply.packets)];
        let anno = forward.reply_anno;
        let target = Ends::from_key(&back).reversed();
        let Some(made) = self.add(key, back, target, outputs, input, protocol, last) else {
            return;
        };
        let peer = self.table.get(made).map_or(made, |mapping| mapping.peer);
        for (entry, (seen, packets)) in [made, peer].into_iter().zip(seen) {
            if let Some(mapping) = self.table.get_mut(entry) {
                let shown = flags::DONE | flags::DATA;
                mapping.flags |= seen & (shown | shown << flags::FIRST);
                mapping.packets = packets;
                mapping.reply_anno = anno;
            }
        }
        let end = life(&self.table, &self.rewriters, made.number() as u32).end;
        self.schedule_unguaranteed(made, end);
        self.rewriters[usize::from(to)].specs[input].count += 1;
        self.flows += 1;
    }
}

/// Returns the times at which a flow ends, by the number of its forward direction.
fn life(table: &Table<FlowV4, Mapping>, rewriters: &[Rewriting], number: u32) -> Life {
    let find = || {
        let entry = Entry::from_number(number);
        let (key, forward) = (table.key(entry)?, table.get(entry)?);
        Some((rewriters.get(usize::from(key.vlan))?, forward, table.get(forward.peer)?))
    };
    let Some((rewriter, forward, reply)) = find() else {
        return Life { guaranteed: 0, end: 0, lapse: 0 };
    };
    let last = forward.last.get().max(reply.last.get());
    let times = rewriter.times(forward);
    let guaranteed = last + times.guarantee;
    let lapse = last + times.timeout(forward, reply);
    Life { guaranteed, end: guaranteed.max(lapse), lapse }
}
