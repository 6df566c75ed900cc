//! A vector of packets, which ports fill and elements process.

use std::{fmt, mem::MaybeUninit, ops::Range, ptr};

use crate::slot::{SHARED, Slot};

/// Packets a frame holds unless told otherwise.
pub const FRAME_DEFAULT: usize = 256;
/// Most packets a frame can be made to hold.
pub const FRAME_LIMIT: usize = 2048;

/// A vector of slots whose limit is fixed when it is made and which never
/// allocates after that.
///
/// Dropping a frame does not give its packets back: hand them to
/// [`PoolCache::give`](crate::PoolCache::give) first.
pub struct Frame {
    /// The first `len` slots are initialised, the first `limit` may be.
    lines: Box<[MaybeUninit<Line>]>,
    limit: usize,
    len: usize,
    /// The number of the [header cache](crate::HeaderCache) that knows these very packets: reset by
    /// every method that takes one out or lets one be changed. Packets that are added change the
    /// count, by which the header cache is told as well.
    header_cache: u64,
}

/// Slots are kept from the start of a cache line on: vectors of them then stay
/// within one.
#[repr(align(64))]
struct Line {
    _slots: [Slot; SLOTS_PER_LINE],
}

pub(crate) const SLOTS_PER_LINE: usize = 8;
const _: () = assert!(size_of::<Line>() == SLOTS_PER_LINE * size_of::<Slot>());

impl Frame {
    /// An empty frame for at most `limit` packets.
    ///
    /// # Panics
    ///
    /// When `limit` is not in 1..=[`FRAME_LIMIT`].
    pub fn new(limit: usize) -> Frame {
        assert!((1..=FRAME_LIMIT).contains(&limit), "frame limit {limit} not in 1..={FRAME_LIMIT}");
        Frame {
            lines: Box::new_uninit_slice(limit.div_ceil(SLOTS_PER_LINE)),
            limit,
            len: 0,
            header_cache: 0,
        }
    }

    /// Packets in the frame.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no packet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Most packets the frame can hold.
    #[inline]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// From now on the frame holds at most `limit` packets.
    ///
    /// # Panics
    ///
    /// When `limit` is zero, less than the packets in it, or more than it was made for.
    #[inline]
    pub fn set_limit(&mut self, limit: usize) {
        let most = self.lines.len() * SLOTS_PER_LINE;
        assert!(limit >= self.len.max(1) && limit <= most, "frame limit {limit} not in 1..={most}");
        self.limit = limit;
    }

