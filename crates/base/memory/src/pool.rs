//! Buffer pools: per-worker caches that hand buffers out and take them back.
//!
//! The free buffers of an arena are in one shared ring; each worker has a
//! [`PoolCache`] in front of it (the per-lcore cache of a DPDK mempool), a stack,
//! so that the buffer used last, whose lines are still in the core's cache, is
//! used next, and the ring is touched once per some hundred packets.

use std::{
    fmt,
    sync::{Arc as StdArc, atomic::AtomicU32 as StdAtomicU32},
};

use crate::{
    arena::Arena,
    frame::Frame,
    lanes::{narrow, widen},
    ring::Mpmc,
    slot::{SHARED, Slot},
    sync::{Arc, Ordering},
};

/// A stack of free elements in front of a shared ring of them.
pub(crate) struct FreeStack {
    ring: Arc<Mpmc<u32>>,
    /// `stack[..level]` are free elements.
    stack: Box<[u32]>,
    /// Never above the length of the stack.
    level: usize,
}

impl FreeStack {
    /// A stack for `size` elements, empty.
    pub(crate) fn new(ring: Arc<Mpmc<u32>>, size: usize) -> FreeStack {
        FreeStack { ring, stack: vec![0; size.max(2)].into(), level: 0 }
    }

    pub(crate) fn level(&self) -> usize {
        self.level
    }

    /// Pops elements, at most `count`: fewer when the stack has fewer, none
    /// when there is none in the ring either.
    #[inline(always)]
    fn pop_run(&mut self, mut count: usize) -> &[u32] {
        if count > self.level {
            count = self.refill(count);
        }
        self.level -= count;
        // SAFETY: `count` was at most the level, which is at most the length.
        unsafe { self.stack.get_unchecked(self.level..self.level + count) }
    }

    /// Fetches half a stack from the ring when there is nothing left here;
    /// returns how many of `count` can be taken now.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, count: usize) -> usize {
        if self.level == 0 {
            let wanted = count.max(self.stack.len() / 2).min(self.stack.len());
            self.level = self.ring.pop_slice(&mut self.stack[..wanted]);
        }
        count.min(self.level)
    }

    /// Elements that can be given back before some go to the ring.
    #[inline(always)]
    fn space(&self) -> usize {
        self.stack.len() - self.level
    }

    /// The `count` entries above the top of the stack, to be written. They are
    /// on the stack once the caller has raised `level` by `count`; until then
    /// nothing has happened.
    ///
    /// # Safety
    ///
    /// `count` is at most [`FreeStack::space`].
    #[inline(always)]
    unsafe fn above_top(&mut self, count: usize) -> &mut [u32] {
        // SAFETY: `level + count` is at most the length, as the caller says.
        unsafe { self.stack.get_unchecked_mut(self.level..self.level + count) }
    }

    /// As [`FreeStack::above_top`], at least one entry and at most `count`, which
    /// is not zero: a full stack spills first.
    #[inline(always)]
    fn make_space(&mut self, mut count: usize) -> &mut [u32] {
        if count > self.space() {
            count = self.spill(count);
        }
        // SAFETY: there is space for `count`, found or made.
        unsafe { self.above_top(count) }
    }

    /// Gives the older half of the stack to the ring; returns how many of
    /// `count` can be given back now.
    #[cold]
    #[inline(never)]
    fn spill(&mut self, count: usize) -> usize {
        let half = self.level.min(self.stack.len() / 2);
        give_all(&self.ring, &self.stack[..half]);
        self.stack.copy_within(half..self.level, 0);
        self.level -= half;
        count.min(self.stack.len() - self.level)
    }

    /// Gives one element back.
    #[inline(always)]
    fn give(&mut self, element: u32) {
        self.make_space(1)[0] = element;
        self.level += 1;
    }

    /// Gives everything to the ring.
    pub(crate) fn flush(&mut self) {
        give_all(&self.ring, &self.stack[..self.level]);
        self.level = 0;
    }
}

/// The ring is as large as the number of elements there are, so it takes all.
fn give_all(ring: &Mpmc<u32>, elements: &[u32]) {
    let taken = ring.push_slice(elements);
    assert_eq!(taken, elements.len(), "more buffers given back than the arena has");
}

impl Drop for FreeStack {
    fn drop(&mut self) {
        self.flush();
    }
}

/// One worker's way to the buffers of an [`Arena`].
///
/// Dropping it gives its buffers back to the arena.
pub struct PoolCache {
    arena: Arena,
    free: FreeStack,
    /// `free.level()`, for the arena's accounting, which other threads read.
    held: StdArc<StdAtomicU32>,
}

