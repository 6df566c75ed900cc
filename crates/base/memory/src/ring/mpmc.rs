//! The multi-producer multi-consumer ring.
//!
//! Each side has two positions: `claim` is moved by compare-and-swap to reserve a range of cells
//! for one caller, `done` follows when the cells have been written (or read), in the order of the
//! claims. A burst of any length costs one compare-and-swap. The scheme is that of the BSD
//! `buf_ring` and of DPDK's `rte_ring` (its programmer's guide, "Ring Library"), where `claim` is
//! called `prod.head` or `cons.head` and `done` `prod.tail` or `cons.tail`. In addition each side
//! caches the other's `done`, as the single-producer ring does, and loads it again only when the
//! cells it allows are used up: otherwise every call would fetch a cache line the other side is
//! writing to.
//!
//! Claiming is lock-free; publishing is ordered, so a thread that is
//! descheduled between the two delays the others' publication. They spin for a
//! moment and then yield the processor to it. A thread that *dies* there would
//! stop them for good: share this ring between the threads of one process, and
//! give every other process rings of its own ([`spsc`](super::spsc())).

use std::{fmt, mem::MaybeUninit, ptr};

use crossbeam_utils::CachePadded;

use super::{capacity_for, cells::Cells, short_burst};
use crate::{
    frame::Frame,
    slot::Slot,
    sync::{AtomicU64, Ordering, spin_loop, yield_now},
};

/// Spins before yielding to a thread that has claimed and not published: about a
/// microsecond, far above the copy of the largest burst.
#[cfg(not(loom))]
const SPINS: u32 = 256;
#[cfg(loom)]
const SPINS: u32 = 0;

/// The positions of one side. They run freely; 64 bits, so that a thread that
/// sleeps between reading `claim` and moving it cannot wake to find the same
/// value again after a lap.
struct Side {
    /// Words that only this side touches.
    own: CachePadded<Own>,
    /// End of the finished range. Stored with `Release` by the owner of the range that starts here;
    /// loaded with `Acquire` by the other side, whose cells those become. On a line of its own:
    /// when the other side loads it, the next claim does not miss.
    done: CachePadded<AtomicU64>,
}

struct Own {
    /// End of the claimed range. Moved by compare-and-swap.
    claim: AtomicU64,
    /// How far this side may claim: the other side's `done` as a caller of this side last loaded it
    /// (plus the capacity, for producers). May be behind the real one and even behind `claim`,
    /// never ahead. Stored with `Release` by the caller that loaded it, loaded with `Acquire`, so
    /// that a caller that relies on the cached value sees the cells as if it had loaded `done`
    /// itself.
    limit: AtomicU64,
}

/// A bounded queue that any number of threads may push to and pop from.
pub struct Mpmc<T> {
    producers: Side,
    consumers: Side,
    cells: Cells<T>,
}

impl<T: Send> Mpmc<T> {
    /// A ring for at least `capacity` elements (rounded up to a power of two).
    ///
    /// # Panics
    ///
    /// When `capacity` is zero or above [`RING_LIMIT`](super::RING_LIMIT).
    pub fn new(capacity: usize) -> Mpmc<T> {
        Mpmc::starting_at(capacity, 0)
    }

    /// A ring whose first position is `start`, to test where positions wrap.
    pub(crate) fn starting_at(capacity: usize, start: u64) -> Mpmc<T> {
        let position = || AtomicU64::new(start);
        let side = || Side {
            own: CachePadded::new(Own { claim: position(), limit: position() }),
            done: CachePadded::new(position()),
        };
        Mpmc { producers: side(), consumers: side(), cells: Cells::new(capacity_for(capacity)) }
    }

    /// Elements the ring can hold.
    pub fn capacity(&self) -> usize {
        self.cells.capacity()
    }

    /// Elements in the ring: exact while there is no other caller, else a moment's estimate.
    pub fn len(&self) -> usize {
        let head = self.consumers.done.load(Ordering::Acquire);
        let tail = self.producers.done.load(Ordering::Acquire);
        (tail.wrapping_sub(head) as usize).min(self.capacity())
    }

    /// Returns true if nothing is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds one element; a full ring gives it back.
    #[inline]
    pub fn push(&self, element: T) -> Result<(), T> {
        let element = std::mem::ManuallyDrop::new(element);
        // SAFETY: one element is readable; it counts as moved when taken and
        // is recovered when not.
        unsafe {
            match self.push_raw(&raw const *element, 1) {
                0 => Err(std::mem::ManuallyDrop::into_inner(element)),
                _ => Ok(()),
            }
        }
    }

    /// Adds as many elements as fit, oldest first, and returns how many. They
    /// stay together in the ring.
    #[inline]
    pub fn push_slice(&self, elements: &[T]) -> usize
    where
        T: Copy,
    {
        // SAFETY: the slice is readable and its elements are copies.
        unsafe { self.push_raw(elements.as_ptr(), elements.len()) }
    }

