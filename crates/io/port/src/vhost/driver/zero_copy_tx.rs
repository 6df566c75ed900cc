//! Packets for a device that reads them in place.
//!
//! The header is in front of the packet where there is room for it and the packet has no other
//! holder; otherwise it is a descriptor of its own, in a table where the device takes one. All of
//! it is zero, so one is enough for all packets.

use std::sync::Arc;

use linerate_memory::{Frame, PoolCache, Slot};

use super::{
    in_flight::InFlight,
    ring::{Ring, Used},
    session::HEADER,
};
use crate::{
    counters::{Counters, DropReason},
    peer::interrupt::Interrupt,
    vhost::{
        memory::Memory,
        queue::{BATCH, DESCRIPTOR, Fault, INDIRECT, NEXT, Piece, word_of},
        queue_slot::{Control, TxQueue, TxResult},
    },
};

/// Bytes of a table of two descriptors.
pub(super) const TABLE: usize = 2 * DESCRIPTOR;

/// A queue of packets that are lent.
pub(super) struct ZeroCopyTx<R> {
    ring: R,
    kick: Arc<Interrupt>,
    lent: InFlight,
    memory: Arc<Memory>,
    /// A header of zeros.
    header: Piece,
    /// The guest address of the tables, one for each number, if the device takes them.
    tables: Option<u64>,
    packed: bool,
    /// Buffers on their way back to the pool.
    scratch: Frame,
    fault: Option<Fault>,
}

impl<R: Ring> ZeroCopyTx<R> {
    pub(super) fn new(
        ring: R,
        kick: Arc<Interrupt>,
        lent: InFlight,
        memory: Arc<Memory>,
        header: Piece,
        (tables, packed): (Option<u64>, bool),
    ) -> ZeroCopyTx<R> {
        ZeroCopyTx {
            ring,
            kick,
            lent,
            memory,
            header,
            tables,
            packed,
            scratch: Frame::new(BATCH),
            fault: None,
        }
    }

    /// Takes back the buffers the device has read.
    #[inline]
    fn reap(&mut self, pool: &mut PoolCache) {
        let ZeroCopyTx { ring, lent, scratch, fault, .. } = self;
        let mut list = [Used::default(); BATCH];
        loop {
            let count = match ring.take(&mut list) {
                Ok(count) => count,
                Err(found) => {
                    *fault = Some(found);
                    break;
                }
            };
            for &Used { number, .. } in &list[..count] {
                ring.release(number);
                if let Some(Err(slot)) = lent.take(number).map(|slot| scratch.push(slot)) {
                    pool.give_one(slot);
                }
            }
            pool.give(scratch);
            if count < BATCH {
                break;
            }
        }
    }

    /// Lends a packet; `Err` when there is no place for it.
    #[inline]
    fn lend(&mut self, mut slot: Slot) -> Result<(), Slot> {
        let Some(number) = self.ring.vacant(0) else { return Err(slot) };
        if slot.push(HEADER) {
            let bytes = self.lent.arena().packet_mut(&mut slot);
            if let Some(header) = bytes.and_then(|bytes| bytes.first_chunk_mut()) {
                // Unless it is there already: its line need not come back from the device then.
                if *header != [0; HEADER] {
                    *header = [0; HEADER];
                }
                self.ring.offer(&[self.lent.piece(&slot)], 0);
                self.lent.lend(number, slot);
                return Ok(());
            }
            slot.pull(HEADER);
        }
        self.lend_apart(number, slot)
    }

    /// Lends a packet with its header elsewhere.
    #[cold]
    fn lend_apart(&mut self, number: u16, slot: Slot) -> Result<(), Slot> {
        let pieces = [self.header, self.lent.piece(&slot)];
        if let Some(tables) = self.tables {
            let at = tables + u64::from(number) * TABLE as u64;
            let mut table = [0; TABLE];
            for ((bytes, piece), flags) in table.chunks_mut(DESCRIPTOR).zip(pieces).zip([NEXT, 0]) {
                // A table in a packed queue is in order.
                let (first, second) = if self.packed { (number, 0) } else { (flags, 1) };
                bytes[..8].copy_from_slice(&piece.at.to_le_bytes());
                bytes[8..].copy_from_slice(&word_of(piece.len, first, second).to_ne_bytes());
            }
            if self.memory.write(at, &table) {
                self.ring.offer(&[Piece { at, len: TABLE as u32 }], INDIRECT);
                self.lent.lend(number, slot);
                return Ok(());
            }
        }
        if self.ring.room() < pieces.len() {
            return Err(slot);
        }
        self.ring.offer(&pieces, 0);
        self.lent.lend(number, slot);
        Ok(())
    }
}

impl<R: Ring> Control for ZeroCopyTx<R> {
    fn adjust(&mut self, _: Option<&Arc<Interrupt>>, _: bool) {}

    fn position(&self) -> u32 {
        0
    }
}

impl<R: Ring> TxQueue for ZeroCopyTx<R> {
    fn burst(&mut self, pool: &mut PoolCache, frame: &mut Frame, counters: &Counters) -> TxResult {
        // Not each time: a look takes the line with the used index away from the device, which
        // writes it.
        if self.ring.room() < usize::from(self.ring.size()) / 2 {
            self.reap(pool);
        }
        if let Some(fault) = self.fault {
            return TxResult { fault: Some(fault), ..TxResult::default() };
        }
        // With a header of its own a packet takes two places.
        let places = if self.tables.is_some() { 1 } else { 2 };
        let most = self.ring.room() / places;
        let mut sent = TxResult { full: frame.len() > most, ..TxResult::default() };
        let (mut packets, mut bytes) = (0, 0);
        let before = frame.len();
        frame.drain_front(most.min(before), |slot| {
            if slot.is_empty() {
                counters.dropped(DropReason::Malformed, 1);
                return pool.give_one(slot);
            }
            let len = slot.len() as u64;
            match self.lend(slot) {
                Ok(()) => {
                    packets += 1;
                    bytes += len;
                }
                Err(slot) => {
                    counters.dropped(DropReason::NoBuffer, 1);
                    pool.give_one(slot);
                }
            }
        });
        sent.done = before - frame.len();
        if self.ring.publish() {
            self.kick.raise();
        }
        counters.passed(packets, bytes);
        sent
    }

    fn on_the_way(&mut self, pool: &mut PoolCache) -> usize {
        self.reap(pool);
        self.ring.outstanding()
    }
}
