//! The receiving side of a queue.
//!
//! A descriptor is copied, checked and used, in this order, and only then is the packet copied: into
//! a buffer of ours, so that whoever looks at it later sees bytes that stay. See
//! [`ring`](super::ring) for what is in a ring.

use std::{
    sync::{
        Arc,
        atomic::{Ordering, fence},
    },
    time::{Duration, Instant},
};

use linerate_memory::{ForeignRegion, Frame, PoolCache};

use super::{
    handover::Handover,
    negotiation::PortHandle,
    ring::{Connection, Descriptor, Descriptors, Fault, Lane, MASK_INTERRUPT, NEXT},
    zero_copy::Posted,
};
use crate::{
    counters::{Counters, DropReason},
    error::PortError,
    peer::event::Gathered,
    port::{Interest, Receive, Wake},
};

/// Bytes of an Ethernet header: what is shorter is no frame.
pub(super) const ETHERNET: usize = 14;
/// How many descriptors ahead packets are prefetched.
const AHEAD: u16 = 4;
/// How soon a handover is looked at again that the negotiator was at.
const RETRY: Duration = Duration::from_millis(1);

/// The receiving side of a queue.
pub(super) struct MemifReceive {
    ring: Option<InwardRing>,
    handover: Arc<Handover<InwardRing>>,
    seen: u32,
    /// What there is to wait for without a ring.
    idle: Gathered,
    counters: Arc<Counters>,
    /// Closes the port when the last of its queues goes.
    _port: Arc<PortHandle>,
}

/// A ring packets come in by.
#[derive(Debug)]
pub(super) struct InwardRing {
    connection: Arc<Connection>,
    lane: Arc<Lane>,
    /// The next descriptor to look at.
    next: u16,
    /// The ring's interrupt, and the handover's event.
    wake: Gathered,
    /// Whether the peer was asked for interrupts.
    armed: bool,
    /// Packets that are still taken when the connection has ended: what the peer had sent before.
    last: u16,
    /// The buffers of our arena that packets are received into, where they are not copied.
    posted: Option<Posted>,
}

/// What a chain of descriptors was.
enum Chain {
    /// A packet of that length.
    Packet(usize),
    /// Nothing that can be passed on.
    Dropped(DropReason),
    /// Its end is not there yet.
    Unfinished,
}

impl InwardRing {
    pub(super) fn new(
        connection: &Arc<Connection>,
        lane: &Arc<Lane>,
        wake: Gathered,
        posted: Option<Posted>,
    ) -> InwardRing {
        // Interrupts are asked for before sleeping; until then we poll.
        lane.ring.flags().store(MASK_INTERRUPT, Ordering::Relaxed);
        InwardRing {
            connection: Arc::clone(connection),
            lane: Arc::clone(lane),
            next: 0,
            wake,
            armed: false,
            last: lane.ring.size(),
            posted,
        }
    }

    /// Descriptors that the peer says are ours to look at.
    #[inline]
    fn available(&self) -> Result<u16, Fault> {
        // Acquire: pairs with the peer's release behind what it wrote.
        let theirs = self.lane.ring.theirs(self.connection.role).load(Ordering::Acquire);
        let available = theirs.wrapping_sub(self.next);
        // In a client's ring as many as there are have been given to the server, unless there were
        // not enough.
        let most = match &self.posted {
            Some(posted) => posted.count(self.next),
            None => self.lane.ring.size(),
        };
        if available <= most { Ok(available) } else { Err(Fault::Index) }
    }

    /// Whether there is something to do: packets, or a peer to be given up.
    fn is_ready(&self) -> bool {
        self.available() != Ok(0)
    }

    /// Where the bytes of a descriptor are; `None` when it is not inside of the memory it names.
    #[inline]
    fn locate(&self, count: u16, descriptor: &Descriptor) -> Option<(&ForeignRegion, usize)> {
        let len = descriptor.length as usize;
        match &self.lane.buffers {
            // Where our own buffer is nobody needs to tell us.
            Some(buffers) => (1..=buffers.size).contains(&descriptor.length).then(|| {
                (&*self.connection.regions[0], buffers.place(count, self.lane.ring.size()))
            }),
            None => {
                let region = self.connection.regions.get(usize::from(descriptor.region))?;
                let at = descriptor.offset as usize;
                (len > 0 && region.contains(at, len)).then_some((&**region, at))
            }
        }
    }

