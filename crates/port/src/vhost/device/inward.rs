//! Packets of a driver, which its transmit queue has.
//!
//! A chain is looked up, checked and copied, in this order, into a buffer of ours: whoever looks at
//! the packet later sees bytes that stay. In front of it is a virtio header, which says what the
//! driver left undone; that is done here ([`offload`](crate::offload)).

use std::sync::{
    Arc,
    atomic::{Ordering, fence},
};

use linerate_memory::{Frame, PoolCache, Slot};

use crate::{
    counters::{Counters, DropReason},
    offload::{Offload, Segments, VNET_HEADER},
    peer::event::Interrupt,
    vhost::{
        memory::Memory,
        place::{Control, Inward},
        queue::{Access, Fault, Piece, Pieces, Queue},
    },
};

/// Bytes of an Ethernet header: what is shorter is no frame.
const ETHERNET: usize = 14;
/// How many chains ahead packets are prefetched.
const AHEAD: u16 = 4;
/// Longest merged frame: 64 KiB of IP packet behind link-layer headers.
const MERGED: usize = (1 << 16) + 64;

/// A driver's transmit queue.
pub(super) struct FromDriver<Q> {
    queue: Q,
    call: Option<Arc<Interrupt>>,
    /// Bytes in front of each packet.
    header: usize,
    /// Whether the driver may leave things undone.
    offloads: bool,
    /// Whether the driver has enabled it: what comes before is thrown away.
    enabled: bool,
    /// Whether it was asked to tell.
    armed: bool,
    pieces: Pieces,
    /// A merged frame, and how far it is segmented.
    merged: Option<Segments>,
    whole: Vec<u8>,
    whole_len: usize,
}

/// What a chain was.
enum Taken {
    /// A packet of that length.
    Packet(usize),
    /// One to be segmented.
    Merged(Segments),
    Dropped(DropReason),
}

impl<Q: Queue> FromDriver<Q> {
    pub(super) fn new(
        queue: Q,
        call: Option<Arc<Interrupt>>,
        header: usize,
        offloads: bool,
        enabled: bool,
    ) -> FromDriver<Q> {
        FromDriver {
            queue,
            call,
            header,
            offloads,
            enabled,
            armed: false,
            pieces: Pieces::new(),
            merged: None,
            whole: vec![0; if offloads { MERGED } else { 0 }],
            whole_len: 0,
        }
    }

    /// Copies the packet of the chain in `pieces` to `to`, or to `whole` if it is to be segmented.
    #[inline]
    fn take(&mut self, pool: &PoolCache, slot: &mut Slot, room: usize) -> Taken {
        let len = match self.pieces.len().checked_sub(self.header) {
            Some(len) if len >= ETHERNET && !self.pieces.is_wrong() && self.enabled => len,
            Some(_) if !self.enabled => return Taken::Dropped(DropReason::LinkDown),
            _ => return Taken::Dropped(DropReason::Malformed),
        };
        let memory = &**self.queue.memory();
        let mut offload = Offload::default();
        if self.offloads {
            let mut header = [0; VNET_HEADER];
            if !gather(memory, self.pieces.list(), 0, &mut header) {
                return Taken::Dropped(DropReason::Malformed);
            }
            if header[..2] != [0; 2] {
                match Offload::parse_with(&header, u16::from_le_bytes) {
                    Ok(said) => offload = said,
                    Err(_) => return Taken::Dropped(DropReason::Malformed),
                }
            }
            if offload.gso.is_some() {
                return self.take_merged(&offload, len, room);
            }
        }
        if len > room {
            return Taken::Dropped(DropReason::TooLong);
        }
        let Some(to) = pool.arena().packet_mut(slot) else {
            return Taken::Dropped(DropReason::NoBuffer);
        };
        let to = &mut to[..len];
        let done = gather(memory, self.pieces.list(), self.header, to)
            && offload.checksum.is_none_or(|checksum| checksum.complete(to).is_ok());
        if done { Taken::Packet(len) } else { Taken::Dropped(DropReason::Malformed) }
    }

    #[cold]
    #[inline(never)]
    fn take_merged(&mut self, offload: &Offload, len: usize, room: usize) -> Taken {
        let Some(whole) = self.whole.get_mut(..len) else {
            return Taken::Dropped(DropReason::TooLong);
        };
        if !gather(self.queue.memory(), self.pieces.list(), self.header, whole) {
            return Taken::Dropped(DropReason::Malformed);
        }
        self.whole_len = len;
        Segments::fitting(whole, offload, room).map_or_else(Taken::Dropped, Taken::Merged)
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
        while filled < taken {
            self.queue.prefetch(AHEAD);
            self.pieces.clear();
            let chain = match self.queue.next(Access::Read, &mut self.pieces) {
                Ok(Some(chain)) => chain,
                Ok(None) => break,
                Err(found) => {
                    fault = Some(found);
                    break;
                }
            };
            let slot = &mut frame.slots_mut()[before + filled];
            match self.take(pool, slot, room) {
                Taken::Packet(len) => {
                    slot.truncate(len);
                    bytes += len as u64;
                    filled += 1;
                }
                Taken::Merged(segments) => self.merged = Some(segments),
                Taken::Dropped(reason) => counters.dropped(reason, 1),
            }
            self.queue.give(chain, 0);
            if self.merged.is_some() {
                break;
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

    /// Adds segments of the merged frame.
    #[cold]
    fn add_segments(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> usize {
        let Some(segments) = &mut self.merged else { return 0 };
        let whole = &self.whole[..self.whole_len];
        let (packets, bytes) = segments.segment_into(whole, pool, frame, |_, _| ());
        if segments.next_length().is_none() {
            self.merged = None;
        }
        counters.passed(packets, bytes);
        packets
    }
}

impl<Q: Queue> Control for FromDriver<Q> {
    fn adjust(&mut self, call: Option<&Arc<Interrupt>>, enabled: bool) {
        self.call = call.map(Arc::clone);
        self.enabled = enabled;
    }

    fn position(&self) -> u32 {
        self.queue.position()
    }
}

impl<Q: Queue> Inward for FromDriver<Q> {
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
            if self.merged.is_some() {
                received += self.add_segments(pool, frame, counters);
                if self.merged.is_some() {
                    break Ok(());
                }
            }
            match self.take_some(pool, frame, counters) {
                Ok(some) => received += some,
                Err(fault) => break Err(fault),
            }
            if self.merged.is_none() {
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
        // Pairs with the driver's fence between its index and its look at what we want.
        fence(Ordering::SeqCst);
        self.merged.is_some() || self.queue.available(1) != Ok(0)
    }
}

/// Copies bytes of a chain, from `skip` on; `false` when it has not as many, or not in the memory.
#[inline]
fn gather(memory: &Memory, pieces: &[Piece], skip: usize, to: &mut [u8]) -> bool {
    match pieces {
        [piece] if skip + to.len() <= piece.len as usize => {
            memory.read(piece.at.wrapping_add(skip as u64), to)
        }
        _ => gather_pieces(memory, pieces, skip, to),
    }
}

fn gather_pieces(memory: &Memory, pieces: &[Piece], mut skip: usize, mut to: &mut [u8]) -> bool {
    for piece in pieces {
        let len = piece.len as usize;
        if skip >= len {
            skip -= len;
            continue;
        }
        let (now, rest) = to.split_at_mut((len - skip).min(to.len()));
        if !memory.read(piece.at.wrapping_add(skip as u64), now) {
            return false;
        }
        (skip, to) = (0, rest);
        if to.is_empty() {
            break;
        }
    }
    to.is_empty()
}
