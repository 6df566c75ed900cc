//! A client whose shared memory is our arena: the peer reads and writes our buffers themselves.
//!
//! A descriptor names a buffer that is *lent*: it stays taken, as one the kernel has, and has no
//! slot here. Its number is remembered by its place in the ring ([`InFlight`]). The peer gives
//! buffers back by moving its count past them, so in order and each once, and no place, number or
//! address that it writes is believed: of a packet only flags and length are read, and checked
//! against the lent buffer. Buffers it does not give back before it goes come home when the last
//! user of the connection has let go of it, which the negotiator is until the peer has closed its
//! end of the socket ([`settle`](super::client)).
//!
//! # Trust in the peer
//!
//! It has the whole arena mapped for writing: buffers, metadata and share counts of all ports of
//! the program. A packet is looked at through references once its buffer is back, and would be so
//! during writes if the peer wrote to a buffer that it has given back, or was never given. That it
//! does not is a promise of the protocol which nothing enforces; so this is for peers one trusts as
//! oneself, and has to be asked for. Others get memory of their own, and a copy.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Mutex, atomic::Ordering},
};

use linerate_memory::{Arena, FRAME_DEFAULT, Frame, PoolCache, RawSlot, Slot};

use super::{
    receive::ETHERNET,
    ring::{Descriptor, Descriptors, Fault, NEXT, Ring},
};
use crate::counters::{Counters, DropReason};

/// The number of the region that is the arena: rings are in the one before.
pub(super) const REGION: u16 = 1;
/// Entry of a place from which nothing was lent yet.
const NOTHING: RawSlot = RawSlot { buffer: u32::MAX, offset: 0, length: 0 };

/// The memory of the arena, to be given to a peer.
pub(super) fn region(arena: &Arena) -> io::Result<OwnedFd> {
    // SAFETY: the peer writes only to buffers that it was lent, as the user has promised for it when
    // the port was opened (see above). Nothing of ours uses the descriptor otherwise.
    unsafe { arena.fd() }?.try_clone_to_owned()
}

/// Returns true if every buffer of the arena can be named by the 32 bits of a descriptor's offset.
pub(super) fn fits(arena: &Arena) -> bool {
    arena.size() as u64 <= u64::from(u32::MAX)
}

/// The buffers a peer has by a ring, each at the place of its descriptor. They are lent and come back in
/// the order of the ring, so they are those between two counts.
#[derive(Debug)]
pub(super) struct InFlight {
    arena: Arena,
    /// Offset of the first buffer in the region.
    base: usize,
    /// By count, around the end: the buffers lent from `first` to `end`.
    slots: Box<[RawSlot]>,
    first: u16,
    end: u16,
}

impl InFlight {
    fn new(arena: &Arena, ring: &Ring) -> InFlight {
        let slots = vec![NOTHING; usize::from(ring.size())].into();
        InFlight { arena: arena.clone(), base: arena.file_offset(), slots, first: 0, end: 0 }
    }

    /// Buffers the peer has.
    #[inline]
    fn count(&self) -> u16 {
        self.end.wrapping_sub(self.first)
    }

    #[inline]
    fn place(&mut self, count: u16) -> &mut RawSlot {
        let mask = self.slots.len() - 1;
        &mut self.slots[usize::from(count) & mask]
    }

    /// Lends a buffer to the peer, by the descriptor that is returned and whose count was the end.
    #[inline]
    fn lend(&mut self, slot: Slot) -> Descriptor {
        debug_assert!(usize::from(self.count()) < self.slots.len(), "what was there is leaked");
        let offset = (self.base + self.arena.position(&slot)) as u32;
        let raw = slot.into_raw();
        *self.place(self.end) = raw;
        self.end = self.end.wrapping_add(1);
        Descriptor { flags: 0, region: REGION, length: raw.length.into(), offset }
    }

    /// The buffer that was lent before all the others, as it was lent.
    #[inline]
    fn take(&mut self) -> Option<Slot> {
        if self.first == self.end {
            return None;
        }
        let raw = *self.place(self.first);
        self.first = self.first.wrapping_add(1);
        // SAFETY: the place was in front of the end, so a slot was given to `lend` for it, and is not
        // behind the first any more: no other slot is made of it.
        Some(unsafe { Slot::from_raw(raw) })
    }
}

impl Drop for InFlight {
    /// Takes home the buffers that were not given back.
    fn drop(&mut self) {
        let mut pool = self.arena.cache(self.slots.len());
        while let Some(slot) = self.take() {
            pool.give_one(slot);
        }
    }
}

/// The most places of a ring whose buffers are not given or taken back at once, so that lines with counts
/// and descriptors go from one side to the other less often.
const LATER: u16 = 128;

/// Buffers of a ring that no worker uses any more, until the connection is over.
#[derive(Debug, Default)]
pub(super) struct Parked(Mutex<Option<InFlight>>);

