//! Packets for a peer, into the buffers of a driver's receive queue, or ours for a device.
//!
//! A packet goes into one chain, or with mergeable buffers into as many as it takes, behind a virtio
//! header that says how many to a driver. Nothing is left for the peer to do, so the rest of it is
//! zero.

use std::sync::Arc;

use linerate_memory::{ForeignBytes, Frame, PoolCache};

use super::{
    memory::Memory,
    queue::{Access, BATCH, Chain, Fault, LINE, PIECES, Piece, Pieces, Plain, Queue},
    queue_slot::{Control, TxQueue, TxResult},
};
use crate::{
    counters::{Counters, DropReason},
    peer::interrupt::Interrupt,
};

/// Offset of the number of chains in the header.
const CHAINS: usize = 10;
/// The longest header, which tells of chains, and the one that drivers older than virtio 1 have
/// without mergeable buffers.
const HEADER: usize = 12;
const SHORT: usize = 10;

/// A queue that packets are copied into.
pub(super) struct CopyOut<Q> {
    queue: Q,
    memory: Arc<Memory>,
    call: Option<Arc<Interrupt>>,
    enabled: bool,
    /// Header of a packet in one chain.
    header: Header,
    chained: Chained,
}

/// Result of putting a packet.
enum PutResult {
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
            memory: Arc::clone(queue.memory()),
            queue,
            call,
            enabled,
            header: Header::new(header, if Q::COUNTED { 1 } else { 0 }),
            chained: Chained {
                header,
                mergeable,
                pieces: Pieces::new(),
                chains: Vec::with_capacity(PIECES),
                most: 0,
            },
        }
    }

    /// Puts packets of the frame behind the first `sent.done` into the next buffers that are looked
    /// at together; where there is none, or one of several pieces, one packet into the buffers
    /// there are. Returns how many packets and bytes were sent.
    #[inline]
    fn put_some(
        &mut self,
        pool: &PoolCache,
        frame: &Frame,
        counters: &Counters,
        sent: &mut TxResult,
    ) -> (usize, u64) {
        let CopyOut { queue, memory, header, chained, .. } = self;
        let slots = &frame.slots()[sent.done..];
        let mut list = [Plain::default(); BATCH];
        let most = slots.len().min(BATCH);
        let looked = queue.plain(Access::Write, &mut list[..most]);
        let mut buffers = [ForeignBytes::default(); BATCH];
        memory.bytes(&list[..looked.count], &mut buffers);
        buffers[..looked.count].iter().for_each(|buffer| buffer.prefetch(0));
        // Those before `next` are written, those before `given` given back.
        let (mut next, mut given) = (0, 0);
        let (mut packets, mut bytes) = (0, 0);
        for slot in &slots[..most] {
            let packet = pool.arena().packet(slot);
            if packet.is_empty() {
                counters.dropped(DropReason::Malformed, 1);
                sent.done += 1;
                continue;
            }
            if let Some(plain) = list[..looked.count].get_mut(next)
                && header.put_before(packet, &buffers[next])
            {
                plain.len = (header.len() + packet.len()) as u32;
                next += 1;
                if next - given == LINE {
                    queue.give_plain(&list[given..next]);
                    given = next;
                }
                packets += 1;
                bytes += packet.len() as u64;
                sent.done += 1;
                continue;
            }
            if next > 0 && next == looked.count && !looked.odd {
                // The look ended at a line that is not whole: the next look is for its remaining
                // entries.
                break;
            }
            queue.give_plain(&list[given..next]);
            given = next;
            queue.rewind();
            match chained.put(queue, memory, packet, counters) {
                Ok(PutResult::Sent) => {
                    packets += 1;
                    bytes += packet.len() as u64;
                }
                Ok(PutResult::Nowhere) => counters.dropped(DropReason::Malformed, 1),
                Ok(PutResult::TooLong) => counters.dropped(DropReason::TooLong, 1),
                Ok(PutResult::Full) => {
                    sent.full = true;
                    break;
                }
                Err(fault) => {
                    sent.fault = Some(fault);
                    break;
                }
            }
            sent.done += 1;
            break;
        }
        queue.give_plain(&list[given..next]);
        queue.rewind();
        (packets, bytes)
    }
}

/// State for packets in chains of several pieces, or in several chains.
struct Chained {
    /// Bytes in front of each packet.
    header: usize,
    mergeable: bool,
    pieces: Pieces,
    /// The chains of the packet that is being written, and the bytes each has room for.
    chains: Vec<(Chain, usize)>,
    /// Most chains that have been available when there were not enough.
    most: usize,
}