    /// Packets that can still be added.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit - self.len
    }

    /// Sum of the packets' lengths in bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        Slot::total_len(self.slots())
    }

    /// The packets, oldest first.
    #[inline]
    pub fn slots(&self) -> &[Slot] {
        // SAFETY: the first `len` elements are initialised, by the invariant
        // of the field.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len) }
    }

    /// The packets, oldest first, for change in place.
    #[inline]
    pub fn slots_mut(&mut self) -> &mut [Slot] {
        self.header_cache = 0;
        // SAFETY: as in `slots`, and `&mut self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }

    /// Adds a packet at the end; a full frame gives it back.
    #[inline]
    pub fn push(&mut self, slot: Slot) -> Result<(), Slot> {
        match self.spare().first_mut() {
            Some(free) => {
                free.write(slot);
                self.len += 1;
                Ok(())
            }
            None => Err(slot),
        }
    }

    /// Takes the last packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Slot> {
        self.header_cache = 0;
        self.len = self.len.checked_sub(1)?;
        // SAFETY: the element was in `..len` and is now outside it, so it is
        // read out exactly once.
        Some(unsafe { self.as_ptr().add(self.len).read() })
    }

    /// Moves packets from the front of `from` to the end of this frame, as
    /// many as fit and at most `count`. Returns how many.
    #[inline]
    pub fn append(&mut self, from: &mut Frame, count: usize) -> usize {
        let count = count.min(from.len).min(self.room());
        // SAFETY: `count` elements of `from` are initialised and `count` free
        // ones exist behind our `len`; two frames never overlap. Ownership
        // moves: `forget_front` forgets them in `from`.
        unsafe {
            ptr::copy_nonoverlapping(from.as_ptr(), self.spare().as_mut_ptr().cast(), count);
            self.grow(count);
            from.forget_front(count);
        }
        count
    }

    /// Moves the first `count` packets out, oldest first, and passes them to
    /// `each`; the rest moves to the front.
    ///
    /// # Panics
    ///
    /// When `count` exceeds the frame's length.
    #[inline]
    pub fn drain_front(&mut self, count: usize, mut each: impl FnMut(Slot)) {
        /// Forgets the packets that were moved out, also when `each` panics.
        struct Moved<'a>(&'a mut Frame, usize);
        impl Drop for Moved<'_> {
            fn drop(&mut self) {
                // SAFETY: the first `self.1` packets were read out below, and
                // `self.1 <= count <= len`.
                unsafe { self.0.forget_front(self.1) };
            }
        }
        assert!(count <= self.len, "{count} packets wanted of {}", self.len);
        let mut moved = Moved(self, 0);
        for index in 0..count {
            moved.1 = index + 1;
            // SAFETY: in `..len`, so initialised, and read out once: `Moved`
            // forgets it.
            each(unsafe { moved.0.as_ptr().add(index).read() });
        }
    }

    /// Returns true if a packet is shared with another owner.
    #[inline]
    pub fn has_shared(&self) -> bool {
        // Without an early exit, which would be a branch for each packet.
        self.slots().iter().fold(0, |flags, slot| flags | slot.buffer) & SHARED != 0
    }

    /// Keeps the packets `keep` chooses, in their order, and passes the others
    /// to `out`, oldest first.
    #[inline]
    pub fn retain(&mut self, mut keep: impl FnMut(&mut Slot) -> bool, mut out: impl FnMut(Slot)) {
        self.retain_with(&mut (), |(), slot| keep(slot), |(), slot| out(slot));
    }

    /// As [`Frame::retain`], with one value that both closures use: a pool, whose arena gives the
    /// bytes of a packet and which takes it back.
    #[inline]
    pub fn retain_with<T>(
        &mut self,
        with: &mut T,
        mut keep: impl FnMut(&mut T, &mut Slot) -> bool,
        mut out: impl FnMut(&mut T, Slot),
    ) {
        let count = self.take_len();
        let base: *mut Slot = self.lines.as_mut_ptr().cast();
        let mut kept = 0;
        for at in 0..count {
            // SAFETY: in the former `..len`, so initialised; `len` is zero, so
            // a panic in a closure leaks packets and cannot duplicate one.
            // Each is read out once, and `kept <= at`, so a write lands where
            // the packet has been read out.
            unsafe {
                let mut slot = base.add(at).read();
                if keep(with, &mut slot) {
                    base.add(kept).write(slot);
                    kept += 1;
                } else {
                    out(with, slot);
                }
            }
        }
        self.len = kept;
    }

    /// Keeps the packets `judge` accepts, in their order, and passes the others to `out` with their
    /// places in the frame and the verdict, oldest first. Made for frames of which nearly all
    /// packets stay: the loop only judges, and those that stay are moved together behind it, if any
    /// has left.
    #[inline(always)]
    pub(crate) fn retain_judged<V>(
        &mut self,
        mut judge: impl FnMut(&mut Slot) -> Result<(), V>,
        mut out: impl FnMut(usize, Slot, V),
    ) {
        let count = self.take_len();
        let base: *mut Slot = self.lines.as_mut_ptr().cast();
        let mut first_gone = count;
        for at in 0..count {
            // SAFETY: these are in the former `..len`, so initialised, and each is
            // read out once, when it leaves; `len` is zero, so a panic in a closure
            // leaks packets and cannot duplicate one.
            unsafe {
                let slot = base.add(at);
                if let Err(verdict) = judge(&mut *slot) {
                    first_gone = first_gone.min(at);
                    eject(at, slot.replace(GONE), verdict, &mut out);
                }
            }
        }
        self.len = if first_gone + 1 >= count {
            // Nothing is behind it.
            first_gone
        } else {
            // SAFETY: all are initialised, and those that left are `GONE`.
            unsafe { close_gaps(base, first_gone..count) }
        };
    }

    /// Begins to look at packets of which some may leave: see [`RetainGuard`].
    #[inline(always)]
    pub(crate) fn begin_retain(&mut self) -> RetainGuard<'_> {
        let count = self.take_len();
        RetainGuard { frame: self, count }
    }

    /// Empties the frame, whose packets the caller takes over; returns how many there were.
    #[inline(always)]
    pub(crate) fn take_len(&mut self) -> usize {
        self.header_cache = 0;
        std::mem::take(&mut self.len)
    }

    /// The number of the header cache that knows the packets, if any does; zero if none.
    #[inline(always)]
    pub(crate) fn header_cache(&self) -> u64 {
        self.header_cache
    }

    /// A header cache knows the packets as they are now.
    #[inline(always)]
    pub(crate) fn set_header_cache(&mut self, number: u64) {
        self.header_cache = number;
    }

    /// Pointer to the first packet, for copies out by rings and pools.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *const Slot {
        self.lines.as_ptr().cast()
    }

    /// The free part behind the packets.
    #[inline]
    pub(crate) fn spare(&mut self) -> &mut [MaybeUninit<Slot>] {
        let start: *mut MaybeUninit<Slot> = self.lines.as_mut_ptr().cast();
        // SAFETY: the box holds `limit` slots, and `len` never exceeds that.
        unsafe { std::slice::from_raw_parts_mut(start.add(self.len), self.limit - self.len) }
    }

    /// Counts `count` packets in that were written to [`Frame::spare`].
    ///
    /// # Safety
    ///
    /// The first `count` elements of `spare` must be initialised.
    #[inline]
    pub(crate) unsafe fn grow(&mut self, count: usize) {
        debug_assert!(count <= self.room());
        self.len += count;
    }

    /// Removes the first `count` packets without giving them back; the rest
    /// moves to the front.
    ///
    /// # Safety
    ///
    /// `count <= len`, and ownership of those slots has been moved elsewhere.
    #[inline]
    pub(crate) unsafe fn forget_front(&mut self, count: usize) {
        debug_assert!(count <= self.len);
        self.header_cache = 0;
        let rest = self.len - count;
        if rest > 0 && count > 0 {
            let base: *mut Slot = self.lines.as_mut_ptr().cast();
            // SAFETY: both ranges lie in `..len`; `copy` allows overlap.
            unsafe { ptr::copy(base.add(count), base, rest) };
        }
        self.len = rest;
    }
}

