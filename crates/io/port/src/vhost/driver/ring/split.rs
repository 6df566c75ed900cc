//! A split queue of ours ([format](crate::vhost::split)).

use std::sync::atomic::{Ordering, fence};

use super::{Numbers, Ring, Used};
use crate::vhost::{
    queue::{Fault, NEXT, Piece, is_due, word_of},
    split::{SILENT, SplitAreas},
};

/// No descriptor: queues have 32,768 at most.
const NONE: u16 = u16::MAX;

/// A split queue as the driver has it: a buffer's number is that of its first descriptor.
#[derive(Debug)]
pub(in super::super) struct SplitRing {
    areas: SplitAreas,
    event_index: bool,
    numbers: Numbers,
    /// The second descriptor of a buffer with two, by its number.
    second: Box<[u16]>,
    /// The next place of the available ring to write.
    next: u16,
    /// Index that the device has been told of.
    published: u16,
    /// The next place of the used ring to take.
    seen: u16,
    /// Up to where buffers are known to be used.
    end: u16,
}

impl SplitRing {
    pub(in super::super) fn new(areas: SplitAreas, event_index: bool) -> SplitRing {
        let size = areas.mask() + 1;
        let mut ring = SplitRing {
            areas,
            event_index,
            numbers: Numbers::new(size),
            second: vec![NONE; size.into()].into(),
            next: 0,
            published: 0,
            seen: 0,
            end: 0,
        };
        ring.disarm();
        ring
    }

    /// Up to where buffers are used now.
    #[inline]
    fn theirs(&self) -> Result<u16, Fault> {
        // Acquire: pairs with the device's release behind its writes.
        let index = u16::from_le(self.areas.used_index().load(Ordering::Acquire));
        let most = self.published.wrapping_sub(self.seen);
        if index.wrapping_sub(self.seen) <= most { Ok(index) } else { Err(Fault::Index) }
    }

    /// Describes a buffer, unless the descriptor is there already: for buffers that have their
    /// number for good it mostly is, and the line then stays with both.
    #[inline]
    fn describe(&self, number: u16, piece: Piece, flags: u16, next: u16) {
        let at = 2 * usize::from(number);
        let words = &self.areas.descriptors()[at..at + 2];
        let values = [piece.at.to_le(), word_of(piece.len, flags, next)];
        for (word, value) in words.iter().zip(values) {
            if word.load(Ordering::Relaxed) != value {
                word.store(value, Ordering::Relaxed);
            }
        }
    }
}

impl Ring for SplitRing {
    fn size(&self) -> u16 {
        self.areas.mask() + 1
    }

    #[inline]
    fn room(&self) -> usize {
        self.numbers.room()
    }

    #[inline]
    fn outstanding(&self) -> usize {
        usize::from(self.next.wrapping_sub(self.seen))
    }

    #[inline]
    fn vacant(&self, ahead: usize) -> Option<u16> {
        self.numbers.vacant(ahead)
    }

    #[inline]
    fn offer(&mut self, pieces: &[Piece], flags: u16) {
        let number = self.numbers.give(pieces.len() as u8);
        if let [first, second] = pieces {
            let other = self.numbers.pop();
            self.second[usize::from(number)] = other;
            self.describe(number, *first, flags | NEXT, other);
            self.describe(other, *second, flags, 0);
        } else {
            self.describe(number, pieces[0], flags, 0);
        }
        let place = &self.areas.available()[2 + usize::from(self.next & self.areas.mask())];
        // With numbers in order it is there already, as in `describe`.
        if place.load(Ordering::Relaxed) != number.to_le() {
            place.store(number.to_le(), Ordering::Relaxed);
        }
        self.next = self.next.wrapping_add(1);
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let (new, old) = (self.next, self.published);
        if new == old {
            return false;
        }
        // Release: behind the buffers, and their descriptors.
        self.areas.available()[1].store(new.to_le(), Ordering::Release);
        self.published = new;
        // Pairs with the device's fence between the event it wants and its last look.
        fence(Ordering::SeqCst);
        if self.event_index {
            let event = u16::from_le(self.areas.available_event().load(Ordering::Relaxed));
            is_due(event, new, old)
        } else {
            u16::from_le(self.areas.used_flags().load(Ordering::Relaxed)) & SILENT == 0
        }
    }

    #[inline]
    fn used(&self, most: usize) -> Result<usize, Fault> {
        Ok(usize::from(self.theirs()?.wrapping_sub(self.seen)).min(most))
    }

    #[inline]
    fn take(&mut self, list: &mut [Used]) -> Result<usize, Fault> {
        if usize::from(self.end.wrapping_sub(self.seen)) < list.len() {
            self.end = self.theirs()?;
        }
        let most = usize::from(self.end.wrapping_sub(self.seen)).min(list.len());
        for (count, used) in list[..most].iter_mut().enumerate() {
            let at = 2 * usize::from(self.seen & self.areas.mask());
            let place = &self.areas.used_places()[at..at + 2];
            let [number, written] =
                [0, 1].map(|word| u32::from_le(place[word].load(Ordering::Relaxed)));
            if self.numbers.take(number).is_none() {
                return if count > 0 { Ok(count) } else { Err(Fault::Descriptor) };
            }
            self.seen = self.seen.wrapping_add(1);
            *used = Used { number: number as u16, written };
        }
        Ok(most)
    }

    #[inline]
    fn release(&mut self, number: u16) {
        self.numbers.release(number);
        let second = std::mem::replace(&mut self.second[usize::from(number)], NONE);
        if second != NONE {
            self.numbers.release(second);
        }
    }

    fn arm(&mut self) {
        if self.event_index {
            self.areas.used_event().store(self.seen.to_le(), Ordering::Relaxed);
        } else {
            self.areas.available()[0].store(0, Ordering::Relaxed);
        }
    }

    #[inline]
    fn disarm(&mut self) {
        if self.event_index {
            // As far behind as can be: it comes by once in 65,536 buffers.
            let passed = self.seen.wrapping_sub(1 << 15);
            self.areas.used_event().store(passed.to_le(), Ordering::Relaxed);
        } else {
            self.areas.available()[0].store(SILENT.to_le(), Ordering::Relaxed);
        }
    }
}
