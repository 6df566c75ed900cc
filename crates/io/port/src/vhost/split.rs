//! A split virtqueue (virtio 1.3, section 2.7): descriptors, a ring of those available and a ring of
//! those used.
//!
//! | area | bytes | contents | written by |
//! |---|---|---|---|
//! | descriptors | 16 × size | address `u64`, length `u32`, flags `u16`, next `u16` | driver |
//! | available | 6 + 2 × size | flags `u16`, index `u16`, heads `u16`, used event `u16` | driver |
//! | used | 6 + 8 × size | flags `u16`, index `u16`, (head, length) `u32`, available event `u16` | device |
//!
//! Indices count on modulo 65,536. Numbers are little-endian.

use std::sync::{
    Arc,
    atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence},
};

use linerate_memory::ForeignWords;

use super::{
    memory::{Area, Memory},
    queue::{
        Access, Chain, DESCRIPTOR, Fault, INDIRECT, LookResult, NEXT, Pieces, Plain, Queue, fields,
        is_due, walk_table,
    },
};

/// Flag of either ring: its writer does not want to be told.
pub(super) const SILENT: u16 = 1;
/// Offset of the entries of either ring, in bytes.
const PLACES: usize = 4;
/// Bytes of a place of the used ring.
const USED: usize = 8;

/// The parts of a queue.
#[derive(Debug, Clone)]
pub(super) struct SplitAreas {
    size: u16,
    descriptors: ForeignWords<AtomicU64>,
    /// Flags, index, heads, used event.
    available: ForeignWords<AtomicU16>,
    /// Flags and index.
    used: ForeignWords<AtomicU16>,
    used_places: ForeignWords<AtomicU32>,
    available_event: ForeignWords<AtomicU16>,
}

impl SplitAreas {
    /// Checks the places of the areas; `Err` names their fault.
    pub(super) fn new(
        size: u16,
        descriptors: Option<Area>,
        available: Option<Area>,
        used: Option<Area>,
    ) -> Result<SplitAreas, &'static str> {
        if !size.is_power_of_two() || size > 1 << 15 {
            return Err("a queue's size is not a power of two up to 32,768");
        }
        let (Some(descriptors), Some(available), Some(used)) = (descriptors, available, used)
        else {
            return Err("a queue outside of the memory");
        };
        // The mapping begins at a page, so places in it are aligned as addresses are.
        let aligned = [(&descriptors, 16), (&available, 2), (&used, 4)];
        if aligned.iter().any(|(area, align)| !area.at.is_multiple_of(*align)) {
            return Err("a queue that is not aligned");
        }
        let count = usize::from(size);
        let parts = || {
            Some(SplitAreas {
                size,
                descriptors: ForeignWords::of64(&descriptors.bytes, descriptors.at, 2 * count)?,
                available: ForeignWords::of16(&available.bytes, available.at, 3 + count)?,
                used: ForeignWords::of16(&used.bytes, used.at, 2)?,
                used_places: ForeignWords::of32(&used.bytes, used.at + PLACES, 2 * count)?,
                available_event: ForeignWords::of16(
                    &used.bytes,
                    used.at + PLACES + USED * count,
                    1,
                )?,
            })
        };
        parts().ok_or("a queue outside of the memory")
    }

    /// Bytes of the three.
    pub(super) fn lengths(size: u16) -> [usize; 3] {
        let size = usize::from(size);
        [DESCRIPTOR * size, PLACES + 2 * size + 2, PLACES + USED * size + 2]
    }

    #[inline]
    pub(super) fn mask(&self) -> u16 {
        self.size - 1
    }

    #[inline]
    pub(super) fn descriptors(&self) -> &[AtomicU64] {
        &self.descriptors
    }

    /// Flags, index, heads, used event.
    #[inline]
    pub(super) fn available(&self) -> &[AtomicU16] {
        &self.available
    }

    #[inline]
    pub(super) fn used_places(&self) -> &[AtomicU32] {
        &self.used_places
    }

    /// Flags of the used ring.
    #[inline]
    pub(super) fn used_flags(&self) -> &AtomicU16 {
        &self.used[0]
    }

    #[inline]
    pub(super) fn used_index(&self) -> &AtomicU16 {
        &self.used[1]
    }

    /// At which index of the available ring the device wants to be told.
    #[inline]
    pub(super) fn available_event(&self) -> &AtomicU16 {
        &self.available_event[0]
    }

    /// At which index of the used ring the driver wants to be told.
    #[inline]
    pub(super) fn used_event(&self) -> &AtomicU16 {
        &self.available()[2 + usize::from(self.size)]
    }
}

/// A split queue as the device has it.
#[derive(Debug)]
pub(super) struct Split {
    memory: Arc<Memory>,
    areas: SplitAreas,
    event_index: bool,
    /// The next place of the available ring to look at.
    next: u16,
    /// Up to where places are known to be available.
    end: u16,
    /// The next place of the used ring to write: chains before it were given back.
    used: u16,
    /// Index that the driver has been told of.
    published: u16,
}

impl Split {
    /// Begins where the used ring ends, ignoring the driver's index: chains that were available and
    /// not given back, because a device before us died, are looked at again.
    pub(super) fn new(memory: &Arc<Memory>, areas: SplitAreas, event_index: bool) -> Split {
        let at = u16::from_le(areas.used_index().load(Ordering::Relaxed));
        let mut split = Split {
            memory: Arc::clone(memory),
            areas,
            event_index,
            next: at,
            end: at,
            used: at,
            published: at,
        };
        split.disarm();
        split
    }

