//! Metadata of a packet.

use std::{mem::offset_of, time::Duration};

/// Start of a header, in bytes from the start of the packet's *buffer*: moving the start of a
/// packet leaves it alone, and holders of one buffer, each with a start of its own, mean the same
/// header by it. It may lie in front of the packet, when it was stripped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct HeaderStart(u16);

impl HeaderStart {
    /// Not known: the last byte a buffer can have, where no header begins.
    pub const UNKNOWN: HeaderStart = HeaderStart(u16::MAX);

    /// A header `offset` bytes behind the start of a packet with so much headroom.
    #[inline(always)]
    pub fn new(headroom: usize, offset: usize) -> HeaderStart {
        HeaderStart(headroom.wrapping_add(offset) as u16)
    }

    /// A header `offset` bytes behind or, below zero, in front of the start of a packet with so
    /// much headroom; not known when it is not in the buffer.
    #[inline]
    pub fn signed(headroom: usize, offset: isize) -> HeaderStart {
        let start = headroom.checked_add_signed(offset).and_then(|at| u16::try_from(at).ok());
        start.map_or(HeaderStart::UNKNOWN, HeaderStart)
    }

    /// Returns true if the header's place is known.
    #[inline(always)]
    pub fn is_known(self) -> bool {
        self != HeaderStart::UNKNOWN
    }

    /// The offset from the start of a packet with so much headroom; beyond the end of any
    /// packet when it is not known, or in front of this one.
    #[inline(always)]
    pub fn index(self, headroom: usize) -> usize {
        usize::from(self.0).wrapping_sub(headroom)
    }

    /// The signed offset, below zero when the header is in front of the packet; `None` when not
    /// known.
    #[inline]
    pub fn offset(self, headroom: usize) -> Option<isize> {
        self.is_known().then(|| self.index(headroom).cast_signed())
    }

    /// The header `by` bytes further towards the end of the buffer, which were moved.
    #[inline]
    pub(crate) fn moved(self, by: isize) -> HeaderStart {
        if self.is_known() { HeaderStart::signed(usize::from(self.0), by) } else { self }
    }
}

/// The interface of this host by which a packet came, among several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Its index.
    pub index: u32,
    /// Its hardware type (`ARPHRD_*`).
    pub hardware: u16,
    /// Bytes of the sender's link-layer address.
    pub address_length: u8,
}

/// Per-packet metadata, one cache line per buffer, in an array of its own so
/// that a path that does not use it never touches it.
///
/// A buffer fresh from the pool holds the metadata of its previous packet: the first user of a
/// field sets it, or calls [`Meta::reset`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Meta {
    /// When the packet was received, in nanoseconds since the epoch; 0 while no element has asked
    /// for the time.
    pub timestamp: u64,
    /// Flow hash; 0 when not computed.
    pub flow_hash: u32,
    /// Port the packet was received on.
    pub port: u16,
    /// Queue of that port.
    pub queue: u16,
    /// 802.1Q tag control information; 0 when there is none.
    pub vlan: u16,
    /// Paint (colour) annotation.
    pub paint: u8,
    /// Packet type, by its destination on the link: [`Meta::TO_HOST`] and so on, as Click numbers
    /// it.
    pub packet_type: u8,
    /// Start of the network header.
    pub network: HeaderStart,
    /// Start of the transport header.
    pub transport: HeaderStart,
    /// Destination annotation: an IPv6 address, or an IPv4 address in its
    /// first four bytes.
    pub destination: [u8; 16],
    /// Room for annotations of elements.
    pub user: [u8; 24],
}

const _: () = assert!(size_of::<Meta>() == 64 && align_of::<Meta>() == 64);
// One store writes both places and the first four bytes of the destination.
const _: () = assert!(offset_of!(Meta, transport) == offset_of!(Meta, network) + 2);
const _: () = assert!(offset_of!(Meta, destination) == offset_of!(Meta, network) + 4);

impl Meta {
    /// [`Meta::packet_type`] of a packet to this host, or not known.
    pub const TO_HOST: u8 = 0;
    /// [`Meta::packet_type`] of a packet to all stations of the link.
    pub const BROADCAST: u8 = 1;
    /// [`Meta::packet_type`] of a packet to a group of stations.
    pub const MULTICAST: u8 = 2;
    /// [`Meta::packet_type`] of a packet to another station.
    pub const OTHER_HOST: u8 = 3;
    /// [`Meta::packet_type`] of a packet this host sends.
    pub const OUTGOING: u8 = 4;
    /// [`Meta::packet_type`] of a packet this host sends to itself.
    pub const LOOPBACK: u8 = 5;

    /// Metadata of a packet nothing is known about.
    pub const EMPTY: Meta = Meta {
        timestamp: 0,
        flow_hash: 0,
        port: 0,
        queue: 0,
        network: HeaderStart::UNKNOWN,
        transport: HeaderStart::UNKNOWN,
        vlan: 0,
        paint: 0,
        packet_type: Meta::TO_HOST,
        destination: [0; 16],
        user: [0; 24],
    };

    /// Forgets everything.
    #[inline]
    pub fn reset(&mut self) {
        *self = Meta::EMPTY;
    }

