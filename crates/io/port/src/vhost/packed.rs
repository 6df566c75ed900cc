//! A packed virtqueue (virtio 1.3, section 2.8): one ring of descriptors, which both sides write.
//!
//! | area | bytes | contents | written by |
//! |---|---|---|---|
//! | descriptors | 16 × size | address `u64`, length `u32`, buffer `u16`, flags `u16` | both |
//! | driver's event | 4 | place and round `u16`, mode `u16` | driver |
//! | device's event | 4 | the same | device |
//!
//! Each side goes round the ring and inverts its bit of the flags each time: the two bits differ
//! where a descriptor is available, and are equal where it was used.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

use linerate_memory::ForeignWords;

use super::{
    inflight::Record,
    memory::{Area, Memory},
    queue::{
        Access, Chain, DESCRIPTOR, Fault, INDIRECT, LINE, LookResult, NEXT, Pieces, Plain, Queue,
        fields, is_due, walk_table, word_of,
    },
};

/// Bit of a descriptor's flags that the driver changes.
pub(super) const AVAILABLE: u16 = 1 << 7;
/// Bit that the device changes.
pub(super) const USED: u16 = 1 << 15;
/// Bit of a place that says in which round it is, in a position and in an event.
pub(super) const ROUND: u16 = 1 << 15;
/// Mode of an event: always, never, or when a place is reached.
const EVERYTHING: u16 = 0;
pub(super) const NOTHING: u16 = 1;
const PLACE: u16 = 2;

/// The parts of a queue.
#[derive(Debug, Clone)]
pub(super) struct PackedAreas {
    size: u16,
    descriptors: ForeignWords<AtomicU64>,
    driver: ForeignWords<AtomicU32>,
    device: ForeignWords<AtomicU32>,
}

impl PackedAreas {
    /// Checks the places of the areas; `Err` names their fault.
    pub(super) fn new(
        size: u16,
        descriptors: Option<Area>,
        driver: Option<Area>,
        device: Option<Area>,
    ) -> Result<PackedAreas, &'static str> {
        if size == 0 || size > 1 << 15 {
            return Err("a queue's size is not 1 to 32,768");
        }
        let (Some(descriptors), Some(driver), Some(device)) = (descriptors, driver, device) else {
            return Err("a queue outside of the memory");
        };
        let aligned = [(&descriptors, 16), (&driver, 4), (&device, 4)];
        if aligned.iter().any(|(area, align)| !area.at.is_multiple_of(*align)) {
            return Err("a queue that is not aligned");
        }
        let parts = || {
            let Area { bytes, at } = &descriptors;
            Some(PackedAreas {
                size,
                descriptors: ForeignWords::of64(bytes, *at, 2 * usize::from(size))?,
                driver: ForeignWords::of32(&driver.bytes, driver.at, 1)?,
                device: ForeignWords::of32(&device.bytes, device.at, 1)?,
            })
        };
        parts().ok_or("a queue outside of the memory")
    }

    /// Bytes of the three.
    pub(super) fn lengths(size: u16) -> [usize; 3] {
        [DESCRIPTOR * usize::from(size), 4, 4]
    }

    #[inline]
    pub(super) fn descriptors(&self) -> &[AtomicU64] {
        &self.descriptors
    }

    #[inline]
    pub(super) fn size(&self) -> u16 {
        self.size
    }

    /// Event that the driver wants.
    #[inline]
    pub(super) fn driver(&self) -> &AtomicU32 {
        &self.driver[0]
    }

    /// Event that the device wants.
    #[inline]
    pub(super) fn device(&self) -> &AtomicU32 {
        &self.device[0]
    }
}

/// A place and the round it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) place: u16,
    /// Value of the driver's bit in this round.
    pub(super) round: bool,
}

impl Position {
    /// As it is written in 16 bits.
    #[inline]
    pub(super) fn encode(self) -> u16 {
        self.place | if self.round { ROUND } else { 0 }
    }

    pub(super) fn decode(bits: u16) -> Position {
        Position { place: bits & !ROUND, round: bits & ROUND != 0 }
    }

