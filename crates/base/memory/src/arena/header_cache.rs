//! Header cache per frame: places and header words of its packets, for the elements behind.
//!
//! Elements one behind the other go over the same frame. Each would find anew the addresses of the
//! packets, and load the same words of their headers again. A worker has one [`HeaderCache`] for
//! all of them, of the frame that was gone over last: the addresses of its packets and of their
//! metadata, and, where a pass read headers, their first words and the destinations, in columns of
//! eight packets.
//!
//! A frame has the number of the header cache that is of it. Code that takes packets out of a
//! frame, or passes one on for writing, needs `&mut` to its slots, and that makes the frame forget
//! the number ([`Frame`]). So no caller has to invalidate a header cache, and elements that do not
//! use header caches pay a store per frame.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use super::{
    Arena, Inner,
    header_kernel::{Column, LANES},
};
use crate::{
    frame::Frame,
    meta::Meta,
    prefetch::prefetch_address,
    processor::{BitWork, with_vectors},
    slot::Slot,
};

/// Words of a header that are kept: those of IPv6.
pub(super) const HEADER_WORDS: usize = 10;

/// Groups whose lines are asked for together: enough to cover a miss, and few enough to stay
/// in the first cache until they are looked at.
pub(super) const AHEAD: usize = 4;

/// Numbers of header caches are handed out so many at a time.
const NUMBERS: u64 = 1 << 20;
static NEXT_NUMBERS: AtomicU64 = AtomicU64::new(NUMBERS);

/// Header cache of the frame that a worker has gone over last.
///
/// Places are those of the frame with the number of this header cache, whose packets are all of one
/// arena, not shared, and as many as `count`: that holds while the frame has the number. Lanes
/// behind `count` in the last group are meaningless.
pub struct HeaderCache {
    pub(super) groups: Vec<Group>,
    /// Addresses of the packets of a frame without this header cache's number, a few at a time.
    pub(super) run: Box<Group>,
    /// Words that are known of all network headers.
    pub(super) words: usize,
    /// Whether destinations are known.
    pub(super) has_destinations: bool,
    /// Packets of the frame.
    count: usize,
    /// The arena's.
    tag: u32,
    /// The number that the frame has; zero for none.
    number: u64,
    is_on: bool,
}

/// Cached places and words of eight adjacent packets.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Group {
    /// Start of each packet, in bytes from the first buffer.
    pub(super) starts: [u64; LANES],
    /// Metadata of each packet, in bytes from the first.
    pub(super) metas: [u64; LANES],
    /// Network header of each packet, in bytes from the first buffer, as long as words of it are
    /// known: those are in the buffer from there on.
    pub(super) heads: [u64; LANES],
    /// In the upper half the first four bytes of its destination annotation, the first one
    /// lowest. Below, where its headers were when that was noted.
    pub(super) marks: [u64; LANES],
    /// The first words of that header, likewise.
    pub(super) words: [Column; HEADER_WORDS],
}

impl Group {
    pub(super) const NONE: Group = Group {
        starts: [0; LANES],
        metas: [0; LANES],
        heads: [0; LANES],
        marks: [0; LANES],
        words: [[0; LANES]; HEADER_WORDS],
    };

    /// Finds the packets of eight slots. Returns all bits that are set in one of their buffer
    /// words without the arena's tag: beyond its mask where one is shared or another arena's.
    #[inline(always)]
    pub(super) fn find(&mut self, arena: &Inner, slots: &[Slot; LANES]) -> u32 {
        let Inner { tag, stride, mask, .. } = *arena;
        let words = slots.each_ref().map(Slot::word);
        // The compiler vectorises this: two multiplications and ten instructions more for four
        // packets, where one by one it is eight for each.
        let numbers = words.map(|word| (word ^ u64::from(tag)) & u64::from(u32::MAX));
        let indices = numbers.map(|number| number & u64::from(mask));
        for lane in 0..LANES {
            let at = indices[lane] * u64::from(stride);
            self.starts[lane] = at + (words[lane] >> 32 & 0xffff);
        }
        self.metas = indices.map(|index| index * size_of::<Meta>() as u64);
        numbers.iter().fold(0, |bits, number| bits | *number) as u32
    }

