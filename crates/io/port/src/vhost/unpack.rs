//! Packets out of a peer's memory: copied, with the offloads done that their headers leave undone.

use linerate_memory::{ForeignBytes, Frame, PoolCache};

use super::{
    memory::Memory,
    queue::{Piece, Pieces},
};
use crate::{
    counters::{Counters, DropReason},
    fill::FillResult,
    offload::{MERGED_MAX, Offload, Segments, VNET_HEADER},
};

/// Bytes of an Ethernet header: a shorter packet is no frame.
pub(super) const ETHERNET: usize = 14;

/// State of unpacking a queue's packets, with a merged frame that is being segmented.
pub(super) struct Unpack {
    /// Bytes in front of each packet.
    header: usize,
    /// Whether the peer may leave things undone.
    offloads: bool,
    /// A merged frame, and how far it is segmented.
    merged: Option<Segments>,
    whole: Vec<u8>,
    whole_len: usize,
}

impl Unpack {
    pub(super) fn new(header: usize, offloads: bool) -> Unpack {
        let whole = vec![0; if offloads { MERGED_MAX } else { 0 }];
        Unpack { header, offloads, merged: None, whole, whole_len: 0 }
    }

    /// Returns true if there are segments to be taken before anything else.
    #[inline]
    pub(super) fn has_segments(&self) -> bool {
        self.merged.is_some()
    }

    /// Prefetches the lines of a chain that are looked at: not of a header without a meaning.
    #[inline]
    pub(super) fn prefetch(&self, chain: &ForeignBytes<'_>) {
        if self.offloads {
            chain.prefetch(0);
        }
        chain.prefetch(self.header);
    }

    /// Copies the packet in one piece and returns its length, if it is one of which nothing was left
    /// undone and nothing is wrong with: for all others, [`Unpack::take`] says.
    #[inline]
    pub(super) fn take_plain(&self, chain: ForeignBytes<'_>, to: &mut [u8]) -> Option<usize> {
        let packet = chain.behind(self.header)?;
        let len = packet.len();
        let to = to.get_mut(..len).filter(|_| len >= ETHERNET)?;
        if self.offloads {
            // Flags, and kind of segmentation.
            let mut start = [0; 8];
            if !chain.read(&mut start) || start[..2] != [0; 2] {
                return None;
            }
        }
        packet.read(to).then_some(len)
    }

    /// As [`Unpack::take`], unless the queue is not enabled.
    #[cold]
    #[inline(never)]
    pub(super) fn take_enabled(
        &mut self,
        enabled: bool,
        memory: &Memory,
        pieces: &Pieces,
        to: &mut [u8],
    ) -> FillResult {
        if enabled {
            self.take(memory, pieces, to)
        } else {
            FillResult::Dropped(DropReason::LinkDown)
        }
    }

    /// Copies the packet in these pieces. One that is to be segmented is kept instead, and ends the
    /// packets before its segments.
    #[inline]
    pub(super) fn take(&mut self, memory: &Memory, pieces: &Pieces, to: &mut [u8]) -> FillResult {
        let len = match pieces.len().checked_sub(self.header) {
            Some(len) if len >= ETHERNET && !pieces.is_wrong() => len,
            _ => return FillResult::Dropped(DropReason::Malformed),
        };
        let mut offload = Offload::default();
        if self.offloads {
            let mut header = [0; VNET_HEADER];
            if !gather(memory, pieces.list(), 0, &mut header) {
                return FillResult::Dropped(DropReason::Malformed);
            }
            if header[..2] != [0; 2] {
                match Offload::parse_with(&header, u16::from_le_bytes) {
                    Ok(said) => offload = said,
                    Err(_) => return FillResult::Dropped(DropReason::Malformed),
                }
            }
            if offload.gso.is_some() {
                return self.take_merged(memory, pieces, &offload, (len, to.len()));
            }
        }
        let Some(to) = to.get_mut(..len) else { return FillResult::Dropped(DropReason::TooLong) };
        let done = gather(memory, pieces.list(), self.header, to)
            && offload.checksum.is_none_or(|checksum| checksum.complete(to).is_ok());
        if done { FillResult::Packet(len) } else { FillResult::Dropped(DropReason::Malformed) }
    }

    #[cold]
    #[inline(never)]
    fn take_merged(
        &mut self,
        memory: &Memory,
        pieces: &Pieces,
        offload: &Offload,
        (len, room): (usize, usize),
    ) -> FillResult {
        let Some(whole) = self.whole.get_mut(..len) else {
            return FillResult::Dropped(DropReason::TooLong);
        };
        if !gather(memory, pieces.list(), self.header, whole) {
            return FillResult::Dropped(DropReason::Malformed);
        }
        self.whole_len = len;
        match Segments::fitting(whole, offload, room) {
            Ok(segments) => {
                self.merged = Some(segments);
                FillResult::End
            }
            Err(reason) => FillResult::Dropped(reason),
        }
    }

    /// Adds segments of the merged frame, as many as there is room for.
    #[cold]
    pub(super) fn add_segments(
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