impl Parked {
    fn park(&self, lent: InFlight) {
        // A ring has one user at a time, and a connection one user after the other of each.
        let before = self.0.lock().expect("no panic while held").replace(lent);
        debug_assert!(before.is_none());
    }
}

/// Free buffers that the peer has, to put packets in.
#[derive(Debug)]
pub(super) struct ZeroCopyRx {
    lent: Option<InFlight>,
    /// Bytes the peer may write into each.
    capacity: usize,
    scratch: Frame,
}

impl ZeroCopyRx {
    /// None yet, of `buffer` bytes or, where the arena's are shorter, of those.
    pub(super) fn new(arena: &Arena, ring: &Ring, buffer: usize) -> ZeroCopyRx {
        ZeroCopyRx {
            lent: Some(InFlight::new(arena, ring)),
            capacity: buffer.min(arena.room()),
            scratch: Frame::new(FRAME_DEFAULT),
        }
    }

    /// Leaves the buffers that the peer has.
    pub(super) fn park(&mut self, at: &Parked) {
        if let Some(lent) = self.lent.take() {
            at.park(lent);
        }
    }

    /// Buffers the peer has.
    #[inline]
    pub(super) fn count(&self) -> u16 {
        self.lent.as_ref().map_or(0, InFlight::count)
    }

    /// Gives the peer buffers for all places of the ring, as far as there are free ones, once enough are
    /// missing.
    #[inline]
    pub(super) fn post(&mut self, ring: &Ring, pool: &mut PoolCache) {
        let ZeroCopyRx { lent: Some(lent), capacity, scratch } = self else { return };
        let missing = ring.size() - lent.count();
        if missing == 0 || missing < (ring.size() / 4).min(LATER / 4) {
            return;
        }
        let descriptors = ring.descriptors();
        let mut left = usize::from(missing);
        while left > 0 {
            let taken = pool.take(scratch, left, *capacity);
            if taken == 0 {
                break;
            }
            scratch.drain_front(taken, |slot| {
                descriptors.store(lent.end, lent.lend(slot));
            });
            left -= taken;
        }
        // Release: the descriptors are there before the count that says so.
        ring.head().store(lent.end, Ordering::Release);
    }

    /// Moves the packets from `next` to `end` into the frame, and `next` behind them.
    #[inline]
    pub(super) fn collect(
        &mut self,
        ring: &Ring,
        next: &mut u16,
        end: u16,
        frame: &mut Frame,
        pool: &mut PoolCache,
        counters: &Counters,
    ) -> Result<usize, Fault> {
        let (mut packets, mut bytes) = (0, 0);
        let mut fault = None;
        let descriptors = ring.descriptors();
        let ZeroCopyRx { lent: Some(lent), capacity, .. } = self else { return Ok(0) };
        while *next != end && frame.room() > 0 {
            let first = descriptors.load(*next);
            let packet = if first.flags & NEXT == 0 {
                let slot = lent.take();
                *next = next.wrapping_add(1);
                let Some(mut slot) = slot else {
                    fault = Some(Fault::Index);
                    break;
                };
                let len = first.length as usize;
                if (ETHERNET..=*capacity).contains(&len) {
                    slot.truncate(len);
                    Ok(slot)
                } else {
                    Err((slot, DropReason::Malformed))
                }
            } else {
                match join(lent, descriptors, next, end, *capacity, pool) {
                    Some(packet) => packet,
                    None => {
                        let is_whole_ring = end.wrapping_sub(*next) == ring.size();
                        fault = is_whole_ring.then_some(Fault::Endless);
                        break;
                    }
                }
            };
            match packet {
                Ok(slot) => {
                    packets += 1;
                    bytes += slot.len() as u64;
                    if let Err(slot) = frame.push(slot) {
                        pool.give_one(slot);
                    }
                }
                Err((slot, reason)) => {
                    counters.dropped(reason, 1);
                    pool.give_one(slot);
                }
            }
        }
        counters.passed(packets, bytes);
        fault.map_or(Ok(packets), Err)
    }
}

/// A packet, or an empty buffer and why it has none.
type Joined = Result<Slot, (Slot, DropReason)>;