/// The packets of a frame while some of them [`leave`]. The frame is empty meanwhile: if there
/// is a panic, packets are leaked and none is doubled.
#[derive(Debug)]
pub(crate) struct RetainGuard<'a> {
    frame: &'a mut Frame,
    count: usize,
}

impl RetainGuard<'_> {
    /// All of them, oldest first.
    #[inline(always)]
    pub(crate) fn slots(&mut self) -> &mut [Slot] {
        // SAFETY: the frame's slots as they were when this began, so initialised.
        unsafe { std::slice::from_raw_parts_mut(self.frame.lines.as_mut_ptr().cast(), self.count) }
    }

    /// All packets by eight. Slots behind the last packet are the last again: they own nothing, and
    /// are there so that eight can always be looked at.
    #[inline(always)]
    pub(crate) fn eights(&mut self) -> &mut [[Slot; SLOTS_PER_LINE]] {
        let lines = self.count.div_ceil(SLOTS_PER_LINE);
        let base: *mut Slot = self.frame.lines.as_mut_ptr().cast();
        for at in self.count.max(1)..lines * SLOTS_PER_LINE {
            // SAFETY: inside the lines, behind an initialised slot; slots are plain numbers.
            unsafe { base.add(at).write(base.add(self.count - 1).read()) };
        }
        // SAFETY: initialised, as just seen to.
        unsafe { std::slice::from_raw_parts_mut(base.cast(), lines) }
    }

    /// Gives the packets that have not left back to the frame.
    #[inline(always)]
    pub(crate) fn end(self, any_left: bool) {
        let RetainGuard { frame, count } = self;
        frame.len = if any_left {
            // SAFETY: all are initialised, and those that left are `GONE`.
            unsafe { close_gaps(frame.lines.as_mut_ptr().cast(), 0..count) }
        } else {
            count
        };
    }
}

/// Takes a packet out of a [`RetainGuard`].
#[inline(always)]
pub(crate) fn leave(slot: &mut Slot) -> Slot {
    std::mem::replace(slot, GONE)
}

/// The place of a packet that has left. No arena has a buffer of this number.
const GONE: Slot = Slot { buffer: u32::MAX, offset: 0, length: 0 };

/// Moves the packets of these places together over those that are [`GONE`]; returns where they end
/// then. Out of line, so that it takes no registers from the loop over packets that all stay.
///
/// # Safety
///
/// The places are initialised.
#[cold]
#[inline(never)]
unsafe fn close_gaps(base: *mut Slot, places: Range<usize>) -> usize {
    let mut kept = places.start;
    // SAFETY: the caller's promise; `kept <= at`. Packets that are gone are written as well, and
    // over: a branch would be mispredicted where packets leave at random.
    let mut close = |at: usize| unsafe {
        let slot = base.add(at).read();
        let stays = slot.buffer != GONE.buffer;
        base.add(kept).write(slot);
        kept += usize::from(stays);
    };
    let mut at = places.start;
    while places.end - at >= 8 {
        (at..at + 8).for_each(&mut close);
        at += 8;
    }
    (at..places.end).for_each(close);
    kept
}

