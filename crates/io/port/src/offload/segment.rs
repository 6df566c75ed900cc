//! Segmentation of a merged frame (GSO).
//!
//! Every segment gets the headers of the whole, each with fields of its own: lengths and
//! identifications of all IP headers, lengths and checksums of UDP tunnels, checksums of GRE, the
//! sequence number of TCP, and the transport checksum. Source: RFC 9293 sections 3.1 and 3.8, RFC
//! 791, RFC 3168 section 6.1.2, RFC 9768, RFC 2784, and for the sender's expectations
//! `Documentation/networking/segmentation-offloads` of the Linux kernel.
//!
//! The virtio header does not say if the IPv4 packets that were merged all had one identification.
//! The kernel merges such packets, and an identification of zero in packets that must not be
//! fragmented is the usual one (RFC 6864 gives it no meaning), so that stays; all others count up.

use linerate_memory::{Arena, Frame, PoolCache, Slot};
use linerate_packet::{
    IpProtocol,
    checksum::{Sum, checksum, udp_nonzero, update32},
    ipv6,
};

use super::{
    Gso, GsoKind, Malformed, Offload,
    headers::{Layer, LayerKind, Layers, behind_outermost, to_transport, whole_tcp},
};
use crate::counters::DropReason;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const URG: u8 = 0x20;
const CWR: u8 = 0x80;
/// The flag of IPv4 that forbids fragments.
const DONT_FRAGMENT: u8 = 0x40;

/// Offsets of the length and checksum of UDP, and of the checksum of GRE.
const UDP_LENGTH: usize = 4;
const UDP_CHECKSUM: usize = 6;
const GRE_CHECKSUM: usize = 4;

/// Places of the headers of a merged frame, and how far it has been segmented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segments {
    gso: Gso,
    /// The headers in front of the transport header that change.
    layers: Layers,
    /// Start of the TCP or UDP header.
    transport: usize,
    /// Start of the payload.
    payload: usize,
    /// Length of the frame.
    end: usize,
    /// Whether the transport checksum field holds the sum of the pseudo header.
    is_partial: bool,
    /// Start of the next segment's payload.
    next: usize,
    /// Segments written so far.
    index: u16,
}

/// The one's complement sum of a segment from a place to its end.
#[derive(Clone, Copy)]
struct Tail {
    from: usize,
    sum: u16,
}

impl GsoKind {
    fn protocol(self) -> IpProtocol {
        match self {
            GsoKind::Tcp => IpProtocol::TCP,
            GsoKind::Udp => IpProtocol::UDP,
        }
    }

    /// Offset of the checksum.
    fn checksum(self) -> usize {
        match self {
            GsoKind::Tcp => 16,
            GsoKind::Udp => UDP_CHECKSUM,
        }
    }
}

impl Segments {
    /// Finds the headers of `frame`.
    ///
    /// # Errors
    ///
    /// When they are not as `offload` says.
    fn new(frame: &[u8], offload: &Offload) -> Result<Segments, Malformed> {
        let gso = offload.gso.ok_or(Malformed)?;
        let transport = match offload.checksum {
            Some(checksum) if checksum.offset == gso.kind.checksum() => checksum.start,
            Some(_) => return Err(Malformed),
            // Datagrams that were received and merged (`rx-gro-list`): their checksums are right.
            None => behind_outermost(frame).ok_or(Malformed)?,
        };
        let layers = to_transport(frame, transport, gso.kind.protocol()).ok_or(Malformed)?;
        let (header, least) = match gso.kind {
            GsoKind::Tcp => (usize::from(frame.get(transport + 12).ok_or(Malformed)? >> 4) * 4, 20),
            GsoKind::Udp => (8, 8),
        };
        let payload = transport + header;
        if header < least || payload >= frame.len() {
            return Err(Malformed);
        }
        let segments = Segments {
            gso,
            layers,
            transport,
            payload,
            end: frame.len(),
            is_partial: offload.checksum.is_some(),
            next: payload,
            index: 0,
        };
        // An IP header says its length in 16 bits; that of the whole may be longer.
        let network = segments.layers.first().map_or(0, |layer| layer.start as usize);
        if segments.longest() - network > 0xffff { Err(Malformed) } else { Ok(segments) }
    }

