//! The first words of headers, for steps that are taken with eight packets at once.
//!
//! A check of a header is some thirty instructions for a packet, and as many for eight once
//! the same word of all of them is in one vector. Steps are written for columns of eight in
//! plain Rust, and compiled for processors with AVX2 and for those without.

use super::{
    Arena, PacketMut,
    places::{BATCH, Places},
};
use crate::{
    frame::{self, Frame},
    meta::Meta,
    processor::{BitWork, with_vectors},
    slot::Slot,
};

/// Packets that are looked at together.
pub const LANES: usize = 8;

/// One number of each of them.
pub type Column = [u32; LANES];

/// The first `N` words of a header of eight packets.
#[derive(Debug)]
pub struct Heads<const N: usize> {
    /// The same word of each, its first byte lowest.
    pub words: [Column; N],
    /// Bytes from the first of the header to the end of the packet: enough for the words.
    pub room: Column,
}

/// Something done to packets by the first `N` words of a header: to eight at once, where
/// they are like most packets, else to each by itself.
///
/// Implementations say `#[inline(always)]`, or they are compiled for the oldest processor.
pub trait HeadStep<const N: usize> {
    /// Where a packet goes that does not stay.
    type Exit;
    /// What [`HeadStep::look`] found, for [`HeadStep::finish`].
    type Found;

    /// Where headers begin, in bytes from the start of a packet.
    fn at(&self) -> usize;

    /// Looks at eight. A number other than zero in the column says that the packet is to be
    /// judged by itself.
    fn look(&self, heads: &Heads<N>) -> (Column, Self::Found);

    /// Does to one of them what follows.
    fn finish(
        &mut self,
        heads: &Heads<N>,
        found: &Self::Found,
        lane: usize,
        packet: &mut Head<'_, N>,
    );

    /// Judges a packet by itself, and does what follows.
    fn judge(&mut self, packet: &mut PacketMut<'_>) -> Result<(), Self::Exit>;
}

/// A packet of eight that were looked at.
#[derive(Debug)]
pub struct Head<'a, const N: usize> {
    packet: PacketMut<'a>,
    words: &'a mut [[u8; 4]; N],
}

impl<const N: usize> Head<'_, N> {
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

    /// As [`PacketMut::truncate`].
    #[inline(always)]
    pub fn truncate(&mut self, length: usize) {
        self.packet.truncate(length);
    }

    /// As [`PacketMut::mark_headers`].
    #[inline(always)]
    pub fn mark_headers(&mut self, network: usize, transport: usize) {
        self.packet.mark_headers(network, transport);
    }

    /// What is known about the packet.
    #[inline(always)]
    pub fn meta(&mut self) -> &mut Meta {
        self.packet.meta_mut()
    }
}

impl Arena {
    /// As [`Arena::sift_packets`], with a step that is taken with eight packets at once. Whoever
    /// looks at heads is mostly the first to touch packets: their first lines and those of
    /// their metadata are asked for ahead.
    #[inline]
    pub fn sift_heads<const N: usize, S: HeadStep<N>>(
        &self,
        frame: &mut Frame,
        step: &mut S,
        out: impl FnMut(usize, Slot, S::Exit),
    ) {
        if frame.len() < LANES {
            self.prefetch_packets(frame);
            return self.sift_packets(frame, |packet| step.judge(packet), out);
        }
        with_vectors(Sifting { arena: self, frame, step, out });
    }
}

impl Arena {
    /// Calls `each` with the words at these offsets from the start of packets, and with which
    /// of them are there: for eight packets at a time, as this machine reads them. Where
    /// there is none it is zero.
    ///
    /// # Panics
    ///
    /// When a packet belongs to another arena.
    #[inline]
    pub fn gather<const N: usize>(
        &self,
        frame: &Frame,
        offsets: [usize; N],
        each: impl FnMut(&[Column; N], [bool; LANES]),
    ) {
        with_vectors(Gather { arena: self, frame, offsets, each });
    }
}

struct Gather<'a, E, const N: usize> {
    arena: &'a Arena,
    frame: &'a Frame,
    offsets: [usize; N],
    each: E,
}

