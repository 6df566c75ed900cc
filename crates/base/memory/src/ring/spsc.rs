//! The single-producer single-consumer ring.
//!
//! Lamport's ring with each side caching the other's position, so that the
//! other's cache line is read only when the cached position says full or empty
//! (Lee, Bu and Chandranmenon, "A Lock-Free, Cache-Efficient Multi-Core
//! Synchronization Mechanism for Line-Rate Network Traffic Monitoring", 2010).

use std::{fmt, mem::MaybeUninit, ptr};

use crossbeam_utils::CachePadded;

use super::{capacity_for, cells::Cells, short_burst};
use crate::{
    frame::Frame,
    slot::Slot,
    sync::{Arc, AtomicU32, Ordering, fence},
};

/// The ring both ends point to. Positions run freely and wrap at 2^32.
struct Ring<T> {
    /// Next position to be written. Stored by the producer with `Release`
    /// after its cells, loaded by the consumer with `Acquire` before reading
    /// them.
    tail: CachePadded<AtomicU32>,
    /// Next position to be read. Stored by the consumer with `Release` after
    /// its reads, loaded by the producer with `Acquire` before overwriting.
    head: CachePadded<AtomicU32>,
    cells: Cells<T>,
    /// Takes the elements in the ring when both ends are gone; `None` drops them.
    leftover: Option<Leftover<T>>,
}

type Leftover<T> = Box<dyn FnOnce(Vec<T>) + Send + Sync>;

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let leftover = self.leftover.take();
        if !std::mem::needs_drop::<T>() && leftover.is_none() {
            return;
        }
        let (mut head, tail) =
            (self.head.load(Ordering::Relaxed), self.tail.load(Ordering::Relaxed));
        let mut elements = Vec::with_capacity(tail.wrapping_sub(head) as usize);
        while head != tail {
            let mut element = MaybeUninit::<T>::uninit();
            // SAFETY: both ends are gone, so `head..tail` are ours alone and
            // hold elements; each is read once and has one owner then.
            elements.push(unsafe {
                self.cells.read(head as usize, element.as_mut_ptr(), 1);
                element.assume_init()
            });
            head = head.wrapping_add(1);
        }
        if let (Some(leftover), false) = (leftover, elements.is_empty()) {
            leftover(elements);
        }
    }
}

/// A ring for at least `capacity` elements (rounded up to a power of two).
///
/// ```
/// let (mut producer, mut consumer) = linerate_memory::ring::spsc(4);
/// assert_eq!(producer.push(1), Ok(()));
/// assert_eq!(consumer.pop(), Some(1));
/// ```
///
/// # Panics
///
/// When `capacity` is zero or above [`RING_LIMIT`](super::RING_LIMIT).
pub fn spsc<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    starting_at(capacity, 0, None)
}

/// As [`spsc`], for elements that must not just be dropped: elements in the ring when the last of
/// both ends is dropped go to `leftover`. An end that empties the ring before it goes cannot do
/// that: the other may still be adding to it.
///
/// # Panics
///
/// As [`spsc`].
pub fn spsc_with<T: Send>(
    capacity: usize,
    leftover: impl FnOnce(Vec<T>) + Send + Sync + 'static,
) -> (Producer<T>, Consumer<T>) {
    starting_at(capacity, 0, Some(Box::new(leftover)))
}

/// A ring whose first position is `start`, to test where positions wrap.
pub(crate) fn starting_at<T: Send>(
    capacity: usize,
    start: u32,
    leftover: Option<Leftover<T>>,
) -> (Producer<T>, Consumer<T>) {
    let ring = Arc::new(Ring {
        tail: CachePadded::new(AtomicU32::new(start)),
        head: CachePadded::new(AtomicU32::new(start)),
        cells: Cells::new(capacity_for(capacity)),
        leftover,
    });
    (
        Producer { ring: Arc::clone(&ring), tail: start, head: start },
        Consumer { ring, head: start, tail: start },
    )
}

fn len<T>(ring: &Ring<T>) -> usize {
    let head = ring.head.load(Ordering::Relaxed);
    ring.tail.load(Ordering::Relaxed).wrapping_sub(head) as usize
}

fn abandoned<T>(ring: &Arc<Ring<T>>) -> bool {
    let alone = Arc::strong_count(ring) == 1;
    // Pairs with the Release of the other end's drop, so that its last store
    // to its position is seen after this.
    fence(Ordering::Acquire);
    alone
}

/// The writing end.
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    /// Our own position.
    tail: u32,
    /// The consumer's position as last loaded: never ahead of the real one.
    head: u32,
}

/// The reading end.
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    /// Our own position.
    head: u32,
    /// The producer's position as last loaded: never ahead of the real one.
    tail: u32,
}