    /// Takes the oldest element.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let mut element = MaybeUninit::uninit();
        // SAFETY: `element` has room for one; it is initialised when one was
        // taken.
        unsafe {
            match self.pop_raw(element.as_mut_ptr(), 1) {
                0 => None,
                _ => Some(element.assume_init()),
            }
        }
    }

    /// Takes up to `to.len()` elements, oldest first, and returns how many;
    /// the front of `to` is overwritten.
    #[inline]
    pub fn pop_slice(&self, to: &mut [T]) -> usize
    where
        T: Copy,
    {
        // SAFETY: the slice is writable, and overwritten `Copy` values need no drop.
        unsafe { self.pop_raw(to.as_mut_ptr(), to.len()) }
    }

    /// # Safety
    ///
    /// `from` is valid for `count` reads. The returned number of elements has
    /// been moved out of it.
    #[inline(always)]
    unsafe fn push_raw(&self, from: *const T, count: usize) -> usize {
        let capacity = self.cells.capacity();
        let (start, count) = claim(&self.producers, &self.consumers, capacity, count);
        if count == 0 {
            return 0;
        }
        // SAFETY: the claim made `start..start + count` ours, and the consumers' `done` (Acquire in
        // `claim`) has passed the cells they held.
        unsafe { self.cells.write(start as usize, from, count) };
        publish(&self.producers, start, count);
        count
    }

    /// # Safety
    ///
    /// `to` is valid for `count` writes. The returned number of elements is
    /// initialised there.
    #[inline(always)]
    unsafe fn pop_raw(&self, to: *mut T, count: usize) -> usize {
        let (start, count) = claim(&self.consumers, &self.producers, 0, count);
        if count == 0 {
            return 0;
        }
        // SAFETY: the claim made `start..start + count` ours, and the
        // producers' `done` (Acquire in `claim`) has published them.
        unsafe { self.cells.read(start as usize, to, count) };
        publish(&self.consumers, start, count);
        count
    }
}

impl Mpmc<Slot> {
    /// Moves packets from the front of `frame` to the ring, as many as fit.
    /// Returns how many.
    #[inline]
    pub fn push_frame(&self, frame: &mut Frame) -> usize {
        // SAFETY: the frame's slots are readable, and those taken are
        // forgotten in the frame, so that each keeps one owner.
        unsafe {
            let taken = self.push_raw(frame.as_ptr(), frame.len());
            frame.forget_front(taken);
            taken
        }
    }

    /// Moves up to `count` packets from the ring to the end of `frame`, as
    /// many as are ready and fit. Returns how many.
    #[inline]
    pub fn pop_frame(&self, frame: &mut Frame, count: usize) -> usize {
        let room = frame.spare();
        let count = count.min(room.len());
        let to: *mut Slot = ptr::from_mut(room).cast();
        // SAFETY: `count` elements are free behind the frame's end, and as
        // many as were taken are initialised there.
        unsafe {
            let taken = self.pop_raw(to, count);
            frame.grow(taken);
            taken
        }
    }
}

/// Reserves up to `count` positions of `side`, which may run `ahead` positions
/// ahead of `other`'s `done`: the capacity for producers, 0 for consumers.
/// Returns the first and how many, which may be none.
#[inline(always)]
fn claim(side: &Side, other: &Side, ahead: usize, count: usize) -> (u64, usize) {
    // Acquire here and AcqRel below: the values of `limit` and `other.done` read must not be older
    // than those that justified this position, or the difference would wrap.
    let mut start = side.own.claim.load(Ordering::Acquire);
    loop {
        let mut limit = side.own.limit.load(Ordering::Acquire);
        let mut count = count;
        let mut left = 0;
        // Behind `claim` the difference is negative.
        if (limit.wrapping_sub(start) as i64) < count as i64 {
            // The only time the other side's cache line is touched.
            limit = other.done.load(Ordering::Acquire).wrapping_add(ahead as u64);
            let free = limit.wrapping_sub(start) as usize;
            if free < count {
                count = short_burst(free);
                if count == 0 {
                    return (start, 0);
                }
            }
            left = free - count;
        }
        match side.own.claim.compare_exchange_weak(
            start,
            start.wrapping_add(count as u64),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => {
                // Worth a store only if it spares the next caller the load.
                if left > 0 {
                    side.own.limit.store(limit, Ordering::Release);
                }
                return (start, count);
            }
            Err(now) => start = now,
        }
    }
}

/// Makes a claimed range, now done, visible to the other side, after all
/// earlier ranges.
#[inline(always)]
fn publish(side: &Side, start: u64, count: usize) {
    // Acquire: chains the earlier ranges' accesses to our Release below.
    if side.done.load(Ordering::Acquire) != start {
        wait(side, start);
    }
    side.done.store(start.wrapping_add(count as u64), Ordering::Release);
}

/// Waits until all ranges before `start` are done. Not inlined, since it needs
/// registers that every call would have to spill, and a compare-and-swap waits
/// for the stores before it.
#[cold]
#[inline(never)]
fn wait(side: &Side, start: u64) {
    let mut spins = 0;
    while side.done.load(Ordering::Acquire) != start {
        if spins != SPINS {
            spins += 1;
            spin_loop();
        } else {
            yield_now();
        }
    }
}

impl<T> Drop for Mpmc<T> {
    fn drop(&mut self) {
        if !std::mem::needs_drop::<T>() {
            return;
        }
        let mut head = self.consumers.done.load(Ordering::Relaxed);
        let tail = self.producers.done.load(Ordering::Relaxed);
        while head != tail {
            let mut element = MaybeUninit::<T>::uninit();
            // SAFETY: `&mut self` means that there are no claims, so `head..tail` hold elements;
            // each is read once and dropped once.
            unsafe {
                self.cells.read(head as usize, element.as_mut_ptr(), 1);
                element.assume_init_drop();
            }
            head = head.wrapping_add(1);
        }
    }
}

impl<T> fmt::Debug for Mpmc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mpmc").field("capacity", &self.cells.capacity()).finish_non_exhaustive()
    }
}
