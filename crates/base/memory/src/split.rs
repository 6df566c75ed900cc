//! Splitting of a frame into several, by an output number per packet.

use std::{iter, ptr};

use crate::{
    frame::Frame,
    processor::{BitWork, with_vectors},
    slot::Slot,
};

/// Ways there can be.
const MOST: usize = 64;
/// Ways in use up to which each gets a pass over the frame of its own. That is four instructions
/// for a packet and no branch to be missed; with the ends of all ways in memory it is seven, and
/// each packet waits for the one before it that went the same way.
const PASSES: u32 = 3;

/// The ways of the packets of a frame, by number.
#[derive(Debug, Clone, Copy)]
pub struct OutputMap<'a> {
    ways: &'a [u32],
    /// A bit for each that is some packet's, the first one lowest: all of them, and no other.
    used: u64,
}

impl<'a> OutputMap<'a> {
    /// `None` when a number is 64 or more.
    #[inline]
    pub fn new(ways: &'a [u32]) -> Option<OutputMap<'a>> {
        let (used, numbers) = with_vectors(Used(ways));
        (numbers < MOST as u32).then_some(OutputMap { ways, used })
    }

    /// A bit for each way that is some packet's, the first one lowest.
    #[inline]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The ways in use, in the order of their first packets.
    #[inline]
    pub fn in_order(&self) -> impl Iterator<Item = usize> + use<'a> {
        let (mut left, mut ways) = (self.used, self.ways.iter());
        iter::from_fn(move || {
            let way = *ways.find(|way| left == 0 || left >> *way & 1 != 0)?;
            let is_left = left != 0;
            left &= !(1 << way);
            is_left.then_some(way as usize)
        })
    }
}

/// The bits of all ways, and of their numbers.
struct Used<'a>(&'a [u32]);

impl BitWork for Used<'_> {
    type Output = (u64, u32);

    #[inline(always)]
    fn run(self) -> (u64, u32) {
        self.0
            .iter()
            .fold((0, 0), |(used, numbers), way| (used | 1 << (way % MOST as u32), numbers | way))
    }
}

impl Frame {
    /// Moves each packet to the end of that one of `parts` which has the number of its way, in
    /// their order.
    ///
    /// # Panics
    ///
    /// When there are not as many ways as packets, and when a part that is some packet's way is
    /// not there or has no room for as many as there are in all. Packets that have not been
    /// moved then are lost.
    #[inline]
    pub fn split<F: AsMut<Frame>>(&mut self, ways: OutputMap<'_>, parts: &mut [F]) {
        let OutputMap { ways, used } = ways;
        assert!(ways.len() == self.len(), "{} ways for {} packets", ways.len(), self.len());
        let from = self.as_ptr();
        let count = self.take_len();
        let each_used = || {
            let mut left = used;
            iter::from_fn(move || {
                let way = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (way < MOST as u32).then_some(way)
            })
        };
        // Where the next packet goes by each way.
        let mut ends = [ptr::null_mut::<Slot>(); MOST];
        for way in each_used() {
            let spare = parts[way as usize].as_mut().spare();
            assert!(spare.len() >= count, "no room for {count} packets");
            ends[way as usize] = spare.as_mut_ptr().cast();
        }
        if used.count_ones() <= PASSES {
            for way in each_used() {
                let mut end = ends[way as usize];
                for (at, own) in ways.iter().enumerate() {
                    // SAFETY: `at` is below the number of packets the frame had, which it no longer
                    // counts; each is counted by one part, that of its way. A slot written behind a
                    // part's end is written over or never read, and is inside its spare slots: the
                    // end is at most `at` behind their start.
                    unsafe {
                        end.write(from.add(at).read());
                        end = end.add(usize::from(*own == way));
                    }
                }
                ends[way as usize] = end;
            }
        } else {
            for (at, way) in ways.iter().enumerate() {
                let end = &mut ends[*way as usize % MOST];
                // SAFETY: as above; `used` has the bits of all ways, so there is a part.
                unsafe {
                    end.write(from.add(at).read());
                    *end = end.add(1);
                }
            }
        }
        for way in each_used() {
            let part = parts[way as usize].as_mut();
            let spare: *mut Slot = part.spare().as_mut_ptr().cast();
            // SAFETY: both point into the part's slots, of which those up to the end are
            // initialised: one for each packet of this way.
            unsafe {
                let more = ends[way as usize].offset_from_unsigned(spare);
                part.grow(more);
            }
        }
    }
}