    /// Likewise, of a merged frame whose segments are to fit into `room` bytes each; else
    /// why it is dropped.
    pub(crate) fn fitting(
        frame: &[u8],
        offload: &Offload,
        room: usize,
    ) -> Result<Segments, DropReason> {
        match Segments::new(frame, offload) {
            Ok(segments) if segments.longest() <= room => Ok(segments),
            Ok(_) => Err(DropReason::TooLong),
            Err(Malformed) => Err(DropReason::Malformed),
        }
    }

    /// Of a merged frame of TCP that is on its own, as a capture has it: the length of its segments
    /// is not recorded, so they are as long as IP packets of `packet` bytes and frames of
    /// `frame_limit` can be. `None` of a frame that is not longer, is not all of a packet, or has
    /// no such segments.
    ///
    /// Merged UDP frames are not segmented: no header tells where their datagrams ended.
    pub(crate) fn of_recorded(frame: &[u8], packet: usize, frame_limit: usize) -> Option<Segments> {
        let (network, transport) = whole_tcp(frame)?;
        let longest = (network + packet).min(frame_limit);
        let header = frame.get(transport..)?.first_chunk::<14>()?;
        let payload = transport + usize::from(header[12] >> 4) * 4;
        // A sequence number counts SYN, too, and an urgent pointer is from there.
        let is_stream = header[13] & (SYN | RST | URG) == 0;
        let size = longest.checked_sub(payload).filter(|size| *size > 0)?;
        if !is_stream || frame.len() <= longest {
            return None;
        }
        // RFC 3168, as most hosts have it.
        let gso = Gso { kind: GsoKind::Tcp, size, first_reduces: true };
        Segments::new(frame, &Offload { checksum: None, gso: Some(gso) }).ok()
    }

    /// Length of the longest segment.
    fn longest(&self) -> usize {
        self.payload + self.gso.size.min(self.end - self.payload)
    }

    /// Length of the next segment; `None` when there is none left.
    #[inline]
    pub(crate) fn next_length(&self) -> Option<usize> {
        (self.next < self.end).then(|| self.payload + self.gso.size.min(self.end - self.next))
    }

    /// Writes the next segment of `frame`, the one given to [`Segments::new`],
    /// to `to`, which is as long as [`Segments::next_length`] says.
    ///
    /// # Panics
    ///
    /// When `frame` or `to` is shorter than that.
    pub(crate) fn write_next(&mut self, frame: &[u8], to: &mut [u8]) {
        let (head, body) = to.split_at_mut(self.payload);
        head.copy_from_slice(&frame[..self.payload]);
        body.copy_from_slice(&frame[self.next..self.next + body.len()]);
        let done = self.next - self.payload;
        self.next += body.len();

        let mut tail = self.write_transport(to, done);
        for at in (0..self.layers.len()).rev() {
            tail = self.write_layer(at, to, tail);
        }
        self.index = self.index.wrapping_add(1);
    }

    /// Makes the transport header that of the segment in `to`, in front of whose payload `done`
    /// bytes are in segments already.
    fn write_transport(&self, to: &mut [u8], done: usize) -> Tail {
        let is_last = self.next >= self.end;
        let length = to.len() - self.transport;
        let transport = &mut to[self.transport..];
        match self.gso.kind {
            GsoKind::Tcp => {
                let sequence =
                    u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
                let sequence = sequence.wrapping_add(done as u32);
                transport[4..8].copy_from_slice(&sequence.to_be_bytes());
                if !is_last {
                    transport[13] &= !(FIN | PSH);
                }
                if self.index > 0 && self.gso.first_reduces {
                    transport[13] &= !CWR;
                }
            }
            GsoKind::Udp => put(transport, UDP_LENGTH, to_u16(length)),
        }
        let field = self.gso.kind.checksum();
        let from = self.transport;
        if !self.is_partial && self.gso.kind == GsoKind::Udp && get(transport, field) == 0 {
            return Tail { from, sum: !checksum(transport) };
        }
        let pseudo = if self.is_partial {
            with_length(get(transport, field), self.end - from, length)
        } else {
            self.pseudo_header(to, length)
        };
        let form: fn(u16) -> u16 = match self.gso.kind {
            GsoKind::Tcp => |sum| sum,
            GsoKind::Udp => udp_nonzero,
        };
        complete(to, Tail { from: to.len(), sum: 0 }, from, field, pseudo, form)
    }

