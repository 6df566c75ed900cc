//! Header kernels: steps on the first words of headers, of eight packets at once.
//!
//! A check of a header is some thirty instructions for a packet, and as many for eight once
//! the same word of all of them is in one vector. Steps are written for columns of eight in
//! plain Rust, and compiled for processors with AVX2 and for those without.

use std::array::from_fn;

use super::{
    Arena, PacketMut,
    header_cache::{AHEAD, Bases, Group, HEADER_WORDS, HeaderCache, PreservedFields},
};
use crate::{
    frame::{self, Frame},
    meta::Meta,
    processor::{BitWork, with_vectors},
    slot::Slot,
};

/// Packets that are looked at together.
pub const LANES: usize = 8;

/// A number of each of the eight packets.
pub type Column = [u32; LANES];

/// The first `N` words of a header of eight packets.
#[derive(Debug)]
pub struct HeaderBatch<const N: usize> {
    /// Each word of the eight packets, its first byte lowest.
    pub words: [Column; N],
    /// Bytes from the first of the header to the end of the packet: enough for the words.
    pub room: Column,
}

/// Start of the headers to process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderLocation {
    /// So many bytes behind the start of packets. The step may be the first to touch them: the
    /// first lines of packets and metadata are prefetched.
    Start(usize),
    /// The network header, as metadata says.
    Network,
}

/// Annotations for eight packets that were found sound.
#[derive(Debug)]
pub struct Annotations {
    /// Bytes from the start of the header to the end that the packet is to have.
    pub lengths: Column,
    /// Bytes of the header, which is the network header; the transport header is behind it.
    pub header: usize,
    /// The first four bytes of the destination annotation, the first one lowest.
    pub destinations: Option<Column>,
}

/// Something done to packets by the first `N` words of a header, of at most ten: to eight at once,
/// where they are like most packets, else to each by itself.
///
/// Words are taken from the [`HeaderCache`] where an element before has had to do with the same
/// header ([`HeaderLocation::Network`]), and left there for those behind.
///
/// Implementations say `#[inline(always)]`, or they are compiled for the oldest processor.
pub trait HeaderKernel<const N: usize> {
    /// Number of the first words that are left for the elements behind, among them all that are
    /// changed: other words need not be loaded where they are not looked at.
    const KEPT: usize = N;

    /// Output of a packet that leaves the frame.
    type Exit;
    /// Result of [`HeaderKernel::look`], for the calls that follow.
    type LookResult;

    /// Start of the headers.
    fn at(&self) -> HeaderLocation;

    /// Checks eight packets. A number other than zero in the column means that the packet is judged
    /// by itself. Words may be changed, to the values that [`HeaderKernel::finish`] then gives them
    /// in the packets.
    fn look(&self, heads: &mut HeaderBatch<N>) -> (Column, Self::LookResult);

    /// Annotations for packets that need not be judged by themselves.
    fn notes(&self, heads: &HeaderBatch<N>, found: &Self::LookResult) -> Option<Annotations> {
        let _ = (heads, found);
        None
    }

    /// Finishes one packet of the eight.
    fn finish(
        &mut self,
        heads: &HeaderBatch<N>,
        found: &Self::LookResult,
        lane: usize,
        packet: &mut HeaderLane<'_, N>,
    ) {
        let _ = (heads, found, lane, packet);
    }

    /// Judges a packet by itself and finishes it.
    fn judge(&mut self, packet: &mut PacketMut<'_>) -> Result<(), Self::Exit>;
}

/// A packet of eight that were looked at.
#[derive(Debug)]
pub struct HeaderLane<'a, const N: usize> {
    packet: PacketMut<'a>,
    words: &'a mut [[u8; 4]; N],
}

impl<const N: usize> HeaderLane<'_, N> {
    /// The words of its header.
    #[inline(always)]
    pub fn words(&mut self) -> &mut [[u8; 4]; N] {
        self.words
    }

    /// As [`PacketMut::pull`].
    #[inline(always)]
    pub fn pull(&mut self, count: usize) -> bool {
        self.packet.pull(count)
    }

    /// Metadata of the packet. Header places and the destination are set by
    /// [`HeaderKernel::notes`], not here.
    #[inline(always)]
    pub fn meta(&mut self) -> &mut Meta {
        self.packet.meta_mut()
    }
}

