//! A virtqueue as the driver has it, in either format.
//!
//! The device's writes are believed in one thing: that a buffer is used. The buffer is looked up
//! among those it has; an index or a number that names none of them ends the connection.

mod packed;
mod split;

use super::super::queue::{Fault, Piece};

pub(super) use self::{packed::PackedRing, split::SplitRing};

/// A queue by which buffers are offered and taken back.
pub(super) trait Ring: Send + 'static {
    /// Places in it.
    fn size(&self) -> u16;

    /// Number of descriptors that there is room for.
    fn room(&self) -> usize;

    /// Number of buffers that the device has.
    fn outstanding(&self) -> usize;

    /// The number by which the next buffer will be known, or one that is offered so many buffers
    /// later; `None` when there is none.
    fn vacant(&self, ahead: usize) -> Option<u16>;

    /// Offers a buffer of one piece or of two, by the vacant number, with flags that all its
    /// descriptors have. There is place for it.
    fn offer(&mut self, pieces: &[Piece], flags: u16);

    /// Publishes the buffers offered to the device. Returns whether it wants to be told.
    fn publish(&mut self) -> bool;

    /// Number of buffers the device has used and that have not been taken, at most `most`.
    fn used(&self, most: usize) -> Result<usize, Fault>;

    /// Takes some of them, as many as the list has place for, and returns how many. A fault that comes
    /// behind some is found again by the next call.
    fn take(&mut self, list: &mut [Used]) -> Result<usize, Fault>;

    /// Makes a number vacant that was taken, when its buffer is done with.
    fn release(&mut self, number: u16);

    /// Asks the device to tell of buffers it uses from now on.
    fn arm(&mut self);

    /// Asks it not to.
    fn disarm(&mut self);
}

/// A buffer that the device has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    /// Its number.
    pub(super) number: u16,
    /// Bytes that were written to it, as the device says.
    pub(super) written: u32,
}

/// The numbers of buffers, and which of them the device has.
///
/// The one that has been vacant for longest is next: a device that uses buffers in their order has
/// each in the same place of the ring then, each time round, and the entry to write there is there
/// already.
#[derive(Debug)]
struct Numbers {
    /// Vacant numbers, in their order, around the end.
    free: Box<[u16]>,
    /// Place of the first of them, and how many there are.
    first: usize,
    vacant: usize,
    /// Descriptors of the buffer that the device has by this number; none where it has none.
    places: Box<[u8]>,
    /// Buffers that the device has.
    outstanding: usize,
}

impl Numbers {
    fn new(size: u16) -> Numbers {
        let places = vec![0; size.into()].into();
        let (free, vacant) = ((0..size).collect(), size.into());
        Numbers { free, first: 0, vacant, places, outstanding: 0 }
    }

    /// Number of vacant ones.
    #[inline]
    fn room(&self) -> usize {
        self.vacant
    }

    #[inline]
    fn place(&self, ahead: usize) -> usize {
        let at = self.first + ahead;
        if at < self.free.len() { at } else { at - self.free.len() }
    }

    #[inline]
    fn vacant(&self, ahead: usize) -> Option<u16> {
        (ahead < self.vacant).then(|| self.free[self.place(ahead)])
    }

    /// Takes the first, of which there is one.
    #[inline]
    fn pop(&mut self) -> u16 {
        let number = self.vacant(0).expect("there is place for it");
        self.first = self.place(1);
        self.vacant -= 1;
        number
    }

    /// The device has the first free number, by so many descriptors.
    #[inline]
    fn give(&mut self, places: u8) -> u16 {
        let number = self.pop();
        self.places[usize::from(number)] = places;
        self.outstanding += 1;
        number
    }

    /// Takes a number back from the device. Returns its number of descriptors, unless the device
    /// does not have it.
    #[inline]
    fn take(&mut self, number: u32) -> Option<u8> {
        let places = self.places.get_mut(number as usize).filter(|places| **places > 0)?;
        self.outstanding -= 1;
        Some(std::mem::take(places))
    }