    /// Finds the packets of slots up to the first that has no index, eight at most. Returns how
    /// many those are, and with the one that has none if there is one.
    #[inline(always)]
    pub(super) fn find_run(
        &mut self,
        arena: &Inner,
        slots: &[Slot],
        index: impl Fn(&Slot) -> Option<u32>,
    ) -> (usize, usize) {
        for (lane, slot) in slots.iter().take(LANES).enumerate() {
            let Some(index) = index(slot) else { return (lane, lane + 1) };
            let at = u64::from(index) * u64::from(arena.stride);
            self.starts[lane] = at + slot.headroom() as u64;
            self.metas[lane] = u64::from(index) * size_of::<Meta>() as u64;
        }
        let len = slots.len().min(LANES);
        (len, len)
    }

    /// Asks for the first lines of packets.
    #[inline(always)]
    pub(super) fn prefetch_starts(&self, bases: Bases) {
        self.starts.iter().for_each(|start| prefetch_address(bases.byte(*start)));
    }

    /// Prefetches the first lines of packets and of their metadata.
    #[inline(always)]
    pub(super) fn prefetch(&self, bases: Bases) {
        for lane in 0..LANES {
            let (start, meta) = self.place(bases, lane);
            prefetch_address(start);
            prefetch_address(meta.cast());
        }
    }

    /// The addresses of a packet and of its metadata.
    #[inline(always)]
    pub(super) fn place(&self, bases: Bases, lane: usize) -> (*mut u8, *mut Meta) {
        (bases.byte(self.starts[lane]), bases.meta_at(self.metas[lane]))
    }
}

/// Addresses of an arena's buffers and of their metadata: a copy for a loop that writes to packets,
/// after every one of which the compiler would load the arena's again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bases {
    buffers: *mut u8,
    metas: *mut Meta,
}

impl Inner {
    #[inline(always)]
    pub(super) fn bases(&self) -> Bases {
        Bases { buffers: self.buffers.as_ptr(), metas: self.meta.as_ptr() }
    }
}

impl Bases {
    /// The address so many bytes behind the first buffer.
    #[inline(always)]
    pub(super) fn byte(self, at: u64) -> *mut u8 {
        self.buffers.wrapping_add(at as usize)
    }

    /// Offset of an address from the first buffer, in bytes.
    #[inline(always)]
    pub(super) fn offset(self, address: *mut u8) -> u64 {
        (address as usize).wrapping_sub(self.buffers as usize) as u64
    }

    /// The metadata so many bytes behind the first.
    #[inline(always)]
    pub(super) fn meta_at(self, at: u64) -> *mut Meta {
        self.metas.wrapping_byte_add(at as usize)
    }
}

/// Parts of a frame's header cache that are still true behind a pass that wrote to its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreservedFields {
    /// The bytes of network headers, and the annotations with the places of headers.
    pub headers: bool,
    /// The destination annotation.
    pub destination: bool,
}

impl PreservedFields {
    /// Nothing.
    pub const NOTHING: PreservedFields = PreservedFields { headers: false, destination: false };
    /// All but the destination annotation, where a pass writes that.
    pub const HEADERS: PreservedFields = PreservedFields { headers: true, destination: false };
    /// All that header caches know.
    pub const ALL: PreservedFields = PreservedFields { headers: true, destination: true };
}

impl HeaderCache {
    /// A header cache for frames of at most `limit` packets; longer ones are gone over without.
    pub fn new(limit: usize) -> HeaderCache {
        HeaderCache {
            groups: vec![Group::NONE; limit.div_ceil(LANES)],
            run: Box::new(Group::NONE),
            words: 0,
            has_destinations: false,
            count: 0,
            tag: 0,
            number: 0,
            is_on: true,
        }
    }

