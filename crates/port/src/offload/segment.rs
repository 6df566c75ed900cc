//! Segmentation of a merged frame (GSO).
//!
//! Every segment gets the headers of the whole with its own length, its own
//! identification (IPv4) and sequence number (TCP), and its own checksums.
//! Source: RFC 9293 sections 3.1 and 3.8, RFC 791, RFC 3168 section 6.1.2, and
//! for what the sender expects `Documentation/networking/segmentation-offloads`
//! of the Linux kernel.

use linerate_memory::{Arena, Frame, PoolCache, Slot};
use linerate_packet::checksum::{checksum, udp_nonzero, update16};

use super::{Kind, Malformed, Offload};
use crate::counters::DropReason;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Where the headers of a merged frame are, and how far it has been segmented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segments {
    kind: Kind,
    /// Start of the IP header.
    network: usize,
    ipv6: bool,
    /// Start of the TCP or UDP header.
    transport: usize,
    /// Start of the payload.
    payload: usize,
    /// Length of the frame.
    end: usize,
    /// Payload bytes of each segment but the last.
    size: usize,
    /// Start of the next segment's payload.
    next: usize,
    /// Segments written so far.
    index: u16,
}

impl Segments {
    /// Finds the headers of `frame`.
    ///
    /// # Errors
    ///
    /// When they are not what `offload` says.
    fn of(frame: &[u8], offload: &Offload) -> Result<Segments, Malformed> {
        let (Some(merged), Some(checksum)) = (offload.gso, offload.checksum) else {
            return Err(Malformed);
        };
        let (network, ethertype) = network(frame)?;
        let transport = checksum.start;
        let ip = frame.get(network..transport).ok_or(Malformed)?;
        let ipv6 = match (ethertype, ip.first().map(|byte| byte >> 4)) {
            (0x0800, Some(4)) if ip.len() >= 20 => false,
            (0x86dd, Some(6)) if ip.len() >= 40 => true,
            _ => return Err(Malformed),
        };
        let header = match merged.kind {
            Kind::Tcp if checksum.offset == 16 => {
                usize::from(frame.get(transport + 12).ok_or(Malformed)? >> 4) * 4
            }
            Kind::Udp if checksum.offset == 6 => 8,
            _ => return Err(Malformed),
        };
        let payload = transport + header;
        let least = if merged.kind == Kind::Tcp { 20 } else { 8 };
        // An IP header says its length in 16 bits.
        if header < least || payload >= frame.len() || frame.len() - network > 0xffff {
            return Err(Malformed);
        }
        Ok(Segments {
            kind: merged.kind,
            network,
            ipv6,
            transport,
            payload,
            end: frame.len(),
            size: merged.size,
            next: payload,
            index: 0,
        })
    }

    /// Likewise, of a merged frame whose segments are to fit into `room` bytes each; else
    /// why it is dropped.
    pub(crate) fn fitting(
        frame: &[u8],
        offload: &Offload,
        room: usize,
    ) -> Result<Segments, DropReason> {
        match Segments::of(frame, offload) {
            Ok(segments) if segments.longest() <= room => Ok(segments),
            Ok(_) => Err(DropReason::TooLong),
            Err(Malformed) => Err(DropReason::Malformed),
        }
    }

    /// Length of the longest segment.
    fn longest(&self) -> usize {
        self.payload + self.size.min(self.end - self.payload)
    }

    /// Length of the next segment; `None` when there is none left.
    #[inline]
    pub(crate) fn next_length(&self) -> Option<usize> {
        (self.next < self.end).then(|| self.payload + self.size.min(self.end - self.next))
    }

    /// Writes the next segment of `frame`, the one given to [`Segments::of`],
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
        let last = self.next >= self.end;

        let ip = &mut head[self.network..];
        if self.ipv6 {
            put(ip, 4, to_u16(self.transport - self.network - 40) + self.length(body.len()));
        } else {
            put(ip, 2, to_u16(self.transport - self.network) + self.length(body.len()));
            let identification = get(ip, 4).wrapping_add(self.index);
            put(ip, 4, identification);
            put(ip, 10, 0);
            let header = checksum(&ip[..self.transport - self.network]);
            put(ip, 10, header);
        }