    #[inline]
    pub(super) fn advance(&mut self, by: u16, size: u16) {
        self.place += by;
        if self.place >= size {
            self.place -= size;
            self.round = !self.round;
        }
    }
}

/// Returns true if a side has to be told, by its event, when the other goes on from `old` to `new`.
#[inline]
pub(super) fn needs_event(
    event: u32,
    event_index: bool,
    size: u16,
    old: Position,
    new: Position,
) -> bool {
    let event = u32::from_le(event);
    let (place, what) = (event as u16, (event >> 16) as u16);
    if what != PLACE || !event_index {
        return what != NOTHING;
    }
    let mut before = old.place;
    if new.place <= old.place {
        before = before.wrapping_sub(size);
    }
    let mut at = place & !ROUND;
    if (place & ROUND != 0) != new.round {
        at = at.wrapping_sub(size);
    }
    is_due(at, new.place, before)
}

/// Event of a side that wants to be told when the other comes to a place.
#[inline]
pub(super) fn event_at(at: Position, event_index: bool) -> u32 {
    let what = if event_index { PLACE } else { EVERYTHING };
    (u32::from(at.encode()) | u32::from(what) << 16).to_le()
}

/// Event of a side that wants not to be told.
pub(super) const fn event_off() -> u32 {
    ((NOTHING as u32) << 16).to_le()
}

/// A packed queue as the device has it.
#[derive(Debug)]
pub(super) struct Packed {
    memory: Arc<Memory>,
    areas: PackedAreas,
    event_index: bool,
    /// The next descriptor to look at.
    next: Position,
    /// The next descriptor to write: chains before it were given back.
    used: Position,
    /// Position that the driver has been told of.
    published: Position,
    /// Places given back since that are in the line of the first of them, with the words for them:
    /// these are stored when it is published, since the driver looks at that line again and again.
    ///
    /// Others are stored at once, so that their lines are underway while the burst goes on; unless
    /// another device is to go on from the record, which would find them neither available nor
    /// given back.
    given: Vec<(u16, u64)>,
    /// Record of the position for a device that comes after us.
    record: Option<Record>,
}

impl Packed {
    pub(super) fn new(
        memory: &Arc<Memory>,
        areas: PackedAreas,
        event_index: bool,
        base: u16,
        record: Option<Record>,
    ) -> Result<Packed, &'static str> {
        let mut at = Position::decode(base);
        if let Some(before) = record.as_ref().and_then(|record| record.recover(&areas)) {
            at = before;
        }
        if at.place >= areas.size {
            return Err("a base behind the end of its queue");
        }
        if let Some(record) = &record {
            record.begin(at);
        }
        let (memory, size) = (Arc::clone(memory), areas.size);
        let mut packed = Packed {
            memory,
            areas,
            event_index,
            next: at,
            used: at,
            published: at,
            given: Vec::with_capacity(size.into()),
            record,
        };
        packed.disarm();
        Ok(packed)
    }

    #[inline]
    fn words(&self, place: u16) -> &[AtomicU64] {
        let at = 2 * usize::from(place);
        &self.areas.descriptors()[at..at + 2]
    }

    /// The words of all descriptors of a line, if one begins there.
    #[inline]
    fn line(&self, place: u16) -> Option<&[[AtomicU64; 2]; LINE]> {
        let at = 2 * usize::from(place);
        let words = self.areas.descriptors().get(at..at + 2 * LINE)?;
        place.is_multiple_of(LINE as u16).then_some(words.as_chunks().0)?.try_into().ok()
    }

    /// The second word of a descriptor, if it is available.
    #[inline]
    fn look(&self, at: Position) -> Option<(u32, u16, u16)> {
        // Acquire: pairs with the driver's release behind its writes.
        let (len, id, flags) = fields(self.words(at.place)[1].load(Ordering::Acquire));
        let bits = ((flags & AVAILABLE != 0), (flags & USED != 0));
        (bits == (at.round, !at.round)).then_some((len, id, flags))
    }

    /// The rest of a chain that is more than one descriptor.
    #[cold]
    #[inline(never)]
    fn walk(&mut self, access: Access, pieces: &mut Pieces) -> Result<Option<Chain>, Fault> {
        let mut places = 0;
        loop {
            if places == self.areas.size {
                return Err(Fault::Endless);
            }
            let words = self.words(self.next.place);
            let address = u64::from_le(words[0].load(Ordering::Relaxed));
            // Behind the first they are available, as the driver made that so last.
            let (len, id, flags) = fields(words[1].load(Ordering::Relaxed));
            self.next.advance(1, self.areas.size);
            places += 1;
            if flags & INDIRECT != 0 {
                walk_table(&self.memory, access, pieces, (address, len), true);
                if flags & NEXT != 0 {
                    pieces.refuse();
                }
            } else {
                pieces.push(access, address, len, flags);
            }
            if flags & NEXT == 0 {
                return Ok(Some(Chain { id, places }));
            }
        }
    }
}

