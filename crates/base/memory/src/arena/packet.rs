//! A packet with the addresses of its bytes and metadata, looked up once for any number of
//! accesses.

use std::{ops::Deref, ptr::NonNull};

use super::{Arena, foreign};
use crate::{
    meta::{HeaderStart, Meta},
    slot::{SHARED, Slot},
};

/// A packet that others may hold as well: for reading. Where it begins and ends is the
/// slot's own and may be changed.
#[derive(Debug)]
pub struct Packet<'a> {
    slot: &'a mut Slot,
    /// First byte of the packet and its metadata, if the buffer is the arena's: moving the ends
    /// alone needs no check of that.
    start: *mut u8,
    meta: *mut Meta,
    /// The buffer's number in the arena and whether it is shared; more than that if it is
    /// another arena's.
    index: u32,
    arena: &'a Arena,
}

impl<'a> Packet<'a> {
    /// # Safety
    ///
    /// `index` is the slot's buffer word without the arena's tag. If it names a buffer of the
    /// arena, `start` is the address of the slot's first byte and `meta` that of the buffer's
    /// metadata.
    #[inline(always)]
    pub(super) unsafe fn new(
        arena: &'a Arena,
        slot: &'a mut Slot,
        index: u32,
        (start, meta): (*mut u8, *mut Meta),
    ) -> Packet<'a> {
        Packet { slot, start, meta, index, arena }
    }

    /// Panics when the buffer belongs to another arena.
    #[inline(always)]
    fn check(&self) {
        if self.index & !SHARED & !self.arena.inner.mask != 0 {
            foreign(self.slot);
        }
        self.arena.track_used(self.slot.buffer & !SHARED);
    }

    /// Packet length in bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.slot.len()
    }

    /// Returns true if the packet has no bytes.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.slot.is_empty()
    }

    /// Address of the packet's first byte.
    #[inline(always)]
    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }

    /// Bytes in the buffer in front of the packet.
    #[inline(always)]
    pub fn headroom(&self) -> usize {
        self.slot.headroom()
    }

    /// Its bytes.
    ///
    /// # Panics
    ///
    /// When the packet belongs to another arena.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        self.check();
        // SAFETY: the slot's bytes lie inside its buffer (its invariant), which is the arena's, and
        // begin at `start`. Other holders of the buffer do not write to it, and we do only through
        // `PacketMut`, which borrows this mutably.
        unsafe { std::slice::from_raw_parts(self.start, self.slot.len()) }
    }

    /// Metadata of the packet.
    ///
    /// # Panics
    ///
    /// When the packet belongs to another arena.
    #[inline(always)]
    pub fn meta(&self) -> &Meta {
        self.check();
        // SAFETY: as with the bytes.
        unsafe { &*self.meta }
    }

    /// Offset of the network header from the start of the packet; beyond its end when the header is
    /// not known, or in front of it.
    ///
    /// # Panics
    ///
    /// When the packet belongs to another arena.
    #[inline(always)]
    pub fn network(&self) -> usize {
        self.meta().network.index(self.headroom())
    }

    /// Offset of the transport header, as [`Packet::network`].
    ///
    /// # Panics
    ///
    /// When the packet belongs to another arena.
    #[inline(always)]
    pub fn transport(&self) -> usize {
        self.meta().transport.index(self.headroom())
    }

    /// As [`Slot::pull`].
    #[inline(always)]
    pub fn pull(&mut self, count: usize) -> bool {
        let pulled = self.slot.pull(count);
        if pulled {
            self.start = self.start.wrapping_add(count);
        }
        pulled
    }

    /// As [`Slot::push`].
    #[inline(always)]
    pub fn push(&mut self, count: usize) -> bool {
        let pushed = self.slot.push(count);
        if pushed {
            self.start = self.start.wrapping_sub(count);
        }
        pushed
    }

    /// As [`Slot::truncate`].
    #[inline(always)]
    pub fn truncate(&mut self, length: usize) {
        self.slot.truncate(length);
    }

    /// The packet for writing; `None` when it has other holders or belongs to another
    /// arena.
    #[inline(always)]
    pub fn writable(&mut self) -> Option<&mut PacketMut<'a>> {
        if self.index & !self.arena.inner.mask != 0 {
            return None;
        }
        self.arena.track_used(self.slot.buffer);
        // SAFETY: `PacketMut` is this type in a transparent wrapper, and its condition has just
        // been seen: the index is one of the arena's and nothing but that, so the buffer is not
        // shared. Only a pool changes that, which would need the slot.
        Some(unsafe { &mut *std::ptr::from_mut(self).cast() })
    }
}

/// A packet without another holder: for writing.
#[derive(Debug)]
#[repr(transparent)]
pub struct PacketMut<'a>(Packet<'a>);

impl<'a> Deref for PacketMut<'a> {
    type Target = Packet<'a>;

    #[inline(always)]
    fn deref(&self) -> &Packet<'a> {
        &self.0
    }
}

