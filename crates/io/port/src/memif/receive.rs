//! The receiving side of a queue.
//!
//! A descriptor is copied, checked and used, in this order, and only then is the packet copied:
//! into a buffer of ours, so that later readers see bytes that stay. See [`ring`](super::ring) for
//! the contents of a ring.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{Ordering, fence},
    },
    time::{Duration, Instant},
};

use linerate_memory::{ForeignBytes, Frame, PoolCache};

use super::{
    handover::Handover,
    negotiation::PortHandle,
    ring::{BATCH, Connection, Descriptor, Fault, Lane, MASK_INTERRUPT, NEXT},
    zero_copy::ZeroCopyRx,
};
use crate::{
    counters::{Counters, DropReason},
    error::PortError,
    fill::{FillResult, fill},
    peer::event::{self, EventSet},
    port::{Interest, Receive, Wake},
};

/// Bytes of an Ethernet header: a shorter packet is no frame.
pub(super) const ETHERNET: usize = 14;
/// Interval of looks at a handover that the negotiator has locked.
const RETRY: Duration = Duration::from_millis(1);

/// The receiving side of a queue.
pub(super) struct MemifReceive {
    ring: Option<RxRing>,
    handover: Arc<Handover<RxRing>>,
    seen: u32,
    /// Events to wait for without a ring.
    idle: EventSet,
    counters: Arc<Counters>,
    /// Closes the port when the last of its queues goes.
    _port: Arc<PortHandle>,
}

/// A ring packets come in by.
#[derive(Debug)]
pub(super) struct RxRing {
    connection: Arc<Connection>,
    lane: Arc<Lane>,
    /// The next descriptor to look at.
    next: u16,
    /// Up to where descriptors are known to be ours to look at.
    end: u16,
    /// The ring's interrupt, and the handover's event.
    wake: EventSet,
    /// Whether the peer was asked for interrupts.
    armed: bool,
    /// Packets that are still taken when the connection has ended: those that the peer had sent
    /// before.
    last: u16,
    /// The buffers of our arena that packets are received into, where they are not copied.
    posted: Option<ZeroCopyRx>,
}

impl RxRing {
    pub(super) fn new(
        connection: &Arc<Connection>,
        lane: &Arc<Lane>,
        wake: EventSet,
        posted: Option<ZeroCopyRx>,
    ) -> RxRing {
        // Interrupts are asked for before sleeping; until then we poll.
        lane.ring.flags().store(MASK_INTERRUPT, Ordering::Relaxed);
        RxRing {
            connection: Arc::clone(connection),
            lane: Arc::clone(lane),
            next: 0,
            end: 0,
            wake,
            armed: false,
            last: lane.ring.size(),
            posted,
        }
    }

    /// Descriptors that the peer says are ours to look at.
    #[inline]
    fn available(&self) -> Result<u16, Fault> {
        // Acquire: pairs with the peer's release behind its writes.
        let theirs = self.lane.ring.theirs(self.connection.role).load(Ordering::Acquire);
        let available = theirs.wrapping_sub(self.next);
        // In a client's ring as many as there are have been given to the server, unless there were
        // not enough.
        let most = match &self.posted {
            Some(posted) => posted.count(),
            None => self.lane.ring.size(),
        };
        if available <= most { Ok(available) } else { Err(Fault::Index) }
    }

    /// Returns true if there is something to do: packets, or a peer to be given up.
    fn is_ready(&self) -> bool {
        self.available() != Ok(0)
    }

    /// Looks at the packets between two counts that have one descriptor each, as many as the list has
    /// place for, and prefetches them; returns how many there are in front of one that has several.
    #[inline]
    fn look<'a>(&'a self, from: u16, end: u16, list: &mut [ForeignBytes<'a>]) -> usize {
        let descriptors = self.lane.ring.descriptors();
        let ready = usize::from(end.wrapping_sub(from)).min(list.len());
        let mut at = from;
        for (count, bytes) in list[..ready].iter_mut().enumerate() {
            let descriptor = descriptors.load(at);
            if descriptor.flags & NEXT != 0 {
                return count;
            }
            *bytes = self.connection.locate(&self.lane, at, &descriptor);
            bytes.prefetch(0);
            at = at.wrapping_add(1);
        }
        ready
    }

