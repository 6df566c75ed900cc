//! The receiving side of a queue.

use std::{os::fd::AsFd, sync::Arc};

use linerate_linux::interface::TransmitDrops;
use linerate_memory::{Frame, PoolCache, Slot};
use rustix::io::Errno;

use super::device::Device;
use crate::{
    counters::{Counters, DropReason},
    error::{PortError, PortFault},
    offload::{MERGED_MAX, Offload, Segments, VNET_HEADER},
    port::{Interest, Receive, Wake},
    uri::PortUri,
};

/// The receiving side of a queue.
pub(super) struct TapReceive {
    uri: PortUri,
    device: Arc<Device>,
    /// Length of a buffer: how much of a frame is read into one.
    room: usize,
    /// Bytes of a frame beyond its buffer, from `room` on if the frame may be a merged one, which
    /// is put together in front of it. There is always a byte, which shows that a frame was too
    /// long.
    beyond: Box<[u8]>,
    beyond_from: usize,
    /// The merged frame at the start of `beyond`, as far as it is not segmented yet.
    merged: Option<Segments>,
    counters: Arc<Counters>,
    /// Packets the kernel had no place for, of all queues; one of them asks.
    drops: Option<TransmitDrops>,
}

/// Result of receiving a frame.
enum TakeResult {
    /// It is in the frame of slots, with that length.
    Passed(usize),
    /// It is to be segmented.
    Merged(Segments),
    Dropped(DropReason),
    /// No buffer was free; it stays in the kernel.
    NoBuffer,
}

impl TapReceive {
    pub(super) fn new(
        uri: &PortUri,
        device: Arc<Device>,
        room: usize,
        drops: Option<TransmitDrops>,
    ) -> TapReceive {
        let (beyond, beyond_from) =
            if device.vnet() { (MERGED_MAX.max(room) + 1, room) } else { (1, 0) };
        TapReceive {
            uri: uri.clone(),
            device,
            room,
            beyond: vec![0; beyond].into(),
            beyond_from,
            merged: None,
            counters: Counters::shared(),
            drops,
        }
    }

    /// Takes the next frame out of the kernel.
    #[inline]
    fn take(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<TakeResult, Errno> {
        // Without a buffer nothing is read, so that nothing is lost.
        let Some(mut slot) = pool.take_one(self.room) else { return Ok(TakeResult::NoBuffer) };
        let mut header = [0; VNET_HEADER];
        let read = match pool.arena().packet_mut(&mut slot) {
            Some(to) => self.device.read(&mut header, to, &mut self.beyond[self.beyond_from..]),
            None => Err(Errno::NOBUFS),
        };
        let taken = read.map(|length| self.judge(pool, &mut slot, &header, length));
        match taken {
            Ok(TakeResult::Passed(length)) => match frame.push(slot) {
                Ok(()) => Ok(TakeResult::Passed(length)),
                Err(slot) => {
                    pool.give_one(slot);
                    Ok(TakeResult::Dropped(DropReason::NoBuffer))
                }
            },
            taken => {
                pool.give_one(slot);
                taken
            }
        }
    }

    /// Looks at a frame of `length` bytes that begins in `slot`, and makes it
    /// ready if it fits there.
    #[inline]
    fn judge(
        &mut self,
        pool: &PoolCache,
        slot: &mut Slot,
        header: &[u8; VNET_HEADER],
        length: usize,
    ) -> TakeResult {
        if length < self.device.least() {
            return TakeResult::Dropped(DropReason::Malformed);
        }
        // Without virtio headers this one is all zero: nothing is undone.
        let Ok(offload) = Offload::parse(header) else {
            return TakeResult::Dropped(DropReason::Malformed);
        };
        if offload.gso.is_some() {
            return self.merged(pool, slot, &offload, length);
        }
        if length > self.room {
            return TakeResult::Dropped(DropReason::TooLong);
        }
        slot.truncate(length);
        let done = offload.checksum.is_none_or(|checksum| {
            let bytes = pool.arena().packet_mut(slot);
            bytes.is_some_and(|bytes| checksum.complete(bytes).is_ok())
        });
        if done { TakeResult::Passed(length) } else { TakeResult::Dropped(DropReason::Malformed) }
    }

    /// Puts a merged frame together in `beyond`.
    #[cold]
    fn merged(
        &mut self,
        pool: &PoolCache,
        slot: &Slot,
        offload: &Offload,
        length: usize,
    ) -> TakeResult {
        if length >= self.beyond.len() {
            return TakeResult::Dropped(DropReason::TooLong);
        }
        let first = length.min(self.room);
        self.beyond[..first].copy_from_slice(&pool.arena().packet(slot)[..first]);
        Segments::fitting(&self.beyond[..length], offload, self.room)
            .map_or_else(TakeResult::Dropped, TakeResult::Merged)
    }

    /// Adds segments of the merged frame, as many as there is room and buffers
    /// for. Returns the packets and bytes added.
    fn add_segments(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> (usize, u64) {
        let Some(segments) = &mut self.merged else { return (0, 0) };
        let added = segments.segment_into(&self.beyond, pool, frame, |_, _| ());
        if segments.next_length().is_none() {
            self.merged = None;
        }
        added
    }
}

impl Receive for TapReceive {
    fn receive(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        let (mut packets, mut bytes) = (0, 0);
        let mut failed = None;
        while frame.room() > 0 {
            if self.merged.is_some() {
                let (more, length) = self.add_segments(pool, frame);
                packets += more;
                bytes += length;
                if more == 0 && self.merged.is_some() {
                    break;
                }
                continue;
            }
            match self.take(pool, frame) {
                Ok(TakeResult::Passed(length)) => {
                    packets += 1;
                    bytes += length as u64;
                }
                Ok(TakeResult::Merged(segments)) => self.merged = Some(segments),
                Ok(TakeResult::Dropped(reason)) => self.counters.dropped(reason, 1),
                Ok(TakeResult::NoBuffer) | Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => break,
                Err(errno) => {
                    failed = Some(errno);
                    break;
                }
            }
        }
        if packets > 0 {
            self.counters.passed(packets, bytes);
        }
        match failed {
            None => Ok(packets),
            Some(Errno::BADFD | Errno::NODEV) => {
                Err(PortFault::Gone { port: self.uri.to_string() }.into())
            }
            Some(errno) => Err(PortFault::System {
                port: self.uri.to_string(),
                step: "read a frame",
                source: errno.into(),
            }
            .into()),
        }
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn refresh(&mut self) {
        if let Some(Ok(count)) = self.drops.as_mut().map(TransmitDrops::since) {
            self.counters.dropped(DropReason::Overrun, count as usize);
        }
    }

    fn wake(&mut self) -> Wake<'_> {
        if self.merged.is_some() {
            Wake::Now
        } else {
            Wake::Fd(self.device.as_fd(), Interest::Read)
        }
    }
}
