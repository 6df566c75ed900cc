//! Packets for a peer, into the buffers of a driver's receive queue, or ours for a device.
//!
//! A packet goes into one chain, or with mergeable buffers into as many as it takes, behind a virtio
//! header that says how many to a driver. Nothing is left for the peer to do, so the rest of it is
//! zero.

use std::sync::Arc;

use linerate_memory::{Frame, PoolCache};

use super::{
    memory::Memory,
    place::{Control, Outward, Sent},
    queue::{Access, Chain, Fault, PIECES, Piece, Pieces, Queue},
};
use crate::{
    counters::{Counters, DropReason},
    peer::event::Interrupt,
};

/// Where the number of chains is in the header.
const CHAINS: usize = 10;
/// The longest header.
const HEADER: usize = 12;
/// How many chains ahead buffers are prefetched.
const AHEAD: u16 = 4;

/// A queue that packets are copied into.
pub(super) struct CopyOut<Q> {
    queue: Q,
    call: Option<Arc<Interrupt>>,
    /// Bytes in front of each packet.
    header: usize,
    mergeable: bool,
    enabled: bool,
    pieces: Pieces,
    /// The chains of the packet that is being written, and the bytes each has room for.
    chains: Vec<(Chain, usize)>,
    /// Most chains that have been available when there were not enough.
    most: usize,
}

/// What became of a packet.
enum Put {
    Sent,
    /// There is no place for it now.
    Full,
    /// It will never have a place.
    TooLong,
    /// The driver's buffer is not in its memory.
    Nowhere,
}

impl<Q: Queue> CopyOut<Q> {
    pub(super) fn new(
        queue: Q,
        call: Option<Arc<Interrupt>>,
        header: usize,
        mergeable: bool,
        enabled: bool,
    ) -> CopyOut<Q> {
        CopyOut {
            queue,
            call,
            header,
            mergeable,
            enabled,
            pieces: Pieces::new(),
            chains: Vec::with_capacity(PIECES),
            most: 0,
        }
    }

    #[inline]
    fn put(&mut self, packet: &[u8], counters: &Counters) -> Result<Put, Fault> {
        if self.put_plain(packet) { Ok(Put::Sent) } else { self.put_chains(packet, counters) }
    }

    /// Puts a packet into a buffer of one piece, if the next is one and has room for it.
    #[inline]
    fn put_plain(&mut self, packet: &[u8]) -> bool {
        let Some((chain, piece)) = self.queue.next_plain(Access::Write) else { return false };
        let whole = self.header + packet.len();
        let place = self.queue.memory().locate(piece.at, whole);
        let written = place.filter(|_| piece.len as usize >= whole).is_some_and(|(region, at)| {
            let header = header_of(if Q::COUNTED { 1 } else { 0 });
            region.write(at, &header[..self.header]) && region.write(at + self.header, packet)
        });
        if written {
            self.queue.give(chain, whole as u32);
        } else {
            self.queue.rewind();
        }
        written
    }

    #[cold]
    #[inline(never)]
    fn put_chains(&mut self, packet: &[u8], counters: &Counters) -> Result<Put, Fault> {
        let whole = self.header + packet.len();
        self.chains.clear();
        self.pieces.clear();
        loop {
            let before = self.pieces.len();
            let Some(chain) = self.queue.next(Access::Write, &mut self.pieces)? else {
                self.queue.rewind();
                self.most = self.queue.available(usize::MAX)?.max(self.most);
                // Not even with all buffers the driver ever had for us.
                let enough = self.most.max(usize::from(self.queue.size()) / 2);
                let hopeless = self.chains.len() >= enough;
                return Ok(if hopeless { Put::TooLong } else { Put::Full });
            };
            if self.pieces.is_wrong() {
                // Nothing can be written there; the driver has it back empty.
                counters.dropped(DropReason::Malformed, 1);
                if self.chains.is_empty() {
                    self.queue.give(chain, 0);
                    self.pieces.clear();
                    continue;
                }
                return Err(Fault::Descriptor);
            }
            self.chains.push((chain, self.pieces.len() - before));
            if self.pieces.len() >= whole {
                break;
            }
            if !self.mergeable || self.chains.len() >= PIECES {
                self.queue.rewind();
                return Ok(Put::TooLong);
            }
        }
        let header = header_of(if Q::COUNTED { self.chains.len() as u16 } else { 0 });
        let memory = self.queue.memory();
        let pieces = self.pieces.list();
        let written = scatter(memory, pieces, 0, &header[..self.header])
            && scatter(memory, pieces, self.header, packet);
        let mut left = if written { whole } else { 0 };
        for (chain, room) in &self.chains {
            let some = left.min(*room);
            self.queue.give(*chain, some as u32);
            left -= some;
        }
        Ok(if written { Put::Sent } else { Put::Nowhere })
    }
}