    /// Copies the packet, plain or a chain, that begins at `*at`, and moves `*at` behind it. When
    /// one of its pieces is wrong, all are left behind: the end of a chain is not to be taken for a
    /// packet.
    fn collect(&self, at: &mut u16, end: u16, to: &mut [u8]) -> FillResult {
        let descriptors = self.lane.ring.descriptors();
        let mut count = *at;
        let (mut len, mut wrong) = (0, None);
        loop {
            if count == end {
                return FillResult::End;
            }
            let descriptor = descriptors.load(count);
            if wrong.is_none() {
                let piece = self.connection.locate(&self.lane, count, &descriptor);
                match to[len..].get_mut(..piece.len()) {
                    Some(to) => {
                        let copied = !piece.is_empty() && piece.read(to);
                        wrong = (!copied).then_some(DropReason::Malformed);
                        len += piece.len();
                    }
                    None => wrong = Some(DropReason::TooLong),
                }
            }
            count = count.wrapping_add(1);
            if descriptor.flags & NEXT == 0 {
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
            None if len < ETHERNET => FillResult::Dropped(DropReason::Malformed),
            None => FillResult::Packet(len),
            Some(reason) => FillResult::Dropped(reason),
        }
    }

    /// Adds packets to the frame, of which the next has several descriptors, and moves `*at` behind
    /// them.
    #[cold]
    #[inline(never)]
    fn take_chains(
        &self,
        at: &mut u16,
        end: u16,
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> Result<usize, Fault> {
        let most = usize::from(end.wrapping_sub(*at)).min(frame.room());
        let mut unfinished = false;
        let received = fill(pool, frame, counters, most, |to| {
            let came = if *at == end { FillResult::End } else { self.collect(at, end, to) };
            unfinished = matches!(came, FillResult::End);
            came
        });
        let is_whole_ring = end.wrapping_sub(*at) == self.lane.ring.size();
        if unfinished && is_whole_ring { Err(Fault::Endless) } else { Ok(received) }
    }

    /// Adds packets to the frame.
    #[inline]
    fn burst(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> Result<usize, Fault> {
        // The peer's count comes from another processor: not to be looked at while there is enough.
        let mut available = self.end.wrapping_sub(self.next);
        if usize::from(available) < frame.room() {
            available = self.available()?;
            self.end = self.next.wrapping_add(available);
        }
        if let Some(posted) = &mut self.posted {
            let (ring, end) = (&self.lane.ring, self.end);
            let taken = posted.collect(ring, &mut self.next, end, frame, pool, counters);
            posted.post(ring, pool);
            if taken == Ok(0) {
                self.end = self.next;
            }
            return taken;
        }
        if available == 0 {
            return Ok(0);
        }
        let (mut at, end) = (self.next, self.end);
        let mut received = 0;
        while at != end && frame.room() > 0 {
            let mut list = [ForeignBytes::default(); BATCH];
            let most = frame.room().min(BATCH);
            let count = self.look(at, end, &mut list[..most]);
            if count == 0 {
                received += self.take_chains(&mut at, end, pool, frame, counters)?;
                break;
            }
            let mut pieces = list[..count].iter();
            received += fill(pool, frame, counters, count, |to| match pieces.next() {
                Some(piece) => copy(piece, to),
                None => FillResult::End,
            });
            let left = pieces.len();
            at = at.wrapping_add((count - left) as u16);
            if left > 0 {
                // There are no more buffers.
                break;
            }
        }
        self.release(at);
        if received == 0 {
            // The first may go on behind the known descriptors.
            self.end = self.next;
        }
        Ok(received)
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
            // The head of this ring is a whole ring ahead of the descriptors we look at.
            ours = to.wrapping_add(ring.size());
        }
        self.next = to;
        // Release: we have read the buffers we give back, and written their descriptors.
        ring.ours(self.connection.role).store(ours, Ordering::Release);
    }
}

/// Copies a packet of one piece.
#[inline]
fn copy(piece: &ForeignBytes<'_>, to: &mut [u8]) -> FillResult {
    let len = piece.len();
    let Some(to) = to.get_mut(..len) else { return FillResult::Dropped(DropReason::TooLong) };
    if len >= ETHERNET && piece.read(to) {
        FillResult::Packet(len)
    } else {
        FillResult::Dropped(DropReason::Malformed)
    }
}

impl Drop for RxRing {
    fn drop(&mut self) {
        if let Some(posted) = &mut self.posted {
            posted.park(&self.lane.parked);
        }
    }
}

impl MemifReceive {
    pub(super) fn new(
        handover: &Arc<Handover<RxRing>>,
        port: &Arc<PortHandle>,
    ) -> std::io::Result<MemifReceive> {
        Ok(MemifReceive {
            ring: None,
            seen: 0,
            idle: EventSet::new(&[handover.event()])?,
            handover: Arc::clone(handover),
            counters: Counters::shared(),
            _port: Arc::clone(port),
        })
    }

    /// There is another connection, or none any more.
    #[cold]
    #[inline(never)]
    fn change(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> usize {
        // First the packets that the peer had sent when it went, as far as the frame has room.
        if let Some(ring) = &mut self.ring
            && ring.last > 0
            && let Ok(count @ 1..) = ring.burst(pool, frame, &self.counters)
        {
            ring.last = ring.last.saturating_sub(count as u16);
            return count;
        }
        let control = self.control();
        self.handover.exchange(&mut self.ring, &mut self.seen);
        control.iter().for_each(|control| event::set(control));
        0
    }

    fn control(&self) -> Option<Arc<OwnedFd>> {
        self.ring.as_ref().map(|ring| ring.connection.control())
    }

    #[cold]
    #[inline(never)]
    fn fail(&mut self, fault: Fault) {
        self.counters.dropped(DropReason::Malformed, 1);
        if let Some(ring) = &self.ring {
            ring.connection.report(fault);
        }
        let control = self.control();
        self.handover.leave(&mut self.ring);
        control.iter().for_each(|control| event::set(control));
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
            // Events set before do not count; packets published behind this fence set one.
            ring.wake.forget();
        }
        fence(Ordering::SeqCst);
        if ring.is_ready() || self.handover.has_changed(self.seen) {
            return Wake::Now;
        }
        if ring.posted.as_ref().is_some_and(|posted| posted.count() == 0) {
            // There is no event when a buffer is free again.
            return Wake::At(Instant::now() + RETRY);
        }
        Wake::Fd(std::os::fd::AsFd::as_fd(&ring.wake), Interest::Read)
    }
}
