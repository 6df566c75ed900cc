//! Insertion and eviction of decisions.

use std::sync::Arc;

use super::entries::{DROP, GO_ON, NO_PORT, STEPS};
use super::rows::{NEAR, WIDE};
use super::{FlowCache, Tables};
use crate::key::extract::Needed;
use crate::key::{Key, Mask};
use crate::pipeline::{Continuation, Decision, Step};

/// Entries the clock's hand passes for one that is forgotten.
const SWEEP: usize = 64;

impl FlowCache {
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

    /// Returns true if an entry holds for the present tables. One that may not is forgotten.
    pub(super) fn holds<T: Tables>(&mut self, tables: &T, entry: u32) -> bool {
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
    pub(super) fn decide<T: Tables>(
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
        self.has_missed = true;
        if !self.keeps || self.entries.is_full() {
            self.counts.bypassed += 1;
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

    /// Returns the output of packets that are only sent to a port, or the mark for more steps.
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

    /// Updates the fields to read for packets of a port after its entries have changed.
    fn look_at(&mut self, place: usize) {
        let Some(port) = self.ports.get_mut(place) else { return };
        let union = self.entries.union(place);
        let mut mask = Mask::default();
        mask.words_mut()[1..WIDE].copy_from_slice(&union[1..]);
        port.needed = Needed::for_mask(&mask);
        port.is_wide = union[NEAR + 1..].iter().any(|word| *word != 0);
    }

    /// Makes room for so many entries. To be called between frames, as packets of one refer to
    /// entries by number.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room(&mut self, packets: usize, now: u64) {
        self.has_missed = false;
        while !self.entries.has_room(packets) {
            let unused = (0..SWEEP).find_map(|_| {
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
        self.storm.note_eviction(self.entries.cold(entry).is_some_and(|cold| cold.packets > 1));
        self.forget(entry, now);
    }

    /// Takes an entry away.
    pub(super) fn forget(&mut self, entry: u32, now: u64) {
        self.add(entry, now);
        let number = self.entries.hot[entry as usize].port;
        let own = self.ports.iter().position(|port| port.number == number);
        let place = own.unwrap_or(self.ports.len());
        self.entries.remove(place, entry);
        self.look_at(place);
    }
}

/// Returns true if packets of these steps may be looked up again.
pub(super) fn goes_on(steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Continue(_) | Step::Larger { .. } | Step::Track { .. } => true,
        Step::Copy(steps) => goes_on(steps),
        Step::Select(select) => select.ways.iter().any(|(_, _, steps)| goes_on(steps)),
        _ => false,
    })
}