/// A packet in several buffers, copied together into the first of them; `None` when its end is not
/// there yet, and nothing has happened then.
#[cold]
#[inline(never)]
fn join(
    lent: &mut InFlight,
    descriptors: Descriptors<'_>,
    next: &mut u16,
    end: u16,
    capacity: usize,
    pool: &mut PoolCache,
) -> Option<Joined> {
    let mut behind = *next;
    while descriptors.load(behind).flags & NEXT != 0 {
        behind = behind.wrapping_add(1);
        if behind == end {
            return None;
        }
    }
    behind = behind.wrapping_add(1);
    let arena = lent.arena.clone();
    let mut packet = lent.take()?;
    packet.truncate(0);
    let mut wrong = None;
    let mut at = *next;
    while at != behind {
        let len = descriptors.load(at).length as usize;
        let piece = if at == *next { None } else { Some(lent.take()?) };
        let before = packet.len();
        if !(1..=capacity).contains(&len) {
            wrong = Some(DropReason::Malformed);
        } else if wrong.is_none() && !arena.resize(&mut packet, before + len) {
            wrong = Some(DropReason::TooLong);
        }
        if let Some(mut piece) = piece {
            if wrong.is_none() {
                piece.truncate(len);
                let to = arena.packet_mut(&mut packet).and_then(|to| to.get_mut(before..));
                match to {
                    Some(to) => to.copy_from_slice(arena.packet(&piece)),
                    None => wrong = Some(DropReason::Malformed),
                }
            }
            pool.give_one(piece);
        }
        at = at.wrapping_add(1);
    }
    *next = behind;
    Some(match wrong {
        None if packet.len() < ETHERNET => Err((packet, DropReason::Malformed)),
        None => Ok(packet),
        Some(reason) => Err((packet, reason)),
    })
}

/// Packets the peer has, to read.
#[derive(Debug)]
pub(super) struct ZeroCopyTx {
    lent: Option<InFlight>,
    scratch: Frame,
}

impl ZeroCopyTx {
    pub(super) fn new(arena: &Arena, ring: &Ring) -> ZeroCopyTx {
        ZeroCopyTx { lent: Some(InFlight::new(arena, ring)), scratch: Frame::new(FRAME_DEFAULT) }
    }

    /// As [`ZeroCopyRx::park`].
    pub(super) fn park(&mut self, at: &Parked) {
        if let Some(lent) = self.lent.take() {
            at.park(lent);
        }
    }

    /// As [`ZeroCopyTx::reap`], if there are many, or else no place for so many more.
    #[inline]
    pub(super) fn reap_some(
        &mut self,
        ring: &Ring,
        more: usize,
        pool: &mut PoolCache,
    ) -> Result<u16, Fault> {
        let count = self.lent.as_ref().map_or(0, InFlight::count);
        let most = (ring.size() / 2).min(LATER);
        let waits = count < most && usize::from(ring.size() - count) >= more;
        if waits { Ok(count) } else { self.reap(ring, pool) }
    }

    /// Takes back the buffers the peer has read; returns how many it has yet.
    #[inline]
    pub(super) fn reap(&mut self, ring: &Ring, pool: &mut PoolCache) -> Result<u16, Fault> {
        // Acquire: pairs with the peer's release behind its reads.
        let theirs = ring.tail().load(Ordering::Acquire);
        let ZeroCopyTx { lent: Some(lent), scratch } = self else { return Ok(0) };
        if theirs.wrapping_sub(lent.first) > lent.count() {
            return Err(Fault::Index);
        }
        while lent.first != theirs {
            let Some(slot) = lent.take() else { break };
            if let Err(slot) = scratch.push(slot) {
                pool.give(scratch);
                pool.give_one(slot);
            }
        }
        pool.give(scratch);
        Ok(lent.count())
    }

