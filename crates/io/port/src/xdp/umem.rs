//! Ownership of the UMEM's chunks, which are the arena's buffers.
//!
//! A buffer is handed to the kernel by its address in a ring, and comes back, in no certain order,
//! by an address the kernel wrote. This table turns that address back into the buffer's name, and
//! only if the kernel owned the buffer: by no address does a buffer get a second owner. Buffers
//! that the table says the kernel owns are reclaimed when the socket is closed.
//!
//! It costs four bytes per buffer of the arena and queue direction, and one
//! access to a table that fits the first- or second-level cache per packet.

use linerate_memory::{Arena, RawSlot, Slot};

/// No buffer number: those have 30 bits and a flag.
const VACANT: u32 = u32::MAX;
/// Bits of an address that say where a chunk starts; the rest is an offset to
/// be added (`XSK_UNALIGNED_BUF_OFFSET_SHIFT`).
const ADDRESS_BITS: u32 = 48;

/// The buffers the kernel owns of one direction of one queue.
#[derive(Debug)]
pub(super) struct KernelOwned {
    /// The buffer word of each buffer the kernel owns, by the buffer's index.
    words: Box<[u32]>,
    count: usize,
    stride: u64,
}

impl Default for KernelOwned {
    /// Of no arena: nothing can be handed over.
    fn default() -> KernelOwned {
        KernelOwned { words: Box::default(), count: 0, stride: 1 }
    }
}

impl KernelOwned {
    pub(super) fn new(arena: &Arena) -> KernelOwned {
        let words = vec![VACANT; arena.count()].into();
        KernelOwned { words, count: 0, stride: arena.buffer_size() as u64 }
    }

    /// Number of buffers.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Hands a packet's buffer over and returns the address of its first byte. A
    /// packet whose buffer the kernel owns already, because it is shared and
    /// another holder was handed over, comes back.
    #[inline]
    pub(super) fn hand_over(&mut self, arena: &Arena, slot: Slot) -> Result<u64, Slot> {
        let position = arena.position(&slot) as u64;
        let index = arena.index_of(&slot);
        let Some(word) = self.words.get_mut(index).filter(|word| **word == VACANT) else {
            return Err(slot);
        };
        *word = slot.into_raw().buffer;
        self.count += 1;
        Ok(position)
    }

    /// The packet of `length` bytes at an address the kernel returned.
    ///
    /// # Errors
    ///
    /// When no buffer the kernel owns has these bytes.
    #[inline]
    pub(super) fn take_back(&mut self, address: u64, length: u32) -> Result<Slot, BadAddress> {
        let base = address & ((1 << ADDRESS_BITS) - 1);
        let index = usize::try_from(base / self.stride).unwrap_or(usize::MAX);
        let offset = base % self.stride + (address >> ADDRESS_BITS);
        let word = match self.words.get_mut(index) {
            Some(word) if *word != VACANT => std::mem::replace(word, VACANT),
            _ => return Err(BadAddress::NotOwned),
        };
        self.count -= 1;
        let fits = offset + u64::from(length) <= self.stride;
        let (offset, length) = if fits { (offset as u16, length as u16) } else { (0, 0) };
        // SAFETY: the word is that of a slot given to `hand_over`, and it was just
        // replaced, so this is the only slot made from it; the bytes lie in
        // the buffer, as checked.
        let slot = unsafe { Slot::from_raw(RawSlot { buffer: word, offset, length }) };
        if fits { Ok(slot) } else { Err(BadAddress::OutOfChunk(slot)) }
    }

    /// Takes back everything, as empty packets.
    ///
    /// # Safety
    ///
    /// The kernel has let go of the buffers: the socket is closed.
    pub(super) unsafe fn reclaim(&mut self, mut each: impl FnMut(Slot)) {
        self.count = 0;
        for word in &mut self.words {
            let word = std::mem::replace(word, VACANT);
            if word != VACANT {
                // SAFETY: as in `take_back`, and by the contract there is no other user of the
                // buffer.
                each(unsafe { Slot::from_raw(RawSlot { buffer: word, offset: 0, length: 0 }) });
            }
        }
    }
}

/// Why an address the kernel wrote is not of a packet.
#[derive(Debug)]
pub(super) enum BadAddress {
    /// No buffer there, or not one the kernel owns.
    NotOwned,
    /// The buffer is back, but the packet would reach out of it.
    OutOfChunk(Slot),
}

#[cfg(test)]
mod tests {
    use linerate_memory::ArenaOptions;

    use super::*;

    fn arena() -> Arena {
        ArenaOptions { size: 1 << 20, huge: false, ..Default::default() }.create().unwrap()
    }

    #[test]
    fn a_buffer_comes_back_once() {
        let arena = arena();
        let mut pool = arena.cache(16);
        let mut owned = KernelOwned::new(&arena);
        let address = owned.hand_over(&arena, pool.take_one(60).unwrap()).unwrap();
        let base = address - arena.headroom() as u64;
        assert_eq!(owned.count(), 1);
        // As the kernel writes it: the chunk, and the offset in the high bits.
        let slot = owned.take_back(base | 256 << 48, 100).unwrap();
        assert_eq!((slot.headroom(), slot.len()), (256, 100));
        assert!(matches!(owned.take_back(base | 256 << 48, 100), Err(BadAddress::NotOwned)));
        pool.give_one(slot);
        assert_eq!((owned.count(), arena.accounting().held), (0, 0));
    }

    #[test]
    fn addresses_of_other_buffers_are_refused() {
        let arena = arena();
        let mut pool = arena.cache(16);
        let mut owned = KernelOwned::new(&arena);
        let address = owned.hand_over(&arena, pool.take_one(60).unwrap()).unwrap();
        let stride = arena.buffer_size() as u64;
        let end = arena.count() as u64 * stride;
        for wrong in [(address + stride) % end, end, end + 5 * stride, (1 << 48) - 1, u64::MAX] {
            assert!(matches!(owned.take_back(wrong, 60), Err(BadAddress::NotOwned)), "{wrong:#x}");
        }
        let Err(BadAddress::OutOfChunk(slot)) = owned.take_back(address, 4000) else { panic!() };
        assert!(slot.is_empty());
        pool.give_one(slot);
        assert_eq!(arena.accounting().held, 0);
    }

    #[test]
    fn a_shared_buffer_is_handed_over_once_at_a_time() {
        let arena = arena();
        let mut pool = arena.cache(16);
        let mut owned = KernelOwned::new(&arena);
        let mut slot = pool.take_one(60).unwrap();
        let twin = pool.share(&mut slot).unwrap();
        let address = owned.hand_over(&arena, slot).unwrap();
        let twin = owned.hand_over(&arena, twin).unwrap_err();
        pool.give_one(twin);
        let slot = owned.take_back(address, 60).unwrap();
        assert!(slot.is_shared());
        pool.give_one(slot);
        assert_eq!(arena.accounting().held, 0);
    }

    #[test]
    fn buffers_of_the_kernel_can_be_reclaimed() {
        let arena = arena();
        let mut pool = arena.cache(16);
        let mut owned = KernelOwned::new(&arena);
        for _ in 0..5 {
            owned.hand_over(&arena, pool.take_one(60).unwrap()).unwrap();
        }
        assert_eq!(arena.accounting().held, 5);
        // SAFETY: there is no kernel in this test.
        unsafe { owned.reclaim(|slot| pool.give_one(slot)) };
        assert_eq!((owned.count(), arena.accounting().held), (0, 0));
    }
}
