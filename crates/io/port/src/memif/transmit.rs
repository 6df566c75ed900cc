//! The transmitting side of a queue.
//!
//! A packet is copied into memory the peer has: to the next of our own buffers as a client, as a
//! server to where the client's descriptor says, which is checked each time. A packet that is longer
//! than one buffer continues in the next. Indices move once per call, behind whole packets.

use std::{
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError, TryLockError, atomic::Ordering},
    time::{Duration, Instant},
};

use linerate_memory::{ForeignBytes, Frame, PoolCache};

use super::{
    handover::Handover,
    negotiation::PortHandle,
    ring::{BATCH, Connection, Descriptor, Descriptors, Fault, Lane, NEXT, Role, interrupt},
    zero_copy::ZeroCopyTx,
};
use crate::{
    counters::{Counters, DropReason},
    error::PortError,
    peer::event,
    port::{Transmit, Wake},
};

/// Interval of looks at a full ring, which gives no event.
const FULL_RETRY: Duration = Duration::from_micros(50);

/// The transmitting side of a queue.
pub(super) struct MemifTransmit {
    ring: Option<Arc<Mutex<TxRing>>>,
    handover: Arc<Handover<Arc<Mutex<TxRing>>>>,
    seen: u32,
    full: bool,
    counters: Arc<Counters>,
    /// Closes the port when the last of its queues goes.
    _port: Arc<PortHandle>,
}

/// A ring packets go out by. Behind a lock, because a peer may have fewer rings than we have
/// queues; with a ring for each, the lock is never contended.
#[derive(Debug)]
pub(super) struct TxRing {
    connection: Arc<Connection>,
    lane: Arc<Lane>,
    /// The next descriptor to write.
    next: u16,
    /// The peer's count at the last look: its line comes from another processor.
    theirs: u16,
    /// Most descriptors that have been free at a time: all that the peer ever has for us.
    most_free: u16,
    /// Packets that the peer reads where they are, where they are not copied.
    sent: Option<ZeroCopyTx>,
}

/// Result of putting a packet.
enum PutResult {
    /// It is in the ring.
    Sent,
    /// There is no place for it now.
    Full,
    /// It will never have a place.
    TooLong,
    /// The peer's descriptors are not to be written by.
    Fault,
}

/// Result of putting a frame.
#[derive(Debug, Default)]
struct Burst {
    /// Behind the last descriptor that was written.
    at: u16,
    /// Packets of its front that are done with, and those of them that were sent.
    done: usize,
    packets: usize,
    bytes: u64,
    /// Whether there was no place for the next.
    full: bool,
    /// Whether all descriptors that are free are looked at, not only those known before.
    all: bool,
    fault: Option<Fault>,
}

impl Burst {
    #[inline]
    fn sent(&mut self, packet: &[u8]) {
        self.done += 1;
        self.packets += 1;
        self.bytes += packet.len() as u64;
    }
}

impl TxRing {
    pub(super) fn new(
        connection: &Arc<Connection>,
        lane: &Arc<Lane>,
        sent: Option<ZeroCopyTx>,
    ) -> TxRing {
        TxRing {
            connection: Arc::clone(connection),
            lane: Arc::clone(lane),
            next: 0,
            theirs: 0,
            most_free: 0,
            sent,
        }
    }

    /// Descriptors that are free if the peer's count is that; `None` when it cannot be.
    #[inline]
    fn free_by(&self, theirs: u16) -> Option<u16> {
        let size = self.lane.ring.size();
        match self.connection.role {
            // In between are packets that the server has not taken yet.
            Role::Client => size.checked_sub(self.next.wrapping_sub(theirs)),
            // In between are buffers that the client has given.
            Role::Server => Some(theirs.wrapping_sub(self.next)).filter(|&free| free <= size),
        }
    }

    /// Descriptors we may write now, as far as is known.
    #[inline]
    fn known(&self) -> u16 {
        self.free_by(self.theirs).unwrap_or(0)
    }

    /// All descriptors we may write now.
    #[inline]
    fn free(&mut self) -> Result<u16, Fault> {
        // Acquire: pairs with the peer's release behind its reads or its new buffers.
        let theirs = self.lane.ring.theirs(self.connection.role).load(Ordering::Acquire);
        let free = self.free_by(theirs).ok_or(Fault::Index)?;
        self.theirs = theirs;
        self.most_free = self.most_free.max(free);
        Ok(free)
    }

    /// The descriptor to write, and the buffer it names, as long as its capacity.
    #[inline]
    fn buffer(&self, descriptors: Descriptors<'_>, count: u16) -> (Descriptor, ForeignBytes<'_>) {
        let TxRing { connection, lane, .. } = self;
        let descriptor = match &lane.buffers {
            Some(buffers) => buffers.free(count, lane.ring.size()),
            None => descriptors.load(count),
        };
        (descriptor, connection.locate(lane, count, &descriptor))
    }

