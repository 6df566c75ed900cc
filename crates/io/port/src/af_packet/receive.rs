//! The receiving side of a queue.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use linerate_filter::Instruction;
use linerate_linux::{
    interface::Promiscuous,
    socket::{get_option, set_filter},
};
use linerate_memory::{Arena, Frame, Meta, Origin, PoolCache, Slot};
use rustix::{
    io::{Errno, IoSliceMut},
    net::sockopt::socket_error,
};

use super::{
    bpf_equivalence::is_equivalent,
    program::{self, Outbound},
    ring::Ring,
    socket,
    tpacket::{self, Received},
};
use crate::{
    counters::{Counters, DropReason},
    error::{PortError, PortFault},
    offload::{MERGED_MAX, Offload, Segments, VNET_HEADER},
    port::{Interest, Receive, Wake},
    uri::PortUri,
};

/// Bytes of a VLAN tag.
const TAG: usize = 4;

/// The receiving side of a queue.
pub(super) struct PacketReceive {
    uri: PortUri,
    socket: OwnedFd,
    ring: Ring,
    bounced: BounceBuffer,
    counters: Arc<Counters>,
    wanted: ReceiveOptions,
    /// Direction of the packets that a socket without a filter takes, for a program that is set
    /// later; `None` when it has a filter that stays.
    late_filter: Option<Outbound>,
    /// Someone is going to sleep on the socket, or did. An error at the socket
    /// ends every sleep at once until it is asked for.
    slept: bool,
    /// The interface was set down and has not been heard of since.
    down: bool,
    gone: bool,
    _promiscuous: Option<Arc<Promiscuous>>,
}

/// Metadata and packets wanted besides the bytes of incoming packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceiveOptions {
    /// The time each packet was received.
    pub(super) time: bool,
    /// The packet type of each, by its destination.
    pub(super) types: bool,
    /// The packets this host sends.
    pub(super) outbound: bool,
    /// Packets of all interfaces, of which only those with Ethernet frames have any.
    pub(super) any: bool,
    /// The beginning of frames that are longer than a buffer.
    pub(super) cut: bool,
    /// The interface each packet came by, and how it was addressed.
    pub(super) origin: bool,
}

impl ReceiveOptions {
    /// Returns true if a packet is not wanted.
    #[inline]
    fn ignores(self, received: &Received<'_>) -> bool {
        (received.is_outgoing() && !self.outbound)
            || (self.any
                && (!received.is_ethernet()
                    // It comes once more, from the other side.
                    || received.is_looped() && received.is_outgoing()))
    }

    /// Metadata for a packet; `None` when none is wanted.
    #[inline]
    fn note(self, received: &Received<'_>) -> Option<Note> {
        (self.time || self.types || self.origin).then_some(Note {
            time: if self.time { received.time } else { 0 },
            kind: if self.types || self.origin { received.kind } else { Meta::TO_HOST },
            origin: self.origin.then_some(Origin {
                index: received.index,
                hardware: received.hardware,
                address_length: received.address_length,
            }),
        })
    }
}

/// Metadata of a packet.
#[derive(Debug, Clone, Copy)]
struct Note {
    time: u64,
    kind: u8,
    origin: Option<Origin>,
}

impl Note {
    #[inline]
    fn write(self, meta: &mut Meta) {
        meta.reset();
        meta.timestamp = self.time;
        meta.packet_type = self.kind;
        if let Some(origin) = self.origin {
            meta.set_origin(origin);
        }
    }
}

/// A frame on its way through a buffer of our own, because it is longer than a
/// slot of the ring or becomes several packets.
struct BounceBuffer {
    /// The frame, behind room for a tag.
    bytes: Box<[u8]>,
    /// Start of the frame: with the tag or behind it.
    start: usize,
    length: usize,
    rest: Remainder,
    note: Option<Note>,
}

/// Part of a bounced frame that is still to be received.
enum Remainder {
    Nothing,
    Whole,
    Segments(Segments),
}

/// Result of taking a slot.
enum TakeResult {
    /// Its packet, of that length, is in the frame.
    Passed(usize),
    /// Its packet is in the bounce buffer.
    Bounced,
    /// Its packet is not wanted.
    Ignored,
    Dropped(DropReason),
    /// No buffer was free; the packet stays in its slot.
    NoBuffer,
}

