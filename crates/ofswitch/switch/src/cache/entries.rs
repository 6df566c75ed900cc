//! Entry table of the flow cache, and its index.
//!
//! One cache line of an entry has the words compared most, its counters and its output; all else is
//! in a second part. Masks are few and have numbers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::rows::{NEAR, Seed, Union, WIDE};
use crate::key::{ENTRY_WORDS, Key, Mask, WORDS};
use crate::pipeline::Decision;

/// Packets are dropped.
pub(super) const DROP: u16 = u16::MAX;
/// More is to be done than to send packets to a port.
pub(super) const STEPS: u16 = u16::MAX - 1;
/// Likewise, and packets may be looked up again, so their result may depend on packets before them,
/// and change that of packets behind.
pub(super) const GO_ON: u16 = u16::MAX - 2;

/// The part of an entry that packets meet.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Hot {
    /// Near words of its packets, under its mask.
    pub(super) words: [u64; NEAR],
    /// Bytes that have not been added to counters.
    pub(super) bytes: u64,
    /// Packets likewise.
    pub(super) packets: u32,
    /// Epoch of the tables for which it was last found to hold.
    pub(super) epoch: u32,
    /// The number of its mask.
    pub(super) mask: u16,
    /// The output its packets go to, [`DROP`] or [`STEPS`].
    pub(super) output: u16,
    /// The port its packets come from; [`NO_PORT`] where it is not for packets that come in.
    pub(super) port: u32,
}

const _: () = assert!(size_of::<Hot>() == 64);

/// Packets that go on, and entries that are none any more.
pub(super) const NO_PORT: u32 = u32::MAX;

/// The rest of it.
#[derive(Debug)]
pub(super) struct Cold {
    /// Fields of its packets, under its mask.
    pub(super) key: Key,
    pub(super) decision: Arc<Decision>,
    /// The version of the tables for which it is known to hold.
    pub(super) version: u64,
    /// Its hash among all entries.
    hash: u64,
    /// Counts so far, without those still in [`Hot`].
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// When it was made, and when it was last found in use.
    pub(super) made: u64,
    pub(super) used: u64,
    /// Whether it was in use since the clock's hand came by, by more packets than the one it was
    /// made for.
    pub(super) is_used: bool,
}

/// A mask of entries.
#[derive(Debug)]
pub(super) struct MaskEntry {
    pub(super) mask: Mask,
    /// Its near words.
    pub(super) near: [u64; NEAR],
    /// Whether it has bits of headers beside the near words.
    pub(super) is_wide: bool,
    /// The words it has bits of.
    pub(super) used: Vec<u8>,
    /// Entries that have it.
    pub(super) entries: usize,
}

impl MaskEntry {
    fn new(mask: Mask) -> MaskEntry {
        let words = mask.words();
        let mut near = [0; NEAR];
        near.copy_from_slice(&words[1..=NEAR]);
        let used = (0..WORDS as u8).filter(|at| words[usize::from(*at)] != 0).collect();
        let is_wide = words[NEAR + 1..WIDE].iter().any(|word| *word != 0);
        MaskEntry { mask, near, is_wide, used, entries: 0 }
    }
}

/// Masks of the entries of a port.
#[derive(Debug, Default)]
pub(super) struct PortMasks {
    /// The masks they have, and how many have each.
    masks: Vec<(u16, u32)>,
    /// All bits of headers any of them looks at.
    pub(super) union: Union,
}

/// Hasher of keys that are hashes already.
#[derive(Debug, Default)]
pub(super) struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[derive(Debug)]
pub(super) struct Entries {
    pub(super) hot: Vec<Hot>,
    cold: Vec<Option<Cold>>,
    free: Vec<u32>,
    pub(super) mask_entries: Vec<MaskEntry>,
    numbers: HashMap<Mask, u16>,
    /// Index by hash. Of two entries with one hash, the second is not kept.
    found: HashMap<u64, u32, BuildHasherDefault<Plain>>,
    /// State by port; that of the last is for packets that are looked up again.
    places: Vec<PortMasks>,
    limit: usize,
    hand: usize,
}

impl Entries {
    pub(super) fn new(ports: usize, limit: usize) -> Entries {
        Entries {
            hot: Vec::new(),
            cold: Vec::new(),
            free: Vec::new(),
            mask_entries: Vec::new(),
            numbers: HashMap::new(),
            found: HashMap::default(),
            places: (0..=ports).map(|_| PortMasks::default()).collect(),
            limit: limit.max(1),
            hand: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Returns true if there is room for so many more.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.len() + more <= self.limit
    }

    /// The bits that entries of a port look at.
    #[inline(always)]
    pub(super) fn union(&self, place: usize) -> &Union {
        &self.places[place].union
    }

    pub(super) fn cold(&self, entry: u32) -> Option<&Cold> {
        self.cold.get(entry as usize)?.as_ref()
    }

    pub(super) fn cold_mut(&mut self, entry: u32) -> Option<&mut Cold> {
        self.cold.get_mut(entry as usize)?.as_mut()
    }

    /// Numbers of all entries.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.cold).filter(|(_, cold)| cold.is_some()).map(|(at, _)| at)
    }

    /// Masks that entries have.
    pub(super) fn masks(&self) -> usize {
        self.mask_entries.iter().filter(|mask_entry| mask_entry.entries > 0).count()
    }

