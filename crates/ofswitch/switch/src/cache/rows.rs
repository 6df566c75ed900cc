//! The words of packets that entries look at, a row for each packet.

use std::hash::{BuildHasher, RandomState};

use linerate_memory::{Arena, Frame};

use crate::key::extract::{HEADER_WORDS, Needed, extract_words};
use crate::key::{Mask, WORDS};

/// Words of headers that an entry has beside its counters, behind the first: those of Ethernet,
/// IPv4 and ports.
pub(super) const NEAR: usize = 5;
/// A row with room for them.
pub(super) const NARROW: usize = 8;
/// A row with all words of headers.
pub(super) const WIDE: usize = HEADER_WORDS;

/// The words of headers.
pub(super) type Union = [u64; WIDE];

/// Reads rows of the packets of a frame, and returns the bits of near words, under a mask, in which
/// some packet differs from those given.
#[inline]
pub(super) fn read<const W: usize>(
    (arena, frame): (&Arena, &Frame),
    needed: Needed,
    rows: &mut Vec<[u64; W]>,
    (words, mask): (&[u64; NEAR], &[u64; NEAR]),
) -> u64 {
    rows.resize(frame.len(), [0; W]);
    let mut differ = 0;
    let mut places = rows.iter_mut();
    arena.for_each(frame, |bytes| {
        let Some(row) = places.next() else { return };
        extract_words(bytes, needed, row);
        for at in 0..NEAR {
            differ |= (row[at + 1] ^ words[at]) & mask[at];
        }
    });
    differ
}

/// Unknown to senders of packets, so that they cannot make many of one hash.
#[derive(Debug)]
pub(super) struct Seed {
    words: [u64; WORDS + 1],
}

/// Folds both halves of a product: every bit of the factors goes into every bit.
#[inline(always)]
fn mix(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

impl Seed {
    pub(super) fn new() -> Seed {
        let random = RandomState::new();
        let mut words = [0; WORDS + 1];
        (0u64..).zip(&mut words).for_each(|(at, word)| *word = random.hash_one(at) | 1);
        Seed { words }
    }

    /// The hash of a row under a union of masks, at a port.
    #[inline(always)]
    pub(super) fn row<const W: usize>(&self, row: &[u64; W], union: &Union, port: u64) -> u64 {
        let word = |at: usize| (row[at] & union[at]) ^ self.words[at];
        let mut hash = mix(word(1), word(2)) ^ mix(word(3), word(4)).rotate_left(17);
        hash ^= mix(word(5), self.words[0] ^ port).rotate_left(31);
        if W == WIDE {
            for pair in 3..WIDE / 2 {
                hash ^= mix(word(2 * pair), word(2 * pair + 1)).rotate_left(5 * pair as u32);
            }
        }
        mix(hash, self.words[WORDS])
    }

    /// The hash of some words of a key under a mask of a number.
    #[inline]
    pub(super) fn key(&self, words: &[u64; WORDS], mask: &Mask, used: &[u8], number: u16) -> u64 {
        let mut hash = u64::from(number) ^ self.words[WORDS];
        for &at in used {
            let at = usize::from(at) % WORDS;
            hash = mix(hash ^ words[at] & mask.words()[at], self.words[at]).wrapping_add(hash << 1);
        }
        mix(hash, self.words[WORDS])
    }
}