impl Arena {
    /// As [`Arena::retain_packets`], with a step that is taken with eight packets at once.
    #[inline]
    pub fn process_headers<const N: usize, S: HeaderKernel<N>>(
        &self,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
        step: &mut S,
        out: impl FnMut(usize, Slot, S::Exit),
    ) {
        const { assert!(N <= HEADER_WORDS && S::KEPT <= N) };
        if !header_cache.is_for(frame.len()) {
            if step.at() != HeaderLocation::Network {
                self.prefetch_packets(frame);
            }
            return self.retain_packets(frame, |packet| step.judge(packet), out);
        }
        with_vectors(HeaderPass { arena: self, frame, header_cache, step, out });
    }
}

struct HeaderPass<'a, S, O, const N: usize> {
    arena: &'a Arena,
    frame: &'a mut Frame,
    header_cache: &'a mut HeaderCache,
    step: &'a mut S,
    out: O,
}

impl<const N: usize, S: HeaderKernel<N>, O: FnMut(usize, Slot, S::Exit)> BitWork
    for HeaderPass<'_, S, O, N>
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let HeaderPass { arena, frame, header_cache, step, mut out } = self;
        let is_known = header_cache.is_of(&arena.inner, frame);
        let bases = arena.inner.bases();
        let mut guard = frame.begin_retain();
        let mut left = guard.slots().len();
        if !is_known {
            header_cache.begin(&arena.inner, left);
        }
        let has_words = is_known && header_cache.words >= N && step.at() == HeaderLocation::Network;
        let (mut any_left, mut any_alone, mut any_shared) = (false, false, false);
        let mut are_own = true;
        let mut noted = NotedFields { headers: false, destinations: false };
        let (mut ahead, eights) = (header_cache.groups.chunks_mut(AHEAD), guard.eights());
        for (turn, eights) in eights.chunks_mut(AHEAD).enumerate() {
            let Some(groups) = ahead.next() else { break };
            if !is_known {
                let mut bits = 0;
                for (slots, group) in eights.iter().zip(&mut *groups) {
                    bits |= group.find(&arena.inner, slots);
                }
                are_own = bits & !arena.inner.mask == 0;
                any_shared |= !are_own;
                if step.at() != HeaderLocation::Network {
                    groups.iter().take(eights.len()).for_each(|group| group.prefetch(bases));
                }
            }
            for (at, (slots, group)) in eights.iter_mut().zip(groups).enumerate() {
                let count = left.min(LANES);
                left -= count;
                // SAFETY: these are the slots whose packets were found, and all are the arena's and
                // without another holder.
                let alone = unsafe {
                    match (are_own, has_words) {
                        (false, _) => [1; LANES],
                        (true, true) => {
                            take::<N, true, S>(arena, group, step, slots, count, &mut noted)
                        }
                        (true, false) => {
                            take::<N, false, S>(arena, group, step, slots, count, &mut noted)
                        }
                    }
                };
                if !any(&alone) {
                    continue;
                }
                any_alone = true;
                for (lane, slot) in slots.iter_mut().enumerate().take(count) {
                    if alone[lane] == 0 {
                        continue;
                    }
                    let Some(mut packet) = arena.writable(slot) else { continue };
                    let judged = step.judge(&mut packet);
                    group.starts[lane] = bases.offset(packet.start());
                    if let Err(exit) = judged {
                        any_left = true;
                        out((turn * AHEAD + at) * LANES + lane, frame::leave(slot), exit);
                    }
                }
            }
        }
        guard.end(any_left);
        if any_left || any_shared {
            return;
        }
        if any_alone {
            header_cache.keep(PreservedFields::NOTHING);
        } else {
            header_cache.words = match step.at() {
                HeaderLocation::Network => header_cache.words.max(S::KEPT),
                HeaderLocation::Start(_) if noted.headers => S::KEPT,
                HeaderLocation::Start(_) => 0,
            };
            header_cache.has_destinations |= noted.destinations;
        }
        frame.set_header_cache(header_cache.number());
    }
}

