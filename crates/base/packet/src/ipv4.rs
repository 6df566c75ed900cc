//! IPv4 headers and their options.
//!
//! `new_checked` asks for version 4, a header length of at least 20 bytes that fits the total
//! length, and a total length that fits the bytes. It does not verify the checksum: a caller that
//! must (a router does, a bridge does not) calls [`Ipv4::verify_checksum`]. Bytes behind the total
//! length are link padding and are never part of the payload. Source: RFC 791, RFC 2474, RFC 3168.

use core::fmt;
use core::net::Ipv4Addr;

use crate::bytes::{be16, get, put, put16, span, span_mut, view};
use crate::checksum::{self, Sum};
use crate::{Fault, Header, IpProtocol, Malformed};

/// Length of the header without options.
pub const HEADER_LEN: usize = 20;
/// Length of the longest header.
pub const MAX_HEADER_LEN: usize = 60;

pub(crate) mod field {
    pub(super) const VERSION_IHL: usize = 0;
    pub(super) const TOS: usize = 1;
    pub(super) const TOTAL_LEN: usize = 2;
    pub(crate) const IDENT: usize = 4;
    pub(super) const FLAGS_FRAGMENT: usize = 6;
    pub(super) const TTL: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(crate) const CHECKSUM: usize = 10;
    pub(crate) const SRC: usize = 12;
    pub(crate) const DST: usize = 16;
}

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;

const INITIAL: [u8; HEADER_LEN] = {
    let mut initial = [0; HEADER_LEN];
    initial[field::VERSION_IHL] = 0x45;
    initial[field::TTL] = 64;
    initial
};

view! {
    /// An IPv4 packet. `init` writes version 4, no options and a TTL of 64.
    Ipv4, Header::Ipv4, HEADER_LEN, check: check, initial: INITIAL
}

#[inline(always)]
fn check(head: &[u8; HEADER_LEN], available: usize) -> Result<(), Fault> {
    let header_len = usize::from(head[field::VERSION_IHL] & 0xf) * 4;
    let total_len = usize::from(be16(head, field::TOTAL_LEN));
    if head[field::VERSION_IHL] >> 4 != 4 {
        Err(Fault::Version)
    } else if header_len < HEADER_LEN {
        Err(Fault::HeaderLength)
    } else if header_len > available {
        Err(Fault::Truncated)
    } else if total_len < header_len || total_len > available {
        Err(Fault::Length)
    } else {
        Ok(())
    }
}