impl<Q: Queue> Control for CopyOut<Q> {
    fn adjust(&mut self, call: Option<&Arc<Interrupt>>, enabled: bool) {
        self.call = call.map(Arc::clone);
        self.enabled = enabled;
    }

    fn position(&self) -> u32 {
        self.queue.position()
    }
}

impl<Q: Queue> Outward for CopyOut<Q> {
    fn burst(&mut self, pool: &mut PoolCache, frame: &mut Frame, counters: &Counters) -> Sent {
        if !self.enabled {
            return Sent::nowhere(pool, frame, counters);
        }
        let mut sent = Sent::default();
        let (mut packets, mut bytes) = (0, 0);
        for ahead in 0..AHEAD.min(frame.len() as u16) {
            self.queue.prefetch(ahead);
        }
        for slot in frame.slots() {
            self.queue.prefetch(AHEAD);
            let packet = pool.arena().packet(slot);
            if packet.is_empty() {
                counters.dropped(DropReason::Malformed, 1);
                sent.done += 1;
                continue;
            }
            match self.put(packet, counters) {
                Ok(Put::Sent) => {
                    packets += 1;
                    bytes += packet.len() as u64;
                }
                Ok(Put::Nowhere) => counters.dropped(DropReason::Malformed, 1),
                Ok(Put::TooLong) => counters.dropped(DropReason::TooLong, 1),
                Ok(Put::Full) => {
                    sent.full = true;
                    break;
                }
                Err(fault) => {
                    sent.fault = Some(fault);
                    break;
                }
            }
            sent.done += 1;
        }
        if self.queue.publish()
            && let Some(call) = &self.call
        {
            call.raise();
        }
        if packets > 0 {
            counters.passed(packets, bytes);
        }
        pool.give_front(frame, sent.done);
        sent
    }

    fn on_the_way(&mut self, _: &mut PoolCache) -> usize {
        self.queue.on_the_way()
    }
}

/// A header in front of a packet that takes so many chains.
#[inline]
fn header_of(chains: u16) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[CHAINS..].copy_from_slice(&chains.to_le_bytes());
    header
}

/// Writes bytes into chains, from `skip` on; `false` when they have no place in the memory.
#[inline]
fn scatter(memory: &Memory, pieces: &[Piece], skip: usize, from: &[u8]) -> bool {
    match pieces {
        [piece] if skip + from.len() <= piece.len as usize => {
            memory.write(piece.at.wrapping_add(skip as u64), from)
        }
        _ => scatter_pieces(memory, pieces, skip, from),
    }
}

fn scatter_pieces(memory: &Memory, pieces: &[Piece], mut skip: usize, mut from: &[u8]) -> bool {
    for piece in pieces {
        let len = piece.len as usize;
        if skip >= len {
            skip -= len;
            continue;
        }
        let (now, rest) = from.split_at((len - skip).min(from.len()));
        if !memory.write(piece.at.wrapping_add(skip as u64), now) {
            return false;
        }
        (skip, from) = (0, rest);
        if from.is_empty() {
            break;
        }
    }
    from.is_empty()
}