    /// Up to where chains are available now.
    #[inline]
    fn theirs(&self) -> Result<u16, Fault> {
        // Acquire: pairs with the driver's release behind its writes.
        let index = u16::from_le(self.areas.available()[1].load(Ordering::Acquire));
        // Those that were looked at and not given back are still ours.
        let most = self.areas.size.saturating_sub(self.next.wrapping_sub(self.used));
        if index.wrapping_sub(self.next) <= most { Ok(index) } else { Err(Fault::Index) }
    }

    #[inline]
    fn descriptor(&self, number: u16) -> (u64, u32, u16, u16) {
        let at = 2 * usize::from(number & self.areas.mask());
        let words = &self.areas.descriptors()[at..at + 2];
        let (len, flags, next) = fields(words[1].load(Ordering::Relaxed));
        (u64::from_le(words[0].load(Ordering::Relaxed)), len, flags, next)
    }

    #[inline]
    fn head(&self, index: u16) -> u16 {
        let place = 2 + usize::from(index & self.areas.mask());
        u16::from_le(self.areas.available()[place].load(Ordering::Relaxed))
    }

    /// A chain that is more than one descriptor.
    #[cold]
    #[inline(never)]
    fn walk(&self, access: Access, pieces: &mut Pieces, mut number: u16) {
        for _ in 0..self.areas.size {
            let (at, len, flags, next) = self.descriptor(number);
            if flags & INDIRECT != 0 {
                return walk_table(&self.memory, access, pieces, (at, len), false);
            }
            pieces.push(access, at, len, flags);
            if flags & NEXT == 0 {
                return;
            }
            if next >= self.areas.size {
                return pieces.refuse();
            }
            number = next;
        }
        // As many as there are, and another is to come: it goes round.
        pieces.refuse();
    }
}

impl Queue for Split {
    #[inline]
    fn available(&self, most: usize) -> Result<usize, Fault> {
        Ok(usize::from(self.theirs()?.wrapping_sub(self.next)).min(most))
    }

    #[inline]
    fn plain(&mut self, access: Access, list: &mut [Plain]) -> LookResult {
        if usize::from(self.end.wrapping_sub(self.next)) < list.len() {
            match self.theirs() {
                Ok(end) => self.end = end,
                Err(_) => return LookResult { count: 0, odd: true },
            }
        }
        let (mask, value) = access.plain();
        let ready = usize::from(self.end.wrapping_sub(self.next)).min(list.len());
        for (count, plain) in list[..ready].iter_mut().enumerate() {
            let id = self.head(self.next);
            let (at, len, flags, _) = self.descriptor(id);
            if id >= self.areas.size || flags & mask != value {
                return LookResult { count, odd: true };
            }
            *plain = Plain { at, len, id };
            self.next = self.next.wrapping_add(1);
        }
        LookResult { count: ready, odd: false }
    }

    #[inline]
    fn next(&mut self, access: Access, pieces: &mut Pieces) -> Result<Option<Chain>, Fault> {
        if self.next == self.end {
            self.end = self.theirs()?;
            if self.next == self.end {
                return Ok(None);
            }
        }
        let head = self.head(self.next);
        if head >= self.areas.size {
            return Err(Fault::Descriptor);
        }
        self.next = self.next.wrapping_add(1);
        let (at, len, flags, _) = self.descriptor(head);
        if flags & (NEXT | INDIRECT) == 0 {
            pieces.push(access, at, len, flags);
        } else {
            self.walk(access, pieces, head);
        }
        Ok(Some(Chain { id: head, places: 1 }))
    }

    #[inline]
    fn rewind(&mut self) {
        self.next = self.used;
    }

    #[inline]
    fn give(&mut self, chain: Chain, written: u32) {
        let at = 2 * usize::from(self.used & self.areas.mask());
        let place = &self.areas.used_places()[at..at + 2];
        // A device that takes buffers in their order, as most do, has equal entries here each time
        // round, and the line then stays with both.
        for (word, value) in place.iter().zip([u32::from(chain.id).to_le(), written.to_le()]) {
            if word.load(Ordering::Relaxed) != value {
                word.store(value, Ordering::Relaxed);
            }
        }
        self.used = self.used.wrapping_add(1);
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let (new, old) = (self.used, self.published);
        if new == old {
            return false;
        }
        // Release: behind everything that was read or written of the chains.
        self.areas.used_index().store(new.to_le(), Ordering::Release);
        self.published = new;
        // Pairs with the driver's fence between the event it wants and its last look.
        fence(Ordering::SeqCst);
        if self.event_index {
            let event = u16::from_le(self.areas.used_event().load(Ordering::Relaxed));
            is_due(event, new, old)
        } else {
            u16::from_le(self.areas.available()[0].load(Ordering::Relaxed)) & SILENT == 0
        }
    }

    fn arm(&mut self) {
        if self.event_index {
            self.areas.available_event().store(self.next.to_le(), Ordering::Relaxed);
        } else {
            self.areas.used_flags().store(0, Ordering::Relaxed);
        }
    }

    #[inline]
    fn disarm(&mut self) {
        if self.event_index {
            // As far behind as can be: it comes by once in 65,536 chains.
            let passed = self.next.wrapping_sub(1 << 15);
            self.areas.available_event().store(passed.to_le(), Ordering::Relaxed);
        } else {
            self.areas.used_flags().store(SILENT.to_le(), Ordering::Relaxed);
        }
    }

    fn position(&self) -> u32 {
        self.used.into()
    }

    fn size(&self) -> u16 {
        self.areas.size
    }

    #[inline]
    fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}
