//! In-flight tracking: state that a device leaves for the next one.
//!
//! The frontend keeps a piece of memory that the backend asked for and gives it to the next one. A
//! device that finishes chains in their order has nothing to write in it for a split queue: chains
//! that are available and not used are left for the next device, and the used ring's index is their
//! place. In a packed ring that place is nowhere, so it is kept here, before and behind each burst.
//!
//! | offset | bytes | of a packed queue | of a split queue |
//! |---|---|---|---|
//! | 0 | 8 | features, zero | features, zero |
//! | 8 | 2 | version, 1 | version, 1 |
//! | 10 | 2 | descriptors | descriptors |
//! | 12 | 4 | first free entry, now and before | last batch, used index: zero |
//! | 16 | 2 + 2 | used place, now and before | entries, 16 bytes each |
//! | 20 | 1 + 1 | used round, now and before | |
//! | 32 | 32 each | entries | |
//!
//! Entries say which descriptors are in flight; none is between bursts, so they stay as they are
//! made. Source: "Inflight I/O tracking" in `docs/interop/vhost-user.rst` of QEMU.

use std::{
    os::fd::OwnedFd,
    sync::{Arc, atomic::Ordering},
};

use linerate_memory::{ForeignRegion, MapQuota};

use super::{
    message::InflightSpec,
    packed::{AVAILABLE, PackedAreas, Position, USED},
    queue::fields,
};

const VERSION: u16 = 1;
const VERSION_AT: usize = 8;
const DESCRIPTORS_AT: usize = 10;
const POSITION_AT: usize = 16;
/// Bytes in front of the entries, of each entry, and where in it the next free one is.
const HEADER: usize = 32;
const ENTRY: usize = 32;
const ENTRY_NEXT: usize = 6;
const PACKED_NEXT: usize = 8;
const ALIGN: usize = 64;
/// Memory with the state of all queues of a device.
#[derive(Debug, Clone)]
pub(super) struct Inflight {
    bytes: Arc<ForeignRegion>,
    at: usize,
    queues: u16,
    queue_size: u16,
}

/// Bytes for a queue, in whichever format.
fn stride(queue_size: u16) -> usize {
    (HEADER + ENTRY * usize::from(queue_size)).next_multiple_of(ALIGN)
}

impl Inflight {
    /// Most bytes of in-flight memory that are made for a frontend, or mapped of one.
    pub(super) const MOST: usize = 16 << 20;

    /// Bytes of in-flight memory for so many queues.
    pub(super) fn size(asked: &InflightSpec) -> u64 {
        (stride(asked.queue_size) * usize::from(asked.queues)) as u64
    }

    /// Makes memory for so many queues, and says where it is.
    pub(super) fn make(
        asked: &InflightSpec,
        packed: bool,
    ) -> Result<(InflightSpec, OwnedFd), String> {
        let size = Inflight::size(asked) as usize;
        if size == 0 || size > Inflight::MOST {
            return Err("in-flight memory for no queues, or too many".into());
        }
        let made = ForeignRegion::create("linerate-inflight", size);
        let (bytes, file) = made.map_err(|error| error.to_string())?;
        let queues = (0..usize::from(asked.queues)).map(|queue| queue * stride(asked.queue_size));
        for at in queues {
            let put = |offset: usize, value: u16| {
                if let Some(word) = bytes.word16(at + offset) {
                    word.store(value, Ordering::Relaxed);
                }
            };
            put(DESCRIPTORS_AT, asked.queue_size);
            // The version says that there is something; it comes with the first position.
            for entry in 0..asked.queue_size {
                let (from, size, next) =
                    if packed { (HEADER, ENTRY, PACKED_NEXT) } else { (ALIGN / 4, 16, ENTRY_NEXT) };
                put(from + usize::from(entry) * size + next, entry.wrapping_add(1));
            }
        }
        Ok((InflightSpec { size: size as u64, offset: 0, ..*asked }, file))
    }

    /// Maps the memory that the frontend kept.
    pub(super) fn map(
        quota: &Arc<MapQuota>,
        spec: &InflightSpec,
        file: &OwnedFd,
    ) -> Result<Inflight, String> {
        let needed = Inflight::size(spec);
        let end = spec.offset.checked_add(spec.size).filter(|_| needed <= spec.size);
        let end = end.filter(|_| spec.offset.is_multiple_of(8));
        let end = end.ok_or("in-flight memory that is too small")?;
        if end > Inflight::MOST as u64 {
            return Err("in-flight memory of more than 16 MiB".into());
        }
        let bytes =
            ForeignRegion::map_within(quota, file, end).map_err(|error| error.to_string())?;
        let InflightSpec { offset, queues, queue_size, .. } = *spec;
        Ok(Inflight { bytes: Arc::new(bytes), at: offset as usize, queues, queue_size })
    }

    /// Record of a packed queue's position.
    pub(super) fn record(&self, queue: usize) -> Option<Record> {
        let at = self.at + queue * stride(self.queue_size);
        let fits = queue < usize::from(self.queues) && self.bytes.contains(at, HEADER);
        fits.then(|| Record { bytes: Arc::clone(&self.bytes), at })
    }
}