    /// Sets where both headers of a packet with so much headroom begin.
    #[inline(always)]
    pub(crate) fn set_headers(&mut self, headroom: usize, network: usize, transport: usize) {
        self.network = HeaderStart::new(headroom, network);
        self.transport = HeaderStart::new(headroom, transport);
    }

    /// Starts of both headers in a word: the network header, and above it the transport header.
    #[inline(always)]
    pub(crate) fn header_pair(&self) -> u32 {
        u32::from(self.network.0) | u32::from(self.transport.0) << 16
    }

    /// Sets them by such a word: where the network header begins, and above it the transport header.
    #[inline(always)]
    pub(crate) fn set_header_pair(&mut self, pair: u32) {
        (self.network, self.transport) =
            (HeaderStart(pair as u16), HeaderStart((pair >> 16) as u16));
    }

    /// Sets the headers by the lower half of the word, as [`Meta::set_header_pair`], and the first
    /// four bytes of the destination by the upper half, the first one lowest.
    #[inline(always)]
    pub(crate) fn set_header_word(&mut self, word: u64) {
        if cfg!(target_endian = "little") {
            // SAFETY: eight bytes of these fields, which are next to each other (asserted above)
            // and may have any value.
            unsafe {
                (&raw mut *self)
                    .byte_add(offset_of!(Meta, network))
                    .cast::<[u8; 8]>()
                    .write(word.to_ne_bytes());
            }
        } else {
            self.set_header_pair(word as u32);
            self.destination[..4].copy_from_slice(&((word >> 32) as u32).to_le_bytes());
        }
    }

    /// Forgets where headers begin.
    #[inline]
    pub fn forget_headers(&mut self) {
        (self.network, self.transport) = (HeaderStart::UNKNOWN, HeaderStart::UNKNOWN);
    }

    /// All bytes of the packet were moved inside its buffer, towards its end or, below zero,
    /// its start: headers with them.
    #[cold]
    pub fn bytes_moved(&mut self, by: isize) {
        (self.network, self.transport) = (self.network.moved(by), self.transport.moved(by));
    }

    /// Bytes the packet had beyond those that are there, in `user`.
    const MISSING: std::ops::Range<usize> = 8..12;

    /// Bytes that the packet had on its link beyond its length here, where a capture cut it.
    #[inline]
    pub fn missing(&self) -> u32 {
        self.user[Meta::MISSING].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// Notes it.
    #[inline]
    pub fn set_missing(&mut self, bytes: u32) {
        self.user[Meta::MISSING].copy_from_slice(&bytes.to_ne_bytes());
    }

    /// Where a packet came from, in `user`: index, hardware type, length of the address, and whether they
    /// are noted.
    const ORIGIN: std::ops::Range<usize> = 12..20;

    /// The interface by which a packet came, where that was noted.
    pub fn origin(&self) -> Option<Origin> {
        match self.user[Meta::ORIGIN] {
            [a, b, c, d, e, f, address_length, 1] => Some(Origin {
                index: u32::from_ne_bytes([a, b, c, d]),
                hardware: u16::from_ne_bytes([e, f]),
                address_length,
            }),
            _ => None,
        }
    }

    /// Notes it.
    pub fn set_origin(&mut self, origin: Origin) {
        let Origin { index, hardware, address_length } = origin;
        let ([a, b, c, d], [e, f]) = (index.to_ne_bytes(), hardware.to_ne_bytes());
        self.user[Meta::ORIGIN].copy_from_slice(&[a, b, c, d, e, f, address_length, 1]);
    }

    /// The receive time, when it was taken.
    pub fn time(&self) -> Option<Duration> {
        (self.timestamp != 0).then(|| Duration::from_nanos(self.timestamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_stay_where_they_are_while_the_start_of_the_packet_moves() {
        let start = HeaderStart::new(128, 14);
        assert_eq!((start.index(128), start.offset(128)), (14, Some(14)));
        assert_eq!((start.index(142), start.offset(142)), (0, Some(0)));
        assert_eq!(start.offset(176), Some(-34));
        assert!(start.index(143) > usize::from(u16::MAX), "no byte of the packet");
        assert_eq!(HeaderStart::signed(176, -34), start);
        assert_eq!(HeaderStart::signed(10, -11), HeaderStart::UNKNOWN);
        assert_eq!((start.moved(-14).offset(128), start.moved(6).offset(128)), (Some(0), Some(20)));
    }

    #[test]
    fn an_origin_is_there_when_it_was_noted() {
        let (mut meta, origin) =
            (Meta::EMPTY, Origin { index: 0x0102_0304, hardware: 772, address_length: 6 });
        assert_eq!(meta.origin(), None);
        meta.set_missing(u32::MAX);
        meta.set_origin(origin);
        assert_eq!((meta.origin(), meta.missing()), (Some(origin), u32::MAX));
        meta.reset();
        assert_eq!(meta.origin(), None);
    }

    #[test]
    fn an_unknown_header_start_is_beyond_every_packet() {
        let unknown = HeaderStart::UNKNOWN;
        for headroom in [0, 1, 128, 65_534] {
            assert_eq!(unknown.offset(headroom), None);
            assert!(headroom + unknown.index(headroom) >= usize::from(u16::MAX));
        }
        assert_eq!(unknown.moved(-3), unknown);
        assert!(!Meta::EMPTY.network.is_known() && HeaderStart::new(0, 0).is_known());
    }
}
