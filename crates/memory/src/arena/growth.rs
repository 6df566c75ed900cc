//! Buffers that come a piece at a time.
//!
//! A gradual arena has its addresses from the start and its memory as it needs
//! it: when no buffer is free, the pages of some more are made present, and only
//! then are those handed out. What is handed out is thus as present as in any
//! other arena, and a machine that has no more memory is found out here, where
//! it means that no buffer is free, and not by a signal.

use std::{
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use super::{Arena, Inner};
use crate::{error::MemoryError, meta::Meta};

/// Buffers that are made present at a time: as many as a worker's cache fetches,
/// half a millisecond of the kernel's work.
const PIECE: u32 = 256;

/// How far an arena has come.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// Buffers present, the first ones: they only become more, under the lock.
    present: AtomicU32,
    /// Whether the machine had no memory for more, after which it is not asked
    /// again. Written under the lock.
    refused: AtomicBool,
    lock: Mutex<()>,
}

impl Inner {
    /// Puts the first buffers into the ring: all of them, whose pages are
    /// present, or one piece.
    pub(super) fn begin(&self, gradual: bool) -> Result<(), MemoryError> {
        if gradual {
            return self.add(PIECE);
        }
        self.hand_out(0..self.count);
        Ok(())
    }

    /// Buffers that are not present.
    pub(super) fn absent(&self) -> usize {
        (self.count - self.growth.present.load(Ordering::Relaxed)) as usize
    }

    /// Makes more buffers present, at most `most`.
    fn add(&self, most: u32) -> Result<(), MemoryError> {
        let from = self.growth.present.load(Ordering::Relaxed);
        let to = self.count.min(from + most);
        let start = self.mapping.start().as_ptr() as usize;
        let part = |first: usize, size: usize| {
            let first = first - start;
            first + from as usize * size..first + to as usize * size
        };
        self.mapping.add([
            part(self.meta.as_ptr() as usize, size_of::<Meta>()),
            part(self.shares.as_ptr() as usize, size_of::<AtomicU32>()),
            part(self.buffers.as_ptr() as usize, self.stride as usize),
        ])?;
        self.hand_out(from..to);
        Ok(())
    }

    fn hand_out(&self, present: Range<u32>) {
        let numbers: Vec<u32> = present.clone().rev().map(|index| self.tag | index).collect();
        self.free.push_slice(&numbers);
        self.growth.present.store(present.end, Ordering::Relaxed);
    }
}

impl Arena {
    /// Makes more buffers present where some are not; `false` when there is no
    /// use in looking for free ones again.
    #[cold]
    #[inline(never)]
    pub(crate) fn extend(&self) -> bool {
        let growth = &self.inner.growth;
        let possible = || self.inner.absent() > 0 && !growth.refused.load(Ordering::Relaxed);
        if !possible() {
            return false;
        }
        let _lock = growth.lock.lock().expect("no panic while held");
        // Another worker may have been here while this one waited.
        if self.inner.free.is_empty() && possible() && self.inner.add(PIECE).is_err() {
            growth.refused.store(true, Ordering::Relaxed);
        }
        !self.inner.free.is_empty()
    }
}