        let transport = &mut head[self.transport..];
        let field = match self.kind {
            Kind::Tcp => {
                let sequence =
                    u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
                let sequence = sequence.wrapping_add(done as u32);
                transport[4..8].copy_from_slice(&sequence.to_be_bytes());
                if !last {
                    transport[13] &= !(FIN | PSH);
                }
                if self.index > 0 {
                    transport[13] &= !CWR;
                }
                16
            }
            Kind::Udp => {
                put(transport, 4, self.length(body.len()));
                6
            }
        };
        // The field holds the sum of the pseudo header with the length of the
        // whole. `update16` works on complements, so on both sides of it.
        let whole = self.length(self.end - self.payload);
        let pseudo = !update16(!get(transport, field), whole, self.length(body.len()));
        put(transport, field, pseudo);
        let sum = udp_nonzero(checksum(&to[self.transport..]));
        put(&mut to[self.transport..], field, sum);
        self.index = self.index.wrapping_add(1);
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

    /// Length of the transport header and `payload` bytes behind it.
    fn length(&self, payload: usize) -> u16 {
        to_u16(self.payload - self.transport + payload)
    }
}

/// The start of the network header, behind any VLAN tags, and its `EtherType`.
fn network(frame: &[u8]) -> Result<(usize, u16), Malformed> {
    let mut at = 12;
    loop {
        let ethertype = frame.get(at..at + 2).ok_or(Malformed)?;
        match u16::from_be_bytes([ethertype[0], ethertype[1]]) {
            0x8100 | 0x88a8 => at += 4,
            ethertype => return Ok((at + 2, ethertype)),
        }
    }
}

/// A length that [`Segments::of`] has seen to be at most that.
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
mod tests {
    use linerate_packet::checksum::verify;
    use proptest::prelude::*;

    use super::*;
    use crate::offload::{Checksum, Gso};

    /// The sum over the pseudo header and the transport part is right, by the
    /// definition: everything laid out in one piece.
    fn transport_is_right(segment: &[u8], network: usize, transport: usize, protocol: u8) -> bool {
        let addresses = match segment[network] >> 4 {
            4 => network + 12..network + 20,
            _ => network + 8..network + 40,
        };
        let mut whole = segment[addresses].to_vec();
        whole.extend([0, protocol]);
        whole.extend(((segment.len() - transport) as u16).to_be_bytes());
        whole.extend(&segment[transport..]);
        verify(&whole)
    }