    /// Lends the packets at the front of the frame, at most `count` of them, by the descriptors from
    /// `next` on.
    #[inline]
    pub(super) fn lend(
        &mut self,
        ring: &Ring,
        next: &mut u16,
        (frame, count): (&mut Frame, usize),
        pool: &mut PoolCache,
        counters: &Counters,
    ) {
        let ZeroCopyTx { lent: Some(lent), .. } = self else { return };
        let descriptors = ring.descriptors();
        let (mut packets, mut bytes) = (0, 0);
        frame.drain_front(count, |slot| {
            if slot.is_empty() {
                counters.dropped(DropReason::Malformed, 1);
                return pool.give_one(slot);
            }
            packets += 1;
            bytes += slot.len() as u64;
            descriptors.store(*next, lent.lend(slot));
            *next = next.wrapping_add(1);
        });
        counters.passed(packets, bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use linerate_memory::{ArenaOptions, ForeignRegion};

    use super::*;

    fn rig() -> (Arena, PoolCache, Ring, Counters) {
        let options = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let arena = options.create().unwrap();
        let memory = Arc::new(ForeignRegion::create("test", 4096).unwrap().0);
        (arena.clone(), arena.cache(16), Ring::new(&memory, 0, 3).unwrap(), Counters::default())
    }

    /// Plays a server that writes a packet into the free buffer of a count.
    fn fill(ring: &Ring, count: u16, length: u32, flags: u16) {
        let free = ring.descriptors().load(count);
        ring.descriptors().store(count, Descriptor { flags, length, ..free });
    }

    #[test]
    fn posted_buffers_come_back_as_packets_or_when_the_ring_goes() {
        let (arena, mut pool, ring, counters) = rig();
        let mut posted = ZeroCopyRx::new(&arena, &ring, 2048);
        posted.post(&ring, &mut pool);
        assert_eq!((posted.count(), ring.head().load(Ordering::Relaxed)), (8, 8));
        assert_eq!(arena.accounting().held, 8);
        // A packet, one that is too short, one longer than its buffer.
        [60, 13, 5000].into_iter().enumerate().for_each(|(at, len)| {
            fill(&ring, at as u16, len, 0);
        });
        let (mut frame, mut next) = (Frame::new(8), 0);
        let taken = posted.collect(&ring, &mut next, 3, &mut frame, &mut pool, &counters);
        assert_eq!((taken, next, frame.slots()[0].len()), (Ok(1), 3, 60));
        assert_eq!((counters.read().dropped(), arena.accounting().held), (2, 6));
        posted.post(&ring, &mut pool);
        assert_eq!((posted.count(), arena.accounting().held), (8, 9));
        pool.give(&mut frame);
        let parked = Parked::default();
        posted.park(&parked);
        drop(posted);
        assert_eq!(arena.accounting().held, 8);
        drop(parked);
        assert_eq!(arena.accounting().held, 0);
    }

    #[test]
    fn lent_buffers_come_back_in_their_order_and_each_once() {
        let (arena, mut pool, ring, _) = rig();
        let mut lent = InFlight::new(&arena, &ring);
        // More than once around the ring, and around all counts.
        (lent.first, lent.end) = (65_530, 65_530);
        let mut there = std::collections::VecDeque::new();
        for round in 0..40 {
            while lent.count() < ring.size() {
                let slot = pool.take_one(60).unwrap();
                there.push_back(arena.position(&slot));
                lent.lend(slot);
            }
            for _ in 0..1 + round % 8 {
                let slot = lent.take().unwrap();
                assert_eq!(Some(arena.position(&slot)), there.pop_front());
                pool.give_one(slot);
            }
        }
        while let Some(slot) = lent.take() {
            assert_eq!(Some(arena.position(&slot)), there.pop_front());
            pool.give_one(slot);
        }
        assert_eq!((there.len(), arena.accounting().held), (0, 0));
    }

    #[test]
    fn chains_are_joined_and_wrong_ones_dropped_whole() {
        let (arena, mut pool, ring, counters) = rig();
        let mut posted = ZeroCopyRx::new(&arena, &ring, 100);
        posted.post(&ring, &mut pool);
        for (count, len, flags) in
            [(0, 100, NEXT), (1, 50, 0), (2, 100, NEXT), (3, 101, NEXT), (4, 1, 0), (5, 60, NEXT)]
        {
            fill(&ring, count, len, flags);
        }
        let (mut frame, mut next) = (Frame::new(8), 0);
        let taken = posted.collect(&ring, &mut next, 6, &mut frame, &mut pool, &counters);
        assert_eq!((taken, next, frame.slots()[0].len()), (Ok(1), 5, 150));
        assert_eq!((counters.read().dropped(), frame.len()), (1, 1));
        // One without an end, once it fills the ring.
        (5..13).for_each(|count| fill(&ring, count, 60, NEXT));
        posted.post(&ring, &mut pool);
        (5..13).for_each(|count| fill(&ring, count, 60, NEXT));
        let taken = posted.collect(&ring, &mut next, 13, &mut frame, &mut pool, &counters);
        assert_eq!(taken, Err(Fault::Endless));
        pool.give(&mut frame);
        drop(posted);
        assert_eq!(arena.accounting().held, 0);
    }

    #[test]
    fn a_sent_buffer_comes_back_once_and_not_before() {
        let (arena, mut pool, ring, counters) = rig();
        let mut sent = ZeroCopyTx::new(&arena, &ring);
        let (mut frame, mut next) = (Frame::new(8), 65_533);
        let lent = sent.lent.as_mut().unwrap();
        (lent.first, lent.end) = (next, next);
        ring.tail().store(next, Ordering::Relaxed);
        pool.take(&mut frame, 5, 60);
        sent.lend(&ring, &mut next, (&mut frame, 5), &mut pool, &counters);
        assert_eq!((next, frame.len(), arena.accounting().held), (2, 0, 5));
        ring.tail().store(0, Ordering::Relaxed);
        assert_eq!(sent.reap(&ring, &mut pool), Ok(2));
        assert_eq!(arena.accounting().held, 2);
        // Behind the count that was given, and back.
        for wrong in [3, 65_535] {
            ring.tail().store(wrong, Ordering::Relaxed);
            assert_eq!(sent.reap(&ring, &mut pool), Err(Fault::Index));
        }
        drop(sent);
        assert_eq!(arena.accounting().held, 0);
    }
}
