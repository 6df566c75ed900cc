//! Reusing parts of a table that is read all the time.
//!
//! A table of atomic words in which parts are replaced by new ones needs to
//! know when the old part may be written again: a reader may still be on its
//! way through it. Here readers leave no trace. They look at a number before
//! and after, and look again if it changed; the writer changes it once for many
//! parts, so a reader looks twice some times a second at most.
//!
//! This is a sequence lock turned around: there the writer invalidates what is
//! read with every change, here only when it reuses memory, since every change
//! by itself is one store of one word. Compared with epochs or hazard pointers,
//! readers need no registration, and one that sleeps holds nothing up. What it
//! asks for in return: a reader must survive a part that is being rewritten
//! (read atomics, check what it indexes with, end), though its result is then
//! thrown away.
//!
//! The same number says which of two tables is read ([`Generation::turn`]):
//! where everything changes, the other one is written at leisure and becomes
//! the one that is read in a single step, with no load more for readers.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering, fence};

/// Counts how often parts of a table have been reused, and which of two is read.
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

    /// Runs `look` until nothing was reused meanwhile, which is nearly always
    /// the first time. Costs two loads of a line that is rarely written.
    #[inline]
    pub fn read<R>(&self, mut look: impl FnMut() -> R) -> R {
        self.read_side(|_| look())
    }

    /// As [`Generation::read`], of a table that there are two of: `look` is told
    /// which is to be read, 0 or 1.
    #[inline]
    pub fn read_side<R>(&self, mut look: impl FnMut(usize) -> R) -> R {
        loop {
            // Partner of the store in `go_on`: who sees the new number sees that
            // the parts about to be reused are no longer linked, and all of the
            // side it names.
            let before = self.now.load(Ordering::Acquire);
            let result = look((before & 1) as usize);
            // Partner of the fence in `go_on`: who saw a word of a reused part
            // sees the new number here.
            fence(Ordering::Acquire);
            if self.now.load(Ordering::Relaxed) == before {
                return result;
            }
        }
    }

    /// Called by the one writer after it has unlinked parts and before it
    /// writes to them again.
    pub fn advance(&self) {
        self.go_on(2);
    }

    /// Called by the one writer after it has written all of the side that is not
    /// read: from now on that is the one. The other is unlinked by this and may
    /// be written at once.
    pub fn turn(&self) {
        self.go_on(if self.side() == 0 { 3 } else { 1 });
    }

    /// The side that is read, for the one writer.
    pub fn side(&self) -> usize {
        (self.now.load(Ordering::Relaxed) & 1) as usize
    }

    fn go_on(&self, by: u64) {
        let next = self.now.load(Ordering::Relaxed) + by;
        self.now.store(next, Ordering::Release);
        fence(Ordering::Release);
    }
}