impl<T: AsRef<[u8]>> Ipv4<T> {
    /// Length of the header with its options, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.head()[field::VERSION_IHL] & 0xf) * 4
    }

    /// The former type of service byte: DSCP and ECN together.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.head()[field::TOS]
    }

    /// Differentiated services code point.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.tos() >> 2
    }

    /// Explicit congestion notification: 0 not capable, 3 congestion experienced.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.tos() & 3
    }

    /// Length of header and payload.
    #[inline]
    pub fn total_len(&self) -> u16 {
        be16(self.head(), field::TOTAL_LEN)
    }

    /// Identification, which fragments of one datagram share.
    #[inline]
    pub fn ident(&self) -> u16 {
        be16(self.head(), field::IDENT)
    }

    /// May no router fragment it?
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        be16(self.head(), field::FLAGS_FRAGMENT) & DONT_FRAGMENT != 0
    }

    /// Do more fragments of the datagram follow?
    #[inline]
    pub fn more_fragments(&self) -> bool {
        be16(self.head(), field::FLAGS_FRAGMENT) & MORE_FRAGMENTS != 0
    }

    /// Offset of this fragment's payload in the datagram, in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        (be16(self.head(), field::FLAGS_FRAGMENT) & FRAGMENT_OFFSET) << 3
    }

    /// Is it a fragment, the first one included?
    #[inline]
    pub fn is_fragment(&self) -> bool {
        be16(self.head(), field::FLAGS_FRAGMENT) & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0
    }

    /// Time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.head()[field::TTL]
    }

    /// The protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> IpProtocol {
        IpProtocol(self.head()[field::PROTOCOL])
    }

    /// The header checksum as it is in the packet.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.head(), field::CHECKSUM)
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from(get::<HEADER_LEN, 4>(self.head(), field::SRC))
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from(get::<HEADER_LEN, 4>(self.head(), field::DST))
    }

    /// The options, in order.
    #[inline]
    pub fn options(&self) -> Options<'_> {
        Options { rest: span(self.bytes.as_ref(), HEADER_LEN, self.header_len()) }
    }

    /// The payload, without link padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        span(self.bytes.as_ref(), self.header_len(), usize::from(self.total_len()))
    }

    /// Is the header checksum right?
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        // The header without options has a fixed length, for which the sum has no loop.
        if self.header_len() == HEADER_LEN {
            checksum::verify(self.head())
        } else {
            checksum::verify(span(self.bytes.as_ref(), 0, self.header_len()))
        }
    }

    /// The pseudo header sum for the checksum of a transport header in this packet.
    #[inline]
    pub fn pseudo_header(&self) -> Sum {
        let length = self.total_len().saturating_sub(self.header_len() as u16);
        checksum::pseudo_v4(self.src(), self.dst(), self.protocol(), length)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv4<T> {
    /// Sets the header length in bytes: a multiple of 4 up to 60 (other values are rounded down).
    #[inline]
    pub fn set_header_len(&mut self, len: u8) {
        self.head_mut()[field::VERSION_IHL] = 0x40 | (len.min(MAX_HEADER_LEN as u8) / 4);
    }

    /// Sets DSCP and ECN.
    #[inline]
    pub fn set_tos(&mut self, tos: u8) {
        self.head_mut()[field::TOS] = tos;
    }

    /// Sets the differentiated services code point (6 bits).
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) {
        let tos = self.tos() & 3 | dscp << 2;
        self.set_tos(tos);
    }

    /// Sets the explicit congestion notification (2 bits).
    #[inline]
    pub fn set_ecn(&mut self, ecn: u8) {
        let tos = self.tos() & !3 | ecn & 3;
        self.set_tos(tos);
    }

    /// Sets the length of header and payload.
    #[inline]
    pub fn set_total_len(&mut self, len: u16) {
        put16(self.head_mut(), field::TOTAL_LEN, len);
    }

    /// Sets the identification.
    #[inline]
    pub fn set_ident(&mut self, ident: u16) {
        put16(self.head_mut(), field::IDENT, ident);
    }

    /// Sets the fragmentation field: both flags, and the offset in bytes, of which the low three
    /// bits are cut off.
    #[inline]
    pub fn set_fragmentation(&mut self, dont_fragment: bool, more_fragments: bool, offset: u16) {
        let mut value = offset >> 3;
        if dont_fragment {
            value |= DONT_FRAGMENT;
        }
        if more_fragments {
            value |= MORE_FRAGMENTS;
        }
        put16(self.head_mut(), field::FLAGS_FRAGMENT, value);
    }

    /// Sets the time to live.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.head_mut()[field::TTL] = ttl;
    }

    /// Sets the protocol of the payload.
    #[inline]
    pub fn set_protocol(&mut self, protocol: IpProtocol) {
        self.head_mut()[field::PROTOCOL] = protocol.0;
    }

    /// Writes a header checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.head_mut(), field::CHECKSUM, checksum);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src(&mut self, src: Ipv4Addr) {
        put(self.head_mut(), field::SRC, src.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_dst(&mut self, dst: Ipv4Addr) {
        put(self.head_mut(), field::DST, dst.octets());
    }

    /// Computes and writes the header checksum.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let check = checksum::checksum(span(self.bytes.as_ref(), 0, self.header_len()));
        self.set_checksum(check);
    }

    /// Decrements the time to live and updates the checksum, as a router does. Returns false and
    /// changes nothing if it is already 0 or would become 0: such a packet is not forwarded.
    #[inline]
    pub fn decrement_ttl(&mut self) -> bool {
        let head = self.head_mut();
        if head[field::TTL] <= 1 {
            return false;
        }
        let old = be16(head, field::TTL);
        let new = old - 0x0100;
        let check = checksum::update16(be16(head, field::CHECKSUM), old, new);
        put16(head, field::TTL, new);
        put16(head, field::CHECKSUM, check);
        true
    }

    /// The bytes between the fixed header and the header length, for writing options.
    #[inline]
    pub fn options_mut(&mut self) -> &mut [u8] {
        let end = self.header_len();
        span_mut(self.bytes.as_mut(), HEADER_LEN, end)
    }

    /// The payload, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let (from, to) = (self.header_len(), usize::from(self.total_len()));
        span_mut(self.bytes.as_mut(), from, to)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Ipv4<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (src, dst, protocol) = (self.src(), self.dst(), self.protocol());
        write!(f, "{src} > {dst} {protocol} ttl {} length {}", self.ttl(), self.total_len())?;
        if self.is_fragment() {
            write!(f, " fragment {} of {:#06x}", self.fragment_offset(), self.ident())?;
        }
        Ok(())
    }
}