    /// Copies packets of the frame, as far as there are descriptors. The descriptors are not
    /// published.
    #[inline]
    fn burst(&mut self, pool: &PoolCache, frame: &Frame, counters: &Counters) -> Burst {
        let mut burst = Burst { at: self.next, ..Burst::default() };
        let mut free = self.known();
        loop {
            if burst.full || usize::from(free) < frame.len() {
                burst.all = true;
                match self.free() {
                    Ok(all) => (free, burst.full) = (all, false),
                    Err(fault) => burst.fault = Some(fault),
                }
            }
            let end = self.next.wrapping_add(free);
            while burst.done < frame.len() && !burst.full && burst.fault.is_none() {
                self.put_some(&mut burst, end, pool, frame, counters);
            }
            // One that takes several may have found no place among those that were known.
            if !burst.full || burst.all {
                return burst;
            }
        }
    }

    /// Copies those that have a buffer each, of some buffers that are looked at together; and one that
    /// takes several.
    #[inline]
    fn put_some(
        &self,
        burst: &mut Burst,
        end: u16,
        pool: &PoolCache,
        frame: &Frame,
        counters: &Counters,
    ) {
        let slots = &frame.slots()[burst.done..];
        let most = slots.len().min(BATCH).min(end.wrapping_sub(burst.at).into());
        let descriptors = self.lane.ring.descriptors();
        let mut buffers = [<(Descriptor, ForeignBytes<'_>)>::default(); BATCH];
        for (ahead, buffer) in buffers[..most].iter_mut().enumerate() {
            *buffer = self.buffer(descriptors, burst.at.wrapping_add(ahead as u16));
        }
        let mut buffers = buffers[..most].iter();
        for slot in slots {
            let packet = pool.arena().packet(slot);
            if packet.is_empty() {
                counters.dropped(DropReason::Malformed, 1);
                burst.done += 1;
                continue;
            }
            let Some(&(descriptor, buffer)) = buffers.next() else {
                burst.full = burst.at == end;
                return;
            };
            if !buffer.write(packet) {
                return self.put_long(burst, end, packet, counters);
            }
            let length = packet.len() as u32;
            let descriptor = Descriptor { flags: 0, length, ..descriptor };
            if self.lane.buffers.is_some() {
                descriptors.store_changed(burst.at, descriptor);
            } else {
                descriptors.store(burst.at, descriptor);
            }
            burst.at = burst.at.wrapping_add(1);
            burst.sent(packet);
        }
    }

    /// Copies a packet that does not fit the next buffer.
    #[cold]
    #[inline(never)]
    fn put_long(&self, burst: &mut Burst, end: u16, packet: &[u8], counters: &Counters) {
        let free = end.wrapping_sub(burst.at);
        match self.put_chain(&mut burst.at, free, packet) {
            PutResult::Sent => burst.sent(packet),
            PutResult::TooLong if !burst.all => burst.full = true,
            PutResult::TooLong => {
                counters.dropped(DropReason::TooLong, 1);
                burst.done += 1;
            }
            PutResult::Full => burst.full = true,
            PutResult::Fault => burst.fault = Some(Fault::Buffer),
        }
    }

    /// Writes a packet from descriptor `*at` on, of `free`, to as many buffers as it takes. When it
    /// turns out that there are not enough of them nothing has happened: the descriptors written
    /// are not published.
    fn put_chain(&self, at: &mut u16, free: u16, mut packet: &[u8]) -> PutResult {
        let ring = &self.lane.ring;
        let descriptors = ring.descriptors();
        let (mut count, mut left) = (*at, free);
        // All descriptors are looked at before one is written, since a peer's says there how much
        // it takes and has to say so again when it is tried anew.
        let mut needed = 0;
        let mut covered = 0;
        while covered < packet.len() {
            if needed == free {
                let all = free >= self.most_free.max(ring.size() / 2);
                return if all { PutResult::TooLong } else { PutResult::Full };
            }
            let (_, piece) = self.buffer(descriptors, count.wrapping_add(needed));
            if piece.is_empty() {
                return PutResult::Fault;
            }
            covered += piece.len();
            needed += 1;
        }
        while !packet.is_empty() {
            if left == 0 {
                // Its descriptors have changed since.
                return PutResult::Fault;
            }
            let (descriptor, piece) = self.buffer(descriptors, count);
            let (now, rest) = packet.split_at(packet.len().min(piece.len()));
            if now.is_empty() || !piece.write(now) {
                return PutResult::Fault;
            }
            let flags = if rest.is_empty() { 0 } else { NEXT };
            let length = now.len() as u32;
            descriptors.store(count, Descriptor { flags, length, ..descriptor });
            (packet, count, left) = (rest, count.wrapping_add(1), left - 1);
        }
        *at = count;
        PutResult::Sent
    }

    /// Lends the packets at the front of the frame that there are places for; returns how many are
    /// not in the frame any more.
    #[inline]
    fn lend(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> Result<usize, Fault> {
        let TxRing { lane, next, sent: Some(sent), .. } = self else { return Ok(0) };
        let outstanding = sent.reap_some(&lane.ring, frame.len(), pool)?;
        let count = frame.len().min(usize::from(lane.ring.size() - outstanding));
        let mut to = *next;
        sent.lend(&lane.ring, &mut to, (frame, count), pool, counters);
        self.publish(to);
        Ok(count)
    }

    /// Makes everything in front of `to` the peer's.
    #[inline]
    fn publish(&mut self, to: u16) {
        if to == self.next {
            return;
        }
        self.next = to;
        let ring = &self.lane.ring;
        // Release: pairs with the peer's acquire in front of reading our writes.
        ring.ours(self.connection.role).store(to, Ordering::Release);
        interrupt(&self.lane);
    }
}

impl Drop for TxRing {
    fn drop(&mut self) {
        if let Some(sent) = &mut self.sent {
            sent.park(&self.lane.parked);
        }
    }
}

impl MemifTransmit {
    pub(super) fn new(
        handover: &Arc<Handover<Arc<Mutex<TxRing>>>>,
        port: &Arc<PortHandle>,
    ) -> MemifTransmit {
        MemifTransmit {
            ring: None,
            seen: 0,
            full: false,
            handover: Arc::clone(handover),
            counters: Counters::shared(),
            _port: Arc::clone(port),
        }
    }

    #[cold]
    #[inline(never)]
    fn change(&mut self) {
        let control = self.control();
        self.handover.exchange(&mut self.ring, &mut self.seen);
        control.iter().for_each(|control| event::set(control));
    }

    /// The ring is of no use any more.
    #[cold]
    #[inline(never)]
    fn leave(&mut self) {
        let control = self.control();
        self.handover.leave(&mut self.ring);
        control.iter().for_each(|control| event::set(control));
    }

    fn control(&self) -> Option<Arc<OwnedFd>> {
        let ring = self.ring.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(ring.connection.control())
    }

    /// Drops the frame while there is no peer.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> usize {
        let count = frame.len();
        self.counters.dropped(DropReason::LinkDown, count);
        pool.give(frame);
        count
    }
}

impl Transmit for MemifTransmit {
    #[inline]
    fn transmit(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        if self.handover.has_changed(self.seen) {
            self.change();
            if self.handover.has_changed(self.seen) {
                // The negotiator was in the way: a peer that is there is not to miss these.
                self.full = true;
                return Ok(0);
            }
        }
        self.full = false;
        let Some(shared) = &self.ring else { return Ok(self.refuse(pool, frame)) };
        let mut ring = match shared.try_lock() {
            Ok(ring) => ring,
            Err(TryLockError::WouldBlock) => {
                self.full = true;
                return Ok(0);
            }
            Err(TryLockError::Poisoned(ring)) => ring.into_inner(),
        };
        if ring.sent.is_some() {
            let lent = ring.lend(pool, frame, &self.counters);
            self.full = !frame.is_empty();
            let Err(fault) = lent else { return Ok(lent.unwrap_or(0)) };
            ring.connection.report(fault);
            drop(ring);
            self.leave();
            return Ok(0);
        }
        let burst = ring.burst(pool, frame, &self.counters);
        ring.publish(burst.at);
        if let Some(fault) = burst.fault {
            ring.connection.report(fault);
        }
        drop(ring);
        if burst.packets > 0 {
            self.counters.passed(burst.packets, burst.bytes);
        }
        pool.give_front(frame, burst.done);
        if burst.fault.is_some() {
            self.leave();
        }
        self.full = burst.full;
        Ok(burst.done)
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Packets sent are in memory that both have; they are on their way until the peer has taken
    /// them.
    fn flush(&mut self, pool: &mut PoolCache) -> Result<usize, PortError> {
        if self.handover.has_changed(self.seen) {
            self.change();
        }
        let Some(mut ring) = self.ring.as_ref().and_then(|ring| ring.try_lock().ok()) else {
            return Ok(0);
        };
        if let TxRing { lane, sent: Some(sent), .. } = &mut *ring {
            // A fault is found again, and reported, when something is sent.
            return Ok(sent.reap(&lane.ring, pool).map_or(0, usize::from));
        }
        let all = match ring.connection.role {
            Role::Client => ring.lane.ring.size(),
            Role::Server => ring.most_free,
        };
        let free = ring.free();
        Ok(free.map_or(0, |free| usize::from(all.saturating_sub(free))))
    }

    fn wake(&mut self) -> Wake<'_> {
        if self.full { Wake::At(Instant::now() + FULL_RETRY) } else { Wake::Now }
    }
}