impl PacketReceive {
    pub(super) fn new(
        uri: &PortUri,
        socket: OwnedFd,
        ring: Ring,
        promiscuous: Option<Arc<Promiscuous>>,
        wanted: ReceiveOptions,
        late_filter: Option<Outbound>,
    ) -> PacketReceive {
        PacketReceive {
            uri: uri.clone(),
            socket,
            ring,
            bounced: BounceBuffer {
                bytes: vec![0; TAG + MERGED_MAX].into(),
                start: TAG,
                length: 0,
                rest: Remainder::Nothing,
                note: None,
            },
            counters: Counters::shared(),
            wanted,
            late_filter,
            slept: false,
            down: false,
            gone: false,
            _promiscuous: promiscuous,
        }
    }

    /// Takes the next slot's packet; `None` when there is none.
    #[inline]
    fn take(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Option<TakeResult> {
        let Some(received) = tpacket::parse(self.ring.peek()?) else {
            return Some(TakeResult::Dropped(DropReason::Malformed));
        };
        let whole = received.bytes.len() == received.length;
        let Some(offload) = received.offload.filter(|offload| whole && offload.gso.is_none())
        else {
            return Some(self.bounced.put(
                &self.socket,
                &received,
                pool.arena().room(),
                self.wanted,
            ));
        };
        if self.wanted.ignores(&received) {
            return Some(TakeResult::Ignored);
        }
        let tag = if received.tag.is_some() { TAG } else { 0 };
        let length = received.length + tag;
        if length > pool.arena().room() {
            let (room, wanted) = (pool.arena().room(), self.wanted);
            return Some(if wanted.cut {
                self.bounced.put(&self.socket, &received, room, wanted)
            } else {
                TakeResult::Dropped(DropReason::TooLong)
            });
        }
        if length < 12 + tag {
            return Some(TakeResult::Dropped(DropReason::Malformed));
        }
        let Some(mut slot) = pool.take_one(length) else { return Some(TakeResult::NoBuffer) };
        let mut good = false;
        if let Some(to) = pool.arena().packet_mut(&mut slot) {
            tpacket::copy_tagged(to, received.bytes, received.tag);
            let checksum = offload.shifted(tag).checksum;
            good = checksum.is_none_or(|checksum| checksum.complete(to).is_ok());
        }
        if let Some(note) = self.wanted.note(&received)
            && let Some(meta) = pool.arena().meta_mut(&mut slot)
        {
            note.write(meta);
        }
        if !good {
            pool.give_one(slot);
            return Some(TakeResult::Dropped(DropReason::Malformed));
        }
        Some(match frame.push(slot) {
            Ok(()) => TakeResult::Passed(length),
            Err(slot) => {
                pool.give_one(slot);
                TakeResult::NoBuffer
            }
        })
    }

    /// Asks the socket whether the interface is down or gone.
    #[cold]
    fn check_interface(&mut self) {
        self.slept = false;
        if let Ok(Err(Errno::NETDOWN)) = socket_error(&self.socket) {
            self.down = true;
        }
        // An interface is set down before it is deleted.
        if self.down {
            self.gone = socket::gone(&self.socket);
        }
    }
}

impl BounceBuffer {
    /// Copies a frame into the bounce buffer, from its slot or from the socket's
    /// queue.
    #[cold]
    fn put(
        &mut self,
        socket: &OwnedFd,
        received: &Received<'_>,
        room: usize,
        wanted: ReceiveOptions,
    ) -> TakeResult {
        let mut offload = received.offload;
        self.length = received.length;
        self.start = TAG;
        if received.queued {
            let mut header = [0; VNET_HEADER];
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(&mut self.bytes[TAG..])];
            let expected = VNET_HEADER + received.length;
            match rustix::io::readv(socket, &mut parts) {
                Ok(length) if length == expected => offload = Offload::parse(&header).ok(),
                // Longer than any frame we know of.
                _ => return TakeResult::Dropped(DropReason::TooLong),
            }
        } else if received.bytes.len() == received.length && received.length <= MERGED_MAX {
            self.bytes[TAG..][..received.length].copy_from_slice(received.bytes);
        } else {
            return TakeResult::Dropped(DropReason::TooLong);
        }
        if wanted.ignores(received) {
            return TakeResult::Ignored;
        }
        let (Some(mut offload), true) = (offload, self.length >= 12) else {
            return TakeResult::Dropped(DropReason::Malformed);
        };
        if let Some(tag) = received.tag {
            self.bytes.copy_within(TAG..TAG + 12, 0);
            self.bytes[12..12 + TAG].copy_from_slice(&tag);
            self.start = 0;
            self.length += TAG;
            offload = offload.shifted(TAG);
        }
        let frame = &mut self.bytes[self.start..][..self.length];
        let segments = match offload.gso.map(|_| Segments::fitting(frame, &offload, room)) {
            // Of segments that fit no buffer there is the beginning of all.
            None => None,
            Some(Err(DropReason::TooLong)) if wanted.cut => None,
            Some(Ok(segments)) => Some(segments),
            Some(Err(reason)) => return TakeResult::Dropped(reason),
        };
        self.rest = if let Some(segments) = segments {
            Remainder::Segments(segments)
        } else if offload.checksum.is_some_and(|checksum| checksum.complete(frame).is_err()) {
            return TakeResult::Dropped(DropReason::Malformed);
        } else if self.length > room && !wanted.cut {
            return TakeResult::Dropped(DropReason::TooLong);
        } else {
            Remainder::Whole
        };
        self.note = wanted.note(received);
        TakeResult::Bounced
    }

