//! The fast path: what becomes of packets, as it was decided for others like them.
//!
//! Each worker has a [`FastPath`] of its own, so nothing in it is shared and nothing waits. It keeps
//! entries: a decision of the pipeline, and what packets must have in the bits that decision looked at.
//! A frame comes in by one port, and what that port's entries look at altogether is their *union*:
//!
//! - Where that is nothing of a packet, one entry has the frame, and no packet is touched.
//! - Else only the headers that have bits of it are read, a row of words for each packet; a frame that is all the entry's
//!   that had the one before is seen on the way.
//! - Else each row is hashed under the union, and signatures lead to a candidate, which is compared
//!   under its own mask. Lines of all packets are asked for before the first is read.
//! - Who is not found so is looked for by all masks one after the other (tuple space search: Srinivasan,
//!   Suri and Varghese, "Packet classification using tuple space search", SIGCOMM 1999), and decided
//!   by the [pipeline](crate::pipeline) in the end.
//!
//! Unions are what makes this short: packets of any number of masks are found by one hash, at the price of
//! a signature for each kind of packet that the *union* tells apart, which may be many for an entry.
//! That is why signatures are apart from entries, and small.
//!
//! A change of the tables stops nobody and empties nothing. Entries have the version they were decided
//! for; one that is met with an older one is held against the changes since then, and decided anew if one of
//! them may concern it.
//!
//! Entries count by themselves; what they have counted is added to counters that all see when
//! [`FastPath::tick`] comes by, when somebody asks ([`FastPath::flush`]) and when the worker has nothing to do.

mod entries;
mod execute;
mod observe;
mod outlet;
mod rows;
mod shown;
mod signatures;
mod tables;

use std::collections::VecDeque;
use std::sync::Arc;

use linerate_memory::{Arena, Frame, Slot, prefetch};

pub use outlet::{Drop, Outlet};
pub use shown::{Shown, Totals};
pub use tables::Tables;

use crate::key::extract::Needed;
use crate::key::{Key, Mask};
use crate::pipeline::{Continuation, Decision, Step};
use crate::table::{PortCount, PortCounters, Snapshot};
use crate::wire::{Field, PortNumber};
use entries::{DROP, Entries, GO_ON, NO_PORT, STEPS};
use observe::Observed;
use rows::{NARROW, NEAR, Seed, WIDE};
use signatures::{Signatures, signature};

/// What a fast path is made with.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Entries it has at most; with 0 every packet is decided by itself.
    pub entries: usize,
    /// Packets of a frame that are decided while other ports have packets, too; others that no entry is
    /// found for are dropped. What a port does not use it may use later, up to [`saved`](Self::saved).
    pub budget: u32,
    /// How much of it can be saved up.
    pub saved: u32,
    /// Nanoseconds after which an entry that nobody uses is forgotten.
    pub patience: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { entries: 65_536, budget: 32, saved: 2048, patience: 10_000_000_000 }
    }
}

/// An entry that is none.
const NONE: u32 = u32::MAX;
/// In the place of an output: packets that are dropped as flows say, ...
const TO_DROP: u32 = DROP as u32;
/// ... packets with which more is done, ...
const TO_STEPS: u32 = STEPS as u32;
/// ... that may be looked up again, ...
const TO_GO_ON: u32 = GO_ON as u32;
/// ... and packets that were not decided.
const TO_NOBODY: u32 = GO_ON as u32 - 1;
/// Outputs are less.
const OUTPUTS: u32 = 0xff00;

/// Frames after which a port that had packets counts as silent.
const SILENCE: u64 = 64;
/// Entries that are forgotten one after the other before it is asked what that was good for.
const JUDGED: u32 = 1024;
/// Of misses, every so many makes an entry where most entries are of no use.
const SAMPLED: u64 = 32;
/// Entries whose counters are added in a tick, and entries that are looked at for their age.
const TICK: usize = 2048;
const AGED: usize = 256;
/// Entries the clock's hand passes for a miss.
const PASSED: usize = 64;

