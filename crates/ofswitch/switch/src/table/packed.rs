//! Matches of flows in little memory: tables have hundreds of thousands of flows, each of which
//! matches a few fields.

use crate::key::{Key, Mask, WORDS, position_of, spread};
use crate::wire::{Entry, Field, Match};

const _: () = assert!(WORDS <= 64, "a word has a bit in the map");
const _: () = assert!(Field::ALL.len() <= 128, "a field's number leaves a bit for its mask");

/// The words of a key that a mask has bits of, with these bits: Open vSwitch's minimatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minimatch {
    /// A bit for each word that is stored.
    map: u64,
    /// Words of the key, then those of the mask, each in the order of the map.
    words: Box<[u64]>,
}

impl Minimatch {
    /// The words of a key under a mask.
    #[must_use]
    pub fn new(key: &Key, mask: &Mask) -> Minimatch {
        let pairs = || key.words().iter().zip(mask.words()).filter(|(_, mask)| **mask != 0);
        let map = mask.words().iter().rev().fold(0, |map, word| map << 1 | u64::from(*word != 0));
        let words = pairs().map(|(word, mask)| word & mask).chain(pairs().map(|(_, mask)| *mask));
        Minimatch { map, words: words.collect() }
    }

    /// A word of the key; zero where the mask has no bit.
    #[inline]
    #[must_use]
    pub fn word(&self, at: usize) -> u64 {
        let bit = 1 << at;
        let position = (self.map & (bit - 1)).count_ones() as usize;
        if self.map & bit == 0 { 0 } else { self.words[position] }
    }

    /// Returns the places of the stored words, each with the values of key and mask.
    pub fn words(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        let (key, mask) = self.words.split_at(self.words.len() / 2);
        let places = (0..WORDS).filter(|at| self.map >> at & 1 != 0);
        places.zip(key).zip(mask).map(|((at, key), mask)| (at, *key, *mask))
    }

    /// Returns true if the number of a conjunction is matched.
    pub(crate) fn matches_conjunction(&self) -> bool {
        const PLACE: usize = position_of(Field::ConjunctionId).word;
        let bits = spread(Field::ConjunctionId, u128::MAX).1;
        self.words().any(|(at, _, mask)| at == PLACE && mask & bits != 0)
    }

    /// Returns true if a match has no bit that this has not, and the same in those.
    #[must_use]
    pub fn is_covered_by(&self, key: &Key, mask: &Mask) -> bool {
        let own = self.mask();
        own.covers(mask) && self.key().agrees(key, mask)
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> Key {
        let mut key = Key::default();
        self.words().for_each(|(at, word, _)| key.words_mut()[at] = word);
        key
    }

    /// The mask.
    #[must_use]
    pub fn mask(&self) -> Mask {
        let mut mask = Mask::default();
        self.words().for_each(|(at, _, bits)| mask.words_mut()[at] = bits);
        mask
    }
}

/// The bit for a mask behind a value.
const MASKED: u8 = 0x80;

/// A [`Match`] as bytes: for each field its number, its value, and its mask unless that is all
/// bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedMatch(Box<[u8]>);

impl PackedMatch {
    /// Packs a match.
    #[must_use]
    pub fn new(matching: &Match) -> PackedMatch {
        let mut bytes = Vec::new();
        for entry in matching.entries() {
            let field = entry.field();
            let length = length(field);
            bytes.push(field as u8 | if entry.is_exact() { 0 } else { MASKED });
            bytes.extend(&entry.value().to_le_bytes()[..length]);
            if !entry.is_exact() {
                bytes.extend(&entry.mask().to_le_bytes()[..length]);
            }
        }
        PackedMatch(bytes.into())
    }

    /// Returns true if all packets match.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The match, its fields in the order in which they were given.
    #[must_use]
    pub fn unpack(&self) -> Match {
        let mut rest = &*self.0;
        let number = |rest: &mut &[u8], length: usize| {
            let mut bytes = [0; 16];
            if let Some((number, behind)) = rest.split_at_checked(length) {
                bytes[..length].copy_from_slice(number);
                *rest = behind;
            }
            u128::from_le_bytes(bytes)
        };
        let entries = std::iter::from_fn(|| {
            let (first, behind) = rest.split_first()?;
            rest = behind;
            let field = *Field::ALL.get(usize::from(first & !MASKED))?;
            let value = number(&mut rest, length(field));
            Some(if first & MASKED == 0 {
                Entry::exact(field, value)
            } else {
                Entry::masked(field, value, number(&mut rest, length(field)))
            })
        });
        entries.collect()
    }
}

/// Returns the bytes of a field's value.
fn length(field: Field) -> usize {
    field.bits().div_ceil(8) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::of_match;

    fn matching() -> impl Strategy<Value = Match> {
        let entry =
            (0..Field::ALL.len(), any::<u128>(), prop_oneof![any::<u128>(), Just(u128::MAX)]);
        proptest::collection::vec(entry, 0..8).prop_map(|entries| {
            let entry =
                |(at, value, mask): (usize, u128, u128)| Entry::masked(Field::ALL[at], value, mask);
            entries.into_iter().fold(Match::new(), |all, parts| all.with_entry(entry(parts)))
        })
    }

    proptest! {
        #[test]
        fn a_match_comes_back_in_its_order(matching in matching()) {
            let packed = PackedMatch::new(&matching);
            prop_assert_eq!(packed.is_empty(), matching.is_empty());
            prop_assert!(packed.unpack().entries().eq(matching.entries()));
        }

        #[test]
        fn words_are_those_of_key_and_mask(matching in matching()) {
            let (key, mask) = of_match(&matching);
            let pattern = Minimatch::new(&key, &mask);
            prop_assert_eq!(pattern.mask(), mask);
            prop_assert_eq!(pattern.key(), key.under(&mask));
            for at in 0..WORDS {
                prop_assert_eq!(pattern.word(at), key.words()[at] & mask.words()[at]);
            }
        }
    }

    /// Every field has a number that leads back to it.
    #[test]
    fn fields_have_their_numbers() {
        for (at, field) in Field::ALL.iter().enumerate() {
            assert_eq!(*field as usize, at);
        }
    }
}
