//! Packet memory.
//!
//! An arena is one memfd, mapped once, and sealed so that a process that gets the descriptor cannot
//! shrink it: an array of [`Meta`], an array of share counts, and the buffers. All are found by
//! index, never by pointer.

#[cfg(not(any(loom, miri)))]
mod attach;
mod gather;
mod header_cache;
mod header_kernel;
mod map;
mod numbers;
mod options;
mod packet;
mod population;
mod template;
#[cfg(debug_assertions)]
mod track;
mod visit;

#[cfg(not(miri))]
use std::os::fd::BorrowedFd;
use std::{
    fmt,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
    sync::{Arc, Mutex, Weak},
};

#[cfg(not(any(loom, miri)))]
pub(crate) use self::attach::Geometry;
pub use self::{
    gather::{WordAt, WordBase},
    header_cache::{HeaderCache, PreservedFields},
    header_kernel::{
        Annotations, Column, HeaderBatch, HeaderKernel, HeaderLane, HeaderLocation, LANES,
    },
    map::PageKind,
    options::{ArenaOptions, BUFFER_MAX, stride_for},
    packet::{Packet, PacketMut},
};
use self::{map::Mapping, numbers::Numbers, population::Population, template::Template};
use crate::{
    frame::Frame,
    meta::Meta,
    prefetch::prefetch_address,
    ring::Mpmc,
    slot::{SHARED, Slot},
    sync,
    words::Words,
};

/// One region of packet memory. Clones name the same region.
#[derive(Clone)]
pub struct Arena {
    inner: Arc<Inner>,
}

struct Inner {
    /// First buffer.
    buffers: NonNull<u8>,
    /// Metadata of the first buffer.
    meta: NonNull<Meta>,
    /// Share count of the first buffer: holders of a shared buffer, else any
    /// value.
    shares: NonNull<AtomicU32>,
    /// Buffer numbers are `tag + index`; `tag` has no bit of `mask` set.
    tag: u32,
    mask: u32,
    stride: u32,
    headroom: u16,
    count: u32,
    free: sync::Arc<Mpmc<u32>>,
    population: Population,
    /// Buffers in each worker's cache; gone caches leave with their `Arc`.
    caches: Mutex<Vec<Weak<AtomicU32>>>,
    mapping: Mapping,
    /// Other processes that may write to the file.
    writers: Mutex<Writers>,
    numbers: Numbers,
    template: Template,
    /// The share counts of an attached arena, which each process has for itself.
    _own_shares: Option<Words<AtomicU32>>,
    #[cfg(debug_assertions)]
    tracker: track::Tracker,
}

// SAFETY: the pointers lead into `mapping`, which lives as long; buffers and
// metadata are reached only through a slot, which has one owner, share counts
// are atomic.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// Processes that may write to an arena's file, besides members that can write to this process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Writers {
    /// No process so far.
    #[default]
    None,
    /// Processes that have its descriptor.
    Some,
    /// No process, for good: the file is sealed.
    Sealed,
}

/// Numbers of free and held buffers of an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accounting {
    /// Buffers there are.
    pub total: usize,
    /// Free, in the shared ring or a worker's cache, or not yet populated.
    pub free: usize,
    /// Held by slots: in frames, rings, the kernel, or leaked.
    pub held: usize,
}

impl Arena {
    /// Buffers in the arena.
    pub fn count(&self) -> usize {
        self.inner.count as usize
    }

    /// Bytes a buffer holds, headroom included; also the distance from one to
    /// the next.
    #[inline]
    pub fn buffer_size(&self) -> usize {
        self.inner.stride as usize
    }