impl Arena {
    /// A worker's own way to the buffers, keeping up to `size` of them at hand
    /// (at most an eighth of the arena).
    pub fn cache(&self, size: usize) -> PoolCache {
        let (ring, held) = self.add_cache();
        let size = size.min(self.count() / 8);
        PoolCache { arena: self.clone(), free: FreeStack::new(ring, size), held }
    }
}

impl PoolCache {
    /// The arena the buffers belong to.
    #[inline]
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Takes one packet of `length` bytes, with the arena's headroom in front; `None` when no
    /// buffer is free. Its bytes are those of an earlier packet.
    ///
    /// # Panics
    ///
    /// When `length` exceeds [`Arena::room`].
    #[inline]
    pub fn take_one(&mut self, length: usize) -> Option<Slot> {
        let (offset, length) = self.placement(length);
        let buffer = loop {
            if let &[buffer] = self.free.pop_run(1) {
                break buffer;
            }
            if !self.arena.extend() {
                return None;
            }
        };
        self.arena.track_taken(&[buffer]);
        self.publish_level();
        Some(Slot::compose(buffer, offset, length))
    }

    /// Adds up to `count` packets of `length` bytes to `frame`, with the arena's headroom in front,
    /// and returns how many: fewer when the frame has less room or no buffer is free. Their bytes
    /// are those of earlier packets. With giving back, less than a TSC cycle per packet at bursts
    /// of 32 and two at bursts of 8.
    ///
    /// # Panics
    ///
    /// When `length` exceeds [`Arena::room`].
    #[inline]
    pub fn take(&mut self, frame: &mut Frame, count: usize, length: usize) -> usize {
        let (offset, length) = self.placement(length);
        let count = count.min(frame.room());
        if count > self.free.level() {
            return self.take_slow(frame, count, offset, length);
        }
        let run = self.free.pop_run(count);
        self.arena.track_taken(run);
        // SAFETY: the frame has room for `count`, and as many slots are written
        // as are counted in.
        unsafe {
            widen(run, frame.spare().get_unchecked_mut(..count), offset, length);
            frame.grow(count);
        }
        self.publish_level();
        count
    }

    /// [`PoolCache::take`] when the cache has fewer than `count`, for which the
    /// frame has room: refills it as often as that takes.
    #[cold]
    #[inline(never)]
    fn take_slow(&mut self, frame: &mut Frame, count: usize, offset: u16, length: u16) -> usize {
        let mut taken = 0;
        while taken < count {
            let run = self.free.pop_run(count - taken);
            if run.is_empty() {
                if self.arena.extend() {
                    continue;
                }
                break;
            }
            self.arena.track_taken(run);
            // SAFETY: the frame has room for `count`, of which `taken` are
            // used; as many slots are written as are counted in.
            unsafe {
                widen(run, frame.spare().get_unchecked_mut(..run.len()), offset, length);
                frame.grow(run.len());
            }
            taken += run.len();
        }
        self.publish_level();
        taken
    }

    #[inline]
    fn placement(&self, length: usize) -> (u16, u16) {
        assert!(length <= self.arena.room(), "packet of {length} bytes does not fit a buffer");
        (self.arena.headroom() as u16, length as u16)
    }

    /// Gives back every packet of `frame`, leaving it empty. Costs as much as [`PoolCache::take`]
    /// when none is shared, else a few cycles more and, for each that is, an atomic instruction.
    ///
    /// # Panics
    ///
    /// When a packet belongs to another arena.
    #[inline]
    pub fn give(&mut self, frame: &mut Frame) {
        let count = frame.len();
        self.give_front(frame, count);
    }

    /// Gives back the first `count` packets of `frame`.
    ///
    /// # Panics
    ///
    /// When a packet belongs to another arena, or `count` exceeds the frame's
    /// length.
    #[inline]
    pub fn give_front(&mut self, frame: &mut Frame, count: usize) {
        assert!(count <= frame.len(), "{count} packets of a frame of {}", frame.len());
        if count > self.free.space() {
            return self.give_slow(frame, count);
        }
        // SAFETY: there is space for `count`, and there are `count` packets in
        // the frame.
        let (to, slots) =
            unsafe { (self.free.above_top(count), frame.slots().get_unchecked(..count)) };
        // One test for all: flags and foreign numbers alike show as bits
        // outside the arena's mask.
        let differing = narrow(slots, to, self.arena.tag());
        if differing & !self.arena.mask() != 0 {
            return self.give_slow(frame, count);
        }
        self.arena.track_given(to);
        self.free.level += count;
        // SAFETY: the slots have moved to the stack, and `count <= len`.
        unsafe { frame.forget_front(count) };
        self.publish_level();
    }

