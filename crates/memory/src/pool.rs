//! Handing buffers out and taking them back.
//!
//! The free buffers of an arena are in one shared ring; each worker has a
//! [`PoolCache`] in front of it, a stack, so that the buffer used last, whose
//! lines are still in the core's cache, is used next, and the ring is touched
//! once per some hundred packets.

use std::{fmt, sync::Arc as StdArc, sync::atomic::AtomicU32 as StdAtomicU32};

use crate::{
    arena::Arena,
    frame::Frame,
    ring::Mpmc,
    slot::{SHARED, Slot},
    sync::{Arc, Ordering},
};

/// A stack of free elements in front of a shared ring of them.
pub(crate) struct FreeStack {
    ring: Arc<Mpmc<u32>>,
    /// `stack[..level]` are free elements.
    stack: Box<[u32]>,
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

    /// Takes up to `count` elements and passes them to `each` in runs;
    /// returns how many there were.
    #[inline]
    pub(crate) fn take(&mut self, count: usize, mut each: impl FnMut(&[u32])) -> usize {
        if count <= self.level {
            self.level -= count;
            each(&self.stack[self.level..][..count]);
            return count;
        }
        self.take_slow(count, &mut each)
    }

    #[cold]
    #[inline(never)]
    fn take_slow(&mut self, count: usize, each: &mut dyn FnMut(&[u32])) -> usize {
        let mut taken = 0;
        while taken < count {
            if self.level == 0 {
                let wanted = (count - taken).max(self.stack.len() / 2).min(self.stack.len());
                self.level = self.ring.pop_slice(&mut self.stack[..wanted]);
                if self.level == 0 {
                    break;
                }
            }
            let run = (count - taken).min(self.level);
            self.level -= run;
            each(&self.stack[self.level..][..run]);
            taken += run;
        }
        taken
    }

    /// Makes room for `count` elements, at most half the stack, and returns
    /// the free part, at least that long.
    #[inline]
    fn room(&mut self, count: usize) -> &mut [u32] {
        debug_assert!(count <= self.stack.len() / 2);
        if count > self.stack.len() - self.level {
            self.spill();
        }
        &mut self.stack[self.level..]
    }

    /// Gives the older half of the stack to the ring.
    #[cold]
    #[inline(never)]
    fn spill(&mut self) {
        let half = self.level.min(self.stack.len() / 2);
        give_all(&self.ring, &self.stack[..half]);
        self.stack.copy_within(half..self.level, 0);
        self.level -= half;
    }

    /// Gives elements back; `each(index)` names them.
    #[inline]
    pub(crate) fn give(&mut self, mut elements: &[u32]) {
        while !elements.is_empty() {
            let (run, rest) = elements.split_at(elements.len().min(self.stack.len() / 2));
            self.room(run.len())[..run.len()].copy_from_slice(run);
            self.level += run.len();
            elements = rest;
        }
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
/// Dropping it gives what it holds back to the arena.
pub struct PoolCache {
    arena: Arena,
    free: FreeStack,
    /// `free.level()`, for the arena's accounting, which other threads read.
    held: StdArc<StdAtomicU32>,
}

impl PoolCache {
    pub(crate) fn new(
        arena: Arena,
        ring: Arc<Mpmc<u32>>,
        size: usize,
        held: StdArc<StdAtomicU32>,
    ) -> PoolCache {
        PoolCache { arena, free: FreeStack::new(ring, size), held }
    }

    /// The arena the buffers belong to.
    #[inline]
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Takes one packet of `length` bytes, with the arena's headroom in front;
    /// `None` when no buffer is free. Its bytes hold whatever was there.
    ///
    /// # Panics
    ///
    /// When `length` exceeds [`Arena::room`].
    #[inline]
    pub fn take_one(&mut self, length: usize) -> Option<Slot> {
        let (offset, length) = self.placement(length);
        let mut slot = None;
        let arena = &self.arena;
        self.free.take(1, |words| {
            arena.track_taken(words);
            slot = Some(Slot { buffer: words[0], offset, length });
        });
        self.publish_level();
        slot
    }

    /// Adds up to `count` packets of `length` bytes to `frame`, with the
    /// arena's headroom in front, and returns how many: fewer when the frame
    /// has less room or no buffer is free. Their bytes hold whatever was
    /// there. About a cycle per packet.
    ///
    /// # Panics
    ///
    /// When `length` exceeds [`Arena::room`].
    #[inline]
    pub fn take(&mut self, frame: &mut Frame, count: usize, length: usize) -> usize {
        let (offset, length) = self.placement(length);
        let count = count.min(frame.room());
        let arena = &self.arena;
        let taken = self.free.take(count, |words| {
            arena.track_taken(words);
            let spare = &mut frame.spare()[..words.len()];
            for (to, &buffer) in spare.iter_mut().zip(words) {
                to.write(Slot { buffer, offset, length });
            }
            // SAFETY: as many slots were written just above.
            unsafe { frame.grow(words.len()) };
        });
        self.publish_level();
        taken
    }

    #[inline]
    fn placement(&self, length: usize) -> (u16, u16) {
        assert!(length <= self.arena.room(), "packet of {length} bytes does not fit a buffer");
        (self.arena.headroom() as u16, length as u16)
    }

    /// Gives back every packet of `frame`, leaving it empty. About a cycle per
    /// packet that is not shared.
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
        let mut done = 0;
        while done < count {
            let run = (count - done).min(self.free.stack.len() / 2);
            let slots = &frame.slots()[done..done + run];
            // One test for the whole run: flags and foreign numbers alike
            // show as bits outside the arena's mask.
            let tag = self.arena.tag();
            let to = &mut self.free.room(run)[..run];
            let mut strange = 0;
            for (to, slot) in to.iter_mut().zip(slots) {
                strange |= slot.buffer ^ tag;
                *to = slot.buffer;
            }
            if strange & !self.arena.mask() == 0 {
                self.arena.track_given(to);
                self.free.level += run;
            } else {
                self.give_strange(frame, done, run);
            }
            done += run;
        }
        // SAFETY: the slots have moved to the stack, and `count <= len`.
        unsafe { frame.forget_front(count) };
        self.publish_level();
    }

    /// Gives back the `run` packets of `frame` behind the first `done`, which
    /// have been given back, when some are shared or not ours.
    #[cold]
    #[inline(never)]
    fn give_strange(&mut self, frame: &mut Frame, done: usize, run: usize) {
        let slots = &frame.slots()[done..done + run];
        if let Some(at) = slots.iter().position(|slot| !self.arena.owns(slot.buffer & !SHARED)) {
            // Whoever catches the panic finds in the frame what was not given
            // back, and nothing that was.
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
        self.free.give(&[buffer]);
        self.publish_level();
    }

    /// A second slot for the same bytes, which makes both read-only until one
    /// is given back. `None` when the packet has 2^32 - 1 holders or belongs
    /// to another arena.
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
