//! Classification: lookup of packets' entries.

use linerate_memory::{Arena, Frame, Slot, prefetch};

use super::entries::{DROP, GO_ON, STEPS};
use super::insert_evict::goes_on;
use super::rows::{self, NARROW, NEAR, WIDE};
use super::signatures::signature;
use super::{Drop, FlowCache, NONE, Outlet, TO_GO_ON, TO_STEPS, TO_UNDECIDED, Tables};
use crate::key::Key;
use crate::table::PortCount;
use crate::wire::Field;

/// Result of a search.
pub(super) enum LookupResult {
    Entry(u32),
    /// There was one that may not hold any more.
    Stale,
    Miss,
}

impl FlowCache {
    /// The entry that had the last packet of a port, if it holds still, and the near words of its
    /// mask.
    #[inline]
    pub(super) fn last_of(&self, place: usize) -> Option<(u32, &[u64; NEAR])> {
        let port = &self.ports[place];
        let hot = self.entries.hot.get(port.last as usize)?;
        let mask_entry = &self.entries.mask_entries[usize::from(hot.mask)];
        let holds = hot.epoch == self.epoch && hot.port == port.number && !mask_entry.is_wide;
        holds.then_some((port.last, &mask_entry.near))
    }

    /// A frame whose rows are read.
    pub(super) fn rows<const W: usize, T: Tables, O: Outlet>(
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
            return self.apply_to_frame(tables, out, (place, entry), frame, (bytes, now));
        }
        self.classify(tables, out.pool().arena(), place, frame, &rows, now);
        self.give_rows::<W>(rows);
        if !self.carry_out(tables, out, place, frame, now) {
            self.again(tables, out, place, frame, now);
        }
    }

    /// Processes the rest of a frame, behind a packet that may have changed decisions.
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
                self.classify_rest::<WIDE, T>(tables, out.pool().arena(), place, frame, now);
            } else {
                self.classify_rest::<NARROW, T>(tables, out.pool().arena(), place, frame, now);
            }
            self.carry_out_each(tables, out, place, frame, now);
        }
    }

    fn classify_rest<const W: usize, T: Tables>(
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

    /// Applies one entry to all packets of a frame.
    #[inline]
    pub(super) fn apply_to_frame<T: Tables, O: Outlet>(
        &mut self,
        tables: &T,
        out: &mut O,
        (place, entry): (usize, u32),
        frame: &mut Frame,
        (bytes, now): (u64, u64),
    ) {
        let count = frame.len();
        self.counts.frame_hits += count as u64;
        if self.storm.is_on() {
            self.ports[place].hit_rate.note_frame(count, count);
        }
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

    /// Finds the entries of packets, in their order, from rows of them: all, or those up to one
    /// whose decision may have made the entries of later ones stale.
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
        let unknown = self.counts.decided + self.counts.refused;
        let epoch = self.epoch;
        let (mut is_single, mut resolved) = (true, 0);
        let mut last = NONE;
        for ((slot, row), at) in packets {
            let entry = self.candidates[at];
            if let Some(hot) = self.entries.hot.get_mut(entry as usize)
                && let Some(mask_entry) = self.entries.mask_entries.get(usize::from(hot.mask))
            {
                let differ = (0..NEAR).fold(0, |differ, at| {
                    differ | (row[at + 1] ^ hot.words[at]) & mask_entry.near[at]
                });
                if differ == 0 && hot.port == number && hot.epoch == epoch && !mask_entry.is_wide {
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
        if self.storm.is_on() {
            let unknown = self.counts.decided + self.counts.refused - unknown;
            port.hit_rate
                .note_frame(self.found.len().saturating_sub(unknown as usize), self.found.len());
        }
        port.last = last;
        port.is_single = is_single;
    }

    /// Finds the entry of a packet whose candidate is missing, does not match, or is not known to
    /// hold. Returns true if the candidates of later packets are still valid.
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
            && let Some(mask_entry) = self.entries.mask_entries.get(usize::from(hot.mask))
        {
            let words = row[1..].iter().zip(&hot.words).zip(&mask_entry.near);
            let differ = words.fold(0, |all, ((word, own), mask)| all | (word ^ own) & mask);
            if differ == 0 && (!mask_entry.is_wide || self.entries.agrees_far(entry, row)) {
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
            LookupResult::Entry(entry) => {
                self.counts.searched += 1;
                self.signatures.put(signed, entry);
                self.take(entry, length);
                return true;
            }
            LookupResult::Stale => was_known = true,
            LookupResult::Miss if was_known => {}
            LookupResult::Miss => {
                let alone = self.is_alone();
                let port = &mut self.ports[place];
                if !alone && port.credit == 0 {
                    port.counted[PortCount::ReceivedErrors as usize] += 1;
                    self.counts.refused += 1;
                    self.outputs.push(TO_UNDECIDED);
                    self.found.push(NONE);
                    return true;
                }
                port.credit = port.credit.saturating_sub(u32::from(!alone));
            }
        }
        // Entries in use before a change of tables are kept, also while a storm bypasses insertion.
        let keeps = self.keeps;
        self.keeps |= was_known;
        let (entry, decision) = self.decide(tables, place, &key, None, now);
        self.keeps = keeps;
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

    /// Takes a packet for an entry: counts it, and sets its output.
    fn take(&mut self, entry: u32, length: u64) {
        self.count_one(entry, length);
        self.outputs.push(u32::from(self.entries.hot[entry as usize].output));
        self.found.push(entry);
    }

    /// Counts a packet of an entry.
    pub(super) fn count_one(&mut self, entry: u32, length: u64) {
        let hot = &mut self.entries.hot[entry as usize];
        if hot.packets == 0 {
            self.dirty.push(entry);
        }
        hot.packets = hot.packets.saturating_add(1);
        hot.bytes += length;
    }

    /// The key of a packet that comes in by a port.
    pub(super) fn key_of(&self, place: usize, bytes: &[u8]) -> Key {
        let mut key = self.base_of(place);
        crate::key::extract(bytes, &mut key);
        key
    }

    /// Returns the fields of a packet of this port that are not read from its headers.
    pub(super) fn base_of(&self, place: usize) -> Key {
        let number = self.ports.get(place).map_or(0, |port| port.number);
        let mut key = Key::default();
        key.set(Field::InPort, u128::from(number));
        key.set(Field::InPhyPort, u128::from(number));
        key
    }

    /// The entry of a key that was read in full, if it holds still.
    pub(super) fn search<T: Tables>(
        &mut self,
        tables: &T,
        place: usize,
        key: &Key,
    ) -> LookupResult {
        let Some(entry) = self.entries.search(place, key, &self.seed) else {
            return LookupResult::Miss;
        };
        if self.holds(tables, entry) { LookupResult::Entry(entry) } else { LookupResult::Stale }
    }
}

/// The rows of one width or the other.
pub(super) trait RowsOf<const W: usize> {
    fn rows_of(&mut self) -> &mut Vec<[u64; W]>;
}

impl RowsOf<NARROW> for FlowCache {
    #[inline(always)]
    fn rows_of(&mut self) -> &mut Vec<[u64; NARROW]> {
        &mut self.narrow
    }
}

impl RowsOf<WIDE> for FlowCache {
    #[inline(always)]
    fn rows_of(&mut self) -> &mut Vec<[u64; WIDE]> {
        &mut self.wide
    }
}