    /// The entry of a key that was read in full, by all masks one after the other.
    pub(super) fn search(&self, place: usize, key: &Key, seed: &Seed) -> Option<u32> {
        self.places[place].masks.iter().find_map(|(number, _)| {
            let mask_entry = &self.mask_entries[usize::from(*number)];
            let hash = seed.key(key.words(), &mask_entry.mask, &mask_entry.used, *number);
            let entry = *self.found.get(&hash)?;
            let cold = self.cold(entry)?;
            let is_its = self.hot[entry as usize].mask == *number;
            (is_its && cold.key.agrees(key, &mask_entry.mask)).then_some(entry)
        })
    }

    /// Returns true if the far words of a row are those of an entry with a mask that has some.
    pub(super) fn agrees_far(&self, entry: u32, row: &[u64]) -> bool {
        let Some(cold) = self.cold(entry) else { return false };
        let mask_entry = &self.mask_entries[usize::from(self.hot[entry as usize].mask)];
        let words = row.iter().zip(cold.key.words()).zip(mask_entry.mask.words());
        let differ =
            words.skip(NEAR + 1).fold(0, |all, ((word, own), mask)| all | (word ^ own) & mask);
        row.len() >= WIDE && differ == 0
    }

    /// Adds an entry for a key. `None` where there is no room, or another has its place.
    pub(super) fn insert(
        &mut self,
        (place, port): (usize, u32),
        key: &Key,
        decision: &Arc<Decision>,
        seed: &Seed,
        (version, now): (u64, u64),
    ) -> Option<u32> {
        let mut mask = decision.mask;
        // Fields that only the pipeline sets are zero in arriving packets.
        mask.words_mut()[ENTRY_WORDS..].fill(0);
        mask.words_mut()[0] = u64::MAX;
        if self.is_full() {
            return None;
        }
        let number = self.number_of(mask)?;
        let mask_entry = &mut self.mask_entries[usize::from(number)];
        let hash = seed.key(key.words(), &mask_entry.mask, &mask_entry.used, number);
        if self.found.contains_key(&hash) {
            return None;
        }
        mask_entry.entries += 1;
        let key = key.under(&mask_entry.mask);
        let mut words = [0; NEAR];
        words.copy_from_slice(&key.words()[1..=NEAR]);
        let hot = Hot { words, bytes: 0, packets: 0, epoch: 0, mask: number, output: STEPS, port };
        let cold = Cold {
            key,
            decision: Arc::clone(decision),
            version,
            hash,
            packets: 0,
            bytes: 0,
            made: now,
            used: now,
            is_used: false,
        };
        let entry = if let Some(entry) = self.free.pop() {
            self.hot[entry as usize] = hot;
            self.cold[entry as usize] = Some(cold);
            entry
        } else {
            self.hot.push(hot);
            self.cold.push(Some(cold));
            self.hot.len() as u32 - 1
        };
        self.found.insert(hash, entry);
        let place = &mut self.places[place];
        match place.masks.iter_mut().find(|(of, _)| *of == number) {
            Some((_, count)) => *count += 1,
            None => {
                place.masks.push((number, 1));
                let words = self.mask_entries[usize::from(number)].mask.words();
                place.union[1..].iter_mut().zip(&words[1..]).for_each(|(all, word)| *all |= word);
            }
        }
        Some(entry)
    }

    /// The number of a mask; `None` where there are too many.
    fn number_of(&mut self, mask: Mask) -> Option<u16> {
        if let Some(number) = self.numbers.get(&mask) {
            return Some(*number);
        }
        let vacant = self.mask_entries.iter().position(|mask_entry| mask_entry.entries == 0);
        let number = match vacant {
            // A mask without entries.
            Some(at) if self.mask_entries.len() > 64 => {
                self.numbers.remove(&self.mask_entries[at].mask);
                self.mask_entries[at] = MaskEntry::new(mask);
                at
            }
            _ if self.mask_entries.len() > usize::from(u16::MAX) => return None,
            _ => {
                self.mask_entries.push(MaskEntry::new(mask));
                self.mask_entries.len() - 1
            }
        };
        let number = u16::try_from(number).ok()?;
        self.numbers.insert(mask, number);
        Some(number)
    }

    /// Removes an entry. The caller adds its counts to counters before.
    pub(super) fn remove(&mut self, place: usize, entry: u32) {
        let Some(cold) = self.cold.get_mut(entry as usize).and_then(Option::take) else { return };
        self.found.remove(&cold.hash);
        let hot = &mut self.hot[entry as usize];
        hot.port = NO_PORT;
        let number = hot.mask;
        self.free.push(entry);
        self.mask_entries[usize::from(number)].entries -= 1;
        let place = &mut self.places[place];
        let Some(at) = place.masks.iter().position(|(of, _)| *of == number) else { return };
        place.masks[at].1 -= 1;
        if place.masks[at].1 == 0 {
            place.masks.swap_remove(at);
            place.union = [0; WIDE];
            for (number, _) in &place.masks {
                let words = self.mask_entries[usize::from(*number)].mask.words();
                place.union[1..].iter_mut().zip(&words[1..]).for_each(|(all, word)| *all |= word);
            }
        }
    }

    /// The entry the clock's hand comes to next.
    pub(super) fn advance(&mut self) -> Option<u32> {
        self.hand = (self.hand + 1).checked_rem(self.cold.len())?;
        self.cold[self.hand].is_some().then_some(self.hand as u32)
    }
}