/// One IPv4 option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// Copied flag, class and number.
    pub kind: u8,
    /// The bytes behind kind and length.
    pub data: &'a [u8],
}

/// The options of an IPv4 header. Ends at the end-of-list option, at the end of the header, or
/// after the first malformed option.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Ipv4Option<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let (option, rest) = match *self.rest {
            [] | [0, ..] => {
                self.rest = &[];
                return None;
            }
            [1, ref rest @ ..] => (Ipv4Option { kind: 1, data: &[] }, rest),
            [kind, len, ref rest @ ..] if usize::from(len.max(2)) - 2 <= rest.len() && len >= 2 => {
                let (data, rest) = rest.split_at(usize::from(len) - 2);
                (Ipv4Option { kind, data }, rest)
            }
            _ => {
                self.rest = &[];
                return Some(Err(Malformed::new(Header::Ipv4, Fault::Option)));
            }
        };
        self.rest = rest;
        Some(Ok(option))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    /// 10.0.0.1 > 192.168.1.2, UDP, DSCP 46, ECN 1, DF, two bytes of padding behind.
    const PACKET: [u8; 26] = [
        0x45, 0xb9, 0x00, 0x18, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11, 0x5c, 0x3d, 10, 0, 0, 1, 192,
        168, 1, 2, 0xde, 0xad, 0xbe, 0xef, 0, 0,
    ];

    /// A header with router alert, no-operation and end of list.
    const WITH_OPTIONS: [u8; 29] = [
        0x47, 0x00, 0x00, 0x1d, 0x00, 0x00, 0x20, 0x05, 0x01, 0x02, 0x18, 0xbf, 10, 0, 0, 1, 224,
        0, 0, 22, 0x94, 0x04, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x99,
    ];

    fn fault(bytes: &[u8]) -> Fault {
        let error = Ipv4::new_checked(bytes).unwrap_err();
        assert_eq!(error.header, Header::Ipv4);
        error.fault
    }

    #[test]
    fn reads_the_golden_packet() {
        let ip = Ipv4::new_checked(&PACKET[..]).unwrap();
        assert_eq!((ip.header_len(), ip.total_len()), (20, 24));
        assert_eq!((ip.tos(), ip.dscp(), ip.ecn()), (0xb9, 46, 1));
        assert_eq!(ip.ident(), 0x1234);
        assert!(ip.dont_fragment() && !ip.more_fragments() && !ip.is_fragment());
        assert_eq!((ip.ttl(), ip.protocol()), (64, IpProtocol::UDP));
        assert_eq!(ip.src(), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(ip.dst(), Ipv4Addr::new(192, 168, 1, 2));
        assert_eq!(ip.payload(), [0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(ip.options().count(), 0);
        assert!(ip.verify_checksum(), "{:#06x}", checksum::checksum(&PACKET[..20]));
        assert_eq!(ip.to_string(), "10.0.0.1 > 192.168.1.2 udp ttl 64 length 24");
    }

    #[test]
    fn writes_the_golden_packet() {
        let mut bytes = [0; 26];
        let mut ip = Ipv4::init(&mut bytes[..]).unwrap();
        ip.set_dscp(46);
        ip.set_ecn(1);
        ip.set_total_len(24);
        ip.set_ident(0x1234);
        ip.set_fragmentation(true, false, 0);
        ip.set_protocol(IpProtocol::UDP);
        ip.set_src(Ipv4Addr::new(10, 0, 0, 1));
        ip.set_dst(Ipv4Addr::new(192, 168, 1, 2));
        ip.payload_mut().copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
        ip.fill_checksum();
        assert_eq!(bytes, PACKET);
    }

    #[test]
    fn reads_options_and_fragments() {
        let ip = Ipv4::new_checked(&WITH_OPTIONS[..]).unwrap();
        assert_eq!(ip.header_len(), 28);
        assert_eq!(ip.payload(), [0x99]);
        assert!(ip.verify_checksum(), "{:#06x}", checksum::checksum(&WITH_OPTIONS[..28]));
        assert!(ip.is_fragment() && ip.more_fragments());
        assert_eq!(ip.fragment_offset(), 40);
        let options: Vec<_> = ip.options().map(Result::unwrap).collect();
        let alert = Ipv4Option { kind: 0x94, data: &[0, 0] };
        assert_eq!(options, [alert, Ipv4Option { kind: 1, data: &[] }]);
        assert_eq!(
            ip.to_string(),
            "10.0.0.1 > 224.0.0.22 igmp ttl 1 length 29 fragment 40 of 0x0000"
        );
    }

    #[test]
    fn a_malformed_option_ends_the_list() {
        for (options, good) in [
            (&[0x94, 0x05, 0, 0][..], 0),
            (&[0x01, 0x01, 0x01, 0x94], 3),
            (&[0x94, 0x00, 0, 0], 0),
            (&[0x94, 0x01, 0, 0], 0),
        ] {
            let mut list = Options { rest: options };
            for _ in 0..good {
                assert!(list.next().unwrap().is_ok());
            }
            let bad = Malformed { header: Header::Ipv4, fault: Fault::Option };
            assert_eq!(list.next(), Some(Err(bad)));
            assert_eq!(list.next(), None);
        }
    }

    #[test]
    fn refuses_contradicting_lengths() {
        assert_eq!(fault(&PACKET[..19]), Fault::Truncated);
        assert_eq!(fault(&PACKET[..23]), Fault::Length);
        let with = |at: usize, value: u8| {
            let mut bytes = PACKET;
            bytes[at] = value;
            bytes
        };
        assert_eq!(fault(&with(0, 0x65)), Fault::Version);
        assert_eq!(fault(&with(0, 0x44)), Fault::HeaderLength);
        assert_eq!(fault(&with(0, 0x46)[..20]), Fault::Truncated);
        assert_eq!(fault(&with(3, 19)), Fault::Length);
        assert_eq!(fault(&with(3, 27)), Fault::Length);
        assert!(Ipv4::new_checked(&with(3, 26)[..]).is_ok());
    }

    #[test]
    fn ttl_is_decremented_with_its_checksum() {
        let mut bytes = PACKET;
        let mut ip = Ipv4::new_checked(&mut bytes[..]).unwrap();
        for ttl in (1..64).rev() {
            assert!(ip.decrement_ttl());
            assert_eq!(ip.ttl(), ttl);
            assert!(ip.verify_checksum());
        }
        assert!(!ip.decrement_ttl());
        assert_eq!(ip.ttl(), 1);
        ip.set_ttl(0);
        assert!(!ip.decrement_ttl());
    }
}