impl Queue for Packed {
    #[inline]
    fn available(&self, most: usize) -> Result<usize, Fault> {
        let (mut at, mut count) = (self.next, 0);
        let most = most.min(self.areas.size.into());
        while count < most && self.look(at).is_some() {
            at.advance(1, self.areas.size);
            count += 1;
        }
        Ok(count)
    }

    #[inline]
    fn plain(&mut self, access: Access, list: &mut [Plain]) -> LookResult {
        let (mask, value) = access.plain();
        let mask = mask | AVAILABLE | USED;
        let mut count = 0;
        while count < list.len() {
            let round = if self.next.round { AVAILABLE } else { USED };
            if let Some(line) = self.line(self.next.place)
                && let Some(list) = list.get_mut(count..count + LINE)
            {
                // Acquire: as in `look`.
                let seconds = [0, 1, 2, 3].map(|at| line[at][1].load(Ordering::Acquire));
                let differ = |second: u64| (fields(second).2 ^ (value | round)) & mask;
                if seconds.into_iter().fold(0, |all, second| all | differ(second)) == 0 {
                    for ((plain, words), second) in list.iter_mut().zip(line).zip(seconds) {
                        let (len, id, _) = fields(second);
                        *plain =
                            Plain { at: u64::from_le(words[0].load(Ordering::Relaxed)), len, id };
                    }
                    self.next.advance(LINE as u16, self.areas.size);
                    count += LINE;
                    continue;
                }
                // The driver may be at this line: it is left to it as long as there are others.
                if count > 0 {
                    break;
                }
            }
            let words = self.words(self.next.place);
            // Acquire: as in `look`.
            let (len, id, flags) = fields(words[1].load(Ordering::Acquire));
            if flags & mask != value | round {
                return LookResult { count, odd: flags & (AVAILABLE | USED) == round };
            }
            list[count] = Plain { at: u64::from_le(words[0].load(Ordering::Relaxed)), len, id };
            self.next.advance(1, self.areas.size);
            count += 1;
        }
        LookResult { count, odd: false }
    }

    #[inline]
    fn next(&mut self, access: Access, pieces: &mut Pieces) -> Result<Option<Chain>, Fault> {
        let Some((len, id, flags)) = self.look(self.next) else { return Ok(None) };
        if flags & (NEXT | INDIRECT) != 0 {
            return self.walk(access, pieces);
        }
        let address = u64::from_le(self.words(self.next.place)[0].load(Ordering::Relaxed));
        pieces.push(access, address, len, flags);
        self.next.advance(1, self.areas.size);
        Ok(Some(Chain { id, places: 1 }))
    }

    #[inline]
    fn rewind(&mut self) {
        self.next = self.used;
    }

    #[inline]
    fn give(&mut self, chain: Chain, written: u32) {
        let round = if self.used.round { AVAILABLE | USED } else { 0 };
        let (place, word) = (self.used.place, word_of(written, chain.id, round));
        if self.record.is_some() || place / LINE as u16 == self.published.place / LINE as u16 {
            self.given.push((place, word));
        } else {
            self.words(place)[1].store(word, Ordering::Relaxed);
        }
        self.used.advance(chain.places, self.areas.size);
    }