    /// Bytes kept free in front of a new packet.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.inner.headroom as usize
    }

    /// Longest packet a buffer can hold behind the headroom.
    #[inline]
    pub fn room(&self) -> usize {
        self.buffer_size() - self.headroom()
    }

    /// Page size that the arena got.
    pub fn pages(&self) -> PageKind {
        self.inner.mapping.kind()
    }

    /// Bytes of memory in all.
    pub fn size(&self) -> usize {
        self.inner.mapping.len()
    }

    /// The memfd behind the arena, for processes that are to map it too.
    ///
    /// Not for safe code: writes through it change packets that others hold references to, and
    /// share counts.
    ///
    /// ```compile_fail,E0133
    /// # fn f(arena: &linerate_memory::Arena) {
    /// rustix::io::pwrite(arena.fd().unwrap(), &[0; 4096], 0).unwrap();
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the file is sealed against writing, see [`Server::seal`](crate::shared::Server::seal).
    ///
    /// # Safety
    ///
    /// Through the descriptor, its copies and mappings of it, nothing is written but bytes of
    /// buffers whose slots the writer has been given ([`Slot::into_raw`]), and no byte of a buffer
    /// is read that another may be writing.
    #[cfg(not(miri))]
    pub unsafe fn fd(&self) -> std::io::Result<BorrowedFd<'_>> {
        let mut writers = self.inner.writers.lock().expect("no panic while held");
        if *writers == Writers::Sealed {
            return Err(std::io::Error::new(
                std::io::ErrorKind::PermissionDenied,
                "packet memory is sealed for programs of a cluster that read it; grant them \
                 `ACCESS isolated`, or share it in a process of its own",
            ));
        }
        if *writers == Writers::None {
            self.inner.mapping.seal_seals().map_err(std::io::Error::other)?;
            *writers = Writers::Some;
        }
        Ok(self.inner.mapping.fd())
    }

    /// The memfd, for uses that write nothing through it.
    #[cfg(not(any(loom, miri)))]
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.inner.mapping.fd()
    }

    /// Seals the file against writing by other processes, except through mappings that exist.
    #[cfg(not(any(loom, miri)))]
    pub(crate) fn seal(&self) -> Result<(), crate::error::MemoryError> {
        let mut writers = self.inner.writers.lock().expect("no panic while held");
        match *writers {
            Writers::Sealed => Ok(()),
            Writers::Some => Err(crate::error::MemoryError::System {
                step: "sealing memory that a port has shared",
                source: std::io::ErrorKind::PermissionDenied.into(),
            }),
            Writers::None => {
                self.inner.mapping.seal()?;
                *writers = Writers::Sealed;
                Ok(())
            }
        }
    }

    /// Returns true if the file is sealed against writing.
    #[cfg(not(any(loom, miri)))]
    pub(crate) fn is_sealed(&self) -> bool {
        *self.inner.writers.lock().expect("no panic while held") == Writers::Sealed
    }

    /// Adds a cache of free buffers to the accounting: returns the ring that it is in front of, and the
    /// number of buffers in the cache, which its owner keeps up to date.
    pub(crate) fn add_cache(&self) -> (sync::Arc<Mpmc<u32>>, Arc<AtomicU32>) {
        let level = Arc::new(AtomicU32::new(0));
        let mut caches = self.inner.caches.lock().expect("no panic while held");
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(Arc::downgrade(&level));
        (sync::Arc::clone(&self.inner.free), level)
    }

    /// Counts free and held buffers: exact when no worker runs, else a moment's estimate.
    pub fn accounting(&self) -> Accounting {
        let caches = self.inner.caches.lock().expect("no panic while held");
        let cached: usize = caches
            .iter()
            .filter_map(Weak::upgrade)
            .map(|level| level.load(Ordering::Relaxed) as usize)
            .sum();
        let total = self.count();
        let free = (self.inner.free.len() + cached + self.inner.unpopulated()).min(total);
        Accounting { total, free, held: total - free }
    }

    /// The bytes of a packet, borrowed from the arena and from the slot: while
    /// they are looked at, the slot can neither be written through nor given
    /// back. A multiplication and two tests.
    ///
    /// ```compile_fail,E0502
    /// # fn f(arena: &linerate_memory::Arena, slot: &mut linerate_memory::Slot) {
    /// let before = arena.packet(slot);
    /// arena.packet_mut(slot).unwrap()[0] = 1;
    /// assert_eq!(before[0], 0);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// When the packet belongs to another arena.
    #[inline]
    pub fn packet<'a>(&'a self, slot: &'a Slot) -> &'a [u8] {
        let index = self.index(slot);
        // SAFETY: the slot's bytes lie inside its buffer (its invariant) and that inside the
        // mapping. There are no writes to them while `slot` is borrowed: a writer needs `&mut` of
        // the only slot, see `packet_mut`.
        unsafe {
            let start = self.buffer(index).add(slot.offset as usize);
            std::slice::from_raw_parts(start.as_ptr(), slot.len())
        }
    }

    /// The bytes of a packet, for writing; `None` when it is shared
    /// ([`PoolCache::unshare`](crate::PoolCache::unshare)) or belongs to another arena.
    #[inline]
    pub fn packet_mut<'a>(&'a self, slot: &'a mut Slot) -> Option<&'a mut [u8]> {
        // One test: a flag and a foreign number alike show outside the mask.
        let index = slot.buffer ^ self.inner.tag;
        if index & !self.inner.mask != 0 {
            return None;
        }
        self.track_used(slot.buffer);
        // SAFETY: as in `packet`; the slot is borrowed mutably and not shared,
        // so no other borrow of these bytes exists.
        unsafe {
            let start = self.buffer(index).add(slot.offset as usize);
            Some(std::slice::from_raw_parts_mut(start.as_ptr(), slot.len()))
        }
    }

    /// Calls `each` with every packet of a frame, for writing, skipping those `packet_mut` refuses.
    /// Values common to all packets are loaded once, and the first line of each is prefetched a few
    /// packets ahead.
    #[inline]
    pub fn for_each_mut(&self, frame: &mut Frame, mut each: impl FnMut(&mut [u8])) {
        let Inner { buffers, tag, mask, stride, .. } = *self.inner;
        self.each_slot(frame.slots_mut(), |slot| {
            let index = slot.buffer ^ tag;
            if index & !mask != 0 {
                return;
            }
            self.track_used(slot.buffer);
            // SAFETY: as in `packet_mut`; the borrow ends with the call.
            each(unsafe {
                let start = buffers.add(index as usize * stride as usize + slot.headroom());
                std::slice::from_raw_parts_mut(start.as_ptr(), slot.len())
            });
        });
    }

    /// Calls `each` with every packet of a frame, in order. Values common to all packets are loaded
    /// once, and the first line of each is prefetched a few packets ahead.
    ///
    /// # Panics
    ///
    /// When a packet belongs to another arena.
    #[inline]
    pub fn for_each(&self, frame: &Frame, mut each: impl FnMut(&[u8])) {
        let Inner { buffers, tag, mask, stride, .. } = *self.inner;
        self.each_slot(frame.slots(), |slot| {
            let index = (slot.buffer & !SHARED) ^ tag;
            if index & !mask != 0 {
                foreign(slot);
            }
            self.track_used(slot.buffer & !SHARED);
            // SAFETY: as in `packet`; the borrow ends with the call.
            each(unsafe {
                let start = buffers.add(index as usize * stride as usize + slot.headroom());
                std::slice::from_raw_parts(start.as_ptr(), slot.len())
            });
        });
    }

    /// Calls `each` with slot, bytes and metadata of every packet of a frame, in order. The first
    /// lines of packet and metadata are prefetched a few packets ahead.
    ///
    /// # Panics
    ///
    /// When a packet belongs to another arena.
    #[inline]
    pub fn for_each_described(&self, frame: &Frame, mut each: impl FnMut(&Slot, &[u8], &Meta)) {
        let Inner { buffers, meta, tag, mask, stride, .. } = *self.inner;
        let prefetch = |slot: &Slot| {
            self.prefetch_packet(slot);
            prefetch_address(meta.as_ptr().wrapping_add((slot.buffer & mask) as usize).cast());
        };
        prefetching_ahead(frame.slots(), prefetch, |slot| {
            let index = (slot.buffer & !SHARED) ^ tag;
            if index & !mask != 0 {
                foreign(slot);
            }
            self.track_used(slot.buffer & !SHARED);
            // SAFETY: as in `packet` and `meta`; the borrows end with the call.
            let (bytes, meta) = unsafe {
                let start = buffers.add(index as usize * stride as usize + slot.headroom());
                let bytes = std::slice::from_raw_parts(start.as_ptr(), slot.len());
                (bytes, meta.add(index as usize).as_ref())
            };
            each(slot, bytes, meta);
        });
    }

    /// Calls `each` with every slot, in order, some time after the first line of
    /// its packet has been prefetched.
    #[inline(always)]
    fn each_slot(&self, slots: &[Slot], each: impl FnMut(&Slot)) {
        prefetching_ahead(slots, |slot| self.prefetch_packet(slot), each);
    }

    /// Prefetches the first line of a packet.
    #[inline(always)]
    fn prefetch_packet(&self, slot: &Slot) {
        let Inner { buffers, mask, stride, .. } = *self.inner;
        let start = (slot.buffer & mask) as usize * stride as usize + slot.headroom();
        prefetch_address(buffers.as_ptr().wrapping_add(start));
    }

    /// The packets of a frame one after the other.
    ///
    /// # Panics
    ///
    /// When a packet belongs to another arena.
    #[inline]
    pub fn packets<'a>(&'a self, frame: &'a Frame) -> impl Iterator<Item = &'a [u8]> + 'a {
        frame.slots().iter().map(|slot| self.packet(slot))
    }

    /// Makes the packet `length` bytes long, growing or cutting it at its end. Returns `false`,
    /// changing nothing, when the buffer ends before that or belongs to another arena. New bytes
    /// keep their old contents.
    #[inline]
    pub fn resize(&self, slot: &mut Slot, length: usize) -> bool {
        let fits = length <= self.buffer_size() - (slot.offset as usize).min(self.buffer_size());
        if !fits || !self.owns(slot.buffer & !SHARED) {
            return false;
        }
        slot.length = length as u16;
        true
    }

    /// Moves an empty packet's start to `headroom` bytes into its buffer.
    /// Returns `false`, changing nothing, when the packet is not empty, the
    /// buffer is not that large or belongs to another arena.
    #[inline]
    pub fn reserve(&self, slot: &mut Slot, headroom: usize) -> bool {
        let fits = slot.is_empty() && headroom <= self.buffer_size();
        if !fits || !self.owns(slot.buffer & !SHARED) {
            return false;
        }
        slot.offset = headroom as u16;
        true
    }

    /// The metadata of a packet, borrowed as by [`Arena::packet`]. Touches the
    /// buffer's line of metadata, not the packet.
    ///
    /// ```compile_fail,E0505
    /// # use linerate_memory::{Arena, PoolCache, Slot};
    /// # fn f(arena: &Arena, pool: &mut PoolCache, slot: Slot) {
    /// let meta = arena.meta(&slot);
    /// pool.give_one(slot);
    /// assert_eq!(meta.paint, 0);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// When the packet belongs to another arena.
    #[inline]
    pub fn meta<'a>(&'a self, slot: &'a Slot) -> &'a Meta {
        let index = self.index(slot);
        // SAFETY: the index is inside the array; writers need `&mut` of the
        // only slot.
        unsafe { self.inner.meta.add(index as usize).as_ref() }
    }

    /// The metadata of a packet, for writing; `None` when it is shared or
    /// belongs to another arena.
    #[inline]
    pub fn meta_mut<'a>(&'a self, slot: &'a mut Slot) -> Option<&'a mut Meta> {
        let index = slot.buffer ^ self.inner.tag;
        if index & !self.inner.mask != 0 {
            return None;
        }
        self.track_used(slot.buffer);
        // SAFETY: the index is inside the array, the slot is borrowed mutably
        // and not shared.
        Some(unsafe { self.inner.meta.add(index as usize).as_mut() })
    }

    /// Offset of a packet's network header from its start; beyond its end when that is not known,
    /// or in front of it.
    ///
    /// # Panics
    ///
    /// When the packet belongs to another arena.
    #[inline]
    pub fn network(&self, slot: &Slot) -> usize {
        self.meta(slot).network.index(slot.headroom())
    }

    /// Start of the region of all buffers and its length in bytes, for drivers
    /// that register it with the kernel. Aligned to a page.
    pub fn region(&self) -> (NonNull<u8>, usize) {
        let used = self.count() * self.buffer_size();
        (self.inner.buffers, used.next_multiple_of(4096).min(self.region_limit()))
    }

    /// Offset of the first buffer in the arena's file, in bytes.
    pub fn file_offset(&self) -> usize {
        self.size() - self.region_limit()
    }

    /// Bytes from the first buffer to the end of the mapping.
    fn region_limit(&self) -> usize {
        let start = self.inner.buffers.as_ptr() as usize;
        self.inner.mapping.start().as_ptr() as usize + self.size() - start
    }

    /// Offset of a packet's first byte in [`Arena::region`].
    ///
    /// # Panics
    ///
    /// When the packet belongs to another arena.
    #[inline]
    pub fn position(&self, slot: &Slot) -> usize {
        self.index(slot) as usize * self.buffer_size() + slot.headroom()
    }

    /// Index of the packet's buffer, from 0 to [`Arena::count`], for tables with an entry per
    /// buffer.
    ///
    /// # Panics
    ///
    /// When the packet belongs to another arena.
    #[inline]
    pub fn index_of(&self, slot: &Slot) -> usize {
        self.index(slot) as usize
    }

    /// The number of the buffer that covers `position` of [`Arena::region`],
    /// and the offset inside it; `None` when no buffer does.
    #[inline]
    pub fn locate(&self, position: usize) -> Option<(u32, u16)> {
        let index = position / self.buffer_size();
        (index < self.count())
            .then(|| (self.inner.tag | index as u32, (position % self.buffer_size()) as u16))
    }

    /// Returns true if a buffer number, without flags, is one of this arena's.
    #[inline]
    pub(crate) fn owns(&self, buffer: u32) -> bool {
        (buffer ^ self.inner.tag) & !self.inner.mask == 0
    }

    #[inline]
    pub(crate) fn tag(&self) -> u32 {
        self.inner.tag
    }

    #[inline]
    pub(crate) fn mask(&self) -> u32 {
        self.inner.mask
    }

    /// The slot's buffer as an index. A slot of this arena's numbers can only
    /// have been made from its free list, so the index is below `count`.
    #[inline]
    fn index(&self, slot: &Slot) -> u32 {
        let buffer = slot.buffer & !SHARED;
        let index = buffer ^ self.inner.tag;
        if index & !self.inner.mask != 0 {
            foreign(slot);
        }
        self.track_used(buffer);
        index
    }

    /// # Safety
    ///
    /// `index` is below `count`.
    #[inline]
    unsafe fn buffer(&self, index: u32) -> NonNull<u8> {
        // SAFETY: by the contract, inside the mapping.
        unsafe { self.inner.buffers.add(index as usize * self.inner.stride as usize) }
    }

    #[inline]
    pub(crate) fn share(&self, slot: &mut Slot) -> Option<Slot> {
        let buffer = slot.buffer & !SHARED;
        if !self.owns(buffer) {
            return None;
        }
        let count = self.share_count(buffer);
        if slot.is_shared() {
            // Relaxed: we hold one share, so the count cannot reach zero.
            let more = |holders: u32| holders.checked_add(1);
            count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        } else {
            count.store(2, Ordering::Relaxed);
            slot.buffer |= SHARED;
        }
        Some(Slot { buffer: slot.buffer, offset: slot.offset, length: slot.length })
    }

    /// Gives up one share; `true` when it was the last.
    pub(crate) fn release_share(&self, buffer: u32) -> bool {
        // AcqRel: our reads happen before the last holder's reuse.
        self.share_count(buffer).fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Makes the slot the only one again when all other holders have gone.
    pub(crate) fn reclaim_share(&self, slot: &mut Slot) -> bool {
        let buffer = slot.buffer & !SHARED;
        // Acquire: pairs with the other holders' releases.
        let last = self.owns(buffer) && self.share_count(buffer).load(Ordering::Acquire) == 1;
        if last {
            slot.buffer = buffer;
        }
        last
    }

    #[inline]
    fn share_count(&self, buffer: u32) -> &AtomicU32 {
        // SAFETY: the callers checked that the buffer is ours.
        unsafe { self.inner.shares.add((buffer ^ self.inner.tag) as usize).as_ref() }
    }

    /// Copies a packet, its place in the buffer and its metadata.
    pub(crate) fn copy_whole(&self, from: &Slot, to: &mut Slot) {
        // The bytes in front of the packet as well: a header that was stripped may be put back.
        let whole = Slot::compose(from.buffer, 0, from.offset + from.length);
        to.offset = 0;
        to.length = whole.length;
        let meta = *self.meta(from);
        if let Some(bytes) = self.packet_mut(to) {
            bytes.copy_from_slice(self.packet(&whole));
        }
        to.offset = from.offset;
        to.length = from.length;
        if let Some(to) = self.meta_mut(to) {
            *to = meta;
        }
    }

    #[cfg(debug_assertions)]
    pub(crate) fn track_taken(&self, words: &[u32]) {
        words.iter().for_each(|word| self.inner.tracker.taken(word ^ self.inner.tag));
    }

    #[cfg(debug_assertions)]
    pub(crate) fn track_given(&self, words: &[u32]) {
        words.iter().for_each(|word| self.inner.tracker.given(word ^ self.inner.tag));
    }

    #[cfg(debug_assertions)]
    fn track_used(&self, buffer: u32) {
        self.inner.tracker.used(buffer ^ self.inner.tag);
    }

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    pub(crate) fn track_taken(&self, _: &[u32]) {}

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    pub(crate) fn track_given(&self, _: &[u32]) {}

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    fn track_used(&self, _: u32) {}
}

/// Calls `each` with every slot, in order, some time after `prefetch`. By fours, which
/// leaves one taken branch for four packets: a branch for each and one for the end of
/// the prefetching cost more than the work between them (9 cycles for 5).
#[inline(always)]
fn prefetching_ahead(slots: &[Slot], prefetch: impl Fn(&Slot), mut each: impl FnMut(&Slot)) {
    let (fours, rest) = slots.as_chunks::<4>();
    for (at, four) in fours.iter().enumerate() {
        match fours.get(at + 1) {
            Some(next) => next.iter().for_each(&prefetch),
            None => rest.iter().for_each(&prefetch),
        }
        four.iter().for_each(&mut each);
    }
    rest.iter().for_each(each);
}

#[cold]
#[inline(never)]
fn foreign(slot: &Slot) -> ! {
    panic!("{slot:?} belongs to another arena");
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Buffers still held are named by slots somewhere: their numbers must
        // not come to mean another arena's.
        if self.free.len() + self.unpopulated() == self.count as usize {
            self.numbers.release();
        }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("buffers", &self.count())
            .field("buffer_size", &self.buffer_size())
            .field("pages", &self.pages())
            .finish_non_exhaustive()
    }
}
