//! Packets of a peer: those of a driver's transmit queue, or those a device has put into buffers.
//!
//! A chain is looked up, checked and copied, in this order, into a buffer of ours: later readers
//! see bytes that stay. In front of it is a virtio header, which names the offloads that the peer
//! left undone; they are done here ([`offload`](crate::offload)).

use std::sync::{
    Arc,
    atomic::{Ordering, fence},
};

use linerate_memory::{ForeignBytes, Frame, PoolCache};

use super::{
    memory::Memory,
    queue::{Access, BATCH, Batch, Fault, LINE, Pieces, Plain, Queue},
    queue_slot::{Control, RxQueue},
    rx::{Source, take_all},
    unpack::Unpack,
};
use crate::{
    counters::Counters,
    fill::{FillResult, fill},
    peer::interrupt::Interrupt,
};

/// A queue that packets are copied out of.
pub(super) struct CopyIn<Q> {
    queue: Q,
    memory: Arc<Memory>,
    call: Option<Arc<Interrupt>>,
    /// Whether the driver has enabled it: packets that come before are thrown away.
    enabled: bool,
    /// Whether it was asked to tell.
    armed: bool,
    /// Chains that are looked at and have not been copied yet, for want of buffers or of place.
    batch: Batch<Plain>,
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
            memory: Arc::clone(queue.memory()),
            queue,
            call,
            enabled,
            armed: false,
            batch: Batch::new(),
            pieces: Pieces::new(),
            unpack: Unpack::new(header, offloads),
        }
    }

    /// Takes the chains of the batch.
    #[inline]
    fn take_batch(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> usize {
        let CopyIn { queue, memory, enabled, batch, pieces, unpack, .. } = self;
        let count = batch.list().len();
        let mut chains = [ForeignBytes::default(); BATCH];
        memory.bytes(batch.list(), &mut chains);
        chains[..count].iter().for_each(|chain| unpack.prefetch(chain));
        let mut chains = chains.iter();
        // Those of a line are given back together.
        let (mut line, mut in_line) = ([Plain::default(); LINE], 0);
        let received = fill(pool, frame, counters, count, |to| {
            if unpack.has_segments() {
                return FillResult::End;
            }
            let (Some(plain), Some(chain)) = (batch.next(), chains.next()) else {
                return FillResult::End;
            };
            let copied = if *enabled { unpack.take_plain(*chain, to) } else { None };
            let taken = match copied {
                Some(len) => FillResult::Packet(len),
                None => {
                    pieces.clear();
                    pieces.push(Access::Read, plain.at, plain.len, 0);
                    unpack.take_enabled(*enabled, memory, pieces, to)
                }
            };
            line[in_line] = Plain { len: 0, ..plain };
            in_line += 1;
            if in_line == LINE {
                queue.give_plain(&line);
                in_line = 0;
            }
            taken
        });
        queue.give_plain(&line[..in_line]);
        received
    }

    /// Takes chains of any kind.
    #[cold]
    #[inline(never)]
    fn take_chains(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> Result<usize, Fault> {
        let CopyIn { queue, memory, enabled, pieces, unpack, .. } = self;
        let count = queue.available(frame.room())?;
        let mut fault = None;
        let received = fill(pool, frame, counters, count, |to| {
            if unpack.has_segments() {
                return FillResult::End;
            }
            pieces.clear();
            match queue.next(Access::Read, pieces) {
                Ok(Some(chain)) => {
                    let taken = unpack.take_enabled(*enabled, memory, pieces, to);
                    queue.give(chain, 0);
                    taken
                }
                Ok(None) => FillResult::End,
                Err(found) => {
                    fault = Some(found);
                    FillResult::End
                }
            }
        });
        match fault {
            Some(fault) if received == 0 => Err(fault),
            _ => Ok(received),
        }
    }
}

impl<Q: Queue> Source for CopyIn<Q> {
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
        let mut received = 0;
        loop {
            let (mut odd, mut more) = (false, true);
            if self.batch.is_empty() {
                self.batch.refill(frame.room(), |list| {
                    let looked = self.queue.plain(Access::Read, list);
                    odd = looked.odd;
                    looked.count
                });
                more = self.batch.is_full();
            }
            if !self.batch.is_empty() {
                received += self.take_batch(pool, frame, counters);
            }
            if !self.batch.is_empty() || self.unpack.has_segments() || frame.room() == 0 {
                return Ok(received);
            }
            if odd {
                return match self.take_chains(pool, frame, counters) {
                    Err(fault) if received == 0 => Err(fault),
                    some => Ok(received + some.unwrap_or(0)),
                };
            }
            if !more {
                return Ok(received);
            }
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

impl<Q: Queue> RxQueue for CopyIn<Q> {
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
        let received = take_all(self, pool, frame, counters);
        if self.queue.publish()
            && let Some(call) = &self.call
        {
            call.raise();
        }
        received
    }

    fn arm(&mut self) -> bool {
        self.armed = true;
        self.queue.arm();
        // Pairs with the peer's fence between its index and its look at the event we want.
        fence(Ordering::SeqCst);
        self.unpack.has_segments() || !self.batch.is_empty() || self.queue.available(1) != Ok(0)
    }
}
