//! Offloads that a sender inside this host left to the interface: checksums and segmentation.
//!
//! The kernel's own traffic comes with its transport checksum not yet computed and many segments in
//! one frame, because the last interface on the way is expected to do both. A port takes the place
//! of that interface, so it is done here: nothing behind a port ever sees a frame that could not be
//! on a wire.
//!
//! The virtio header in front of a frame says what is to be done. Source:
//! Virtual I/O Device (VIRTIO) 1.3, section 5.1.6, and
//! `linux/virtio_net.h`; fields are in the machine's byte order, as the kernel
//! hands them to a socket of the same machine, or little-endian, as drivers of virtio 1 write them.
//!
//! `docs/guide/offloads.md` has a table of the work that the kernel leaves to an interface, and of
//! its treatment by each kind of port.

mod crc32c;
mod headers;
mod partial;
mod segment;

use linerate_packet::checksum::{checksum, udp_nonzero};

pub(crate) use self::{partial::complete_partial, segment::Segments};

/// Bytes of the header.
pub(crate) const VNET_HEADER: usize = 10;
/// Longest merged frame the kernel makes unless told to make longer ones (`gso_max_size`): 64 KiB
/// of IP packet, and the headers of tunnels and links in front of it.
pub(crate) const MERGED_MAX: usize = (1 << 16) + 256;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP: u8 = 5;
/// Set beside a TCP type: the congestion window reduced flag is that of RFC 3168
/// and belongs to the first segment only. Without it the flag, if it is there,
/// is a bit of a counter (RFC 9768) and belongs to all of them.
const GSO_ECN: u8 = 0x80;
/// Set beside a type: the segments are in a UDP tunnel over IPv4 or IPv6, which
/// the headers say as well.
const GSO_UDP_TUNNEL: u8 = 0x20 | 0x40;

/// Offset of SCTP's checksum, which is none of the Internet's: no other protocol of which checksums
/// are left undone has one there.
const SCTP_OFFSET: usize = 8;

/// A virtio header that no frame, or not this one, can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Offloads that a frame's sender left to the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Offload {
    /// The checksum.
    pub(crate) checksum: Option<Checksum>,
    /// The segmentation (generic segmentation offload).
    pub(crate) gso: Option<Gso>,
}

/// A checksum to compute: over everything from `start`, into the two bytes at
/// `start + offset`, which hold the sum of the pseudo header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checksum {
    /// Start of the transport header.
    pub(crate) start: usize,
    /// Offset of its checksum field.
    pub(crate) offset: usize,
}

/// Several segments in one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gso {
    /// The transport protocol.
    pub(crate) kind: GsoKind,
    /// Payload bytes of each but the last.
    pub(crate) size: usize,
    /// Whether only the first keeps TCP's congestion window reduced flag.
    pub(crate) first_reduces: bool,
}

/// Kind of the segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GsoKind {
    /// Of a TCP stream.
    Tcp,
    /// Datagrams of equal size, to be sent alike.
    Udp,
}

impl Offload {
    /// Reads the header, in the machine's byte order.
    ///
    /// # Errors
    ///
    /// For an unknown segmentation, or segments of no bytes.
    pub(crate) fn parse(header: &[u8; VNET_HEADER]) -> Result<Offload, Malformed> {
        Offload::parse_with(header, u16::from_ne_bytes)
    }

    /// Reads the header, in the byte order of `number`: a guest's is little-endian.
    ///
    /// # Errors
    ///
    /// As of [`Offload::parse`].
    #[inline]
    pub(crate) fn parse_with(
        header: &[u8; VNET_HEADER],
        number: impl Fn([u8; 2]) -> u16,
    ) -> Result<Offload, Malformed> {
        let field = |at: usize| usize::from(number([header[at], header[at + 1]]));
        let (flags, gso) = (header[0], header[1]);
        let checksum =
            (flags & NEEDS_CHECKSUM != 0).then(|| Checksum { start: field(6), offset: field(8) });
        let kind = match gso & !(GSO_ECN | GSO_UDP_TUNNEL) {
            GSO_NONE if gso == GSO_NONE => return Ok(Offload { checksum, gso: None }),
            GSO_TCPV4 | GSO_TCPV6 => GsoKind::Tcp,
            GSO_UDP => GsoKind::Udp,
            _ => return Err(Malformed),
        };
        match field(4) {
            0 => Err(Malformed),
            size => {
                let first_reduces = gso & GSO_ECN != 0;
                Ok(Offload { checksum, gso: Some(Gso { kind, size, first_reduces }) })
            }
        }
    }

    /// The offloads of a frame whose headers begin `count` bytes later.
    #[inline]
    pub(crate) fn shifted(mut self, count: usize) -> Offload {
        if let Some(checksum) = &mut self.checksum {
            checksum.start += count;
        }
        self
    }
}

