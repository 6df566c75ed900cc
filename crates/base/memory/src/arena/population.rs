//! Buffers that are populated a piece at a time.
//!
//! A gradual arena has its addresses from the start and its memory as it needs
//! it: when no buffer is free, the pages of some more are populated (faulted in
//! by madvise(2)), and only then are those handed out. So touching a buffer never
//! faults, as in any other arena, and a machine that has no more memory is found
//! out here, where it means that no buffer is free, and not by a signal.

use std::{
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use super::{Arena, Inner};
use crate::{error::MemoryError, meta::Meta};

/// Buffers that are populated at a time: as many as a worker's cache fetches,
/// half a millisecond of the kernel's work.
const PIECE: u32 = 256;

/// State of populating an arena.
#[derive(Debug, Default)]
pub(super) struct Population {
    /// Buffers populated, the first ones: they only become more, under the lock.
    populated: AtomicU32,
    /// Whether the machine had no memory for more, after which it is not asked
    /// again. Written under the lock.
    refused: AtomicBool,
    lock: Mutex<()>,
}

impl Population {
    /// For an arena whose memory another process owns: there is nothing to populate.
    #[cfg(not(any(loom, miri)))]
    pub(super) fn done(count: u32) -> Population {
        Population { populated: AtomicU32::new(count), ..Population::default() }
    }
}

impl Inner {
    /// Puts the first buffers into the ring: all of them, whose pages are
    /// populated, or one piece.
    pub(super) fn begin(&self, gradual: bool) -> Result<(), MemoryError> {
        if gradual {
            return self.populate(PIECE);
        }
        self.hand_out(0..self.count);
        Ok(())
    }

    /// Buffers that are not populated.
    pub(super) fn unpopulated(&self) -> usize {
        (self.count - self.population.populated.load(Ordering::Relaxed)) as usize
    }

    /// Populates more buffers, at most `most`, and hands them out.
    fn populate(&self, most: u32) -> Result<(), MemoryError> {
        let from = self.population.populated.load(Ordering::Relaxed);
        let to = self.count.min(from + most);
        let start = self.mapping.start().as_ptr() as usize;
        let part = |first: usize, size: usize| {
            let first = first - start;
            first + from as usize * size..first + to as usize * size
        };
        self.mapping.populate_parts([
            part(self.meta.as_ptr() as usize, size_of::<Meta>()),
            part(self.shares.as_ptr() as usize, size_of::<AtomicU32>()),
            part(self.buffers.as_ptr() as usize, self.stride as usize),
        ])?;
        self.hand_out(from..to);
        Ok(())
    }

    fn hand_out(&self, populated: Range<u32>) {
        let numbers: Vec<u32> = populated.clone().rev().map(|index| self.tag | index).collect();
        self.free.push_slice(&numbers);
        self.population.populated.store(populated.end, Ordering::Relaxed);
    }
}

impl Arena {
    /// Populates more buffers where some are not; `false` when there is no use in
    /// trying again to take one.
    #[cold]
    #[inline(never)]
    pub(crate) fn extend(&self) -> bool {
        let population = &self.inner.population;
        let possible =
            || self.inner.unpopulated() > 0 && !population.refused.load(Ordering::Relaxed);
        if !possible() {
            return false;
        }
        let _lock = population.lock.lock().expect("no panic while held");
        // Another worker may have been here while this one waited.
        if self.inner.free.is_empty() && possible() && self.inner.populate(PIECE).is_err() {
            population.refused.store(true, Ordering::Relaxed);
        }
        !self.inner.free.is_empty()
    }
}