    #[inline]
    fn give_plain(&mut self, chains: &[Plain]) {
        let Position { place, round } = self.used;
        let is_next = place / LINE as u16 != self.published.place / LINE as u16;
        if self.record.is_none()
            && is_next
            && let Ok(chains) = <&[Plain; LINE]>::try_from(chains)
            && let Some(line) = self.line(place)
        {
            let round = if round { AVAILABLE | USED } else { 0 };
            for (words, plain) in line.iter().zip(chains) {
                words[1].store(word_of(plain.len, plain.id, round), Ordering::Relaxed);
            }
            self.used.advance(LINE as u16, self.areas.size);
            return;
        }
        chains.iter().for_each(|plain| self.give(plain.chain(), plain.len));
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let Some((&(_, first), behind)) = self.given.split_first() else { return false };
        let (old, new) = (self.published, self.used);
        for &(place, word) in behind {
            self.words(place)[1].store(word, Ordering::Relaxed);
        }
        if let Some(record) = &self.record {
            record.intend(new, old);
        }
        // Release: behind everything that was read or written of the chains.
        self.words(old.place)[1].store(first, Ordering::Release);
        self.given.clear();
        self.published = new;
        if let Some(record) = &self.record {
            record.begin(new);
        }
        // Pairs with the driver's fence between the event it wants and its last look.
        fence(Ordering::SeqCst);
        let event = self.areas.driver().load(Ordering::Relaxed);
        needs_event(event, self.event_index, self.areas.size, old, new)
    }

    fn arm(&mut self) {
        let event = event_at(self.next, self.event_index);
        self.areas.device().store(event, Ordering::Relaxed);
    }

    #[inline]
    fn disarm(&mut self) {
        self.areas.device().store(event_off(), Ordering::Relaxed);
    }

    fn position(&self) -> u32 {
        let at = u32::from(self.used.encode());
        at | at << 16
    }

    fn size(&self) -> u16 {
        self.areas.size
    }

    #[inline]
    fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

#[cfg(test)]
mod tests {
    use linerate_memory::ForeignRegion;

    use super::*;

    /// Every descriptor of a ring of eight is made available, in its order, by its place.
    fn make_available(areas: &PackedAreas, places: std::ops::Range<u16>, round: u16) {
        for place in places {
            let words = &areas.descriptors()[2 * usize::from(place)..];
            words[0].store(u64::from(place).to_le(), Ordering::Relaxed);
            words[1].store(word_of(60, place, round), Ordering::Relaxed);
        }
    }

    fn ring() -> (PackedAreas, Packed) {
        let bytes = Arc::new(ForeignRegion::create("test", 4096).unwrap().0);
        let area = |at: usize| Some(Area { bytes: Arc::clone(&bytes), at });
        let areas = PackedAreas::new(8, area(0), area(1024), area(1028)).unwrap();
        let memory = Arc::new(Memory::default());
        let packed = Packed::new(&memory, areas.clone(), false, 0x8000, None).unwrap();
        (areas, packed)
    }

    #[test]
    fn a_line_that_the_driver_is_at_is_left_to_it_as_long_as_there_is_another() {
        let (areas, mut packed) = ring();
        let mut list = [Plain::default(); 8];
        make_available(&areas, 0..6, AVAILABLE);
        assert_eq!(packed.plain(Access::Read, &mut list), LookResult { count: 4, odd: false });
        assert_eq!(packed.plain(Access::Read, &mut list[..1]), LookResult { count: 1, odd: false });
        assert_eq!((list[0].at, list[0].id, list[0].len), (4, 4, 60));
        assert_eq!(packed.plain(Access::Read, &mut list), LookResult { count: 1, odd: false });
        assert_eq!(packed.plain(Access::Read, &mut list), LookResult { count: 0, odd: false });
    }
}
