//! The eight bytes that name a packet.

use std::{fmt, mem::offset_of};

/// Set in the buffer word when other slots name the same buffer.
pub(crate) const SHARED: u32 = 1 << 31;
/// Bits of the buffer word that name the buffer. Bit 30 is kept for packets
/// that continue in the next slot.
pub(crate) const NUMBER: u32 = (1 << 30) - 1;

/// One packet: a buffer of an arena and the bytes of it that are in use.
///
/// `offset + length` never exceeds the buffer size of the arena the slot was taken from; every
/// method keeps that. See the [crate documentation](crate) for the meaning of owning a slot.
#[repr(C, align(8))]
#[must_use = "a slot that is dropped leaks its buffer: give it back to a pool"]
pub struct Slot {
    /// Buffer number, unique over all arenas of the process, and flag bits.
    pub(crate) buffer: u32,
    pub(crate) offset: u16,
    pub(crate) length: u16,
}

const _: () = assert!(size_of::<Slot>() == 8 && align_of::<Slot>() == 8);
const _: () = assert!(offset_of!(Slot, buffer) == 0);
const _: () = assert!(offset_of!(Slot, offset) == 4 && offset_of!(Slot, length) == 6);

impl Slot {
    /// A slot made in one register. Written field by field and loaded whole, the
    /// load would fail to forward from the three stores and wait for them to reach
    /// the cache.
    #[inline(always)]
    pub(crate) fn compose(buffer: u32, offset: u16, length: u16) -> Slot {
        #[cfg(target_endian = "little")]
        let word = u64::from(buffer) | u64::from(offset) << 32 | u64::from(length) << 48;
        #[cfg(target_endian = "big")]
        let word = u64::from(buffer) << 32 | u64::from(offset) << 16 | u64::from(length);
        // SAFETY: plain integers in the layout asserted above.
        unsafe { std::mem::transmute(word) }
    }

    /// All of it in a word, the buffer lowest, then the offset, then the length: by one load, so
    /// that those of several slots are loaded together.
    #[inline(always)]
    pub(crate) fn word(&self) -> u64 {
        // SAFETY: eight initialised bytes without padding, aligned like a word (asserted above).
        let word = unsafe { std::ptr::from_ref(self).cast::<u64>().read() };
        if cfg!(target_endian = "little") {
            word
        } else {
            word >> 32 | (word >> 16 & 0xffff) << 32 | word << 48
        }
    }

    /// Changes all of it, by one store. The new one is of the same buffer, or this one owns
    /// nothing.
    #[inline(always)]
    pub(crate) fn set_word(&mut self, word: u64) {
        *self = Slot::compose(word as u32, (word >> 32) as u16, (word >> 48) as u16);
    }

    /// Packet length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Returns true if the packet has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes free in front of the packet.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.offset as usize
    }

    /// Returns true if other slots name the same bytes, which makes them read-only.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.buffer & SHARED != 0
    }

    /// Moves the start of the packet `count` bytes towards its end, as when a
    /// header is stripped. Returns `false`, changing nothing, when the packet
    /// is shorter than that.
    #[inline]
    pub fn pull(&mut self, count: usize) -> bool {
        if count > self.length as usize {
            return false;
        }
        self.shift(count as u64);
        true
    }

    /// Moves the start of the packet `count` bytes into the headroom, as when a header is pushed.
    /// Returns `false`, changing nothing, when there is less headroom. The new bytes keep their old
    /// contents.
    #[inline]
    pub fn push(&mut self, count: usize) -> bool {
        if count > self.offset as usize || count > u16::MAX as usize - self.length as usize {
            return false;
        }
        self.shift((count as u64).wrapping_neg());
        true
    }

    /// Moves the start by `count`, which changes the length by the opposite; there is enough of
    /// both, so neither field runs over into its neighbour.
    ///
    /// All by one store: a load of what two stores have just written waits until both are in
    /// the cache, and the compiler loads four bytes where two are asked for.
    #[inline(always)]
    fn shift(&mut self, count: u64) {
        self.set_word(self.word().wrapping_add((count << 32).wrapping_sub(count << 48)));
    }

    /// Cuts the packet to at most `length` bytes.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        // Not a branch, which would be missed where lengths are mixed.
        self.length = length.min(self.length as usize) as u16;
    }

    /// Gives up the slot for its plain values, for a driver that lends the
    /// buffer to the kernel. The buffer stays taken until [`Slot::from_raw`].
    #[inline]
    pub fn into_raw(self) -> RawSlot {
        RawSlot { buffer: self.buffer, offset: self.offset, length: self.length }
    }

    /// Takes a buffer back that [`Slot::into_raw`] lent out.
    ///
    /// # Safety
    ///
    /// `raw.buffer` must come from `into_raw` of a slot, no other slot made
    /// from that value may exist, and `offset + length` must not exceed the
    /// buffer size of its arena.
    #[inline]
    pub unsafe fn from_raw(raw: RawSlot) -> Slot {
        Slot { buffer: raw.buffer, offset: raw.offset, length: raw.length }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Slot { buffer, offset, length } = self;
        let shared = if self.is_shared() { " shared" } else { "" };
        write!(f, "Slot({}{shared} @{offset}+{length})", buffer & NUMBER)
    }
}

/// The plain values of a slot: a name without ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct RawSlot {
    /// Buffer number and flag bits.
    pub buffer: u32,
    /// Bytes in front of the packet.
    pub offset: u16,
    /// Bytes of the packet.
    pub length: u16,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn slot(offset: u16, length: u16) -> Slot {
        Slot { buffer: 7, offset, length }
    }

    #[test]
    fn pull_and_push_move_the_start() {
        let mut s = slot(100, 60);
        assert!(s.pull(14));
        assert_eq!((s.headroom(), s.len()), (114, 46));
        assert!(s.push(18));
        assert_eq!((s.headroom(), s.len()), (96, 64));
    }

    #[test]
    fn pull_beyond_the_end_and_push_beyond_the_headroom_change_nothing() {
        let mut s = slot(10, 20);
        assert!(!s.pull(21));
        assert!(!s.push(11));
        assert_eq!((s.headroom(), s.len()), (10, 20));
        assert!(s.pull(20) && s.is_empty());
        let mut long = slot(100, u16::MAX - 5);
        assert!(!long.push(6));
    }

    #[test]
    fn truncate_only_shortens() {
        let mut s = slot(0, 20);
        s.truncate(30);
        assert_eq!(s.len(), 20);
        s.truncate(5);
        assert_eq!(s.len(), 5);
    }

    #[test]
    fn lengths_are_summed_up_to_the_largest_frame() {
        for count in (0..20usize).chain(60..70).chain([crate::FRAME_LIMIT - 1, crate::FRAME_LIMIT])
        {
            for length in [0, 1, 60, u16::MAX] {
                let slots: Vec<Slot> =
                    (0..count).map(|_| Slot::compose(u32::MAX, u16::MAX, length)).collect();
                assert_eq!(Slot::total_len(&slots), count as u64 * u64::from(length));
            }
        }
    }
}
