//! Buffers of a connection's own memory, at places that stay, seen as the device sees a queue.
//!
//! Each number of a ring has its buffer. A buffer that the device has used is a chain to be read,
//! and one that it does not have is a chain to be written; either is given back by being offered
//! again.

use std::sync::Arc;

use super::ring::{Ring, Used};
use crate::vhost::{
    memory::Memory,
    queue::{Access, BATCH, Batch, Chain, Fault, LookResult, Piece, Pieces, Plain, Queue, WRITE},
};

/// Offset of the number of buffers of a packet in its header.
pub(super) const BUFFERS: u64 = 10;

/// Places of the buffers of a ring.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) memory: Arc<Memory>,
    /// The guest address of the first.
    pub(super) at: u64,
    /// From one to the next.
    pub(super) stride: u64,
    /// Bytes in each.
    pub(super) len: u32,
}

impl Buffers {
    #[inline]
    fn address(&self, number: u16) -> u64 {
        self.at + u64::from(number) * self.stride
    }

    #[inline]
    fn prefetch(&self, number: u16) {
        self.memory.prefetch(self.address(number));
    }
}

/// Buffers for the device to put packets in.
pub(super) struct Posted<R> {
    ring: R,
    buffers: Buffers,
    /// Whether a packet may take several buffers.
    mergeable: bool,
    /// Buffers of a packet that has several, until it is given back, and how many are yet to come.
    some: Vec<Used>,
    missing: usize,
    /// Buffers that the device has used and that have not been looked at.
    taken: Batch<Used>,
}

impl<R: Ring> Posted<R> {
    /// The device sees the buffers at once.
    pub(super) fn new(ring: R, buffers: Buffers, mergeable: bool) -> Posted<R> {
        let some = Vec::with_capacity(ring.size().into());
        let mut posted = Posted { ring, buffers, mergeable, some, missing: 0, taken: Batch::new() };
        posted.post();
        posted.ring.publish();
        posted
    }

    /// Offers all buffers that the device does not have.
    #[inline]
    fn post(&mut self) {
        while let Some(number) = self.ring.vacant(0) {
            let piece = Piece { at: self.buffers.address(number), len: self.buffers.len };
            self.ring.offer(&[piece], WRITE);
        }
    }

    /// Number of buffers of the packet that begins in this one.
    #[inline]
    fn count(&self, number: u16) -> usize {
        let mut count = [0; 2];
        let at = self.buffers.address(number) + BUFFERS;
        if !self.mergeable || !self.buffers.memory.read(at, &mut count) {
            return 1;
        }
        u16::from_le_bytes(count).into()
    }

    /// The next that the device has used, of those that were taken already, or of the others.
    #[inline]
    fn take(&mut self) -> Result<Option<Used>, Fault> {
        if self.taken.is_empty() {
            let mut found = Ok(0);
            self.taken.refill(BATCH, |list| {
                found = self.ring.take(list);
                found.unwrap_or(0)
            });
            found?;
        }
        Ok(self.taken.next())
    }

    #[inline]
    fn push(&self, pieces: &mut Pieces, Used { number, written }: Used) {
        if written > self.buffers.len {
            pieces.refuse();
        }
        pieces.push(Access::Read, self.buffers.address(number), written, 0);
    }
}

impl<R: Ring> Queue for Posted<R> {
    #[inline]
    fn available(&self, most: usize) -> Result<usize, Fault> {
        let taken = self.taken.list().len();
        Ok(taken + self.ring.used(most.saturating_sub(taken))?)
    }

