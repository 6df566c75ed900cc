//! Attaching to an arena whose memory another process made.
//!
//! The packets and their metadata belong to all processes that map the file. The free list, share
//! counts and buffer numbers are private to each process: when a process dies they go with it, and
//! the others need no record of them.

use std::{
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
};

#[cfg(debug_assertions)]
use super::track::Tracker;
use super::{
    Arena, Inner,
    map::Mapping,
    numbers::Numbers,
    options::{BUFFER_MAX, COUNT_MAX},
    population::Population,
    template::Template,
};
use crate::{
    error::MemoryError,
    meta::Meta,
    pages::PAGE,
    ring::Mpmc,
    slot::{SHARED, Slot},
    sync,
    words::Words,
};

/// Layout of an arena's file, as offsets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) count: u32,
    pub(crate) stride: u32,
    pub(crate) headroom: u32,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// Offsets of the metadata array and of the buffers.
    pub(crate) meta: u64,
    pub(crate) buffers: u64,
}

impl Geometry {
    /// Returns true if everything lies inside the file, aligned, and apart.
    pub(crate) fn is_possible(&self) -> bool {
        let Geometry { count, stride, headroom, size, meta, buffers } = *self;
        let end = |start: u64, of_one: u64| start.checked_add(u64::from(count) * of_one);
        let metas = end(meta, size_of::<Meta>() as u64);
        let (Some(metas), Some(end)) = (metas, end(buffers, stride.into())) else { return false };
        (1..=COUNT_MAX as u32).contains(&count)
            && (64..=BUFFER_MAX as u32).contains(&stride)
            && stride.is_multiple_of(64)
            && headroom < stride
            && size <= 1 << 46
            && [size, buffers].iter().all(|at| at.is_multiple_of(PAGE as u64))
            && meta.is_multiple_of(64)
            && metas <= buffers
            && end <= size
    }
}

impl Arena {
    /// The layout of the arena's file.
    pub(crate) fn geometry(&self) -> Geometry {
        let start = self.inner.mapping.start().as_ptr() as usize;
        let from_start = |address: usize| (address - start) as u64;
        Geometry {
            count: self.inner.count,
            stride: self.inner.stride,
            headroom: self.inner.headroom.into(),
            size: self.size() as u64,
            meta: from_start(self.inner.meta.as_ptr() as usize),
            buffers: from_start(self.inner.buffers.as_ptr() as usize),
        }
    }

    /// Maps an arena that another process made. No buffer belongs to this process before
    /// [`Arena::adopt`]. Pages are faulted in on first access.
    ///
    /// # Safety
    ///
    /// The geometry is possible. All processes that map the file write only to buffers that are
    /// theirs alone; where it is not `writable`, all slots that are adopted are shared ones.
    pub(crate) unsafe fn attach(
        file: OwnedFd,
        geometry: &Geometry,
        writable: bool,
    ) -> Result<Arena, MemoryError> {
        let mapping = Mapping::attach(file, geometry.size, writable)?;
        let count = geometry.count;
        let shares = Words::zeroed(count as usize)
            .map_err(|source| MemoryError::System { step: "share counts", source })?;
        let numbers = Numbers::reserve(count)?;
        let at = |offset: u64| {
            // SAFETY: inside the mapping, which has the size of a possible geometry.
            unsafe { mapping.start().add(offset as usize) }
        };
        let inner = Inner {
            buffers: at(geometry.buffers),
            meta: at(geometry.meta).cast(),
            shares: std::ptr::NonNull::from(&shares[0]),
            tag: numbers.tag(),
            mask: numbers.mask(),
            stride: geometry.stride,
            headroom: geometry.headroom as u16,
            count,
            free: sync::Arc::new(Mpmc::new(count as usize)),
            population: Population::done(count),
            caches: Mutex::default(),
            numbers,
            template: Template::forgotten(),
            _own_shares: Some(shares),
            #[cfg(debug_assertions)]
            tracker: Tracker::new(count as usize),
            mapping,
            writers: Mutex::default(),
        };
        Ok(Arena { inner: Arc::new(inner) })
    }

    /// A slot for a buffer that has become this process's.
    ///
    /// # Safety
    ///
    /// The buffer exists, the bytes are inside of it, and no slot of this arena names it.
    pub(crate) unsafe fn adopt(&self, index: u32, offset: u16, length: u16) -> Slot {
        let buffer = self.inner.tag | index;
        self.track_taken(&[buffer]);
        Slot::compose(buffer, offset, length)
    }

    /// Gives up a slot whose buffer becomes another process's; returns the buffer's index.
    pub(crate) fn transfer_out(&self, slot: Slot) -> u32 {
        let index = self.index(&slot);
        self.track_given(&[slot.buffer & !SHARED]);
        index
    }

    /// A slot as by [`Arena::adopt`], and a [pin](Arena::pin) of its buffer.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn adopt_pinned(&self, index: u32, offset: u16, length: u16) -> Slot {
        let buffer = self.inner.tag | index;
        self.track_taken(&[buffer]);
        self.share_count(buffer).store(2, std::sync::atomic::Ordering::Relaxed);
        Slot::compose(buffer | SHARED, offset, length)
    }

    /// Adds a holder without a slot to a buffer: until [`Arena::try_unpin`] the buffer stays
    /// read-only and taken.
    pub(crate) fn pin(&self, slot: &mut Slot) {
        let pin = self.share(slot);
        debug_assert!(pin.is_some(), "a slot of ours with fewer than 2^32 holders");
    }

    /// Removes the holder added by [`Arena::pin`] if it is the last one, and returns true then:
    /// the buffer can be given away.
    pub(crate) fn try_unpin(&self, index: u32) -> bool {
        let buffer = self.inner.tag | index;
        let count = self.share_count(buffer);
        // Acquire: the accesses of the other holders to the bytes are done.
        if count.load(std::sync::atomic::Ordering::Acquire) != 1 {
            return false;
        }
        self.track_given(&[buffer]);
        true
    }

    /// Returns true if a slot in the caller's hands and a [pin](Arena::pin) are the only
    /// holders of a buffer, so that both can go at once without counting down: there is no third
    /// holder to count.
    #[inline(always)]
    pub(crate) fn is_last_pinned(&self, buffer: u32) -> bool {
        // Acquire: the accesses of the other holders to the bytes are done.
        self.share_count(buffer).load(std::sync::atomic::Ordering::Acquire) == 2
    }

    /// Drops a share of a buffer that has others, with the slot.
    pub(crate) fn forget_share(&self, slot: &Slot) {
        let last = self.release_share(slot.buffer & !SHARED);
        debug_assert!(!last, "the ledger has another");
    }

    /// The slot word without the arena's tag, and the flag apart.
    pub(crate) fn strip(&self, slot: &Slot) -> (u32, bool) {
        (self.index(slot), slot.is_shared())
    }

    /// A slot for a buffer that is lent out and still this arena's.
    ///
    /// # Safety
    ///
    /// The buffer exists, the bytes are inside it, and the caller owns the slot that
    /// [`Arena::strip`] turned into this index and flag.
    pub(crate) unsafe fn restore(&self, index: u32, shared: bool, at: (u16, u16)) -> Slot {
        Slot::compose(self.inner.tag | index | if shared { SHARED } else { 0 }, at.0, at.1)
    }
}