    /// A number may be used again that was taken.
    #[inline]
    fn release(&mut self, number: u16) {
        debug_assert_eq!(self.places[usize::from(number)], 0, "the device has it");
        let at = self.place(self.vacant);
        self.free[at] = number;
        self.vacant += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeSet, VecDeque},
        sync::Arc,
    };

    use linerate_memory::{ForeignRegion, MapLimit, MapQuota};
    use proptest::prelude::*;

    use super::*;
    use crate::vhost::{
        inflight::Inflight,
        memory::{Area, Memory},
        message::InflightSpec,
        packed::{Packed, PackedAreas},
        queue::{Access, Chain, NEXT, Pieces, Plain, Queue},
        split::{Split, SplitAreas},
    };

    fn areas<const N: usize>(at: [usize; N]) -> [Option<Area>; N] {
        let bytes = Arc::new(ForeignRegion::create("test", 1 << 16).unwrap().0);
        at.map(|at| Some(Area { bytes: Arc::clone(&bytes), at }))
    }

    /// Offers buffers, has them used, and takes them back, by `steps`; at last the device gives
    /// back the buffers that it does not need. Returns its position then.
    fn exchange(mut ring: impl Ring, mut queue: impl Queue, steps: &[u8]) -> u32 {
        let (mut offered, mut taken, mut used) =
            (VecDeque::new(), VecDeque::new(), VecDeque::new());
        let mut pieces = Pieces::new();
        // Numbers that the device has.
        let mut in_flight = BTreeSet::new();
        for (count, step) in (0u32..).zip(steps) {
            match step % 4 {
                0 | 1 => {
                    let long = step % 4 == 1;
                    let number = ring.vacant(0);
                    if let Some(number) = number.filter(|_| ring.room() > usize::from(long)) {
                        let list = [
                            Piece { at: 0x1000 + u64::from(count), len: count + 1 },
                            Piece { at: 0x9000, len: 7 },
                        ];
                        let list = &list[..1 + usize::from(long)];
                        ring.offer(list, 0);
                        assert!(in_flight.insert(number), "{number} is with the device already");
                        offered.push_back((number, list.len(), count));
                    }
                    ring.publish();
                }
                2 if step & 4 != 0 => {
                    let mut list = [Plain::default(); 8];
                    let looked = queue.plain(Access::Read, &mut list[..1 + usize::from(step / 32)]);
                    for plain in &list[..looked.count] {
                        let (number, len, count) = offered.pop_front().unwrap();
                        let expected = (1, 0x1000 + u64::from(count), count + 1);
                        assert_eq!((len, plain.at, plain.len), expected);
                        taken.push_back((plain.chain(), number, count));
                    }
                    let is_long = offered.front().is_some_and(|(_, len, _)| *len > 1);
                    assert!(!looked.odd || is_long);
                    assert!(looked.count > 0 || looked.odd || offered.is_empty());
                }
                2 => {
                    pieces.clear();
                    let chain = queue.next(Access::Read, &mut pieces).unwrap();
                    let Some((number, len, count)) = offered.pop_front() else {
                        assert!(chain.is_none());
                        continue;
                    };
                    let chain = chain.unwrap();
                    let first = pieces.list()[0];
                    assert_eq!((pieces.list().len(), pieces.is_wrong()), (len, false));
                    assert_eq!((first.at, first.len), (0x1000 + u64::from(count), count + 1));
                    taken.push_back((chain, number, count));
                }
                _ => {
                    // Some are given back, and only seen once that was published.
                    while !taken.is_empty() {
                        let plain =
                            taken.iter().take(4).take_while(|(chain, ..)| chain.places == 1);
                        let plain: Vec<Plain> = plain
                            .map(|&(Chain { id, .. }, _, len)| Plain { at: 0, len, id })
                            .collect();
                        let given = plain.len().max(1);
                        match taken[0] {
                            (chain, _, count) if plain.is_empty() => queue.give(chain, count),
                            _ => queue.give_plain(&plain),
                        }
                        used.extend(taken.drain(..given).map(|(_, number, count)| (number, count)));
                    }
                    queue.publish();
                    assert_eq!(ring.used(usize::MAX), Ok(used.len()));
                    let mut list = [Used::default(); 3];
                    while !used.is_empty() {
                        let some = ring.take(&mut list).unwrap();
                        assert_eq!(some, used.len().min(3));
                        for (found, (number, written)) in
                            list[..some].iter().zip(used.drain(..some))
                        {
                            assert_eq!(*found, Used { number, written });
                            assert!(in_flight.remove(&number), "{number} came back twice");
                            ring.release(number);
                        }
                    }
                    assert_eq!(ring.take(&mut list), Ok(0));
                }
            }
            assert_eq!(ring.outstanding(), offered.len() + taken.len() + used.len());
            assert_eq!(ring.outstanding(), in_flight.len());
        }
        pieces.clear();
        let taken = taken.front().map(|&(chain, ..)| chain);
        if let Some(chain) = taken.or_else(|| queue.next(Access::Read, &mut pieces).unwrap()) {
            // Given back before, part of another buffer, or none there is.
            let wrong = (0..ring.size() + 2).filter(|number| !in_flight.contains(number));
            let wrong = wrong.collect::<Vec<u16>>();
            let id = wrong[steps.len() % wrong.len()];
            queue.give(Chain { id, ..chain }, 0);
            queue.publish();
            assert_eq!(ring.take(&mut [Used::default(); 3]), Err(Fault::Descriptor), "{id}");
            assert_eq!(ring.outstanding(), in_flight.len());
        }
        queue.position()
    }

    proptest! {
        #[test]
        fn offered_buffers_are_used_and_taken_back(
            steps in proptest::collection::vec(any::<u8>(), 1..200),
            log2 in 1u16..5,
            odd in 0u16..3,
        ) {
            let memory = Arc::new(Memory::default());
            let size = 1 << log2;
            let [a, b, c] = areas([0, 0x4000, 0x8000]);
            let areas_of = SplitAreas::new(size, a, b, c).unwrap();
            let ring = SplitRing::new(areas_of.clone(), true);
            exchange(ring, Split::new(&memory, areas_of, true), &steps);
            let size = size + odd;
            let asked = InflightSpec { size: 0, offset: 0, queues: 1, queue_size: size };
            let (spec, file) = Inflight::make(&asked, true).unwrap();
            let quota = MapQuota::reserve(MapLimit { regions: 1, bytes: 1 << 20 }).unwrap();
            let kept = Inflight::map(&quota, &spec, &file).unwrap();
            for record in [None, kept.record(0)] {
                let is_kept = record.is_some();
                let [a, b, c] = areas([0, 0x4000, 0x8000]);
                let areas_of = PackedAreas::new(size, a, b, c).unwrap();
                let ring = PackedRing::new(areas_of.clone(), true);
                let device = |record| Packed::new(&memory, areas_of.clone(), true, 0x8000, record);
                let position = exchange(ring, device(record).unwrap(), &steps);
                if is_kept {
                    let next = device(kept.record(0)).unwrap();
                    assert_eq!(next.position(), position, "the next device goes on there");
                }
            }
        }
    }

    #[test]
    fn buffers_the_device_never_had_are_refused() {
        let [a, b, c] = areas([0, 0x4000, 0x8000]);
        let areas_of = SplitAreas::new(4, a, b, c).unwrap();
        let mut ring = SplitRing::new(areas_of.clone(), false);
        ring.offer(&[Piece { at: 0, len: 1 }], NEXT);
        ring.publish();
        for (number, fault) in [(1, Fault::Descriptor), (4, Fault::Descriptor)] {
            areas_of.used_places()[0].store(number, std::sync::atomic::Ordering::Relaxed);
            areas_of.used_index().store(1, std::sync::atomic::Ordering::Relaxed);
            let mut list = [Used::default(); 2];
            assert_eq!((ring.used(9), ring.take(&mut list)), (Ok(1), Err(fault)));
        }
        areas_of.used_index().store(2, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(ring.used(9), Err(Fault::Index));
    }
}