/// The record of one packed queue.
#[derive(Debug)]
pub(super) struct Record {
    bytes: Arc<ForeignRegion>,
    at: usize,
}

impl Record {
    #[inline]
    fn store(&self, now: Position, before: Position) {
        let word = u64::from(now.place)
            | u64::from(before.place) << 16
            | u64::from(now.round) << 32
            | u64::from(before.round) << 40;
        let words = self.bytes.words(self.at + POSITION_AT, 1).expect("checked when it was made");
        // Release: the ring is as it says.
        words[0].store(word.to_le(), Ordering::Release);
    }

    /// The queue is at this place, and nothing is under way.
    #[inline]
    pub(super) fn begin(&self, at: Position) {
        self.store(at, at);
        let version = self.bytes.word16(self.at + VERSION_AT).expect("checked when it was made");
        version.store(VERSION, Ordering::Release);
    }

    /// The next store to the ring brings it from `before` to this place.
    #[inline]
    pub(super) fn intend(&self, now: Position, before: Position) {
        self.store(now, before);
    }

    /// Position of the device before us; `None` when there was none.
    pub(super) fn recover(&self, areas: &PackedAreas) -> Option<Position> {
        let version = self.bytes.word16(self.at + VERSION_AT)?.load(Ordering::Acquire);
        if version != VERSION {
            return None;
        }
        let word =
            u64::from_le(self.bytes.words(self.at + POSITION_AT, 1)?[0].load(Ordering::Acquire));
        let position =
            |place: u64, round: u64| Position { place: place as u16, round: round & 1 != 0 };
        let now = position(word, word >> 32);
        let before = position(word >> 16, word >> 40);
        // Was the store that it died by made? The first descriptor of the burst is available in its
        // round only as long as it was not.
        let words = areas.descriptors().get(2 * usize::from(before.place) + 1)?;
        let (_, _, flags) = fields(words.load(Ordering::Acquire));
        let available =
            (flags & AVAILABLE != 0) == before.round && (flags & USED != 0) != before.round;
        Some(if available { before } else { now })
    }
}

#[cfg(test)]
mod tests {
    use linerate_memory::MapLimit;

    use super::*;
    use crate::vhost::{memory::Area, queue::word_of};

    fn quota() -> Arc<MapQuota> {
        MapQuota::reserve(MapLimit { regions: 1, bytes: 1 << 20 }).unwrap()
    }

    fn at(place: u16, round: bool) -> Position {
        Position { place, round }
    }

    #[test]
    fn a_position_is_found_again_wherever_its_writer_died() {
        let asked = InflightSpec { size: 0, offset: 0, queues: 2, queue_size: 8 };
        let (spec, file) = Inflight::make(&asked, true).unwrap();
        let kept = Inflight::map(&quota(), &spec, &file).unwrap();
        assert!(kept.record(2).is_none());
        let record = kept.record(1).unwrap();
        let ring = Arc::new(ForeignRegion::create("test", 4096).unwrap().0);
        let area = |at: usize| Some(Area { bytes: Arc::clone(&ring), at });
        let areas = PackedAreas::new(8, area(0), area(1024), area(1028)).unwrap();
        assert_eq!(record.recover(&areas), None);
        let flags = |place: usize, flags: u16| {
            areas.descriptors()[2 * place + 1].store(word_of(0, 0, flags), Ordering::Relaxed);
        };
        record.begin(at(6, true));
        flags(6, AVAILABLE);
        assert_eq!(record.recover(&areas), Some(at(6, true)));
        record.intend(at(1, false), at(6, true));
        assert_eq!(record.recover(&areas), Some(at(6, true)));
        flags(6, AVAILABLE | USED);
        assert_eq!(record.recover(&areas), Some(at(1, false)));
        // The driver has made it available again since.
        flags(6, USED);
        assert_eq!(record.recover(&areas), Some(at(1, false)));
        record.begin(at(1, false));
        flags(1, USED);
        assert_eq!(record.recover(&areas), Some(at(1, false)));
    }

    #[test]
    fn memory_that_is_too_small_is_refused() {
        let asked = InflightSpec { size: 0, offset: 0, queues: 2, queue_size: 8 };
        let (spec, file) = Inflight::make(&asked, false).unwrap();
        assert!(Inflight::map(&quota(), &spec, &file).is_ok());
        for wrong in [
            InflightSpec { size: spec.size - 1, ..spec },
            InflightSpec { queue_size: 512, ..spec },
            InflightSpec { offset: 8, ..spec },
            InflightSpec { offset: 4, ..spec },
            InflightSpec { offset: u64::MAX, ..spec },
        ] {
            assert!(Inflight::map(&quota(), &wrong, &file).is_err(), "{wrong:?}");
        }
        assert!(Inflight::make(&InflightSpec { queues: 0, ..asked }, true).is_err());
        let huge = InflightSpec { queues: 128, queue_size: 32768, ..asked };
        assert!(Inflight::make(&huge, true).is_err());
    }
}