impl<T: Send> Producer<T> {
    /// Elements the ring can hold.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.ring.cells.capacity()
    }

    /// Elements in the ring, as far as the consumer has told.
    #[inline]
    pub fn len(&self) -> usize {
        len(&self.ring)
    }

    /// Returns true if the consumer has taken everything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if the other end is gone.
    #[inline]
    pub fn is_abandoned(&self) -> bool {
        abandoned(&self.ring)
    }

    /// Adds one element; a full ring gives it back.
    #[inline]
    pub fn push(&mut self, element: T) -> Result<(), T> {
        let ring = &*self.ring;
        if self.tail.wrapping_sub(self.head) as usize == ring.cells.capacity() {
            self.head = ring.head.load(Ordering::Acquire);
            if self.tail.wrapping_sub(self.head) as usize == ring.cells.capacity() {
                return Err(element);
            }
        }
        // SAFETY: the position `tail` is behind the consumer by the check above, and only we
        // write.
        unsafe { ring.cells.write_one(self.tail as usize, element) };
        self.tail = self.tail.wrapping_add(1);
        ring.tail.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Adds as many elements as fit, oldest first, and returns how many.
    #[inline]
    pub fn push_slice(&mut self, elements: &[T]) -> usize
    where
        T: Copy,
    {
        // SAFETY: the slice is readable and its elements are copies.
        unsafe { self.push_raw(elements.as_ptr(), elements.len()) }
    }

    /// # Safety
    ///
    /// `from` is valid for `count` reads. The returned number of elements has
    /// been moved out of it.
    #[inline]
    unsafe fn push_raw(&mut self, from: *const T, mut count: usize) -> usize {
        let ring = &*self.ring;
        let capacity = ring.cells.capacity();
        let tail = self.tail;
        if capacity - (tail.wrapping_sub(self.head) as usize) < count {
            self.head = ring.head.load(Ordering::Acquire);
            let free = capacity - tail.wrapping_sub(self.head) as usize;
            if free < count {
                count = short_burst(free);
            }
        }
        // SAFETY: the positions `tail..tail + count` are behind the consumer
        // by the check above, and only we write.
        unsafe { ring.cells.write(tail as usize, from, count) };
        self.tail = tail.wrapping_add(count as u32);
        ring.tail.store(self.tail, Ordering::Release);
        count
    }
}

impl Producer<Slot> {
    /// Moves packets from the front of `frame` to the ring, as many as fit.
    /// Returns how many.
    #[inline]
    pub fn push_frame(&mut self, frame: &mut Frame) -> usize {
        // SAFETY: the frame's slots are readable, and those taken are
        // forgotten in the frame, so that each keeps one owner.
        unsafe {
            let taken = self.push_raw(frame.as_ptr(), frame.len());
            frame.forget_front(taken);
            taken
        }
    }
}

impl<T: Send> Consumer<T> {
    /// Elements the ring can hold.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.ring.cells.capacity()
    }

    /// Elements ready to be taken.
    #[inline]
    pub fn len(&self) -> usize {
        len(&self.ring)
    }

    /// Returns true if nothing is ready.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if the other end is gone. Elements may still be in the ring; once this was
    /// true, [`Consumer::is_empty`] and [`Consumer::pop`] know of all of them.
    #[inline]
    pub fn is_abandoned(&self) -> bool {
        abandoned(&self.ring)
    }

    /// Least number of elements that can be taken: the producer's position is read only where no
    /// more than one is known of.
    #[inline]
    pub fn known(&mut self) -> usize {
        if (self.tail.wrapping_sub(self.head) as usize) < 2 {
            self.tail = self.ring.tail.load(Ordering::Acquire);
        }
        self.tail.wrapping_sub(self.head) as usize
    }

    /// Takes the oldest element.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let ring = &*self.ring;
        if self.tail == self.head {
            self.tail = ring.tail.load(Ordering::Acquire);
            if self.tail == self.head {
                return None;
            }
        }
        // SAFETY: the producer has published the position `head` (Acquire above, now or
        // earlier), and only we read.
        let element = unsafe { ring.cells.read_one(self.head as usize) };
        self.head = self.head.wrapping_add(1);
        ring.head.store(self.head, Ordering::Release);
        Some(element)
    }

    /// Takes up to `to.len()` elements, oldest first, and returns how many;
    /// the front of `to` is overwritten.
    #[inline]
    pub fn pop_slice(&mut self, to: &mut [T]) -> usize
    where
        T: Copy,
    {
        // SAFETY: the slice is writable, and overwritten `Copy` values need no drop.
        unsafe { self.pop_raw(to.as_mut_ptr(), to.len()) }
    }

    /// # Safety
    ///
    /// `to` is valid for `count` writes. The returned number of elements is
    /// initialised there.
    #[inline]
    unsafe fn pop_raw(&mut self, to: *mut T, mut count: usize) -> usize {
        let ring = &*self.ring;
        let head = self.head;
        if (self.tail.wrapping_sub(head) as usize) < count {
            self.tail = ring.tail.load(Ordering::Acquire);
            let ready = self.tail.wrapping_sub(head) as usize;
            if ready < count {
                count = short_burst(ready);
            }
        }
        // SAFETY: the positions `head..head + count` were published by the
        // producer (Acquire above, now or earlier), and only we read.
        unsafe { ring.cells.read(head as usize, to, count) };
        self.head = head.wrapping_add(count as u32);
        ring.head.store(self.head, Ordering::Release);
        count
    }
}

impl Consumer<Slot> {
    /// Moves up to `count` packets from the ring to the end of `frame`, as
    /// many as are ready and fit. Returns how many.
    #[inline]
    pub fn pop_frame(&mut self, frame: &mut Frame, count: usize) -> usize {
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

impl<T: Send> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<T: Send> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("len", &self.len()).finish_non_exhaustive()
    }
}
