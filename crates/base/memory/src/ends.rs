//! Strip and unstrip of the front of all packets of a frame.
//!
//! Where a packet begins is in its slot, so a header that is taken off or put back in front of
//! all packets is arithmetic on the slots as words, a few instructions for four of them.

use crate::{
    frame::Frame,
    processor::{BitWork, with_vectors},
    slot::Slot,
};

/// Frames from here on are worth the call.
const SEVERAL: usize = 8;
/// Places of fields in a slot read as a word.
const OFFSET: u32 = 32;
const LENGTH: u32 = 48;

impl Frame {
    /// Takes so many bytes off the front of every packet, and all of those that have fewer.
    #[inline]
    pub fn strip(&mut self, count: usize) {
        let slots = self.slots_mut();
        if slots.len() < SEVERAL || cfg!(target_endian = "big") {
            for slot in slots {
                slot.pull(count.min(slot.len()));
            }
            return;
        }
        with_vectors(Strip { slots, count: count.min(usize::from(u16::MAX)) as u64 });
    }

    /// Puts so many bytes of its buffer back in front of every packet. `false`, changing nothing,
    /// when one has not as many in front of it.
    #[inline]
    pub fn unstrip(&mut self, count: usize) -> bool {
        let slots = self.slots_mut();
        let longest = usize::from(u16::MAX);
        if count > longest {
            return slots.is_empty();
        }
        if slots.len() < SEVERAL || cfg!(target_endian = "big") {
            let fits = |slot: &Slot| slot.headroom() >= count && slot.len() + count <= longest;
            let all_fit = slots.iter().all(fits);
            if all_fit {
                for slot in slots {
                    slot.push(count);
                }
            }
            return all_fit;
        }
        with_vectors(Unstrip { slots, count: count as u64 })
    }
}

/// Slots as words, their fields from the lowest bits on.
#[inline(always)]
fn words(slots: &mut [Slot]) -> &mut [u64] {
    let (start, count) = (slots.as_mut_ptr().cast::<u64>(), slots.len());
    // SAFETY: a slot is eight initialised bytes without padding, aligned like a word (asserted
    // where it is defined), and these are borrowed mutably. Words that are written are slots as
    // well: the functions of this module change offset and length as `Slot::pull` and
    // `Slot::push` do, and keep the buffer.
    unsafe { std::slice::from_raw_parts_mut(start, count) }
}

struct Strip<'a> {
    slots: &'a mut [Slot],
    count: u64,
}

impl BitWork for Strip<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for word in words(self.slots) {
            let taken = (*word >> LENGTH).min(self.count);
            *word = *word + (taken << OFFSET) - (taken << LENGTH);
        }
    }
}

struct Unstrip<'a> {
    slots: &'a mut [Slot],
    count: u64,
}

impl BitWork for Unstrip<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let (words, count) = (words(self.slots), self.count);
        let longest = u64::from(u16::MAX) - count;
        // The highest bit is set where a difference is below zero. Without an early end, which
        // would be a branch for each packet.
        let lacking = words.iter().fold(0, |lacking, word| {
            let (offset, length) = (*word >> OFFSET & 0xffff, *word >> LENGTH);
            lacking | offset.wrapping_sub(count) | longest.wrapping_sub(length)
        });
        if lacking >> 63 != 0 {
            return false;
        }
        for word in words {
            *word = *word - (count << OFFSET) + (count << LENGTH);
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::ArenaOptions;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

        /// As packet by packet, in frames of any length, and with packets that have no room.
        #[test]
        fn all_at_once_are_as_one_by_one(
            lengths in vec((0..60usize, 0..90usize), 0..40), strip in 0..100usize, unstrip in 0..200usize,
            far: bool,
        ) {
            let arena = ArenaOptions { size: 1 << 18, ..Default::default() }.create().unwrap();
            let mut pool = arena.cache(64);
            let mut frame = Frame::new(64);
            for &(length, pulled) in &lengths {
                let mut slot = pool.take_one(length + pulled).unwrap();
                slot.pull(pulled);
                frame.push(slot).unwrap();
            }
            let strip = if far { strip + 70_000 } else { strip };
            let places = |frame: &Frame| -> Vec<(usize, usize)> {
                frame.slots().iter().map(|slot| (slot.headroom(), slot.len())).collect()
            };
            let expected: Vec<_> = places(&frame).into_iter().map(|(headroom, length)| {
                let taken = length.min(strip);
                (headroom + taken, length - taken)
            }).collect();
            frame.strip(strip);
            prop_assert_eq!(places(&frame), expected.clone());
            let fits = expected.iter().all(|(headroom, _)| *headroom >= unstrip);
            prop_assert_eq!(frame.unstrip(unstrip), fits);
            let expected: Vec<_> = expected.into_iter().map(|(headroom, length)| {
                if fits { (headroom - unstrip, length + unstrip) } else { (headroom, length) }
            }).collect();
            prop_assert_eq!(places(&frame), expected);
            prop_assert!(frame.is_empty() || !frame.unstrip(70_000));
            pool.give(&mut frame);
            prop_assert_eq!(arena.accounting().held, 0);
        }
    }
}