impl<const N: usize, E: FnMut(&[Column; N], [bool; LANES])> BitWork for Gather<'_, E, N> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Gather { arena, frame, offsets, mut each } = self;
        let end = offsets.iter().max().map_or(0, |last| last.saturating_add(4));
        let mut places = Places::none();
        for slots in frame.slots().chunks(BATCH) {
            places.find_readable(&arena.inner, slots);
            places.prefetch_starts();
            for (group, slots) in slots.chunks(LANES).enumerate() {
                let mut words = [[0; LANES]; N];
                let mut whole = [true; LANES];
                let is_short = slots.iter().fold(false, |any, slot| any | (slot.len() < end));
                if is_short || slots.len() < LANES {
                    for (lane, slot) in slots.iter().enumerate() {
                        for (column, offset) in words.iter_mut().zip(offsets) {
                            let word = arena.packet(slot).get(offset..);
                            let word = word.and_then(|rest| rest.first_chunk());
                            whole[lane] &= word.is_some();
                            column[lane] = word.map_or(0, |word| u32::from_ne_bytes(*word));
                        }
                    }
                } else {
                    for lane in 0..LANES {
                        // SAFETY: of these eight slots and found, as long as `end` says.
                        let start = unsafe { places.get(group * LANES + lane).0 };
                        for (column, offset) in words.iter_mut().zip(offsets) {
                            // SAFETY: in the packet, by that, and borrowed with the frame.
                            let word = unsafe { start.add(offset).cast::<[u8; 4]>().read() };
                            column[lane] = u32::from_ne_bytes(word);
                        }
                    }
                }
                each(&words, whole);
            }
        }
    }
}

struct Sifting<'a, S, O, const N: usize> {
    arena: &'a Arena,
    frame: &'a mut Frame,
    step: &'a mut S,
    out: O,
}

impl<const N: usize, S: HeadStep<N>, O: FnMut(usize, Slot, S::Exit)> BitWork
    for Sifting<'_, S, O, N>
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Sifting { arena, frame, step, mut out } = self;
        let mut places = Places::none();
        let mut sift = frame.begin_sift();
        let mut any_left = false;
        for (batch, slots) in sift.slots().chunks_mut(BATCH).enumerate() {
            let own = places.find(&arena.inner, slots);
            places.prefetch();
            for (group, slots) in slots.chunks_mut(LANES).enumerate() {
                let first = group * LANES;
                let left = match <&mut [Slot; LANES]>::try_from(&mut *slots) {
                    // SAFETY: these are the slots from `first` on of those whose places were
                    // found, and all are the arena's and held by nobody else.
                    Ok(slots) if own => unsafe {
                        take(arena, step, slots, |lane| places.get(first + lane))
                    },
                    _ => [1; LANES],
                };
                if left == [0; LANES] {
                    continue;
                }
                for (lane, (slot, left)) in slots.iter_mut().zip(left).enumerate() {
                    if left == 0 {
                        continue;
                    }
                    let Some(mut packet) = arena.writable(slot) else { continue };
                    if let Err(exit) = step.judge(&mut packet) {
                        any_left = true;
                        out(batch * BATCH + first + lane, frame::leave(slot), exit);
                    }
                }
            }
        }
        sift.end(any_left);
    }
}