    /// Copies the packet that begins at `*at` to `to`, and moves `*at` behind it.
    #[inline]
    fn collect(
        &self,
        descriptors: Descriptors<'_>,
        at: &mut u16,
        end: u16,
        to: &mut [u8],
    ) -> Chain {
        let first = descriptors.load(*at);
        if first.flags & NEXT != 0 {
            return self.collect_chain(descriptors, at, end, to);
        }
        let count = *at;
        *at = at.wrapping_add(1);
        let Some((region, place)) = self.locate(count, &first) else {
            return Chain::Dropped(DropReason::Malformed);
        };
        let len = first.length as usize;
        match to.get_mut(..len) {
            Some(_) if len < ETHERNET => Chain::Dropped(DropReason::Malformed),
            Some(to) => {
                if region.read(place, to) {
                    Chain::Packet(len)
                } else {
                    Chain::Dropped(DropReason::Malformed)
                }
            }
            None => Chain::Dropped(DropReason::TooLong),
        }
    }

    /// The same for a packet in several pieces. Whatever is wrong with one of them, all are left
    /// behind: the end of a chain is not to be taken for a packet.
    #[cold]
    #[inline(never)]
    fn collect_chain(
        &self,
        descriptors: Descriptors<'_>,
        at: &mut u16,
        end: u16,
        to: &mut [u8],
    ) -> Chain {
        let mut count = *at;
        let (mut len, mut wrong) = (0, None);
        loop {
            if count == end {
                return Chain::Unfinished;
            }
            let piece = descriptors.load(count);
            if wrong.is_none() {
                match (self.locate(count, &piece), to.get_mut(len..)) {
                    (Some((region, place)), Some(rest)) => {
                        let more = piece.length as usize;
                        match rest.get_mut(..more) {
                            Some(rest) => {
                                len += more;
                                wrong =
                                    (!region.read(place, rest)).then_some(DropReason::Malformed);
                            }
                            None => wrong = Some(DropReason::TooLong),
                        }
                    }
                    _ => wrong = Some(DropReason::Malformed),
                }
            }
            count = count.wrapping_add(1);
            if piece.flags & NEXT == 0 {
                break;
            }
        }
        if self.lane.buffers.is_none() {
            // DPDK's client, 22.11 for one, only ever sets the flag: it would join the packets that
            // come by these descriptors next.
            let mut done = *at;
            while done != count {
                let piece = descriptors.load(done);
                descriptors.store(done, Descriptor { flags: piece.flags & !NEXT, ..piece });
                done = done.wrapping_add(1);
            }
        }
        *at = count;
        match wrong {
            None if len < ETHERNET => Chain::Dropped(DropReason::Malformed),
            None => Chain::Packet(len),
            Some(reason) => Chain::Dropped(reason),
        }
    }

