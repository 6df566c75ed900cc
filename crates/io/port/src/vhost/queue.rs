//! A virtqueue as the device sees it, in either format, or as it can be made to look.
//!
//! The driver makes *chains* of descriptors available, each of which is one buffer in one or several
//! pieces. The device takes them in their order, and gives them back in it. A descriptor is copied
//! once and looked at as a copy; where its bytes are is looked up when they are used.

use std::sync::Arc;

use super::memory::Memory;

/// The most pieces of one buffer. A driver is not to have more than its queue has places; Linux has
/// up to 19, QEMU's largest queues 1,024.
pub(super) const PIECES: usize = 1024;
/// Flag of a descriptor: the buffer goes on in the next.
pub(super) const NEXT: u16 = 1;
/// The device writes there.
pub(super) const WRITE: u16 = 2;
/// There is a table of descriptors.
pub(super) const INDIRECT: u16 = 4;
/// Bytes of a descriptor, in either format.
pub(super) const DESCRIPTOR: usize = 16;

/// Fault of a driver that its queues do not survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its index is not between ours and the end of the queue.
    Index,
    /// A descriptor is named that there is not, or that is not outstanding.
    Descriptor,
    /// A chain in the ring has no end.
    Endless,
    /// It cut the file of a region short.
    Region,
}

impl Fault {
    pub(super) fn text(self) -> &'static str {
        match self {
            Fault::Index => "queue index out of range",
            Fault::Descriptor => "a descriptor that there is not",
            Fault::Endless => "chain without end",
            Fault::Region => "region was cut short",
        }
    }
}

/// Access to the bytes of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Packets of the driver are read.
    Read,
    /// Packets are written for it.
    Write,
}

impl Access {
    /// Mask of a descriptor's flags, and their value for a buffer in one piece, of the right kind.
    #[inline]
    pub(super) fn plain(self) -> (u16, u16) {
        match self {
            Access::Read => (NEXT | INDIRECT, 0),
            Access::Write => (NEXT | INDIRECT | WRITE, WRITE),
        }
    }
}

/// Bytes of the driver's memory, by a guest address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) at: u64,
    pub(super) len: u32,
}

/// The pieces of one buffer, or of several.
#[derive(Debug)]
pub(super) struct Pieces {
    list: Vec<Piece>,
    len: usize,
    wrong: bool,
}

impl Pieces {
    pub(super) fn new() -> Pieces {
        Pieces { list: Vec::with_capacity(PIECES), len: 0, wrong: false }
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.list.clear();
        (self.len, self.wrong) = (0, false);
    }

    #[inline]
    pub(super) fn list(&self) -> &[Piece] {
        &self.list
    }

    /// Bytes of all of them.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns true if a piece does not suit the queue's direction, or the list of pieces makes no
    /// sense.
    #[inline]
    pub(super) fn is_wrong(&self) -> bool {
        self.wrong
    }

    /// Adds a descriptor's piece. One to be read may be marked as to be written: DPDK's driver
    /// (22.11) does so in indirect tables of packed queues.
    #[inline]
    pub(super) fn push(&mut self, access: Access, at: u64, len: u32, flags: u16) {
        let suits = access == Access::Read || flags & WRITE != 0;
        if !suits || self.list.len() >= PIECES {
            self.wrong = true;
            return;
        }
        self.list.push(Piece { at, len });
        self.len += len as usize;
    }

    pub(super) fn refuse(&mut self) {
        self.wrong = true;
    }
}

/// A chain that was looked at and has to be given back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    /// The driver's name of it.
    pub(super) id: u16,
    /// Places it takes in a packed ring.
    pub(super) places: u16,
}

/// A chain of one piece.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Plain {
    /// Its guest address.
    pub(super) at: u64,
    /// Bytes of it.
    pub(super) len: u32,
    /// As of a [`Chain`].
    pub(super) id: u16,
}

impl Plain {
    #[inline]
    pub(super) fn chain(self) -> Chain {
        Chain { id: self.id, places: 1 }
    }
}

/// Result of looking at chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LookResult {
    /// Number of chains of one piece.
    pub(super) count: usize,
    /// Behind them is something else, or something that makes no sense: [`Queue::next`] tells.
    pub(super) odd: bool,
}

/// The most chains that are looked at together.
pub(super) const BATCH: usize = 32;
/// Descriptors in a cache line: so many are given back together.
pub(super) const LINE: usize = 4;

/// Entries that were looked at together and are yet to be used.
#[derive(Debug)]
pub(super) struct Batch<T> {
    list: [T; BATCH],
    next: usize,
    end: usize,
}

impl<T: Copy + Default> Batch<T> {
    pub(super) fn new() -> Batch<T> {
        Batch { list: [T::default(); BATCH], next: 0, end: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.end
    }

    /// Returns true if there may be more behind those that were found.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.end == BATCH
    }

    /// The remaining entries.
    #[inline]
    pub(super) fn list(&self) -> &[T] {
        &self.list[self.next..self.end]
    }