    /// A merged frame as the kernel makes it: lengths of the whole, the
    /// checksum field holding the pseudo header's sum.
    fn merged(
        ipv6: bool,
        kind: Kind,
        tags: usize,
        payload: &[u8],
        size: usize,
    ) -> (Vec<u8>, Offload) {
        let mut frame = vec![2u8, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for _ in 0..tags {
            frame.extend([0x81, 0x00, 0x00, 0x05]);
        }
        frame.extend(if ipv6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        let network = frame.len();
        let (protocol, header, offset): (u8, usize, usize) = match kind {
            Kind::Tcp => (6, 32, 16),
            Kind::Udp => (17, 8, 6),
        };
        let length = (header + payload.len()) as u16;
        if ipv6 {
            frame.extend([0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend([0x20; 32]);
        } else {
            frame.extend([0x45, 0]);
            frame.extend((length + 20).to_be_bytes());
            frame.extend([0xff, 0xfe, 0x40, 0, 64, protocol, 0xaa, 0xbb]);
            frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        }
        let transport = frame.len();
        let addresses = if ipv6 { network + 8..network + 40 } else { network + 12..network + 20 };
        let mut pseudo = frame[addresses].to_vec();
        pseudo.extend([0, protocol]);
        pseudo.extend(length.to_be_bytes());
        let mut part = vec![0x12, 0x34, 0, 80];
        match kind {
            Kind::Tcp => {
                part.extend([0xff, 0xff, 0xff, 0x00, 0, 0, 0, 7, 0x80, 0x99, 1, 1, 0, 0, 0, 0]);
                part.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
            }
            Kind::Udp => {
                part.extend(length.to_be_bytes());
                part.extend([0, 0]);
            }
        }
        put(&mut part, offset, !checksum(&pseudo));
        frame.extend(part);
        frame.extend(payload);
        let offload = Offload {
            checksum: Some(Checksum { start: transport, offset }),
            gso: Some(Gso { kind, size }),
        };
        (frame, offload)
    }

    fn segmented(frame: &[u8], offload: &Offload) -> Vec<Vec<u8>> {
        let mut segments = Segments::of(frame, offload).unwrap();
        let longest = segments.longest();
        let mut all = Vec::new();
        while let Some(length) = segments.next_length() {
            assert!(length <= longest);
            let mut segment = vec![0; length];
            segments.write_next(frame, &mut segment);
            all.push(segment);
        }
        all
    }

    #[test]
    fn tcp_segments_carry_on_where_the_one_before_ended() {
        let (frame, offload) = merged(false, Kind::Tcp, 0, &[7; 250], 100);
        let segments = segmented(&frame, &offload);
        let lengths: Vec<usize> = segments.iter().map(Vec::len).collect();
        assert_eq!(lengths, [166, 166, 116]);
        let field = |at: usize| segments.iter().map(|s| get(s, at)).collect::<Vec<_>>();
        assert_eq!(field(16), [152, 152, 102], "total length");
        assert_eq!(field(18), [0xfffe, 0xffff, 0], "identification");
        assert_eq!(field(40), [0xff00, 0xff64, 0xffc8], "low half of the sequence number");
        // CWR on the first only, PSH and FIN on the last only, ACK on all.
        let flags: Vec<u8> = segments.iter().map(|s| s[47]).collect();
        assert_eq!(flags, [0x90, 0x10, 0x19]);
    }

    #[test]
    fn udp_datagrams_have_their_own_length() {
        let (frame, offload) = merged(true, Kind::Udp, 1, &[7; 30], 20);
        let segments = segmented(&frame, &offload);
        assert_eq!(segments.iter().map(|s| get(s, 18 + 40 + 4)).collect::<Vec<_>>(), [28, 18]);
        assert_eq!(segments.iter().map(|s| get(s, 18 + 4)).collect::<Vec<_>>(), [28, 18]);
    }

    #[test]
    fn headers_that_are_not_what_was_said_are_refused() {
        let (frame, offload) = merged(false, Kind::Tcp, 0, &[7; 250], 100);
        let refused =
            |frame: &[u8], offload: &Offload| Segments::of(frame, offload) == Err(Malformed);
        assert!(refused(&frame[..66], &offload), "no payload");
        assert!(refused(&frame[..40], &offload), "cut in the header");
        assert!(refused(&frame, &Offload { checksum: None, ..offload }));
        assert!(refused(&frame, &offload.shifted(400)));
        let mut other = frame.clone();
        other[13] = 0x06;
        assert!(refused(&other, &offload), "not IP");
        let mut short = frame;
        short[46] = 0x40;
        assert!(refused(&short, &offload), "a TCP header of 16 bytes");
    }

    proptest! {
        #[test]
        fn segments_are_valid_and_add_up(
            ipv6: bool,
            udp: bool,
            tags in 0..3usize,
            payload in proptest::collection::vec(any::<u8>(), 1..4000),
            size in 1..1500usize,
        ) {
            let kind = if udp { Kind::Udp } else { Kind::Tcp };
            let (frame, offload) = merged(ipv6, kind, tags, &payload, size);
            let network = 14 + 4 * tags;
            let transport = offload.checksum.unwrap().start;
            let mut together = Vec::<u8>::new();
            for segment in segmented(&frame, &offload) {
                prop_assert!(ipv6 || verify(&segment[network..network + 20]));
                let protocol = if udp { 17 } else { 6 };
                prop_assert!(transport_is_right(&segment, network, transport, protocol));
                together.extend(&segment[transport + if udp { 8 } else { 32 }..]);
            }
            prop_assert_eq!(together, payload);
        }

        #[test]
        fn any_bytes_are_segmented_or_refused(
            mut frame in proptest::collection::vec(any::<u8>(), 0..300),
            header in any::<[u8; 10]>(),
            ethertype in prop_oneof![Just([0x08, 0x00]), Just([0x86, 0xdd]), any::<[u8; 2]>()],
        ) {
            if let Some(at) = frame.get_mut(12..14) {
                at.copy_from_slice(&ethertype);
            }
            if let Ok(offload) = Offload::parse(&header)
                && let Ok(mut segments) = Segments::of(&frame, &offload)
            {
                while let Some(length) = segments.next_length() {
                    segments.write_next(&frame, &mut vec![0; length]);
                }
            }
        }
    }
}
