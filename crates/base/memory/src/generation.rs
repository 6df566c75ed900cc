//! Reclaiming parts of a table that is read all the time.
//!
//! A table of atomic words in which parts are replaced by new ones (read, copy,
//! update) needs to know when the memory of an old part may be written again: a
//! reader may still be on its way through it. RCU waits for a grace period, hazard
//! pointers have each reader announce what it reads. Here readers announce
//! nothing. They load a sequence number before and after, and retry if it
//! changed; the writer changes it before it reuses what it has retired, once for
//! many parts, so a reader retries some times a second at most.
//!
//! So it is a seqlock of which the write section is not every change, which by itself is one store
//! of one word, but only the reuse of memory. Readers need no registration, and one that sleeps
//! holds nothing up. The price: a reader must survive a part that is being rewritten (read atomics,
//! bound its indices, terminate), though its result is then thrown away.
//!
//! The lowest bit of the same number says which of two tables is read
//! ([`Generation::flip`]), a double buffer: where everything changes, the other
//! one is written at leisure and becomes the one that is read in a single step,
//! with no load more for readers.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering, fence};

/// Counts how often memory of a table has been reused, and says which of two tables is read.
#[derive(Debug)]
pub struct Generation {
    /// Twice the count; the lowest bit is the side that is read.
    now: CachePadded<AtomicU64>,
}

impl Default for Generation {
    fn default() -> Generation {
        Generation::new()
    }
}

impl Generation {
    /// Of a table no part of which has been reused.
    pub fn new() -> Generation {
        Generation { now: CachePadded::new(AtomicU64::new(0)) }
    }

    /// Runs `lookup` until nothing was reused meanwhile, which is nearly always
    /// the first time. Costs two loads of a line that is rarely written.
    #[inline]
    pub fn read<R>(&self, mut lookup: impl FnMut() -> R) -> R {
        self.read_side(|_| lookup())
    }

    /// As [`Generation::read`], of a table that there are two of: `lookup` is told
    /// which is to be read, 0 or 1.
    #[inline]
    pub fn read_side<R>(&self, mut lookup: impl FnMut(usize) -> R) -> R {
        loop {
            // Pairs with the store in `add`: a reader that loads the new number sees that the parts
            // about to be reused are no longer linked, and all of the side it names.
            let before = self.now.load(Ordering::Acquire);
            let result = lookup((before & 1) as usize);
            // Pairs with the fence in `add`: a reader that loaded a word of a reused part loads the
            // new number here.
            fence(Ordering::Acquire);
            if self.now.load(Ordering::Relaxed) == before {
                return result;
            }
        }
    }

    /// Called by the one writer after it has unlinked parts and before it
    /// writes to them again.
    pub fn advance(&self) {
        self.add(2);
    }

    /// Called by the one writer after it has written all of the side that is not
    /// read: from now on that is the one. The other is unlinked by this and may
    /// be written at once.
    pub fn flip(&self) {
        self.add(if self.side() == 0 { 3 } else { 1 });
    }

    /// The side that is read, for the one writer.
    pub fn side(&self) -> usize {
        (self.now.load(Ordering::Relaxed) & 1) as usize
    }

    fn add(&self, by: u64) {
        let next = self.now.load(Ordering::Relaxed) + by;
        self.now.store(next, Ordering::Release);
        fence(Ordering::Release);
    }
}