impl Chained {
    #[cold]
    #[inline(never)]
    fn put<Q: Queue>(
        &mut self,
        queue: &mut Q,
        memory: &Memory,
        packet: &[u8],
        counters: &Counters,
    ) -> Result<PutResult, Fault> {
        let whole = self.header + packet.len();
        self.chains.clear();
        self.pieces.clear();
        loop {
            let before = self.pieces.len();
            let Some(chain) = queue.next(Access::Write, &mut self.pieces)? else {
                queue.rewind();
                self.most = queue.available(usize::MAX)?.max(self.most);
                // Not even with all buffers the driver ever had for us.
                let enough = self.most.max(usize::from(queue.size()) / 2);
                let hopeless = self.chains.len() >= enough;
                return Ok(if hopeless { PutResult::TooLong } else { PutResult::Full });
            };
            if self.pieces.is_wrong() {
                // Nothing can be written there; the driver has it back empty.
                counters.dropped(DropReason::Malformed, 1);
                if self.chains.is_empty() {
                    queue.give(chain, 0);
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
                queue.rewind();
                return Ok(PutResult::TooLong);
            }
        }
        let header = header_of(if Q::COUNTED { self.chains.len() as u16 } else { 0 });
        let pieces = self.pieces.list();
        let written = scatter(memory, pieces, 0, &header[..self.header])
            && scatter(memory, pieces, self.header, packet);
        let mut left = if written { whole } else { 0 };
        for (chain, room) in &self.chains {
            let some = left.min(*room);
            queue.give(*chain, some as u32);
            left -= some;
        }
        Ok(if written { PutResult::Sent } else { PutResult::Nowhere })
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

impl<Q: Queue> TxQueue for CopyOut<Q> {
    fn burst(&mut self, pool: &mut PoolCache, frame: &mut Frame, counters: &Counters) -> TxResult {
        if !self.enabled {
            return TxResult::nowhere(pool, frame, counters);
        }
        let mut sent = TxResult::default();
        let (mut packets, mut bytes) = (0, 0);
        while sent.done < frame.len() && !sent.full && sent.fault.is_none() {
            let (more, of_them) = self.put_some(pool, frame, counters, &mut sent);
            packets += more;
            bytes += of_them;
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

/// A header in front of a packet.
#[derive(Debug, Clone, Copy)]
enum Header {
    Long([u8; HEADER]),
    /// Without a number of chains.
    Short([u8; SHORT]),
}

impl Header {
    /// A header of `len` bytes in front of a packet that takes so many chains.
    fn new(len: usize, chains: u16) -> Header {
        if len == SHORT { Header::Short([0; SHORT]) } else { Header::Long(header_of(chains)) }
    }

    #[inline]
    fn len(&self) -> usize {
        match self {
            Header::Long(_) => HEADER,
            Header::Short(_) => SHORT,
        }
    }

    /// Writes it and the packet, if there is room for them.
    #[inline]
    fn put_before(&self, packet: &[u8], to: &ForeignBytes<'_>) -> bool {
        let written = match self {
            Header::Long(header) => write_changed(header, to),
            Header::Short(header) => write_changed(header, to),
        };
        written && to.behind(self.len()).is_some_and(|behind| behind.write(packet))
    }
}

/// Writes bytes, unless they are there already, as those of headers mostly are: then their line need
/// not come here and go back.
#[inline]
fn write_changed<const N: usize>(bytes: &[u8; N], to: &ForeignBytes<'_>) -> bool {
    let mut there = [0; N];
    to.read(&mut there) && (there == *bytes || to.write(bytes))
}

/// A header in front of a packet that takes so many chains.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use linerate_memory::{ArenaOptions, ForeignRegion};

    use super::*;
    use crate::vhost::{
        memory::{Area, RegionSpec},
        packed::{AVAILABLE, Packed, PackedAreas, USED},
        queue::{WRITE, fields, word_of},
    };

    #[test]
    fn buffers_of_a_line_that_is_not_whole_are_looked_at_together() {
        let bytes = Arc::new(ForeignRegion::create("test", 1 << 14).unwrap().0);
        let mut memory = Memory::default();
        let spec = RegionSpec { guest: 0x1000, size: 0x1000, user: 0, offset: 0x1000 };
        memory.add(spec, Arc::clone(&bytes));
        let area = |at: usize| Some(Area { bytes: Arc::clone(&bytes), at });
        let areas = PackedAreas::new(16, area(0), area(0x400), area(0x404)).unwrap();
        // A line, and half of the next.
        for place in 0..6 {
            let words = &areas.descriptors()[2 * usize::from(place)..];
            words[0].store((0x1000 + 0x100 * u64::from(place)).to_le(), Ordering::Relaxed);
            words[1].store(word_of(0x100, place, AVAILABLE | WRITE), Ordering::Relaxed);
        }
        let queue = Packed::new(&Arc::new(memory), areas.clone(), false, 0x8000, None).unwrap();
        let mut out = CopyOut::new(queue, None, HEADER, false, true);

        let options = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let arena = options.create().unwrap();
        let mut pool = arena.cache(16);
        let mut frame = Frame::new(8);
        for len in [60, 61, 62, 63, 64, 65, 0, 0] {
            frame.push(pool.take_one(len).unwrap()).unwrap();
        }
        let counters = Counters::default();
        let sent = out.burst(&mut pool, &mut frame, &counters);
        assert_eq!((sent.done, sent.full, sent.fault), (8, false, None));
        assert_eq!((counters.read().packets, counters.read().dropped()), (6, 2));
        assert!(out.chained.chains.is_empty(), "none was looked at by itself");
        for place in 0..6 {
            let word = areas.descriptors()[2 * usize::from(place) + 1].load(Ordering::Relaxed);
            assert_eq!(fields(word), (72 + u32::from(place), place, AVAILABLE | USED));
        }
        assert_eq!(arena.accounting().held, 0);
    }
}
