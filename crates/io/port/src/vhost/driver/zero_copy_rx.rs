//! Packets of a device that has put them into buffers of our arena.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{Ordering, fence},
    },
};

use linerate_memory::{FRAME_DEFAULT, Frame, PoolCache, Slot, prefetch};

use super::{
    in_flight::InFlight,
    posted::BUFFERS,
    ring::{Ring, Used},
};
use crate::{
    counters::{Counters, DropReason},
    fill::FillResult,
    peer::interrupt::Interrupt,
    vhost::{
        memory::Memory,
        queue::{Access, BATCH, Fault, Piece, Pieces, WRITE},
        queue_slot::{Control, RxQueue},
        rx::{Source, take_all},
        unpack::{ETHERNET, Unpack},
    },
};

/// Flag of a header: a checksum is to be computed.
const NEEDS_CHECKSUM: u8 = 1;

/// A queue of buffers that are lent.
pub(super) struct ZeroCopyRx<R> {
    ring: R,
    kick: Arc<Interrupt>,
    lent: InFlight,
    /// The memory of all buffers, to copy out of those that come back.
    memory: Arc<Memory>,
    header: usize,
    mergeable: bool,
    armed: bool,
    /// Packets a buffer of ours has room for.
    room: usize,
    unpack: Unpack,
    pieces: Pieces,
    scratch: Frame,
    /// Buffers that came back and have not been looked at.
    arrived: VecDeque<Slot>,
    /// Buffers of a packet of which not all are there yet, and how many are to come.
    some: Vec<Slot>,
    missing: usize,
}

/// Negotiated properties of a connection.
pub(super) struct Negotiated {
    pub(super) header: usize,
    pub(super) mergeable: bool,
    pub(super) offloads: bool,
}

impl<R: Ring> ZeroCopyRx<R> {
    pub(super) fn new(
        ring: R,
        kick: Arc<Interrupt>,
        lent: InFlight,
        memory: Arc<Memory>,
        said: &Negotiated,
    ) -> ZeroCopyRx<R> {
        let room = lent.arena().room();
        let some = Vec::with_capacity(ring.size().into());
        ZeroCopyRx {
            ring,
            kick,
            lent,
            memory,
            header: said.header,
            mergeable: said.mergeable,
            armed: false,
            room,
            unpack: Unpack::new(said.header, said.offloads),
            pieces: Pieces::new(),
            scratch: Frame::new(FRAME_DEFAULT),
            arrived: VecDeque::with_capacity(BATCH),
            some,
            missing: 0,
        }
    }

    /// Lends the device a buffer for each number, as far as there are free ones.
    #[inline]
    fn post(&mut self, pool: &mut PoolCache) {
        let mut left = self.ring.room();
        while left > 0 {
            let taken = pool.take(&mut self.scratch, left, self.room);
            if taken == 0 {
                break;
            }
            let ZeroCopyRx { ring, lent, header, scratch, .. } = self;
            scratch.drain_front(taken, |mut slot| {
                let Some(number) = ring.vacant(0).filter(|_| slot.push(*header)) else {
                    return pool.give_one(slot);
                };
                ring.offer(&[lent.piece(&slot)], WRITE);
                lent.lend(number, slot);
            });
            left -= taken;
        }
    }

    /// Takes buffers that the device has used, at most `most`, and prefetches their headers. Returns
    /// whether there may be more.
    #[inline]
    fn look(
        &mut self,
        most: usize,
        pool: &mut PoolCache,
        counters: &Counters,
    ) -> Result<bool, Fault> {
        let ZeroCopyRx { ring, lent, arrived, .. } = self;
        let mut list = [Used::default(); BATCH];
        let count = ring.take(&mut list[..most.min(BATCH)])?;
        for &Used { number, written } in &list[..count] {
            ring.release(number);
            let mut slot = lent.take(number).ok_or(Fault::Descriptor)?;
            let written = written as usize;
            if !(1..=self.header + self.room).contains(&written) {
                counters.dropped(DropReason::Malformed, 1);
                pool.give_one(slot);
                continue;
            }
            slot.truncate(written);
            prefetch(lent.arena().packet(&slot));
            arrived.push_back(slot);
        }
        Ok(count == BATCH)
    }

    /// Returns true if a packet is in this buffer alone and nothing was left undone.
    #[inline]
    fn is_plain(&self, slot: &Slot) -> bool {
        let header = self.lent.arena().packet(slot);
        let undone = header[0] & NEEDS_CHECKSUM != 0 || header[1] != 0;
        !undone && self.count(header) <= 1
    }