    /// Adds the rest to `frame`, as much as there is room and buffers for. Returns the packets and
    /// bytes added.
    fn take(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> (usize, u64) {
        let whole = &self.bytes[self.start..][..self.length];
        let note = self.note;
        let finish = |arena: &Arena, slot: &mut Slot| {
            if let Some(note) = note
                && let Some(meta) = arena.meta_mut(slot)
            {
                note.write(meta);
            }
        };
        let (added, left) = match &mut self.rest {
            Remainder::Nothing => return (0, 0),
            Remainder::Segments(segments) => {
                let added = segments.segment_into(whole, pool, frame, finish);
                (added, segments.next_length().is_some())
            }
            Remainder::Whole => {
                let there = &whole[..whole.len().min(pool.arena().room())];
                let Some(mut slot) = pool.take_one(there.len()) else { return (0, 0) };
                if let Some(to) = pool.arena().packet_mut(&mut slot) {
                    to.copy_from_slice(there);
                }
                finish(pool.arena(), &mut slot);
                if there.len() < whole.len()
                    && let Some(meta) = pool.arena().meta_mut(&mut slot)
                {
                    meta.set_missing((whole.len() - there.len()) as u32);
                }
                if let Err(slot) = frame.push(slot) {
                    pool.give_one(slot);
                }
                ((1, there.len() as u64), false)
            }
        };
        if !left {
            self.rest = Remainder::Nothing;
        }
        added
    }

    fn is_empty(&self) -> bool {
        matches!(self.rest, Remainder::Nothing)
    }
}

impl Receive for PacketReceive {
    fn receive(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        let (mut packets, mut bytes) = (0, 0);
        while frame.room() > 0 {
            if !self.bounced.is_empty() {
                let (more, length) = self.bounced.take(pool, frame);
                packets += more;
                bytes += length;
                if more == 0 && !self.bounced.is_empty() {
                    break;
                }
                continue;
            }
            match self.take(pool, frame) {
                None | Some(TakeResult::NoBuffer) => break,
                Some(TakeResult::Passed(length)) => {
                    packets += 1;
                    bytes += length as u64;
                }
                Some(TakeResult::Bounced | TakeResult::Ignored) => {}
                Some(TakeResult::Dropped(reason)) => self.counters.dropped(reason, 1),
            }
            self.ring.release();
        }
        if packets > 0 {
            self.counters.passed(packets, bytes);
            return Ok(packets);
        }
        if self.slept {
            self.check_interface();
        }
        if self.gone {
            return Err(PortFault::Gone { port: self.uri.to_string() }.into());
        }
        Ok(0)
    }

    fn leave_out(&mut self, unwanted_by: Option<&[Instruction]>) -> bool {
        let Some(outbound) = self.late_filter else { return false };
        let alike = unwanted_by.filter(|program| is_equivalent(program));
        if alike.is_some_and(|wanted| {
            set_filter(&self.socket, &program::narrowed(outbound, wanted)).is_ok()
        }) {
            return true;
        }
        // That there was none is no failure.
        let _ = set_filter(&self.socket, &program::build(outbound, None));
        false
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn wake(&mut self) -> Wake<'_> {
        self.slept = true;
        if self.bounced.is_empty() {
            Wake::Fd(self.socket.as_fd(), Interest::Read)
        } else {
            Wake::Now
        }
    }

    fn refresh(&mut self) {
        self.check_interface();
        let none = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        // Reading them sets them to zero.
        let option = libc::PACKET_STATISTICS;
        if let Ok(since) = get_option(&self.socket, libc::SOL_PACKET, option, none) {
            self.counters.dropped(DropReason::Overrun, since.tp_drops as usize);
        }
    }
}
