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

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering, fence};

/// Counts how often parts of a table have been reused.
#[derive(Debug)]
pub struct Generation {
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
        loop {
            // Partner of the store in `advance`: who sees the new number sees
            // that the parts about to be reused are no longer linked.
            let before = self.now.load(Ordering::Acquire);
            let result = look();
            // Partner of the fence in `advance`: who saw a word of a reused
            // part sees the new number here.
            fence(Ordering::Acquire);
            if self.now.load(Ordering::Relaxed) == before {
                return result;
            }
        }
    }

    /// Called by the one writer after it has unlinked parts and before it
    /// writes to them again.
    pub fn advance(&self) {
        let next = self.now.load(Ordering::Relaxed) + 1;
        self.now.store(next, Ordering::Release);
        fence(Ordering::Release);
    }
}
