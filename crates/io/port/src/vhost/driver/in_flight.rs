//! Buffers of our arena that the device has.
//!
//! A buffer that is *lent* stays taken, as one the kernel has, and has no slot here. It is
//! remembered by its number in the ring ([`InFlight`]), so no address that the device writes is
//! believed. Buffers that it does not give back before it goes come home when the queue is dropped,
//! once the device has said that it has stopped, or is gone ([`session`](super::session)).
//!
//! # Trust in the device
//!
//! It has the whole arena mapped for writing: buffers, metadata and share counts of all ports of
//! the program. A packet is looked at through references once its buffer is back, and would be so
//! during writes if the device wrote to a buffer that it has given back, or was never given. That
//! it does not is a promise of the protocol which nothing enforces; so this is for devices one
//! trusts as oneself, and has to be asked for. Others get memory of their own, and a copy.

use std::{io, os::fd::OwnedFd};

use linerate_memory::{Arena, RawSlot, Slot};

use crate::vhost::queue::Piece;

/// A number without a buffer: numbers of buffers have 30 bits and a flag.
const VACANT: RawSlot = RawSlot { buffer: u32::MAX, offset: 0, length: 0 };

/// The memory of the arena, to be given to a device.
pub(super) fn file(arena: &Arena) -> io::Result<OwnedFd> {
    // SAFETY: the device writes only to buffers that it was lent, as the user has promised for it
    // when the port was opened (see above). We use the descriptor for nothing but mapping it once
    // more, to copy out of buffers that are back and whose slots we have.
    unsafe { arena.fd() }?.try_clone_to_owned()
}

/// The buffers a device has by a ring, by their numbers.
#[derive(Debug)]
pub(super) struct InFlight {
    arena: Arena,
    /// The guest address of the first buffer of the arena.
    base: u64,
    slots: Box<[RawSlot]>,
}

impl InFlight {
    /// None yet, of a ring of that size; the arena's file is at a guest address.
    pub(super) fn new(arena: &Arena, file: u64, size: u16) -> InFlight {
        let base = file + arena.file_offset() as u64;
        InFlight { arena: arena.clone(), base, slots: vec![VACANT; size.into()].into() }
    }

    pub(super) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Place of a packet.
    #[inline]
    pub(super) fn piece(&self, slot: &Slot) -> Piece {
        Piece { at: self.base + self.arena.position(slot) as u64, len: slot.len() as u32 }
    }

    /// The device has this buffer from now on.
    #[inline]
    pub(super) fn lend(&mut self, number: u16, slot: Slot) {
        let before = std::mem::replace(&mut self.slots[usize::from(number)], slot.into_raw());
        debug_assert_eq!(before, VACANT, "what was there is leaked");
    }

    /// The buffer of a number that the device has given back, as it was lent.
    #[inline]
    pub(super) fn take(&mut self, number: u16) -> Option<Slot> {
        let raw = std::mem::replace(&mut self.slots[usize::from(number)], VACANT);
        // SAFETY: a word that is not vacant was a slot given to `lend`, and the table does not have
        // it any more: no other slot is made of it.
        (raw != VACANT).then(|| unsafe { Slot::from_raw(raw) })
    }
}

impl Drop for InFlight {
    /// Takes home the buffers that were not given back.
    fn drop(&mut self) {
        let mut pool = self.arena.cache(self.slots.len());
        for number in 0..self.slots.len() {
            if let Some(slot) = self.take(number as u16) {
                pool.give_one(slot);
            }
        }
    }
}