impl Checksum {
    /// Computes the checksum.
    ///
    /// # Errors
    ///
    /// When the field is not inside the frame.
    #[inline]
    pub(crate) fn complete(self, frame: &mut [u8]) -> Result<(), Malformed> {
        let covered = frame.get_mut(self.start..).ok_or(Malformed)?;
        if self.offset == SCTP_OFFSET {
            return crc32c::complete(covered).ok_or(Malformed);
        }
        let sum = checksum(covered);
        let field = covered.get_mut(self.offset..self.offset + 2).ok_or(Malformed)?;
        // TCP takes either form of zero, UDP only this one.
        field.copy_from_slice(&udp_nonzero(sum).to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A header with the fields in the machine's byte order.
    pub(super) fn header(flags: u8, gso: u8, size: u16, start: u16, offset: u16) -> [u8; 10] {
        let mut header = [flags, gso, 0, 0, 0, 0, 0, 0, 0, 0];
        header[4..6].copy_from_slice(&size.to_ne_bytes());
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..10].copy_from_slice(&offset.to_ne_bytes());
        header
    }

    #[test]
    fn parses_the_unfinished_work() {
        assert_eq!(Offload::parse(&[0; 10]), Ok(Offload::default()));
        // Data that was checked needs nothing.
        assert_eq!(Offload::parse(&header(2, 0, 0, 0, 0)), Ok(Offload::default()));
        let offload = Offload::parse(&header(1, 0x81, 1448, 34, 16)).unwrap();
        assert_eq!(offload.checksum, Some(Checksum { start: 34, offset: 16 }));
        let gso = Gso { kind: GsoKind::Tcp, size: 1448, first_reduces: true };
        assert_eq!(offload.gso, Some(gso));
        let tunnel = Offload::parse(&header(9, 0x25, 1400, 90, 6)).unwrap();
        assert_eq!(tunnel.checksum, Some(Checksum { start: 90, offset: 6 }));
        let gso = Gso { kind: GsoKind::Udp, size: 1400, first_reduces: false };
        assert_eq!(tunnel.gso, Some(gso), "in a UDP tunnel over IPv4");
        assert_eq!(offload.shifted(4).checksum, Some(Checksum { start: 38, offset: 16 }));
    }

    #[test]
    fn refuses_unknown_segmentations() {
        assert_eq!(Offload::parse(&header(1, 3, 1448, 34, 6)), Err(Malformed));
        assert_eq!(Offload::parse(&header(1, 1, 0, 34, 16)), Err(Malformed));
        assert_eq!(Offload::parse(&header(1, 0x20, 1448, 34, 16)), Err(Malformed));
    }

    /// The kernel marks a packet of SCTP the way it marks one of TCP.
    #[test]
    fn the_checksum_of_sctp_is_a_crc() {
        let mut frame = [&[0xaa; 34][..], &[0, 7, 0, 9, 1, 2, 3, 4, 0, 0, 0, 0], b"chunk"].concat();
        Checksum { start: 34, offset: 8 }.complete(&mut frame).unwrap();
        let sum = u32::from_le_bytes(*frame[42..].first_chunk().unwrap());
        frame[42..46].fill(0);
        assert_eq!(crc32c::crc32c(&frame[34..]), sum);
        assert_eq!(Checksum { start: 34, offset: 8 }.complete(&mut frame[..45]), Err(Malformed));
    }

    #[test]
    fn completes_a_checksum_from_its_pseudo_header() {
        // UDP 10.0.0.1:1 to 10.0.0.2:2, "hi". The field holds the pseudo
        // header's sum: 0a00+0001+0a00+0002+0011+000a = 141e.
        let mut frame = vec![0, 1, 0, 2, 0, 10, 0x14, 0x1e, b'h', b'i'];
        Checksum { start: 0, offset: 6 }.complete(&mut frame).unwrap();
        // 141e + 0001+0002+000a + 6869 = 7c94, complemented 836b.
        assert_eq!(frame[6..8], [0x83, 0x6b]);
    }

    #[test]
    fn a_sum_of_zero_is_sent_as_its_other_form() {
        let mut frame = [0xff, 0xff, 0, 0];
        Checksum { start: 0, offset: 2 }.complete(&mut frame).unwrap();
        assert_eq!(frame, [0xff; 4]);
    }

    proptest! {
        #[test]
        fn any_header_on_any_frame_is_done_or_refused(
            header in any::<[u8; 10]>(),
            mut frame in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            if let Ok(Offload { checksum: Some(checksum), .. }) = Offload::parse(&header) {
                let field = if checksum.offset == SCTP_OFFSET { 4 } else { 2 };
                let inside = checksum.start + checksum.offset + field <= frame.len();
                prop_assert_eq!(checksum.complete(&mut frame).is_ok(), inside);
            }
        }
    }
}