/// What became of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets of frames that one entry had.
    pub together: u64,
    /// Packets an entry was found for by their signature.
    pub found: u64,
    /// Those it was searched for by all masks.
    pub searched: u64,
    /// Those that were decided.
    pub decided: u64,
    /// Those that were not: over the port's budget.
    pub refused: u64,
    /// Entries made.
    pub made: u64,
    /// Entries forgotten for others.
    pub evicted: u64,
    /// Entries that still held after a change of tables.
    pub kept: u64,
    /// Entries that were decided anew then.
    pub renewed: u64,
    /// Decisions that were not kept, as entries were of no use.
    pub passed: u64,
}

/// What is known of a port.
#[derive(Debug)]
struct Port {
    /// Its number in OpenFlow.
    number: u32,
    counters: Option<Arc<PortCounters>>,
    receives: bool,
    forwards: bool,
    /// What of packets is read.
    needed: Needed,
    /// Whether entries look at headers beside the near words.
    is_wide: bool,
    /// The entry that had the last packet.
    last: u32,
    /// Whether it had the whole frame.
    is_single: bool,
    /// Misses it may have.
    credit: u32,
    counted: [u64; PortCount::ALL.len()],
}

/// The fast path of a worker.
#[derive(Debug)]
pub struct FastPath {
    options: Options,
    seed: Seed,
    entries: Entries,
    signatures: Signatures,
    ports: Vec<Port>,
    snapshot: Arc<Snapshot>,
    /// Goes up with each snapshot.
    epoch: u32,
    /// Entries with packets that have not been added to counters.
    dirty: Vec<u32>,
    counts: Counts,
    frames: u64,
    /// The port of the last frame, and the frame at which it was last another's turn.
    turn: (usize, Option<u64>),
    /// Decisions since room was made last, and those that make none yet.
    missed: u64,
    sampled: u64,
    /// Entries forgotten that nobody had used, of how many, and whether that were most the last time.
    useless: (u32, u32, bool),
    narrow: Vec<[u64; NARROW]>,
    wide: Vec<[u64; WIDE]>,
    signed: Vec<u32>,
    candidates: Vec<u32>,
    outputs: Vec<u32>,
    found: Vec<u32>,
    /// Decisions of packets that have no entry, in their order.
    alone: VecDeque<Arc<Decision>>,
    queue: Vec<Slot>,
    observed: Option<Box<Observed>>,
    /// The next packet had an entry that may not hold any more.
    excused: bool,
}

impl FastPath {
    /// One without entries, for a switch whose outputs are ports of these numbers.
    #[must_use]
    pub fn new(ports: &[u32], options: Options) -> FastPath {
        let port = |number: &u32| Port {
            number: *number,
            counters: None,
            receives: true,
            forwards: true,
            needed: Needed::NOTHING,
            is_wide: false,
            last: NONE,
            is_single: true,
            credit: options.saved,
            counted: Default::default(),
        };
        FastPath {
            options,
            seed: Seed::new(),
            entries: Entries::new(ports.len(), options.entries),
            signatures: Signatures::new(options.entries),
            ports: ports.iter().take(OUTPUTS as usize).map(port).collect(),
            snapshot: Arc::default(),
            epoch: 1,
            dirty: Vec::new(),
            counts: Counts::default(),
            frames: 0,
            turn: (usize::MAX, None),
            missed: 0,
            sampled: 0,
            useless: (0, 0, false),
            narrow: Vec::new(),
            wide: Vec::new(),
            signed: Vec::new(),
            candidates: Vec::new(),
            outputs: Vec::new(),
            found: Vec::new(),
            alone: VecDeque::new(),
            queue: Vec::new(),
            observed: None,
            excused: false,
        }
    }

    /// What became of packets so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The tables it has seen last.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Takes the newest tables.
    pub fn refresh<T: Tables>(&mut self, tables: &T) {
        if tables.refresh(&mut self.snapshot) {
            self.see();
        }
    }

    #[cold]
    fn see(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        if self.epoch == 0 {
            // Numbers begin again: entries of all times would be those of this one.
            self.clear(0);
            self.epoch = 1;
        }
        for port in &mut self.ports {
            if let Some(known) = self.snapshot.port(PortNumber(port.number)) {
                port.receives = known.receives();
                port.forwards = known.forwards();
                if port.counters.as_ref().is_none_or(|own| !Arc::ptr_eq(own, &known.counters)) {
                    port.counters = Some(Arc::clone(&known.counters));
                }
            }
        }
    }