impl<'a> PacketMut<'a> {
    /// # Safety
    ///
    /// As with [`Packet::new`], and the buffer is the arena's and not shared.
    #[inline(always)]
    pub(super) unsafe fn new(
        arena: &'a Arena,
        slot: &'a mut Slot,
        index: u32,
        (start, meta): (NonNull<u8>, NonNull<Meta>),
    ) -> PacketMut<'a> {
        // SAFETY: the caller's promise.
        PacketMut(unsafe { Packet::new(arena, slot, index, (start.as_ptr(), meta.as_ptr())) })
    }

    /// A packet at known addresses.
    ///
    /// # Safety
    ///
    /// The slot's buffer is the arena's and not shared, and its places are these.
    #[inline(always)]
    pub(super) unsafe fn at(
        arena: &'a Arena,
        slot: &'a mut Slot,
        (start, meta): (*mut u8, *mut Meta),
    ) -> PacketMut<'a> {
        let index = slot.buffer ^ arena.inner.tag;
        // SAFETY: the caller's promise.
        PacketMut(unsafe { Packet::new(arena, slot, index, (start, meta)) })
    }

    /// Its bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `parts` says why the bytes are there and ours, and why the second line.
        unsafe {
            std::hint::assert_unchecked(!self.0.start.is_null());
            std::slice::from_raw_parts(self.0.start, self.0.slot.len())
        }
    }

    /// Metadata of the packet.
    #[inline(always)]
    pub fn meta(&self) -> &Meta {
        // SAFETY: as in `parts`.
        unsafe { &*self.0.meta }
    }

    /// Offset of the network header from the start of the packet; beyond its end when the header is
    /// not known, or in front of it.
    #[inline(always)]
    pub fn network(&self) -> usize {
        self.meta().network.index(self.headroom())
    }

    /// Offset of the transport header, as [`PacketMut::network`].
    #[inline(always)]
    pub fn transport(&self) -> usize {
        self.meta().transport.index(self.headroom())
    }

    /// Says how far behind its start the headers begin.
    #[inline(always)]
    pub fn mark_headers(&mut self, network: usize, transport: usize) {
        let headroom = self.headroom();
        self.meta_mut().set_headers(headroom, network, transport);
    }

    /// Says how far behind its start the network header begins.
    #[inline(always)]
    pub fn mark_network(&mut self, network: usize) {
        self.meta_mut().network = HeaderStart::new(self.headroom(), network);
    }

    /// Bytes and metadata of the packet, for writing.
    #[inline(always)]
    pub fn parts(&mut self) -> (&mut [u8], &mut Meta) {
        let Packet { slot, start, meta, .. } = &mut self.0;
        // SAFETY: the slot's bytes lie inside its buffer (its invariant) and begin
        // at `start`; that and metadata were found for a slot that is not shared
        // and stays mutably borrowed as long as `self`: no other borrow exists. That the
        // start is not null is said for `Option`s of the bytes, which else test it.
        unsafe {
            std::hint::assert_unchecked(!start.is_null());
            (std::slice::from_raw_parts_mut(*start, slot.len()), &mut **meta)
        }
    }

    /// Its bytes, for writing.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.parts().0
    }

    /// Metadata of the packet, for writing.
    #[inline(always)]
    pub fn meta_mut(&mut self) -> &mut Meta {
        self.parts().1
    }

    /// As [`Slot::pull`].
    #[inline(always)]
    pub fn pull(&mut self, count: usize) -> bool {
        self.0.pull(count)
    }

    /// As [`Slot::push`].
    #[inline(always)]
    pub fn push(&mut self, count: usize) -> bool {
        self.0.push(count)
    }

    /// As [`Slot::truncate`].
    #[inline(always)]
    pub fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }

    /// As [`Arena::resize`].
    #[inline(always)]
    pub fn resize(&mut self, length: usize) -> bool {
        self.0.arena.resize(self.0.slot, length)
    }

    /// Adds `count` bytes in front, with their old contents, or zero where the packet had to be
    /// moved inside its buffer for them. `false`, changing nothing, when the buffer is too small.
    #[inline]
    pub fn prepend(&mut self, count: usize) -> bool {
        self.push(count) || self.apart(|packet| packet.prepend_moving(count))
    }

    /// Apart, because it is rare: pools leave room in front.
    #[cold]
    fn prepend_moving(&mut self, count: usize) -> bool {
        let (length, headroom) = (self.len(), self.headroom());
        let Some(lack) = count.checked_sub(headroom) else { return false };
        if !self.resize(length + lack) {
            return false;
        }
        let (bytes, meta) = self.parts();
        bytes.copy_within(..length, lack);
        bytes[..lack].fill(0);
        meta.bytes_moved(lack.cast_signed());
        self.push(headroom)
    }

    /// Adds `count` bytes at the end, which hold anything; the packet is moved inside
    /// its buffer where there is no room for them. `false`, changing nothing, when the
    /// buffer is too small.
    #[inline]
    pub fn append(&mut self, count: usize) -> bool {
        self.resize(self.len() + count) || self.apart(|packet| packet.append_moving(count))
    }

    /// Runs work on the packet out of line, on a copy, which keeps the packet itself in registers:
    /// a value passed by address is in memory from the start.
    #[inline(always)]
    fn apart(&mut self, work: impl FnOnce(&mut PacketMut<'_>) -> bool) -> bool {
        let Packet { ref mut slot, start, meta, index, arena } = self.0;
        let mut packet = PacketMut(Packet { slot, start, meta, index, arena });
        let done = work(&mut packet);
        self.0.start = packet.0.start;
        done
    }

    /// Apart, because it is rare: buffers are larger than packets.
    #[cold]
    fn append_moving(&mut self, count: usize) -> bool {
        let length = self.len() + count;
        let room = self.0.arena.buffer_size() - self.headroom() - self.len();
        let Some(lack) = count.checked_sub(room) else { return false };
        if !self.push(lack) {
            return false;
        }
        let (bytes, meta) = self.parts();
        bytes.copy_within(lack.., 0);
        meta.bytes_moved(-lack.cast_signed());
        self.resize(length)
    }
}
