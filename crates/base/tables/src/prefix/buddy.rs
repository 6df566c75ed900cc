//! Buddy allocator of blocks of 1 to 64 units in an array of fixed length.
//!
//! Blocks are powers of two, aligned to their size, and two free halves become one, so that an
//! array that is changed for years does not fragment. Blocks that readers may still be in are
//! retired, and free only when the caller reclaims them.

use std::collections::BTreeSet;

/// Doublings from the smallest block to the largest.
const ORDERS: usize = 7;
/// Units of the largest block.
pub(super) const LARGEST: usize = 1 << (ORDERS - 1);

/// A part of the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) start: u32,
    order: u8,
}

impl Block {
    /// The block of `units` at `start`, as it was taken.
    pub(super) fn from_units(start: u32, units: usize) -> Block {
        Block { start, order: order_for(units) }
    }
}

fn order_for(units: usize) -> u8 {
    units.next_power_of_two().trailing_zeros() as u8
}

/// The blocks that are free or retired; all others are taken.
#[derive(Debug)]
pub(super) struct Blocks {
    free: [BTreeSet<u32>; ORDERS],
    /// Units from here on were never taken.
    top: u32,
    limit: u32,
    retired: Vec<Block>,
}

impl Blocks {
    /// None taken of `limit` units, a multiple of the largest block.
    pub(super) fn new(limit: u32) -> Blocks {
        Blocks { free: Default::default(), top: 0, limit, retired: Vec::new() }
    }

    /// Takes `units`, 1 to [`LARGEST`]; `None` where nothing is left.
    pub(super) fn take(&mut self, units: usize) -> Option<Block> {
        let wanted = usize::from(order_for(units));
        let found = (wanted..ORDERS).find(|&order| !self.free[order].is_empty());
        let (start, order) = match found {
            Some(order) => (self.free[order].pop_first()?, order),
            None if self.top < self.limit => {
                let start = self.top;
                self.top += LARGEST as u32;
                (start, ORDERS - 1)
            }
            None => return None,
        };
        for half in wanted..order {
            self.free[half].insert(start + (1 << half));
        }
        Some(Block { start, order: wanted as u8 })
    }

    /// Gives back a block no reader can be in.
    pub(super) fn give(&mut self, block: Block) {
        let (mut start, mut order) = (block.start, usize::from(block.order));
        while order < ORDERS - 1 && self.free[order].remove(&(start ^ (1 << order))) {
            start &= !(1 << order);
            order += 1;
        }
        self.free[order].insert(start);
    }

    /// Retires a block that readers may still be in.
    pub(super) fn retire(&mut self, block: Block) {
        self.retired.push(block);
    }

    /// Blocks retired and not reclaimed.
    pub(super) fn retired(&self) -> usize {
        self.retired.len()
    }

    /// Frees the retired blocks: the generation has advanced since, so no reader's result comes
    /// from them.
    pub(super) fn reclaim(&mut self) {
        for block in std::mem::take(&mut self.retired) {
            self.give(block);
        }
    }

    /// As it was at first.
    pub(super) fn clear(&mut self) {
        *self = Blocks::new(self.limit);
    }

    /// Units from the first that was ever taken to the last.
    pub(super) fn touched(&self) -> usize {
        self.top as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_overlap_and_all_come_back() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut blocks = Blocks::new(64 * 64);
        let mut taken: Vec<(Block, usize)> = Vec::new();
        let mut used = vec![false; 64 * 64];
        for _ in 0..if cfg!(miri) { 300 } else { 20_000 } {
            if random.bool() {
                let units = random.usize(1..=LARGEST);
                let Some(block) = blocks.take(units) else { continue };
                let range = block.start as usize..block.start as usize + units;
                assert!(!used[range.clone()].contains(&true));
                used[range].fill(true);
                taken.push((block, units));
            } else if !taken.is_empty() {
                let (block, units) = taken.swap_remove(random.usize(..taken.len()));
                assert_eq!(block, Block::from_units(block.start, units));
                used[block.start as usize..block.start as usize + units].fill(false);
                if random.bool() { blocks.give(block) } else { blocks.retire(block) }
            }
        }
        taken.into_iter().for_each(|(block, _)| blocks.give(block));
        blocks.reclaim();
        let whole = (0..64).map(|_| blocks.take(LARGEST)).filter(Option::is_some).count();
        assert_eq!((whole, blocks.take(1)), (64, None));
    }
}