    /// [`PoolCache::give_front`] when the cache has not the space, or some packet
    /// is shared or foreign: spills to the ring as often as that takes. There are
    /// `count` packets in the frame.
    #[cold]
    #[inline(never)]
    fn give_slow(&mut self, frame: &mut Frame, count: usize) {
        let mut done = 0;
        while done < count {
            let to = self.free.make_space(count - done);
            let run = to.len();
            // SAFETY: `done + run <= count <= len`.
            let slots = unsafe { frame.slots().get_unchecked(done..done + run) };
            let differing = narrow(slots, to, self.arena.tag());
            if differing & !self.arena.mask() == 0 {
                self.arena.track_given(to);
                self.free.level += run;
            } else {
                self.give_each(frame, done, run);
            }
            done += run;
        }
        // SAFETY: the slots have moved to the stack, and `count <= len`.
        unsafe { frame.forget_front(count) };
        self.publish_level();
    }

    /// Gives back the `run` packets of `frame` behind the first `done`, which
    /// have been given back, one by one: some are shared (their share count goes
    /// down) or of another arena.
    #[cold]
    #[inline(never)]
    fn give_each(&mut self, frame: &mut Frame, done: usize, run: usize) {
        let slots = &frame.slots()[done..done + run];
        if let Some(at) = slots.iter().position(|slot| !self.arena.owns(slot.buffer & !SHARED)) {
            // Code that catches the panic finds in the frame the packets that were not given back,
            // and no other.
            // SAFETY: the first `done` slots have moved to the stack.
            unsafe { frame.forget_front(done) };
            self.publish_level();
            panic!("{:?} belongs to another arena", frame.slots()[at]);
        }
        for index in done..done + run {
            let Slot { buffer, offset, length } = frame.slots()[index];
            // The original is forgotten by the caller, with all the others.
            self.give_one(Slot { buffer, offset, length });
        }
    }

    /// Gives back one packet; a shared one only counts down until its last
    /// holder gives it back.
    ///
    /// # Panics
    ///
    /// When the packet belongs to another arena.
    #[inline]
    pub fn give_one(&mut self, slot: Slot) {
        let buffer = slot.buffer & !SHARED;
        assert!(self.arena.owns(buffer), "{slot:?} belongs to another arena");
        if slot.is_shared() && !self.arena.release_share(buffer) {
            return;
        }
        self.arena.track_given(&[buffer]);
        self.free.give(buffer);
        self.publish_level();
    }

    /// Gives back buffers that no slot names any more.
    ///
    /// # Safety
    ///
    /// They are numbers of this arena's buffers, without flags, each there once, and the caller
    /// owns the packets that slots of them owned.
    #[cfg(not(any(loom, miri)))]
    #[inline]
    pub(crate) unsafe fn give_numbers(&mut self, mut numbers: &[u32]) {
        while !numbers.is_empty() {
            let to = self.free.make_space(numbers.len());
            let count = to.len();
            to.copy_from_slice(&numbers[..count]);
            self.arena.track_given(to);
            self.free.level += count;
            numbers = &numbers[count..];
        }
        self.publish_level();
    }

    /// A second slot for the same bytes, which makes both read-only until one
    /// is given back. `None` when the packet has 2^32 - 1 holders or belongs
    /// to another arena.
    #[inline]
    pub fn share(&self, slot: &mut Slot) -> Option<Slot> {
        self.arena.share(slot)
    }

    /// Makes a packet writable: a shared one is copied, with its metadata, to
    /// a buffer of its own unless the other holders have gone. `false`,
    /// changing nothing, when no buffer is free or the packet belongs to
    /// another arena.
    pub fn unshare(&mut self, slot: &mut Slot) -> bool {
        if !self.arena.owns(slot.buffer & !SHARED) {
            return false;
        }
        if !slot.is_shared() || self.arena.reclaim_share(slot) {
            return true;
        }
        let Some(mut copy) = self.take_one(0) else { return false };
        self.arena.copy_whole(slot, &mut copy);
        let original = std::mem::replace(slot, copy);
        self.give_one(original);
        true
    }

    #[inline]
    fn publish_level(&self) {
        self.held.store(self.free.level() as u32, Ordering::Relaxed);
    }
}

impl Drop for PoolCache {
    fn drop(&mut self) {
        self.free.flush();
        self.publish_level();
    }
}

impl fmt::Debug for PoolCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolCache").field("free", &self.free.level()).finish_non_exhaustive()
    }
}
