//! A packed queue of ours ([format](crate::vhost::packed)).

use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::{Numbers, Ring, Used};
use crate::vhost::{
    packed::{AVAILABLE, PackedAreas, Position, USED, event_at, event_off, needs_event},
    queue::{Fault, NEXT, Piece, fields, word_of},
};

/// A packed queue as the driver has it.
#[derive(Debug)]
pub(in super::super) struct PackedRing {
    areas: PackedAreas,
    event_index: bool,
    numbers: Numbers,
    /// Places without a descriptor of ours.
    room: usize,
    /// The next place to write.
    next: Position,
    /// Position that the device has been told of.
    published: Position,
    /// The first descriptor that was written since, which is stored last.
    first: Option<u64>,
    /// The next place to take.
    seen: Position,
}

impl PackedRing {
    pub(in super::super) fn new(areas: PackedAreas, event_index: bool) -> PackedRing {
        let start = Position { place: 0, round: true };
        let size = areas.size();
        let mut ring = PackedRing {
            areas,
            event_index,
            numbers: Numbers::new(size),
            room: size.into(),
            next: start,
            published: start,
            first: None,
            seen: start,
        };
        ring.disarm();
        ring
    }

    #[inline]
    fn words(&self, place: u16) -> &[AtomicU64] {
        let at = 2 * usize::from(place);
        &self.areas.descriptors()[at..at + 2]
    }

    /// The number and length in a descriptor, if it was used.
    #[inline]
    fn look(&self, at: Position) -> Option<(u16, u32)> {
        // Acquire: pairs with the device's release behind its writes.
        let (len, number, flags) = fields(self.words(at.place)[1].load(Ordering::Acquire));
        let bits = (flags & AVAILABLE != 0, flags & USED != 0);
        (bits == (at.round, at.round)).then_some((number, len))
    }
}

impl Ring for PackedRing {
    fn size(&self) -> u16 {
        self.areas.size()
    }

    #[inline]
    fn room(&self) -> usize {
        self.room
    }

    #[inline]
    fn outstanding(&self) -> usize {
        self.numbers.outstanding
    }

    #[inline]
    fn vacant(&self, ahead: usize) -> Option<u16> {
        self.numbers.vacant(ahead).filter(|_| self.room > ahead)
    }

    #[inline]
    fn offer(&mut self, pieces: &[Piece], flags: u16) {
        let number = self.numbers.give(pieces.len() as u8);
        let mut left = pieces.len();
        self.room -= left;
        for piece in pieces {
            left -= 1;
            let round = if self.next.round { AVAILABLE } else { USED };
            let more = if left > 0 { NEXT } else { 0 };
            let word = word_of(piece.len, number, flags | more | round);
            let words = self.words(self.next.place);
            words[0].store(piece.at.to_le(), Ordering::Relaxed);
            if self.first.is_none() {
                // The device sees no other before this one.
                self.first = Some(word);
            } else {
                words[1].store(word, Ordering::Relaxed);
            }
            self.next.advance(1, self.areas.size());
        }
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let Some(first) = self.first.take() else { return false };
        let (old, new) = (self.published, self.next);
        // Release: behind the buffers, and the other descriptors.
        self.words(old.place)[1].store(first, Ordering::Release);
        self.published = new;
        // Pairs with the device's fence between the event it wants and its last look.
        fence(Ordering::SeqCst);
        let event = self.areas.device().load(Ordering::Relaxed);
        needs_event(event, self.event_index, self.areas.size(), old, new)
    }

    #[inline]
    fn used(&self, most: usize) -> Result<usize, Fault> {
        let (mut at, mut count) = (self.seen, 0);
        let most = most.min(self.numbers.outstanding);
        while count < most {
            let Some((number, _)) = self.look(at) else { break };
            count += 1;
            match self.numbers.places.get(usize::from(number)) {
                Some(&places) if places > 0 => at.advance(places.into(), self.areas.size()),
                // The call that takes it finds that.
                _ => break,
            }
        }
        Ok(count)
    }

    #[inline]
    fn take(&mut self, list: &mut [Used]) -> Result<usize, Fault> {
        let most = self.numbers.outstanding.min(list.len());
        for (count, used) in list[..most].iter_mut().enumerate() {
            let Some((number, written)) = self.look(self.seen) else { return Ok(count) };
            let Some(places) = self.numbers.take(number.into()) else {
                return if count > 0 { Ok(count) } else { Err(Fault::Descriptor) };
            };
            self.room += usize::from(places);
            self.seen.advance(places.into(), self.areas.size());
            *used = Used { number, written };
        }
        Ok(most)
    }

    #[inline]
    fn release(&mut self, number: u16) {
        self.numbers.release(number);
    }

    fn arm(&mut self) {
        let event = event_at(self.seen, self.event_index);
        self.areas.driver().store(event, Ordering::Relaxed);
    }

    #[inline]
    fn disarm(&mut self) {
        self.areas.driver().store(event_off(), Ordering::Relaxed);
    }
}