    /// A header cache that stays empty: every pass looks up packets and headers by itself.
    pub fn off() -> HeaderCache {
        HeaderCache { is_on: false, ..HeaderCache::new(1) }
    }

    /// Returns true if a frame of so many packets is gone over with a header cache. Fewer than
    /// eight are sooner gone over one by one.
    #[inline(always)]
    pub(super) fn is_for(&self, packets: usize) -> bool {
        packets >= LANES && packets <= self.groups.len() * LANES && self.is_on
    }

    /// Returns true if the header cache is of this frame of packets of this arena. Then its packets
    /// are the arena's and not shared, and as many as there are addresses.
    #[inline(always)]
    pub(super) fn is_of(&self, arena: &Inner, frame: &Frame) -> bool {
        let is_same = frame.header_cache() == self.number && frame.len() == self.count;
        is_same && self.number != 0 && self.tag == arena.tag
    }

    /// From now on it is of another frame, or of none yet.
    #[inline(always)]
    pub(super) fn begin(&mut self, arena: &Inner, count: usize) {
        self.number += 1;
        if self.number.is_multiple_of(NUMBERS) || self.number == 1 {
            self.renumber();
        }
        (self.count, self.tag) = (count, arena.tag);
        (self.words, self.has_destinations) = (0, false);
    }

    /// Numbers that no header cache has had.
    #[cold]
    fn renumber(&mut self) {
        self.number = NEXT_NUMBERS.fetch_add(NUMBERS, Relaxed) + 1;
    }

    /// The number for the frame it is of.
    #[inline(always)]
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Finds the packets of a frame if that has not been done. `false` when it cannot be of this
    /// frame: it is short, or a packet is shared or another arena's.
    #[inline]
    pub(super) fn fill(&mut self, arena: &Inner, frame: &mut Frame) -> bool {
        if self.is_of(arena, frame) {
            return true;
        }
        if !self.is_for(frame.len()) {
            return false;
        }
        self.begin(arena, frame.len());
        let are_own = with_vectors(Finding { arena, frame, groups: &mut self.groups });
        frame.set_header_cache(if are_own { self.number } else { 0 });
        are_own
    }

    /// Forgets the cached fields that a pass does not preserve.
    #[inline(always)]
    pub(super) fn keep(&mut self, preserved: PreservedFields) {
        if !preserved.headers {
            self.words = 0;
        }
        self.has_destinations &= preserved.destination;
    }

    /// The first four bytes of the destination annotations of all packets of a frame, by eight, the
    /// first byte lowest, if they are known without a look at the packets. Lanes behind the last
    /// packet are meaningless.
    #[inline]
    pub fn destinations(
        &self,
        arena: &Arena,
        frame: &Frame,
    ) -> Option<impl Iterator<Item = Column>> {
        let is_known = self.has_destinations && self.is_of(&arena.inner, frame);
        is_known
            .then(|| self.groups.iter().map(|group| group.marks.map(|mark| (mark >> 32) as u32)))
    }
}

struct Finding<'a> {
    arena: &'a Inner,
    frame: &'a mut Frame,
    groups: &'a mut [Group],
}

impl BitWork for Finding<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Finding { arena, frame, groups } = self;
        let mut guard = frame.begin_retain();
        let mut bits = 0;
        for (slots, group) in guard.eights().iter().zip(groups) {
            bits |= group.find(arena, slots);
        }
        guard.end(false);
        bits & !arena.mask == 0
    }
}

impl fmt::Debug for HeaderCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderCache")
            .field("count", &self.count)
            .field("words", &self.words)
            .field("has_destinations", &self.has_destinations)
            .field("is_on", &self.is_on)
            .finish_non_exhaustive()
    }
}