/// Returns true if a number of the column is not zero.
#[inline(always)]
fn any(column: &Column) -> bool {
    *column != [0; LANES]
}

/// Annotations that a pass has set on all packets.
struct NotedFields {
    headers: bool,
    destinations: bool,
}

/// Takes the step with those of the first `count` of eight packets that it can be taken with
/// together; a number other than zero in the column says which are to be judged by themselves.
///
/// # Safety
///
/// The slots' buffers are the arena's and not shared, and the group has their places, which are
/// as many as are counted, and the last again. With `HAS_WORDS` it has `N` words of their network
/// headers, too.
#[inline(always)]
unsafe fn take<const N: usize, const HAS_WORDS: bool, S: HeaderKernel<N>>(
    arena: &Arena,
    group: &mut Group,
    step: &mut S,
    slots: &mut [Slot; LANES],
    count: usize,
    noted: &mut NotedFields,
) -> Column {
    let bases = arena.inner.bases();
    let Group { starts, metas, heads: places, marks, words: kept } = group;
    let mut heads = HeaderBatch { words: [[0; LANES]; N], room: [0; LANES] };
    let words = slots.each_ref().map(Slot::word);
    let lengths = words.map(|word| (word >> 48) as u32);
    // Bytes from the start of the packet to the header, below zero where it was stripped.
    let before: Column = match step.at() {
        HeaderLocation::Start(at) => [at.min(1 << 16) as u32; LANES],
        HeaderLocation::Network if HAS_WORDS => {
            from_fn(|lane| (places[lane] as u32).wrapping_sub(starts[lane] as u32))
        }
        // SAFETY: of packets that are the arena's.
        HeaderLocation::Network => from_fn(|lane| unsafe {
            let network = (*bases.meta_at(metas[lane])).network;
            network.index((words[lane] >> 32) as usize & 0xffff) as u32
        }),
    };
    let mut short = 0;
    for lane in 0..LANES {
        heads.room[lane] = lengths[lane].wrapping_sub(before[lane]);
        // The sign says that one is less than the other.
        short |= before[lane] | heads.room[lane].wrapping_sub(4 * N as u32);
    }
    if short >> 31 != 0 {
        return [1; LANES];
    }
    if HAS_WORDS {
        heads.words.copy_from_slice(&kept[..N]);
    } else {
        for lane in 0..LANES {
            places[lane] = starts[lane] + u64::from(before[lane]);
            // SAFETY: so many bytes are in each packet from there on, as was just seen; the packets
            // have no other holder and are borrowed here.
            let words = unsafe { &*bases.byte(places[lane]).cast::<[[u8; 4]; N]>() };
            for (column, word) in heads.words.iter_mut().zip(words) {
                column[lane] = u32::from_le_bytes(*word);
            }
        }
    }
    let (mut alone, found) = step.look(&mut heads);
    if count < LANES {
        alone[count..].fill(0);
    }
    kept[..S::KEPT].copy_from_slice(&heads.words[..S::KEPT]);
    let all = !any(&alone) && count == LANES;
    if let Some(notes) = step.notes(&heads, &found) {
        *noted = NotedFields { headers: true, destinations: notes.destinations.is_some() };
        mark(slots, &before, &notes, marks);
        if all {
            // SAFETY: metadata of these packets, which have no other holder.
            unsafe { note_all(bases, slots, metas, marks, &before, &notes) };
        } else {
            for (lane, slot) in slots.iter_mut().enumerate().take(count) {
                if alone[lane] == 0 {
                    // SAFETY: as above.
                    let meta = unsafe { &mut *bases.meta_at(metas[lane]) };
                    note(slot, meta, before[lane] as usize, &notes, lane);
                }
            }
        }
    }
    let mut finish = |lane: usize, slot: &mut Slot| {
        arena.track_used(slot.buffer);
        let place = (bases.byte(starts[lane]), bases.meta_at(metas[lane]));
        // SAFETY: as above; the packet is borrowed mutably, and `HeaderLane` gives its words or its
        // metadata, never its bytes beside them.
        let mut head = unsafe {
            let words = &mut *bases.byte(places[lane]).cast::<[[u8; 4]; N]>();
            HeaderLane { packet: PacketMut::at(arena, slot, place), words }
        };
        step.finish(&heads, &found, lane, &mut head);
        if head.packet.start() != place.0 {
            starts[lane] = bases.offset(head.packet.start());
        }
    };
    if all {
        slots.iter_mut().enumerate().for_each(|(lane, slot)| finish(lane, slot));
    } else {
        for (lane, slot) in slots.iter_mut().enumerate().take(count) {
            if alone[lane] == 0 {
                finish(lane, slot);
            }
        }
    }
    alone
}