    /// The sum of the innermost pseudo header.
    fn pseudo_header(&self, to: &[u8], length: usize) -> u16 {
        let mut sum = Sum::default();
        if let Some(layer) = self.layers.last() {
            let start = layer.start as usize;
            let addresses = match layer.kind {
                LayerKind::Ipv6 => start + 8..start + 40,
                _ => start + 12..start + 20,
            };
            sum.add_bytes(&to[addresses]);
        }
        sum.add_u16(u16::from(self.gso.kind.protocol().0));
        sum.add_u32(length as u32);
        !sum.finish()
    }

    /// Makes a header in front of it that of the segment in `to`. The bytes behind `tail` are
    /// ready.
    fn write_layer(&self, at: usize, to: &mut [u8], tail: Tail) -> Tail {
        let Layer { kind, start, end } = self.layers[at];
        let (start, end) = (start as usize, end as usize);
        let length = to.len() - start;
        match kind {
            LayerKind::Ipv4 => {
                let header = &mut to[start..end];
                put(header, 2, to_u16(length));
                let identification = get(header, 4);
                if !self.is_fixed(header) {
                    put(header, 4, identification.wrapping_add(self.index));
                }
                put(header, 10, 0);
                let sum = checksum(header);
                put(header, 10, sum);
                tail
            }
            LayerKind::Ipv6 => {
                put(to, start + 4, to_u16(length - ipv6::HEADER_LEN));
                tail
            }
            LayerKind::Udp => {
                put(to, start + UDP_LENGTH, to_u16(length));
                // Zero: the tunnel is without.
                match get(to, start + UDP_CHECKSUM) {
                    0 => tail,
                    whole => {
                        let pseudo = with_length(whole, self.end - start, length);
                        complete(to, tail, start, UDP_CHECKSUM, pseudo, udp_nonzero)
                    }
                }
            }
            LayerKind::Gre => complete(to, tail, start, GRE_CHECKSUM, 0, |sum| sum),
        }
    }

    /// Returns true if all segments have the identification of this IPv4 header.
    fn is_fixed(&self, header: &[u8]) -> bool {
        self.gso.kind == GsoKind::Tcp && get(header, 4) == 0 && header[6] & DONT_FRAGMENT != 0
    }

    /// Writes the next segments to buffers of their own, as many as there is
    /// place for in `to` and buffers in `pool`; `finish` is called with each.
    /// Returns the packets and bytes added.
    pub(crate) fn segment_into(
        &mut self,
        frame: &[u8],
        pool: &mut PoolCache,
        to: &mut Frame,
        mut finish: impl FnMut(&Arena, &mut Slot),
    ) -> (usize, u64) {
        let (mut packets, mut bytes) = (0, 0);
        while to.room() > 0 {
            let Some(length) = self.next_length() else { break };
            let Some(mut slot) = pool.take_one(length) else { break };
            if let Some(segment) = pool.arena().packet_mut(&mut slot) {
                self.write_next(frame, segment);
            }
            finish(pool.arena(), &mut slot);
            if let Err(slot) = to.push(slot) {
                pool.give_one(slot);
            }
            packets += 1;
            bytes += length as u64;
        }
        (packets, bytes)
    }
}

/// Completes the checksum of the header at `start`, whose field is `field` bytes behind, over a pseudo
/// header of the sum `pseudo` and all bytes from there to the end, which are summed up to `tail`
/// only. `form` is the form in which it is written.
fn complete(
    to: &mut [u8],
    tail: Tail,
    start: usize,
    field: usize,
    pseudo: u16,
    form: impl Fn(u16) -> u16,
) -> Tail {
    put(to, start + field, pseudo);
    let mut sum = Sum::default();
    sum.add_bytes(&to[start..tail.from]);
    sum.add_bytes(&tail.sum.to_be_bytes());
    put(to, start + field, form(sum.finish()));
    // With its checksum a header and all that follows it adds up to the complement of the pseudo
    // header, for any pseudo header (the kernel's local checksum offload).
    Tail { from: start, sum: !pseudo }
}

/// The sum `pseudo` of a pseudo header with another length.
fn with_length(pseudo: u16, old: usize, new: usize) -> u16 {
    // `update32` works on complements, so on both sides of it.
    !update32(!pseudo, old as u32, new as u32)
}

/// A length that [`Segments::new`] has seen to be at most that.
fn to_u16(length: usize) -> u16 {
    length as u16
}

fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