    /// The next of it.
    #[inline]
    pub(super) fn next(&mut self) -> Option<T> {
        let next = self.list[..self.end].get(self.next).copied()?;
        self.next += 1;
        Some(next)
    }

    /// Forgets the remaining entries. `look` puts more into the list, of at most `most`, and
    /// returns how many.
    #[inline]
    pub(super) fn refill(&mut self, most: usize, look: impl FnOnce(&mut [T]) -> usize) {
        (self.next, self.end) = (0, 0);
        self.end = look(&mut self.list[..most.min(BATCH)]).min(BATCH);
    }
}

/// A queue shared with a peer that is not trusted. Chains are those of the device's view; a
/// driver's queues are made to look like it ([`Posted`](super::driver)).
pub(super) trait Queue: Send + 'static {
    /// Whether the number of chains is in the headers of packets that are written.
    const COUNTED: bool = true;

    /// Number of chains that are available, at most `most` and, in a packed ring, perhaps fewer.
    fn available(&self, most: usize) -> Result<usize, Fault>;

    /// Looks at the next chains, as many as are available, are one piece each and have place in the
    /// list; of a packed ring perhaps fewer, as where a line is not whole yet. They are looked at together because the lines of a ring come from another processor:
    /// those behind are underway while the first is waited for.
    fn plain(&mut self, access: Access, list: &mut [Plain]) -> LookResult;

    /// Looks at the next chain and adds its pieces.
    fn next(&mut self, access: Access, pieces: &mut Pieces) -> Result<Option<Chain>, Fault>;

    /// Forgets that chains were looked at which were not given back.
    fn rewind(&mut self);

    /// Gives a chain back, the first that was not yet, with so many bytes written.
    fn give(&mut self, chain: Chain, written: u32);

    /// Gives back chains of one piece, the first that were not yet, with so many bytes written as each has
    /// by now. Where the format has several of them in a line they are best given together.
    #[inline]
    fn give_plain(&mut self, chains: &[Plain]) {
        chains.iter().for_each(|plain| self.give(plain.chain(), plain.len));
    }

    /// Publishes the chains given back to the driver. Returns whether it wants to be told.
    fn publish(&mut self) -> bool;

    /// Asks the driver to tell of chains it makes available from now on.
    fn arm(&mut self);

    /// Asks it not to.
    fn disarm(&mut self);

    /// Position, as `GET_VRING_BASE` says it.
    fn position(&self) -> u32;

    /// Places in it.
    fn size(&self) -> u16;

    /// The memory its buffers are in.
    fn memory(&self) -> &Arc<Memory>;

    /// Packets that the peer has not taken yet, as far as can be told.
    fn on_the_way(&mut self) -> usize {
        0
    }
}

/// Returns true if a driver that wants to be told of `event` wants to be when indices go from `old`
/// to `new` (virtio 1.3, section 2.7.7.2).
#[inline]
pub(super) fn is_due(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

/// The fields of a descriptor's second word: the length and two numbers, which are flags and the next
/// descriptor's number in a split ring, the buffer's name and flags in a packed one.
#[inline]
pub(super) fn fields(word: u64) -> (u32, u16, u16) {
    let word = u64::from_le(word);
    (word as u32, (word >> 32) as u16, (word >> 48) as u16)
}

/// Makes a descriptor's second word of its fields, see [`fields`].
#[inline]
pub(super) fn word_of(len: u32, first: u16, second: u16) -> u64 {
    (u64::from(len) | u64::from(first) << 32 | u64::from(second) << 48).to_le()
}

/// Adds the descriptors of an indirect table, each copied once. In a split ring they are a chain by
/// number, in a packed one they follow each other.
#[cold]
#[inline(never)]
pub(super) fn walk_table(
    memory: &Memory,
    access: Access,
    pieces: &mut Pieces,
    (at, len): (u64, u32),
    packed: bool,
) {
    let count = len as usize / DESCRIPTOR;
    if count == 0 || !(len as usize).is_multiple_of(DESCRIPTOR) || count > PIECES {
        return pieces.refuse();
    }
    let mut number = 0;
    for seen in 1..=count {
        let mut bytes = [0; DESCRIPTOR];
        if !memory.read(at.wrapping_add((number * DESCRIPTOR) as u64), &mut bytes) {
            return pieces.refuse();
        }
        let [a0, a1, a2, a3, a4, a5, a6, a7, rest @ ..] = bytes;
        let address = u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]);
        let (len, first, second) = fields(u64::from_ne_bytes(rest));
        let flags = if packed { second } else { first };
        if flags & INDIRECT != 0 {
            return pieces.refuse();
        }
        pieces.push(access, address, len, flags);
        if packed {
            number = seen;
            continue;
        }
        if flags & NEXT == 0 {
            return;
        }
        number = usize::from(second);
        if number >= count {
            return pieces.refuse();
        }
    }
    if !packed {
        // As many as there are, and another is to come: it goes round.
        pieces.refuse();
    }
}