/// Sets length, headers and destination of a packet whose header begins at `start`.
#[inline(always)]
fn note(slot: &mut Slot, meta: &mut Meta, start: usize, notes: &Annotations, lane: usize) {
    slot.truncate(start + notes.lengths[lane] as usize);
    meta.set_headers(slot.headroom(), start, start + notes.header);
    if let Some(destinations) = &notes.destinations {
        meta.destination[..4].copy_from_slice(&destinations[lane].to_le_bytes());
    }
}

/// Packs the header places and destinations of eight packets into a word for each.
#[inline(always)]
fn mark(slots: &[Slot; LANES], starts: &Column, notes: &Annotations, marks: &mut [u64; LANES]) {
    let words = slots.each_ref().map(Slot::word);
    let destinations = notes.destinations.unwrap_or([0; LANES]);
    for lane in 0..LANES {
        let network = (words[lane] >> 32 & 0xffff) + u64::from(starts[lane]);
        let places = network | (network + notes.header as u64) << 16;
        marks[lane] = places | u64::from(destinations[lane]) << 32;
    }
}

/// As [`note`] for eight packets, with the words to store in their metadata.
///
/// # Safety
///
/// The metadata is that of the slots, whose packets have no other holder.
#[inline(always)]
unsafe fn note_all(
    bases: Bases,
    slots: &mut [Slot; LANES],
    metas: &[u64; LANES],
    marks: &[u64; LANES],
    starts: &Column,
    notes: &Annotations,
) {
    let mut words = slots.each_ref().map(Slot::word);
    for lane in 0..LANES {
        let end = u64::from(starts[lane] + notes.lengths[lane]);
        let length = end.min(words[lane] >> 48);
        words[lane] = words[lane] & ((1 << 48) - 1) | length << 48;
    }
    for (slot, word) in slots.iter_mut().zip(words) {
        slot.set_word(word);
    }
    for lane in 0..LANES {
        // SAFETY: the caller's promise.
        let meta = unsafe { &mut *bases.meta_at(metas[lane]) };
        if notes.destinations.is_some() {
            meta.set_header_word(marks[lane]);
        } else {
            meta.set_header_pair(marks[lane] as u32);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::{HeaderCache, *};
    use crate::ArenaOptions;

    /// Adds one to the second word where the first is even, and sends odd ones away.
    struct Count {
        at: usize,
        together: usize,
    }

    impl HeaderKernel<2> for Count {
        type Exit = u32;
        type LookResult = Column;

        fn at(&self) -> HeaderLocation {
            HeaderLocation::Start(self.at)
        }

        fn look(&self, heads: &mut HeaderBatch<2>) -> (Column, Column) {
            heads.words[1] = heads.words[1].map(|word| word.wrapping_add(1));
            (heads.words[0].map(|word| word & 1), heads.room.map(|room| room - 4))
        }

        fn notes(&self, heads: &HeaderBatch<2>, lengths: &Column) -> Option<Annotations> {
            Some(Annotations { lengths: *lengths, header: 8, destinations: Some(heads.words[1]) })
        }

        fn finish(
            &mut self,
            heads: &HeaderBatch<2>,
            _: &Column,
            lane: usize,
            head: &mut HeaderLane<'_, 2>,
        ) {
            assert_eq!(u32::from_le_bytes(head.words()[0]), heads.words[0][lane]);
            head.words()[1] = heads.words[1][lane].to_le_bytes();
            head.meta().flow_hash = heads.room[lane];
            self.together += 1;
        }

        fn judge(&mut self, packet: &mut PacketMut<'_>) -> Result<(), u32> {
            let (at, length) = (self.at, packet.len());
            let (bytes, meta) = packet.parts();
            let Some(head) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<8>())
            else {
                return Err(u32::MAX);
            };
            let [first, second] = head.as_chunks_mut::<4>().0 else { return Err(u32::MAX) };
            let first = u32::from_le_bytes(*first);
            if first & 1 != 0 {
                return Err(first);
            }
            *second = u32::from_le_bytes(*second).wrapping_add(1).to_le_bytes();
            meta.flow_hash = (length - at) as u32;
            meta.destination[..4].copy_from_slice(second);
            packet.truncate(length - 4);
            packet.mark_headers(at, at + 8);
            Ok(())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

        /// Eight at once or one by one: packets, metadata, and the order of those that leave are
        /// equal, also with shared packets and packets of another arena between them.
        #[test]
        fn eight_at_once_are_as_one_by_one(
            packets in vec((0..40usize, proptest::num::u64::ANY, 0..64u8), 0..80), at in 0..6usize, usual: bool,
        ) {
            let arena = ArenaOptions { size: 1 << 19, ..Default::default() }.create().unwrap();
            let other = ArenaOptions { size: 1 << 18, ..Default::default() }.create().unwrap();
            let (mut pool, mut others) = (arena.cache(64), other.cache(64));
            let mut held = Frame::new(80);
            let mut frames = [(); 2].map(|()| {
                let mut frame = Frame::new(80);
                for &(length, bytes, kind) in &packets {
                    let length = if usual { length + 24 } else { length };
                    let foreign = !usual && kind == 0;
                    let (arena, pool) =
                        if foreign { (&other, &mut others) } else { (&arena, &mut pool) };
                    let mut slot = pool.take_one(length).unwrap();
                    let word = bytes.to_le_bytes();
                    for (at, byte) in arena.packet_mut(&mut slot).unwrap().iter_mut().enumerate() {
                        *byte = word[at % 8] & if usual && kind > 8 { 0xfe } else { 0xff };
                    }
                    arena.meta_mut(&mut slot).unwrap().reset();
                    if kind == 2 {
                        held.push(pool.share(&mut slot).unwrap()).unwrap();
                    }
                    frame.push(slot).unwrap();
                }
                frame
            });
            let mut left = [Vec::new(), Vec::new()];
            let [together, each] = &mut frames;
            let mut count = Count { at, together: 0 };
            let mut gone = Vec::new();
            let mut header_cache = HeaderCache::new(80);
            arena.process_headers(together, &mut header_cache, &mut count, |at, slot, exit| {
                left[0].push((at, exit, slot.len()));
                gone.push(slot);
            });
            if usual && packets.len() >= LANES && packets.iter().all(|packet| packet.2 > 8) {
                prop_assert_eq!(count.together, packets.len());
            }
            arena.retain_packets(each, |packet| count.judge(packet), |at, slot, exit| {
                left[1].push((at, exit, slot.len()));
                gone.push(slot);
            });
            prop_assert_eq!(&left[0], &left[1]);
            let [together, each] = &frames;
            prop_assert_eq!(together.len(), each.len());
            for (one, two) in together.slots().iter().zip(each.slots()) {
                prop_assert_eq!((one.len(), one.headroom()), (two.len(), two.headroom()));
                let arena = if arena.owns(one.buffer & !crate::slot::SHARED) { &arena } else { &other };
                prop_assert_eq!(arena.packet(one), arena.packet(two));
                prop_assert_eq!(arena.meta(one), arena.meta(two));
            }
            for slot in gone {
                pool.give_one(slot);
            }
            for mut frame in frames {
                frame.drain_front(frame.len(), |slot| {
                    let is_own = arena.owns(slot.buffer & !crate::slot::SHARED);
                    if is_own { pool.give_one(slot) } else { others.give_one(slot) }
                });
            }
            pool.give(&mut held);
        }
    }
}