/// Takes the step with those of eight packets that it can be taken with together; a number
/// other than zero in the column says which are left.
///
/// # Safety
///
/// The slots' buffers are the arena's and not shared, and `place` gives their places.
#[inline(always)]
unsafe fn take<const N: usize, S: HeadStep<N>>(
    arena: &Arena,
    step: &mut S,
    slots: &mut [Slot; LANES],
    place: impl Fn(usize) -> (*mut u8, *mut Meta),
) -> Column {
    let mut heads = Heads { words: [[0; LANES]; N], room: [0; LANES] };
    let at = step.at();
    let mut any_short = false;
    for (room, slot) in heads.room.iter_mut().zip(slots.iter()) {
        any_short |= slot.len() < at.saturating_add(4 * N);
        *room = (slot.len() as u32).wrapping_sub(at as u32);
    }
    if any_short {
        return [1; LANES];
    }
    // So many bytes are in each packet from there on, as was just seen.
    let words = |lane: usize| place(lane).0.wrapping_add(at).cast::<[[u8; 4]; N]>();
    for lane in 0..LANES {
        // SAFETY: as said; nobody else holds the packet, and it is borrowed here.
        let words = unsafe { &*words(lane) };
        for (column, word) in heads.words.iter_mut().zip(words) {
            column[lane] = u32::from_le_bytes(*word);
        }
    }
    let (left, found) = step.look(&heads);
    let mut finish = |lane: usize, slot: &mut Slot| {
        arena.track_used(slot.buffer);
        // SAFETY: as above; the packet is borrowed mutably, and `Head` gives its words or what
        // is known about it, never its bytes beside them.
        let mut head = unsafe {
            Head { packet: PacketMut::at(arena, slot, place(lane)), words: &mut *words(lane) }
        };
        step.finish(&heads, &found, lane, &mut head);
    };
    let lanes = slots.iter_mut().enumerate();
    if left == [0; LANES] {
        lanes.for_each(|(lane, slot)| finish(lane, slot));
    } else {
        lanes.filter(|(lane, _)| left[*lane] == 0).for_each(|(lane, slot)| finish(lane, slot));
    }
    left
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::ArenaOptions;

    /// Adds one to the second word where the first is even, and sends odd ones away.
    struct Count {
        at: usize,
        together: usize,
    }

    impl HeadStep<2> for Count {
        type Exit = u32;
        type Found = Column;

        fn at(&self) -> usize {
            self.at
        }

        fn look(&self, heads: &Heads<2>) -> (Column, Column) {
            (heads.words[0].map(|word| word & 1), heads.words[1].map(|word| word.wrapping_add(1)))
        }

        fn finish(&mut self, heads: &Heads<2>, more: &Column, lane: usize, head: &mut Head<'_, 2>) {
            assert_eq!(u32::from_le_bytes(head.words()[0]), heads.words[0][lane]);
            head.words()[1] = more[lane].to_le_bytes();
            head.meta().flow_hash = heads.room[lane];
            head.truncate(heads.room[lane] as usize);
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
            packet.truncate(length - at);
            Ok(())
        }
    }

    #[test]
    fn words_are_gathered_where_they_are() {
        let arena = ArenaOptions { size: 1 << 18, ..Default::default() }.create().unwrap();
        let mut pool = arena.cache(64);
        let mut frame = Frame::new(64);
        for count in 0..=50usize {
            for shortest in [0, 5, 9, 20] {
                let mut shared = Frame::new(64);
                for at in 0..count {
                    let length = if at % 11 == 3 { shortest } else { 20 + at % 3 };
                    let mut slot = pool.take_one(length).unwrap();
                    let bytes = arena.packet_mut(&mut slot).unwrap();
                    bytes.iter_mut().enumerate().for_each(|(n, byte)| *byte = (at + 7 * n) as u8);
                    if at % 7 == 1 {
                        shared.push(pool.share(&mut slot).unwrap()).unwrap();
                    }
                    frame.push(slot).unwrap();
                }
                let word = |slot: &Slot, offset: usize| {
                    let word = arena.packet(slot).get(offset..)?.first_chunk()?;
                    Some(u32::from_ne_bytes(*word))
                };
                let mut groups = frame.slots().chunks(LANES);
                arena.gather(&frame, [9, 1], |columns, whole| {
                    let slots = groups.next().unwrap();
                    for (lane, slot) in slots.iter().enumerate() {
                        let words = [9, 1].map(|offset| word(slot, offset));
                        assert_eq!(
                            columns.map(|column| column[lane]),
                            words.map(Option::unwrap_or_default)
                        );
                        assert_eq!(whole[lane], words.iter().all(Option::is_some));
                    }
                });
                assert!(groups.next().is_none());
                pool.give(&mut frame);
                pool.give(&mut shared);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

        /// Eight at once or one by one: packets, what is known about them, who leaves and in
        /// which order are the same, with shared packets between them
        /// and those of another arena.
        #[test]
        fn eight_at_once_are_as_one_by_one(
            packets in vec((0..40usize, any::<u64>(), 0..64u8), 0..80), at in 0..6usize, usual: bool,
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
            arena.sift_heads(together, &mut count, |at, slot, exit| {
                left[0].push((at, exit, slot.len()));
                gone.push(slot);
            });
            if usual && packets.len() >= LANES && packets.iter().all(|packet| packet.2 > 8) {
                prop_assert_eq!(count.together, packets.len() / LANES * LANES);
            }
            arena.sift_packets(each, |packet| count.judge(packet), |at, slot, exit| {
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