impl Frame {
    /// Moves the packets that `leaves` chooses by their places to the end of `others`; the rest
    /// stays, both in their order. Made for choices that a branch predictor misses: there is no
    /// branch on the choice.
    ///
    /// # Panics
    ///
    /// When `others` has no room for as many as there are in all. Packets that have not been moved
    /// then are lost.
    #[inline]
    pub fn partition(&mut self, leaves: impl Fn(usize) -> bool, others: &mut Frame) {
        let own = self.slots_mut().as_mut_ptr();
        let count = self.take_len();
        let spare = others.spare();
        assert!(spare.len() >= count, "no room for {count} packets");
        let other = spare.as_mut_ptr().cast::<Slot>();
        let (mut stayed, mut left) = (0, 0);
        for at in 0..count {
            // SAFETY: `at` is below the number of packets the frame had, which it no longer counts;
            // each is counted once, by the one of the two frames that gets it. `stayed <= at`, so
            // the slot written there has been read, and `left <= at`, below the spare slots of the
            // other.
            unsafe {
                let from = own.add(at);
                let leaves = leaves(at);
                other.add(left).write(from.read());
                own.add(stayed).write(from.read());
                left += usize::from(leaves);
                stayed += usize::from(!leaves);
            }
        }
        // SAFETY: so many were written at the front of each.
        unsafe {
            self.grow(stayed);
            others.grow(left);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::ArenaOptions;

    struct Part(Frame);

    impl AsMut<Frame> for Part {
        fn as_mut(&mut self) -> &mut Frame {
            &mut self.0
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

        /// Each packet comes to its part, behind those that were there, in order.
        #[test]
        fn every_packet_goes_its_way(
            ways in vec(0..64u32, 1..9)
                .prop_flat_map(|few| vec(proptest::sample::select(few), 0..100)),
            before in 0..3usize,
        ) {
            let arena = ArenaOptions { size: 1 << 19, ..Default::default() }.create().unwrap();
            let mut pool = arena.cache(64);
            let mut frame = Frame::new(100);
            let mut parts: Vec<Part> = (0..64).map(|_| Part(Frame::new(128))).collect();
            for part in &mut parts {
                (0..before).for_each(|_| part.0.push(pool.take_one(100).unwrap()).unwrap());
            }
            for at in 0..ways.len() {
                frame.push(pool.take_one(at).unwrap()).unwrap();
            }
            let known = OutputMap::new(&ways).unwrap();
            let mut order = Vec::new();
            for way in &ways {
                if !order.contains(&(*way as usize)) {
                    order.push(*way as usize);
                }
            }
            prop_assert_eq!(known.used(), order.iter().fold(0, |used, way| used | 1 << way));
            prop_assert_eq!(known.in_order().collect::<Vec<_>>(), order);
            frame.split(known, &mut parts);
            prop_assert!(frame.is_empty());
            for (way, part) in parts.iter_mut().enumerate() {
                let of_way = |at: &usize| ways[*at] as usize == way;
                let lengths: Vec<usize> = part.0.slots().iter().map(Slot::len).collect();
                let wanted = iter::repeat_n(100, before).chain((0..ways.len()).filter(of_way));
                prop_assert_eq!(lengths, wanted.collect::<Vec<_>>());
                pool.give(&mut part.0);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

        /// Packets that leave come behind those of `others`, packets that stay to the front, in
        /// order.
        #[test]
        fn those_chosen_leave(leave in vec(any::<bool>(), 0..100), before in 0..3usize) {
            let arena = ArenaOptions { size: 1 << 19, ..Default::default() }.create().unwrap();
            let mut pool = arena.cache(64);
            let (mut frame, mut others) = (Frame::new(100), Frame::new(128));
            (0..before).for_each(|_| others.push(pool.take_one(100).unwrap()).unwrap());
            (0..leave.len()).for_each(|at| frame.push(pool.take_one(at).unwrap()).unwrap());
            frame.partition(|at| leave[at], &mut others);
            let lengths = |frame: &Frame| frame.slots().iter().map(Slot::len).collect::<Vec<_>>();
            let (gone, stay): (Vec<_>, Vec<_>) = (0..leave.len()).partition(|at| leave[*at]);
            let wanted = iter::repeat_n(100, before).chain(gone);
            prop_assert_eq!(lengths(&others), wanted.collect::<Vec<_>>());
            prop_assert_eq!(lengths(&frame), stay);
            pool.give(&mut frame);
            pool.give(&mut others);
        }
    }

    #[test]
    fn numbers_have_an_end() {
        assert!(OutputMap::new(&[63, 0]).is_some());
        assert!(OutputMap::new(&[0, 64]).is_none());
        assert!(OutputMap::new(&[u32::MAX]).is_none());
        assert_eq!(OutputMap::new(&[]).unwrap().in_order().count(), 0);
    }

    /// After the panic frame and parts count no packets, and none is doubled.
    #[test]
    fn a_part_without_room_gets_none() {
        let arena = ArenaOptions { size: 1 << 19, ..Default::default() }.create().unwrap();
        let mut pool = arena.cache(64);
        let mut frame = Frame::new(4);
        (0..4).for_each(|at| frame.push(pool.take_one(at).unwrap()).unwrap());
        let mut parts = [Part(Frame::new(4)), Part(Frame::new(3))];
        let parting = std::panic::AssertUnwindSafe(|| {
            frame.split(OutputMap::new(&[0, 1, 1, 0]).unwrap(), &mut parts);
        });
        assert!(std::panic::catch_unwind(parting).is_err());
        assert!(frame.is_empty() && parts[0].0.is_empty() && parts[1].0.is_empty());
    }
}
