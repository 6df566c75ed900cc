//! Rules decided by vectors of bits: for each value of a half of a word, the rules that it fulfils.
//!
//! A rule is one or more conjunctions of tests of single halves, each of them a bit, the first
//! rule's lowest. A packet fulfils those whose bits are set in the vectors of all its halves, and
//! the lowest of them decides ("High-Speed Policy-Based Packet Forwarding Using Efficient
//! Multi-Dimensional Range Matching", Lakshman and Stiliadis, SIGCOMM 1998, with classes of values
//! in the place of intervals). Loads for one half do not wait for another, and memory grows with
//! the rules times the values they tell apart, however they overlap, where the states of a decision
//! diagram can be their product. They are looked at 512 at a time, up to the first that holds.

use linerate_memory::{BitWork, with_vectors};

use super::{
    column::Column,
    conjunctions::{Conjunction, Part, conjunctions},
    formula::Formula,
    halves::{Half, classes},
    matcher::NEVER,
    program::To,
    words::{LANES, Words},
};

/// Most halves.
const HALVES_LIMIT: usize = 32;
/// Most blocks of all vectors.
const BLOCKS_LIMIT: usize = 1 << 19;
/// Words of a block.
const BLOCK: usize = 8;

#[derive(Debug)]
pub(super) struct Bits {
    columns: Vec<Column>,
    /// Begin of each column's vectors: that of its first class.
    firsts: Vec<usize>,
    /// All vectors, one behind the other.
    vectors: Vec<Block>,
    /// Blocks of each.
    blocks: usize,
    /// Answers by bit.
    answers: Vec<u32>,
}

/// A cache line of bits.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Block([u64; BLOCK]);

impl Bits {
    /// `None` when there are too many conjunctions, or values that differ, or nothing is looked at.
    pub(super) fn new(rules: &[(Formula, To)]) -> Option<Bits> {
        let all = conjunctions(rules)?;
        let mut halves: Vec<Half> = all.iter().flat_map(|(all, _)| all).map(|it| it.half).collect();
        halves.sort_unstable();
        halves.dedup();
        if halves.is_empty() || halves.len() > HALVES_LIMIT {
            return None;
        }
        let blocks = all.len().div_ceil(64 * BLOCK);
        let (mut columns, mut firsts) = (Vec::new(), Vec::new());
        let mut vectors = Vec::<Block>::new();
        for half in halves {
            let tests = all.iter().flat_map(|(all, _)| all).filter(|part| part.half == half);
            let (of_values, samples) = classes::<u16>(tests.map(Part::test).collect())?;
            let first = vectors.len();
            vectors.resize(first + samples.len() * blocks, Block([0; BLOCK]));
            if vectors.len() > BLOCKS_LIMIT {
                return None;
            }
            let own = vectors[first..].chunks_exact_mut(blocks);
            own.zip(samples).for_each(|(vector, value)| fill(vector, &all, half, value));
            columns.push(Column::new(half, &of_values)?);
            firsts.push(first);
        }
        let answers = all.iter().map(|(_, answer)| *answer).collect();
        Some(Bits { columns, firsts, vectors, blocks, answers })
    }

    /// Offsets of the words looked at.
    pub(super) fn offsets(&self) -> Vec<usize> {
        self.columns.iter().map(|column| column.half.offset).collect()
    }

    /// Sets the place of the words.
    pub(super) fn look_in(&mut self, words: &Words) {
        self.columns.iter_mut().for_each(|column| column.look_in(words));
    }

    /// Answers for packets from their words.
    #[inline(never)]
    pub(super) fn decide(&self, words: &Words, answers: &mut [[u32; LANES]]) {
        with_vectors(Decide { bits: self, words, answers });
    }
}

/// Sets the bits of the conjunctions that a value of a half does not rule out.
fn fill(vector: &mut [Block], all: &[(Conjunction, u32)], half: Half, value: u16) {
    for (bit, (parts, _)) in all.iter().enumerate() {
        let holds = parts.iter().filter(|part| part.half == half).all(|part| part.holds(value));
        let (word, shift) = (bit / 64, bit % 64);
        vector[word / BLOCK].0[word % BLOCK] |= u64::from(holds) << shift;
    }
}

struct Decide<'a> {
    bits: &'a Bits,
    words: &'a Words,
    answers: &'a mut [[u32; LANES]],
}

impl BitWork for Decide<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Decide { bits, words, answers } = self;
        let mut places = [[0; HALVES_LIMIT]; LANES];
        for (answers, rows) in answers.iter_mut().zip(words.blocks()) {
            for (place, (column, first)) in bits.columns.iter().zip(&bits.firsts).enumerate() {
                column.find(rows, |lane, class| {
                    places[lane][place] = first + class * bits.blocks;
                });
            }
            for (answer, places) in answers.iter_mut().zip(&places) {
                let places = &places[..bits.columns.len().min(HALVES_LIMIT)];
                let bit = first(&bits.vectors, bits.blocks, places);
                *answer = bit.and_then(|bit| bits.answers.get(bit).copied()).unwrap_or(NEVER);
            }
        }
    }
}

/// The lowest bit that is set in all vectors, each of `count` blocks from its place on.
#[inline(always)]
fn first(vectors: &[Block], count: usize, places: &[usize]) -> Option<usize> {
    for turn in 0..count {
        let mut left = [u64::MAX; BLOCK];
        for place in places {
            let Block(words) = &vectors[place + turn];
            for (left, word) in left.iter_mut().zip(words) {
                *left &= word;
            }
        }
        // Which of the words is it: no branch, which would be mispredicted.
        let mut words = 0u32;
        for (at, word) in left.iter().enumerate() {
            words |= u32::from(*word != 0) << at;
        }
        if words != 0 {
            let word = words.trailing_zeros() as usize % BLOCK;
            return Some((turn * BLOCK + word) * 64 + left[word].trailing_zeros() as usize);
        }
    }
    None
}