    #[inline]
    fn plain(&mut self, _: Access, list: &mut [Plain]) -> LookResult {
        if self.missing > 0 {
            return LookResult { count: 0, odd: true };
        }
        if self.taken.is_empty() {
            let mut fault = false;
            self.taken.refill(list.len(), |list| {
                let found = self.ring.take(list);
                fault = found.is_err();
                found.unwrap_or(0)
            });
            if fault {
                return LookResult { count: 0, odd: true };
            }
            // How many buffers a packet has is in its header.
            for used in self.taken.list().iter().filter(|_| self.mergeable) {
                self.buffers.prefetch(used.number);
            }
        }
        let mut count = 0;
        for plain in list {
            let Some(&Used { number: id, written }) = self.taken.list().first() else { break };
            if self.count(id) > 1 {
                return LookResult { count, odd: true };
            }
            self.taken.next();
            // More than there is room for is nothing.
            let len = if written <= self.buffers.len { written } else { 0 };
            *plain = Plain { at: self.buffers.address(id), len, id };
            count += 1;
        }
        LookResult { count, odd: false }
    }

    #[inline]
    fn next(&mut self, _: Access, pieces: &mut Pieces) -> Result<Option<Chain>, Fault> {
        while let Some(used) = self.take()? {
            let chain = Chain { id: used.number, places: 1 };
            if self.missing == 0 {
                self.missing = match self.count(used.number) {
                    count if count > self.ring.size().into() => {
                        pieces.refuse();
                        return Ok(Some(chain));
                    }
                    0 | 1 => {
                        self.push(pieces, used);
                        return Ok(Some(chain));
                    }
                    count => count,
                };
            }
            self.some.push(used);
            self.missing -= 1;
            if self.missing == 0 {
                for at in 0..self.some.len() {
                    self.push(pieces, self.some[at]);
                }
                return Ok(Some(chain));
            }
        }
        Ok(None)
    }

    fn rewind(&mut self) {}

    /// Only its own buffers: others may have been looked at and not copied.
    #[inline]
    fn give(&mut self, chain: Chain, _: u32) {
        if self.some.is_empty() {
            self.ring.release(chain.id);
        } else {
            self.some.drain(..).for_each(|used| self.ring.release(used.number));
        }
        self.post();
    }

    #[inline]
    fn publish(&mut self) -> bool {
        self.ring.publish()
    }

    fn arm(&mut self) {
        self.ring.arm();
    }

    #[inline]
    fn disarm(&mut self) {
        self.ring.disarm();
    }

    fn position(&self) -> u32 {
        0
    }

    fn size(&self) -> u16 {
        self.ring.size()
    }

    #[inline]
    fn memory(&self) -> &Arc<Memory> {
        &self.buffers.memory
    }
}

/// Buffers for packets to the device.
pub(super) struct Filled<R> {
    ring: R,
    buffers: Buffers,
    fault: Option<Fault>,
}

impl<R: Ring> Filled<R> {
    pub(super) fn new(ring: R, buffers: Buffers) -> Filled<R> {
        Filled { ring, buffers, fault: None }
    }

    /// Takes back the buffers the device has read.
    #[inline]
    fn reap(&mut self) {
        let mut list = [Used::default(); BATCH];
        loop {
            match self.ring.take(&mut list) {
                Ok(count) => {
                    list[..count].iter().for_each(|used| self.ring.release(used.number));
                    if count < BATCH {
                        break;
                    }
                }
                Err(fault) => {
                    self.fault = Some(fault);
                    break;
                }
            }
        }
    }
}

impl<R: Ring> Queue for Filled<R> {
    const COUNTED: bool = false;

    fn available(&self, most: usize) -> Result<usize, Fault> {
        Ok(self.ring.room().min(most))
    }

    #[inline]
    fn plain(&mut self, _: Access, list: &mut [Plain]) -> LookResult {
        if self.ring.room() < list.len() {
            self.reap();
        }
        if self.fault.is_some() {
            return LookResult { count: 0, odd: true };
        }
        let mut count = 0;
        while let Some(plain) = list.get_mut(count)
            && let Some(id) = self.ring.vacant(count)
        {
            *plain = Plain { at: self.buffers.address(id), len: self.buffers.len, id };
            count += 1;
        }
        LookResult { count, odd: false }
    }