    /// Forgets all entries.
    pub fn clear(&mut self, now: u64) {
        self.flush(now);
        for entry in self.entries.numbers().collect::<Vec<_>>() {
            self.forget(entry, now);
        }
        self.signatures.clear();
        for place in 0..self.ports.len() {
            self.look_at(place);
        }
    }

    /// Packets have come to the port of this place, at a time of the steady clock in nanoseconds. All of
    /// them go to `out`.
    #[inline]
    pub fn process<T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        place: usize,
        frame: &mut Frame,
        now: u64,
    ) {
        if frame.is_empty() || place >= self.ports.len() {
            return out.drop_frame(frame, Drop::Receive);
        }
        self.refresh(tables);
        self.frames += 1;
        if self.turn.0 != place {
            let is_first = self.turn.0 == usize::MAX;
            self.turn = (place, (!is_first).then_some(self.frames));
        }
        let (packets, bytes) = (frame.len() as u64, frame.bytes());
        let port = &mut self.ports[place];
        port.counted[PortCount::Received as usize] += packets;
        port.counted[PortCount::ReceivedBytes as usize] += bytes;
        port.credit = (port.credit + self.options.budget).min(self.options.saved);
        if !port.receives {
            port.counted[PortCount::ReceivedDropped as usize] += packets;
            return out.drop_frame(frame, Drop::Receive);
        }
        if self.options.entries == 0 {
            return self.decide_each(tables, out, place, frame, now);
        }
        if self.missed > 0 && !self.entries.has_room(frame.len()) {
            self.make_room(now);
        }
        let last = self.last_of(place);
        if port_needs_nothing(&self.ports[place])
            && let Some((entry, _)) = last
        {
            return self.together(tables, out, (place, entry), frame, (bytes, now));
        }
        if self.ports[place].is_wide {
            self.rows::<WIDE, T, O>(tables, out, place, frame, (bytes, now));
        } else {
            self.rows::<NARROW, T, O>(tables, out, place, frame, (bytes, now));
        }
    }

    /// The entry that had the last packet of a port, if it holds still, and the near words of its mask.
    #[inline]
    fn last_of(&self, place: usize) -> Option<(u32, &[u64; NEAR])> {
        let port = &self.ports[place];
        let hot = self.entries.hot.get(port.last as usize)?;
        let kind = &self.entries.kinds[usize::from(hot.mask)];
        let holds = hot.epoch == self.epoch && hot.port == port.number && !kind.is_wide;
        holds.then_some((port.last, &kind.near))
    }

    /// A frame whose rows are read.
    fn rows<const W: usize, T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        place: usize,
        frame: &mut Frame,
        (bytes, now): (u64, u64),
    ) where
        Self: RowsOf<W>,
    {
        let mut rows = self.take_rows::<W>();
        let needed = self.ports[place].needed;
        let last = if self.ports[place].is_single { self.last_of(place) } else { None };
        let wanted = match last {
            Some((entry, mask)) => (&self.entries.hot[entry as usize].words, mask),
            None => (&[0; NEAR], &[0; NEAR]),
        };
        let differ = rows::read((out.pool().arena(), frame), needed, &mut rows, wanted);
        let entry = last.map(|(entry, _)| entry);
        if let Some(entry) = entry.filter(|_| differ == 0) {
            self.give_rows::<W>(rows);
            return self.together(tables, out, (place, entry), frame, (bytes, now));
        }
        self.classify(tables, out.pool().arena(), place, frame, &rows, now);
        self.give_rows::<W>(rows);
        if !self.carry_out(tables, out, place, frame, now) {
            self.again(tables, out, place, frame, now);
        }
    }

    /// The rest of a frame, behind a packet that has changed something.
    #[cold]
    #[inline(never)]
    fn again<T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        place: usize,
        frame: &mut Frame,
        now: u64,
    ) {
        while !frame.is_empty() {
            if self.ports[place].is_wide {
                self.some::<WIDE, T>(tables, out.pool().arena(), place, frame, now);
            } else {
                self.some::<NARROW, T>(tables, out.pool().arena(), place, frame, now);
            }
            self.carry_out_each(tables, out, place, frame, now);
        }
    }

    fn some<const W: usize, T: Tables>(
        &mut self,
        tables: &T,
        arena: &Arena,
        place: usize,
        frame: &Frame,
        now: u64,
    ) where
        Self: RowsOf<W>,
    {
        let mut rows = self.take_rows::<W>();
        let needed = self.ports[place].needed;
        rows::read((arena, frame), needed, &mut rows, (&[0; NEAR], &[0; NEAR]));
        self.classify(tables, arena, place, frame, &rows, now);
        self.give_rows::<W>(rows);
    }

    fn take_rows<const W: usize>(&mut self) -> Vec<[u64; W]>
    where
        Self: RowsOf<W>,
    {
        std::mem::take(self.rows_of())
    }

    fn give_rows<const W: usize>(&mut self, rows: Vec<[u64; W]>)
    where
        Self: RowsOf<W>,
    {
        *self.rows_of() = rows;
    }

    /// One entry has the frame.
    #[inline]
    fn together<T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        (place, entry): (usize, u32),
        frame: &mut Frame,
        (bytes, now): (u64, u64),
    ) {
        let count = frame.len();
        self.counts.together += count as u64;
        let hot = &mut self.entries.hot[entry as usize];
        if hot.packets == 0 {
            self.dirty.push(entry);
        }
        hot.packets = hot.packets.saturating_add(count as u32);
        hot.bytes += bytes;
        let output = hot.output;
        if self.observed.is_some() && !matches!(output, STEPS | GO_ON) {
            let output = (output != DROP).then_some(usize::from(output));
            self.observe_frame(out.pool().arena(), place, output, frame, now);
        }
        match output {
            STEPS | GO_ON => {
                self.found.clear();
                self.found.resize(count, entry);
                self.outputs.clear();
                self.outputs.resize(count, u32::from(output));
                if !self.carry_out(tables, out, place, frame, now) {
                    self.again(tables, out, place, frame, now);
                }
            }
            DROP => out.drop_frame(frame, Drop::Flows),
            output => out.send_frame(usize::from(output), frame),
        }
    }

    /// Finds the entries of packets, in their order, from rows of them: all, or those up to one that has
    /// changed what was to be known of those behind it.
    #[inline]
    fn classify<const W: usize, T: Tables>(
        &mut self,
        tables: &T,
        arena: &Arena,
        place: usize,
        frame: &Frame,
        rows: &[[u64; W]],
        now: u64,
    ) {
        let number = self.ports[place].number;
        let union = *self.entries.union(place);
        let is_far = self.signatures.is_far();
        let seed = &self.seed;
        self.signed.clear();
        self.signed.extend(rows.iter().map(|row| {
            let signature = signature(seed.row(row, &union, u64::from(number)));
            if is_far {
                self.signatures.prefetch(signature);
            }
            signature
        }));
        let (signatures, hot) = (&self.signatures, &self.entries.hot);
        self.candidates.clear();
        self.candidates.extend(self.signed.iter().map(|signature| {
            let entry = signatures.find(*signature).unwrap_or(NONE);
            if let Some(hot) = hot.get(entry as usize) {
                prefetch(hot);
            }
            entry
        }));
        self.outputs.clear();
        self.found.clear();
        let packets = frame.slots().iter().zip(rows).zip(0..);
        let epoch = self.epoch;
        let (mut is_single, mut resolved) = (true, 0);
        let mut last = NONE;
        for ((slot, row), at) in packets {
            let entry = self.candidates[at];
            if let Some(hot) = self.entries.hot.get_mut(entry as usize)
                && let Some(kind) = self.entries.kinds.get(usize::from(hot.mask))
            {
                let differ = (0..NEAR)
                    .fold(0, |differ, at| differ | (row[at + 1] ^ hot.words[at]) & kind.near[at]);
                if differ == 0 && hot.port == number && hot.epoch == epoch && !kind.is_wide {
                    if hot.packets == 0 {
                        self.dirty.push(entry);
                    }
                    hot.packets = hot.packets.saturating_add(1);
                    hot.bytes += slot.len() as u64;
                    self.outputs.push(u32::from(hot.output));
                    self.found.push(entry);
                    is_single &= last == entry || last == NONE;
                    last = entry;
                    continue;
                }
            }
            let before = self.found.len();
            let goes_on = self.resolve(tables, arena, (place, slot), (row, at), now);
            last = *self.found.last().unwrap_or(&NONE);
            is_single = false;
            resolved += (self.found.len() - before) as u64;
            if !goes_on {
                break;
            }
        }
        self.counts.found += self.found.len() as u64 - resolved;
        let port = &mut self.ports[place];
        port.last = last;
        port.is_single = is_single;
    }

    /// Finds the entry of a packet whose candidate was none, or not for it, or is not known to hold. Whether
    /// what is known of the packets behind it is as it was.
    #[inline(never)]
    fn resolve<T: Tables>(
        &mut self,
        tables: &T,
        arena: &Arena,
        (place, slot): (usize, &Slot),
        (row, at): (&[u64], usize),
        now: u64,
    ) -> bool {
        let length = slot.len() as u64;
        let number = self.ports[place].number;
        // A packet before it may have made it.
        let signed = self.signed[at];
        let entry = self.signatures.find(signed).unwrap_or(NONE);
        let mut was_known = std::mem::take(&mut self.excused);
        if let Some(hot) = self.entries.hot.get(entry as usize)
            && hot.port == number
            && let Some(kind) = self.entries.kinds.get(usize::from(hot.mask))
        {
            let words = row[1..].iter().zip(&hot.words).zip(&kind.near);
            let differ = words.fold(0, |all, ((word, own), mask)| all | (word ^ own) & mask);
            if differ == 0 && (!kind.is_wide || self.entries.agrees_far(entry, row)) {
                if self.holds(tables, entry) {
                    self.counts.found += 1;
                    self.take(entry, length);
                    return true;
                }
                was_known = true;
            }
        }
        if self.outputs.contains(&TO_GO_ON) {
            // It is decided when those before it are through.
            self.excused = was_known;
            return false;
        }
        let key = self.key_of(place, arena.packet(slot));
        let (epoch, union) = (self.epoch, *self.entries.union(place));
        match self.search(tables, place, &key) {
            Found::Entry(entry) => {
                self.counts.searched += 1;
                self.signatures.put(signed, entry);
                self.take(entry, length);
                return true;
            }
            Found::Changed => {}
            Found::Nothing if was_known => {}
            Found::Nothing => {
                let alone = self.turn.1.is_none_or(|at| self.frames - at > SILENCE);
                let port = &mut self.ports[place];
                if !alone && port.credit == 0 {
                    port.counted[PortCount::ReceivedErrors as usize] += 1;
                    self.counts.refused += 1;
                    self.outputs.push(TO_NOBODY);
                    self.found.push(NONE);
                    return true;
                }
                port.credit = port.credit.saturating_sub(u32::from(!alone));
            }
        }
        let (entry, decision) = self.decide(tables, place, &key, None, now);
        self.refresh(tables);
        if let Some(entry) = entry {
            self.take(entry, length);
            let is_same = union == *self.entries.union(place);
            if is_same {
                self.signatures.put(signed, entry);
            }
            return is_same && epoch == self.epoch;
        }
        self.outputs.push(if goes_on(&decision.steps) { TO_GO_ON } else { TO_STEPS });
        self.alone.push_back(decision);
        self.found.push(NONE);
        epoch == self.epoch
    }

    /// A packet is an entry's, and goes where that says.
    fn take(&mut self, entry: u32, length: u64) {
        self.count_one(entry, length);
        self.outputs.push(u32::from(self.entries.hot[entry as usize].output));
        self.found.push(entry);
    }

    /// A packet is an entry's.
    fn count_one(&mut self, entry: u32, length: u64) {
        let hot = &mut self.entries.hot[entry as usize];
        if hot.packets == 0 {
            self.dirty.push(entry);
        }
        hot.packets = hot.packets.saturating_add(1);
        hot.bytes += length;
    }

    /// The key of a packet that comes in by a port.
    fn key_of(&self, place: usize, bytes: &[u8]) -> Key {
        let mut key = self.base_of(place);
        crate::key::extract(bytes, &mut key);
        key
    }

    /// What a key has of a packet that comes in beside its headers.
    fn base_of(&self, place: usize) -> Key {
        let number = self.ports.get(place).map_or(0, |port| port.number);
        let mut key = Key::default();
        key.set(Field::InPort, u128::from(number));
        key.set(Field::InPhyPort, u128::from(number));
        key
    }

    /// The entry of a key that was read in full, if it holds still.
    fn search<T: Tables>(&mut self, tables: &T, place: usize, key: &Key) -> Found {
        let Some(entry) = self.entries.search(place, key, &self.seed) else {
            return Found::Nothing;
        };
        if self.holds(tables, entry) { Found::Entry(entry) } else { Found::Changed }
    }

    /// Whether an entry holds for the tables as they are. One that may not is forgotten.
    fn holds<T: Tables>(&mut self, tables: &T, entry: u32) -> bool {
        if self.entries.hot[entry as usize].epoch == self.epoch {
            return true;
        }
        let Some(cold) = self.entries.cold_mut(entry) else { return false };
        if !tables.concerns(&self.snapshot, cold.version, &cold.decision, &cold.key) {
            cold.version = self.snapshot.version();
            self.entries.hot[entry as usize].epoch = self.epoch;
            self.counts.kept += 1;
            return true;
        }
        self.counts.renewed += 1;
        let now = cold.used;
        self.forget(entry, now);
        false
    }

    /// Decides for a key, and remembers it.
    fn decide<T: Tables>(
        &mut self,
        tables: &T,
        place: usize,
        key: &Key,
        from: Option<&Continuation>,
        now: u64,
    ) -> (Option<u32>, Arc<Decision>) {
        self.counts.decided += 1;
        let decision = Arc::new(tables.decide(&self.snapshot, key, from, now));
        if !decision.holds || self.options.entries == 0 {
            return (None, decision);
        }
        self.missed += 1;
        if self.entries.is_full() {
            self.counts.passed += 1;
            return (None, decision);
        }
        let number = self.ports.get(place).map_or(NO_PORT, |port| port.number);
        let at = (place.min(self.ports.len()), number);
        let version = self.snapshot.version();
        let made = self.entries.insert(at, key, &decision, &self.seed, (version, now));
        let Some(entry) = made else { return (None, decision) };
        self.counts.made += 1;
        let output = if number == NO_PORT { STEPS } else { self.output_of(&decision) };
        let hot = &mut self.entries.hot[entry as usize];
        hot.epoch = self.epoch;
        hot.output = output;
        self.look_at(place);
        (Some(entry), decision)
    }

    /// Where packets go for which no more is to be done than to send them.
    fn output_of(&self, decision: &Decision) -> u16 {
        match decision.steps.as_slice() {
            [] => DROP,
            [Step::Output { port, max_len: None, queue: 0 }] => {
                let place = self.ports.iter().position(|one| one.number == *port && one.forwards);
                place.map_or(STEPS, |place| place as u16)
            }
            steps if goes_on(steps) => GO_ON,
            _ => STEPS,
        }
    }

    /// What entries of a port look at may have changed.
    fn look_at(&mut self, place: usize) {
        let Some(port) = self.ports.get_mut(place) else { return };
        let union = self.entries.union(place);
        let mut mask = Mask::default();
        mask.words_mut()[1..WIDE].copy_from_slice(&union[1..]);
        port.needed = Needed::of(&mask);
        port.is_wide = union[NEAR + 1..].iter().any(|word| *word != 0);
    }

    /// Between frames, as packets of one know their entries by number: makes room for as many entries as were missed,
    /// or for some of them where entries have been of no use.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, now: u64) {
        let missed = std::mem::take(&mut self.missed);
        let wanted = if self.useless.2 {
            self.sampled += missed;
            let wanted = self.sampled / SAMPLED;
            self.sampled %= SAMPLED;
            wanted
        } else {
            missed
        };
        for _ in 0..wanted {
            let unused = (0..PASSED).find_map(|_| {
                let entry = self.entries.advance()?;
                self.add(entry, now);
                let is_used = &mut self.entries.cold_mut(entry)?.is_used;
                (!std::mem::take(is_used)).then_some(entry)
            });
            let Some(entry) = unused else { break };
            self.evict(entry, now);
        }
    }

    fn evict(&mut self, entry: u32, now: u64) {
        self.counts.evicted += 1;
        let is_useless = self.entries.cold(entry).is_some_and(|cold| cold.packets <= 1);
        let (useless, judged, _) = &mut self.useless;
        *useless += u32::from(is_useless);
        *judged += 1;
        if *judged == JUDGED {
            self.useless = (0, 0, *useless > JUDGED / 8 * 7);
        }
        self.forget(entry, now);
    }

    /// Takes an entry away.
    fn forget(&mut self, entry: u32, now: u64) {
        self.add(entry, now);
        let number = self.entries.hot[entry as usize].port;
        let own = self.ports.iter().position(|port| port.number == number);
        let place = own.unwrap_or(self.ports.len());
        self.entries.remove(place, entry);
        self.look_at(place);
    }

    /// Adds what an entry has counted to counters.
    fn add(&mut self, entry: u32, now: u64) {
        let hot = &mut self.entries.hot[entry as usize];
        let (packets, bytes) = (u64::from(hot.packets), hot.bytes);
        let output = hot.output;
        (hot.packets, hot.bytes) = (0, 0);
        if packets == 0 {
            return;
        }
        let Some(cold) = self.entries.cold_mut(entry) else { return };
        cold.packets += packets;
        cold.bytes += bytes;
        cold.used = now;
        cold.is_used |= cold.packets > 1;
        count(&cold.decision, packets, bytes, now);
        if let Some(port) = self.ports.get_mut(usize::from(output)) {
            port.counted[PortCount::Sent as usize] += packets;
            port.counted[PortCount::SentBytes as usize] += bytes;
        }
    }

    /// To be called every 10 ms or so: adds some of what was counted, and forgets some entries nobody uses.
    pub fn tick(&mut self, now: u64) {
        for _ in 0..TICK.max(self.dirty.len() / 8) {
            let Some(entry) = self.dirty.pop() else { break };
            self.add(entry, now);
        }
        let since = now.saturating_sub(self.options.patience);
        for _ in 0..AGED {
            let Some(entry) = self.entries.advance() else { continue };
            let is_old = self.entries.cold(entry).is_some_and(|cold| cold.used < since);
            if is_old && self.entries.hot[entry as usize].packets == 0 {
                self.forget(entry, now);
            }
        }
        self.add_ports();
        self.tick_observer(now);
    }

    /// Adds everything that was counted to counters.
    pub fn flush(&mut self, now: u64) {
        while let Some(entry) = self.dirty.pop() {
            self.add(entry, now);
        }
        self.add_ports();
    }

    fn add_ports(&mut self) {
        for port in &mut self.ports {
            let Some(counters) = &port.counters else { continue };
            for count in PortCount::ALL {
                let more = std::mem::take(&mut port.counted[count as usize]);
                if more > 0 {
                    counters.add(count, more);
                }
            }
        }
    }
}