/// Passes a packet out. Out of line for the same reason.
#[cold]
#[inline(never)]
pub(crate) fn eject<V>(place: usize, slot: Slot, verdict: V, out: &mut impl FnMut(usize, Slot, V)) {
    out(place, slot, verdict);
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.slots()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn slot(n: u32) -> Slot {
        Slot { buffer: n, offset: 0, length: n as u16 }
    }

    fn names(frame: &Frame) -> Vec<u32> {
        frame.slots().iter().map(|s| s.buffer).collect()
    }

    #[test]
    fn keeps_order_and_limit() {
        let mut f = Frame::new(3);
        for n in 0..3 {
            f.push(slot(n)).unwrap();
        }
        assert_eq!(f.push(slot(9)).unwrap_err().buffer, 9);
        assert_eq!(names(&f), [0, 1, 2]);
        assert_eq!(f.bytes(), 3);
        assert_eq!(f.pop().unwrap().buffer, 2);
    }

    #[test]
    fn append_moves_from_the_front_up_to_the_capacity() {
        let (mut a, mut b) = (Frame::new(4), Frame::new(8));
        for n in 0..6 {
            b.push(slot(n)).unwrap();
        }
        assert_eq!(a.append(&mut b, 1), 1);
        assert_eq!(a.append(&mut b, 99), 3);
        assert_eq!((names(&a), names(&b)), (vec![0, 1, 2, 3], vec![4, 5]));
        assert_eq!(a.append(&mut b, 1), 0);
    }

    #[test]
    fn drain_front_moves_in_order_and_keeps_the_rest() {
        let mut f = Frame::new(4);
        for n in 0..4 {
            f.push(slot(n)).unwrap();
        }
        let mut seen = Vec::new();
        f.drain_front(3, |slot| seen.push(slot.buffer));
        assert_eq!((seen, names(&f)), (vec![0, 1, 2], vec![3]));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            f.drain_front(1, |_| panic!("stop"));
        }));
        assert!(panicked.is_err() && f.is_empty());
    }

    #[test]
    fn retain_judged_keeps_order_on_both_sides() {
        for count in 0..=13 {
            for keep in 0u32..8 {
                let mut f = Frame::new(16);
                for n in 0..count {
                    f.push(slot(n)).unwrap();
                }
                let mut out = Vec::new();
                f.retain_judged(
                    |slot| {
                        slot.length += 100;
                        if keep >> (slot.buffer % 3) & 1 != 0 { Ok(()) } else { Err(slot.buffer) }
                    },
                    |at, slot, verdict| out.push((at as u32, slot.buffer, verdict, slot.length)),
                );
                let stays = |n: &u32| keep >> (n % 3) & 1 != 0;
                assert_eq!(names(&f), (0..count).filter(stays).collect::<Vec<_>>());
                let left = (0..count).filter(|n| !stays(n)).map(|n| (n, n, n, n as u16 + 100));
                assert_eq!(out, left.collect::<Vec<_>>());
            }
        }
        let mut f = Frame::new(6);
        f.push(slot(0)).unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            f.retain_judged(|_| -> Result<(), ()> { panic!("stop") }, |_, _, ()| {});
        }));
        assert!(panicked.is_err() && f.is_empty());
    }

    #[test]
    fn a_shared_packet_is_noticed() {
        let mut f = Frame::new(9);
        for n in 0..9 {
            assert!(!f.has_shared());
            f.push(slot(n)).unwrap();
        }
        f.slots_mut()[7].buffer |= SHARED;
        assert!(f.has_shared());
    }

    #[test]
    fn retain_keeps_order_on_both_sides() {
        let mut f = Frame::new(6);
        for n in 0..6 {
            f.push(slot(n)).unwrap();
        }
        let mut out = Vec::new();
        f.retain(|slot| slot.buffer % 3 != 1, |slot| out.push(slot.buffer));
        assert_eq!((names(&f), out), (vec![0, 2, 3, 5], vec![1, 4]));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            f.retain(|_| panic!("stop"), drop);
        }));
        assert!(panicked.is_err() && f.is_empty());
    }

    #[test]
    #[should_panic(expected = "frame limit 0")]
    fn a_limit_of_zero_is_refused() {
        let _ = Frame::new(0);
    }
}