    /// Number of buffers of a packet that begins with this header.
    #[inline]
    fn count(&self, header: &[u8]) -> usize {
        let at = BUFFERS as usize;
        match header.get(at..at + 2) {
            Some(&[low, high]) if self.mergeable => u16::from_le_bytes([low, high]).into(),
            _ => 1,
        }
    }

    /// Copies a packet that is not plain, once all of it is there. Returns the result, with the
    /// first of its buffers.
    #[cold]
    #[inline(never)]
    fn gather(&mut self, slot: Slot, pool: &mut PoolCache) -> Option<(Slot, FillResult)> {
        if self.missing == 0 {
            self.missing = self.count(self.lent.arena().packet(&slot)).max(1);
            if self.missing > usize::from(self.ring.size()) {
                self.missing = 0;
                return Some((slot, FillResult::Dropped(DropReason::Malformed)));
            }
        }
        self.some.push(slot);
        self.missing -= 1;
        if self.missing > 0 {
            return None;
        }
        self.pieces.clear();
        for slot in &self.some {
            let Piece { at, len } = self.lent.piece(slot);
            self.pieces.push(Access::Read, at, len, 0);
        }
        let result = match pool.take_one(self.room) {
            Some(mut to) => {
                let taken = match pool.arena().packet_mut(&mut to) {
                    Some(to) => self.unpack.take(&self.memory, &self.pieces, to),
                    None => FillResult::Dropped(DropReason::NoBuffer),
                };
                if let FillResult::Packet(len) = taken {
                    to.truncate(len);
                }
                Some((to, taken))
            }
            None => {
                let slot = self.some.pop();
                slot.map(|slot| (slot, FillResult::Dropped(DropReason::NoBuffer)))
            }
        };
        self.some.drain(..).for_each(|slot| pool.give_one(slot));
        result
    }
}

impl<R> Drop for ZeroCopyRx<R> {
    fn drop(&mut self) {
        let mut pool = self.lent.arena().cache(self.some.len() + self.arrived.len());
        self.some.drain(..).chain(self.arrived.drain(..)).for_each(|slot| pool.give_one(slot));
    }
}

impl<R: Ring> Control for ZeroCopyRx<R> {
    fn adjust(&mut self, _: Option<&Arc<Interrupt>>, _: bool) {}

    fn position(&self) -> u32 {
        0
    }
}

impl<R: Ring> Source for ZeroCopyRx<R> {
    #[inline]
    fn unpack(&mut self) -> &mut Unpack {
        &mut self.unpack
    }

    #[inline]
    fn take_some(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> Result<usize, Fault> {
        let (mut packets, mut bytes, mut fault, mut more) = (0, 0, None, true);
        while frame.room() > 0 {
            if self.arrived.is_empty() {
                if !more {
                    break;
                }
                match self.look(frame.room(), pool, counters) {
                    Ok(full) => more = full,
                    Err(found) => {
                        fault = Some(found);
                        break;
                    }
                }
            }
            let Some(mut slot) = self.arrived.pop_front() else { break };
            let is_long = slot.len() >= self.header + ETHERNET;
            if self.missing == 0 && is_long && self.is_plain(&slot) {
                slot.pull(self.header);
                packets += 1;
                bytes += slot.len() as u64;
                if let Err(slot) = frame.push(slot) {
                    pool.give_one(slot);
                }
                continue;
            }
            match self.gather(slot, pool) {
                Some((slot, FillResult::Packet(_))) => {
                    packets += 1;
                    bytes += slot.len() as u64;
                    if let Err(slot) = frame.push(slot) {
                        pool.give_one(slot);
                    }
                }
                Some((slot, FillResult::End)) => {
                    pool.give_one(slot);
                    break;
                }
                Some((slot, FillResult::Dropped(reason))) => {
                    counters.dropped(reason, 1);
                    pool.give_one(slot);
                }
                None => {}
            }
        }
        counters.passed(packets, bytes);
        match fault {
            Some(fault) if packets == 0 => Err(fault),
            _ => Ok(packets),
        }
    }
}

impl<R: Ring> RxQueue for ZeroCopyRx<R> {
    #[inline]
    fn burst(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> Result<usize, Fault> {
        if self.armed {
            self.ring.disarm();
            self.armed = false;
        }
        let received = take_all(self, pool, frame, counters);
        self.post(pool);
        if self.ring.publish() {
            self.kick.raise();
        }
        received
    }

    fn arm(&mut self) -> bool {
        self.armed = true;
        self.ring.arm();
        // Pairs with the device's fence between its index and its look at the event we want.
        fence(Ordering::SeqCst);
        // A worker that sleeps lends nothing, so it has to have lent something before.
        self.unpack.has_segments()
            || !self.arrived.is_empty()
            || self.ring.outstanding() == 0
            || self.ring.used(1) != Ok(0)
    }
}