/// What a search came to.
enum Found {
    Entry(u32),
    /// There was one that may not hold any more.
    Changed,
    Nothing,
}

#[inline(always)]
fn port_needs_nothing(port: &Port) -> bool {
    port.needed.is_nothing() && !port.is_wide
}

/// Whether packets with which this is done may be looked up again.
fn goes_on(steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Continue(_) | Step::Larger { .. } | Step::Track { .. } => true,
        Step::Copy(steps) => goes_on(steps),
        Step::Select(select) => select.ways.iter().any(|(_, _, steps)| goes_on(steps)),
        _ => false,
    })
}

/// Adds packets to what counts them.
fn count(decision: &Decision, packets: u64, bytes: u64, now: u64) {
    decision.counted.iter().for_each(|counters| counters.add(packets, bytes, now));
    decision.touched.iter().for_each(|counters| counters.touch(now));
}

/// The rows of one width or the other.
trait RowsOf<const W: usize> {
    fn rows_of(&mut self) -> &mut Vec<[u64; W]>;
}

impl RowsOf<NARROW> for FastPath {
    #[inline(always)]
    fn rows_of(&mut self) -> &mut Vec<[u64; NARROW]> {
        &mut self.narrow
    }
}

impl RowsOf<WIDE> for FastPath {
    #[inline(always)]
    fn rows_of(&mut self) -> &mut Vec<[u64; WIDE]> {
        &mut self.wide
    }
}

#[cfg(test)]
mod stress;
#[cfg(test)]
mod tests;