    /// Adds packets to the frame.
    #[inline]
    fn burst(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> Result<usize, Fault> {
        let available = self.available()?;
        if let Some(posted) = &mut self.posted {
            let (ring, end) = (&self.lane.ring, self.next.wrapping_add(available));
            let taken = posted.collect(ring, &mut self.next, end, frame, pool, counters);
            posted.post(ring, self.next, pool);
            return taken;
        }
        if available == 0 {
            return Ok(0);
        }
        let before = frame.len();
        let wanted = usize::from(available).min(frame.room());
        let room = pool.arena().room();
        // Without a buffer nothing is taken, so that nothing is lost.
        let taken = pool.take(frame, wanted, room);
        let end = self.next.wrapping_add(available);
        let (mut at, mut filled, mut bytes) = (self.next, 0, 0);
        let descriptors = self.lane.ring.descriptors();
        let mut endless = false;
        for ahead in 0..AHEAD.min(available) {
            self.prefetch(descriptors, at.wrapping_add(ahead));
        }
        while filled < taken && at != end {
            self.prefetch(descriptors, at.wrapping_add(AHEAD));
            let slot = &mut frame.slots_mut()[before + filled];
            let Some(to) = pool.arena().packet_mut(slot) else { break };
            match self.collect(descriptors, &mut at, end, to) {
                Chain::Packet(len) => {
                    slot.truncate(len);
                    bytes += len as u64;
                    filled += 1;
                }
                Chain::Dropped(reason) => counters.dropped(reason, 1),
                Chain::Unfinished => {
                    endless = end.wrapping_sub(at) == self.lane.ring.size();
                    break;
                }
            }
        }
        for _ in filled..taken {
            if let Some(slot) = frame.pop() {
                pool.give_one(slot);
            }
        }
        counters.passed(filled, bytes);
        self.release(at);
        if endless { Err(Fault::Endless) } else { Ok(filled) }
    }

    /// Prefetches a packet by what its descriptor says now, which nobody relies on.
    #[inline]
    fn prefetch(&self, descriptors: Descriptors<'_>, count: u16) {
        let descriptor = descriptors.load(count);
        if let Some((region, place)) = self.locate(count, &descriptor) {
            region.prefetch(place);
        }
    }

    /// Gives the descriptors in front of `to` back to the peer.
    #[inline]
    fn release(&mut self, to: u16) {
        let ring = &self.lane.ring;
        let mut ours = to;
        if let Some(buffers) = &self.lane.buffers {
            let descriptors = ring.descriptors();
            let mut count = self.next;
            while count != to {
                // The peer may have written anything there.
                descriptors.store(count, buffers.free(count, ring.size()));
                count = count.wrapping_add(1);
            }
            // The head of this ring is a whole ring ahead of what we look at.
            ours = to.wrapping_add(ring.size());
        }
        self.next = to;
        // Release: we have read what we give back, and written what is to be there.
        ring.ours(self.connection.role).store(ours, Ordering::Release);
    }
}

impl Drop for InwardRing {
    fn drop(&mut self) {
        if let Some(posted) = &mut self.posted {
            posted.park(&self.lane.parked);
        }
    }
}

impl MemifReceive {
    pub(super) fn new(
        handover: &Arc<Handover<InwardRing>>,
        port: &Arc<PortHandle>,
    ) -> std::io::Result<MemifReceive> {
        Ok(MemifReceive {
            ring: None,
            seen: 0,
            idle: Gathered::of(&[handover.event()])?,
            handover: Arc::clone(handover),
            counters: Counters::shared(),
            _port: Arc::clone(port),
        })
    }

    /// There is another connection, or none any more.
    #[cold]
    #[inline(never)]
    fn change(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> usize {
        // First what the peer had sent when it went, as far as the frame has room.
        if let Some(ring) = &mut self.ring
            && ring.last > 0
            && let Ok(count @ 1..) = ring.burst(pool, frame, &self.counters)
        {
            ring.last = ring.last.saturating_sub(count as u16);
            return count;
        }
        self.handover.exchange(&mut self.ring, &mut self.seen);
        0
    }

    #[cold]
    #[inline(never)]
    fn fail(&mut self, fault: Fault) {
        self.counters.dropped(DropReason::Malformed, 1);
        if let Some(ring) = &self.ring {
            ring.connection.report(fault);
        }
        self.handover.leave(&mut self.ring);
    }
}

impl Receive for MemifReceive {
    #[inline]
    fn receive(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        if self.handover.has_changed(self.seen) {
            let received = self.change(pool, frame);
            if received > 0 {
                return Ok(received);
            }
        }
        let Some(ring) = &mut self.ring else { return Ok(0) };
        if ring.armed {
            ring.lane.ring.flags().store(MASK_INTERRUPT, Ordering::Relaxed);
            ring.armed = false;
        }
        match ring.burst(pool, frame, &self.counters) {
            Ok(received) => Ok(received),
            Err(fault) => {
                self.fail(fault);
                Ok(0)
            }
        }
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn wake(&mut self) -> Wake<'_> {
        if self.handover.has_changed(self.seen) {
            // If the negotiator was in the way, it is soon gone.
            return Wake::At(Instant::now() + RETRY);
        }
        let Some(ring) = &mut self.ring else {
            self.idle.forget();
            if self.handover.has_changed(self.seen) {
                return Wake::Now;
            }
            return Wake::Fd(std::os::fd::AsFd::as_fd(&self.idle), Interest::Read);
        };
        if !ring.armed {
            ring.armed = true;
            ring.lane.ring.flags().store(0, Ordering::Relaxed);
            // What was set before does not count; what is published behind this fence is told of.
            ring.wake.forget();
        }
        fence(Ordering::SeqCst);
        if ring.is_ready() || self.handover.has_changed(self.seen) {
            return Wake::Now;
        }
        if ring.posted.as_ref().is_some_and(|posted| posted.count(ring.next) == 0) {
            // Nobody tells when a buffer is free again.
            return Wake::At(Instant::now() + RETRY);
        }
        Wake::Fd(std::os::fd::AsFd::as_fd(&ring.wake), Interest::Read)
    }
}
