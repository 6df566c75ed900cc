//! Packets of a peer: what a driver's transmit queue has, or what a device has put into buffers.
//!
//! A chain is looked up, checked and copied, in this order, into a buffer of ours: whoever looks at
//! the packet later sees bytes that stay. In front of it is a virtio header, which says what the peer
//! left undone; that is done here ([`offload`](crate::offload)).

use std::sync::{
    Arc,
    atomic::{Ordering, fence},
};

use linerate_memory::{Frame, PoolCache};

use super::{
    place::{Control, Inward},
    queue::{Access, Fault, Pieces, Queue},
    unpack::{Taken, Unpack},
};
use crate::{
    counters::{Counters, DropReason},
    peer::event::Interrupt,
};

/// How many chains ahead packets are prefetched.
const AHEAD: u16 = 4;

/// A queue that packets are copied out of.
pub(super) struct CopyIn<Q> {
    queue: Q,
    call: Option<Arc<Interrupt>>,
    /// Whether the driver has enabled it: what comes before is thrown away.
    enabled: bool,
    /// Whether it was asked to tell.
    armed: bool,
    pieces: Pieces,
    unpack: Unpack,
}

impl<Q: Queue> CopyIn<Q> {
    pub(super) fn new(
        queue: Q,
        call: Option<Arc<Interrupt>>,
        header: usize,
        offloads: bool,
        enabled: bool,
    ) -> CopyIn<Q> {
        CopyIn {
            queue,
            call,
            enabled,
            armed: false,
            pieces: Pieces::new(),
            unpack: Unpack::new(header, offloads),
        }
    }

    /// Takes chains until the frame is full, there are no more, or one has to be segmented.
    #[inline]
    fn take_some(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> Result<usize, Fault> {
        let available = self.queue.available(frame.room())?;
        if available == 0 {
            return Ok(0);
        }
        let before = frame.len();
        let room = pool.arena().room();
        // Without a buffer nothing is taken, so that nothing is lost.
        let taken = pool.take(frame, available, room);
        let (mut filled, mut bytes, mut fault) = (0, 0, None);
        for ahead in 0..AHEAD.min(available as u16) {
            self.queue.prefetch(ahead);
        }
        // What is not available yet is the peer's to write: looking there takes the line from it.
        let mut ahead = available.saturating_sub(AHEAD.into());
        while filled < taken {
            if ahead > 0 {
                self.queue.prefetch(AHEAD);
                ahead -= 1;
            }
            let slot = &mut frame.slots_mut()[before + filled];
            let plain = self.queue.next_plain(Access::Read);
            self.pieces.clear();
            let chain = match plain {
                Some((chain, piece)) => {
                    let memory = self.queue.memory();
                    if self.enabled
                        && let Some(len) = self.unpack.take_plain(memory, piece, pool, slot, room)
                    {
                        self.queue.give(chain, 0);
                        slot.truncate(len);
                        bytes += len as u64;
                        filled += 1;
                        continue;
                    }
                    self.pieces.push(Access::Read, piece.at, piece.len, 0);
                    chain
                }
                None => match self.queue.next(Access::Read, &mut self.pieces) {
                    Ok(Some(chain)) => chain,
                    Ok(None) => break,
                    Err(found) => {
                        fault = Some(found);
                        break;
                    }
                },
            };
            let taken = if self.enabled {
                self.unpack.take(self.queue.memory(), &self.pieces, pool, slot, room)
            } else {
                Taken::Dropped(DropReason::LinkDown)
            };
            self.queue.give(chain, 0);
            match taken {
                Taken::Packet(len) => {
                    slot.truncate(len);
                    bytes += len as u64;
                    filled += 1;
                }
                Taken::Merged => break,
                Taken::Dropped(reason) => counters.dropped(reason, 1),
            }
        }
        for _ in filled..taken {
            if let Some(slot) = frame.pop() {
                pool.give_one(slot);
            }
        }
        counters.passed(filled, bytes);
        match fault {
            Some(fault) => Err(fault),
            None => Ok(filled),
        }
    }
}

impl<Q: Queue> Control for CopyIn<Q> {
    fn adjust(&mut self, call: Option<&Arc<Interrupt>>, enabled: bool) {
        self.call = call.map(Arc::clone);
        self.enabled = enabled;
    }

    fn position(&self) -> u32 {
        self.queue.position()
    }
}

impl<Q: Queue> Inward for CopyIn<Q> {
    #[inline]
    fn burst(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> Result<usize, Fault> {
        if self.armed {
            self.queue.disarm();
            self.armed = false;
        }
        let mut received = 0;
        let result = loop {
            if self.unpack.has_segments() {
                received += self.unpack.add_segments(pool, frame, counters);
                if self.unpack.has_segments() {
                    break Ok(());
                }
            }
            match self.take_some(pool, frame, counters) {
                Ok(some) => received += some,
                Err(fault) => break Err(fault),
            }
            if !self.unpack.has_segments() {
                break Ok(());
            }
        };
        if self.queue.publish()
            && let Some(call) = &self.call
        {
            call.raise();
        }
        // What came before the fault is told of first; the next burst finds it again.
        match result {
            Err(fault) if received == 0 => Err(fault),
            _ => Ok(received),
        }
    }

    fn arm(&mut self) -> bool {
        self.armed = true;
        self.queue.arm();
        // Pairs with the peer's fence between its index and its look at what we want.
        fence(Ordering::SeqCst);
        self.unpack.has_segments() || self.queue.available(1) != Ok(0)
    }
}