    #[inline]
    fn next(&mut self, access: Access, pieces: &mut Pieces) -> Result<Option<Chain>, Fault> {
        if self.ring.vacant(0).is_none() {
            self.reap();
        }
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let Some(number) = self.ring.vacant(0) else { return Ok(None) };
        pieces.push(access, self.buffers.address(number), self.buffers.len, WRITE);
        Ok(Some(Chain { id: number, places: 1 }))
    }

    fn rewind(&mut self) {}

    #[inline]
    fn give(&mut self, chain: Chain, written: u32) {
        let piece = Piece { at: self.buffers.address(chain.id), len: written };
        self.ring.offer(&[piece], 0);
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let tell = self.ring.publish();
        // Not each time: a look takes the line with the used index away from the device, which
        // writes it.
        if self.ring.room() < usize::from(self.ring.size()) / 2 {
            self.reap();
        }
        tell
    }

    fn arm(&mut self) {
        self.ring.arm();
    }

    fn disarm(&mut self) {
        self.ring.disarm();
    }

    fn position(&self) -> u32 {
        0
    }

    fn size(&self) -> u16 {
        self.ring.size()
    }

    #[inline]
    fn memory(&self) -> &Arc<Memory> {
        &self.buffers.memory
    }

    fn on_the_way(&mut self) -> usize {
        self.reap();
        self.ring.outstanding()
    }
}

#[cfg(test)]
mod tests {
    use linerate_memory::ForeignRegion;

    use super::*;
    use crate::vhost::{
        driver::ring::{PackedRing, SplitRing},
        memory::{Area, RegionSpec},
        packed::{Packed, PackedAreas},
        split::{Split, SplitAreas},
    };

    /// The device fills all buffers, and one is copied.
    fn fill_and_give(ring: impl Ring, mut device: impl Queue, memory: &Arc<Memory>) {
        let buffers = Buffers { memory: Arc::clone(memory), at: 0x1000, stride: 0x100, len: 0x80 };
        let mut posted = Posted::new(ring, buffers, false);
        let mut list = [Plain::default(); 8];
        assert_eq!(device.plain(Access::Write, &mut list), LookResult { count: 4, odd: false });
        list[..4].iter().for_each(|plain| device.give(plain.chain(), 0x40));
        device.publish();
        let mut taken = [Plain::default(); 8];
        assert_eq!(posted.plain(Access::Read, &mut taken), LookResult { count: 4, odd: false });
        assert!((0..4).all(|at| (taken[at].at, taken[at].len) == (list[at].at, 0x40)));
        assert_eq!(posted.available(9), Ok(0));
        posted.give(taken[0].chain(), 0);
        posted.publish();
        // The others have packets that have not been copied.
        assert_eq!(device.plain(Access::Write, &mut list), LookResult { count: 1, odd: false });
        assert_eq!(list[0].at, taken[0].at);
        taken[1..4].iter().for_each(|plain| posted.give(plain.chain(), 0));
        posted.publish();
        assert_eq!(device.plain(Access::Write, &mut list).count, 3);
    }

    #[test]
    fn a_buffer_is_offered_again_when_it_was_copied_and_not_before() {
        let bytes = Arc::new(ForeignRegion::create("test", 1 << 14).unwrap().0);
        let mut memory = Memory::default();
        let spec = RegionSpec { guest: 0x1000, size: 0x1000, user: 0x1000, offset: 0 };
        memory.add(spec, Arc::clone(&bytes));
        let memory = Arc::new(memory);
        let area = |at: usize| Some(Area { bytes: Arc::clone(&bytes), at });
        let areas = SplitAreas::new(4, area(0x1000), area(0x1100), area(0x1200)).unwrap();
        let device = Split::new(&memory, areas.clone(), true);
        fill_and_give(SplitRing::new(areas, true), device, &memory);
        let areas = PackedAreas::new(4, area(0x2000), area(0x2100), area(0x2200)).unwrap();
        let device = Packed::new(&memory, areas.clone(), true, 0x8000, None).unwrap();
        fill_and_give(PackedRing::new(areas, true), device, &memory);
    }
}
