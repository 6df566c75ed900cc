//! Where packets are: addresses of their first bytes and of their metadata, found for several
//! at a time.

use std::mem::MaybeUninit;

use super::{Inner, foreign};
use crate::{
    meta::Meta,
    prefetch::prefetch_address,
    slot::{SHARED, Slot},
};

/// Packets whose addresses are found together: enough to ask for all of them while those in
/// front are looked at, and few enough to stay in the first cache.
pub(super) const BATCH: usize = 32;

/// Addresses of packets that are looked at together.
pub(super) struct Places {
    starts: [MaybeUninit<*mut u8>; BATCH],
    metas: [MaybeUninit<*mut Meta>; BATCH],
    found: usize,
}

impl Places {
    #[inline(always)]
    pub(super) fn none() -> Places {
        Places {
            starts: [const { MaybeUninit::uninit() }; BATCH],
            metas: [const { MaybeUninit::uninit() }; BATCH],
            found: 0,
        }
    }

    /// Finds the packets of at most [`BATCH`] slots, which may be shared.
    ///
    /// # Panics
    ///
    /// When one of them belongs to another arena.
    #[inline(always)]
    pub(super) fn find_readable(&mut self, arena: &Inner, slots: &[Slot]) {
        let is_other = |bits: u32| bits & !arena.mask & !SHARED != 0;
        if is_other(self.find_all(arena, slots))
            && let Some(other) = slots.iter().find(|slot| is_other(slot.buffer ^ arena.tag))
        {
            foreign(other);
        }
    }

    /// Returns all bits that are set in one of the buffer words without the arena's tag.
    #[inline(always)]
    fn find_all(&mut self, arena: &Inner, slots: &[Slot]) -> u32 {
        let Inner { buffers, meta, tag, stride, .. } = *arena;
        let (buffers, metadata) = (buffers.as_ptr(), meta.as_ptr());
        let mut bits = 0;
        self.found = slots.len().min(BATCH);
        // The compiler vectorises this: two multiplications and ten instructions more for four
        // packets, where one by one it is eight for each.
        for ((slot, start), meta) in slots.iter().zip(&mut self.starts).zip(&mut self.metas) {
            let (buffer, offset) = (slot.buffer, slot.headroom());
            let number = buffer ^ tag;
            bits |= number;
            let index = u64::from(number & !SHARED);
            let at = index * u64::from(stride) + offset as u64;
            start.write(buffers.wrapping_add(at as usize));
            meta.write(metadata.wrapping_add(index as usize));
        }
        bits
    }

    /// Asks for the first line of each packet.
    #[inline(always)]
    pub(super) fn prefetch_starts(&self) {
        for start in self.starts.iter().take(self.found) {
            // SAFETY: written for every slot that was given.
            prefetch_address(unsafe { start.assume_init() });
        }
    }

    /// The same of the metadata of each.
    #[inline(always)]
    pub(super) fn prefetch_metas(&self) {
        for meta in self.metas.iter().take(self.found) {
            // SAFETY: written for every slot that was given.
            prefetch_address(unsafe { meta.assume_init() }.cast());
        }
    }

    /// The addresses of one that was found, a packet of the arena as [`Places::find_readable`] saw to.
    ///
    /// # Safety
    ///
    /// `lane` is below the number of slots that were given at last, and below [`BATCH`].
    #[inline(always)]
    pub(super) unsafe fn get(&self, lane: usize) -> (*mut u8, *mut Meta) {
        debug_assert!(lane < self.found);
        // SAFETY: written for every slot that was given.
        unsafe {
            (
                self.starts.get_unchecked(lane).assume_init(),
                self.metas.get_unchecked(lane).assume_init(),
            )
        }
    }
}
