//! Fixed IPv6 header.
//!
//! `new_checked` asks for version 6 and for a payload length that fits the bytes. A payload length
//! of zero means an empty payload: jumbograms (RFC 2675) do not fit a 16-bit slot length and are
//! not read. Extension headers are walked by [`Ipv6::upper_layer`] and [`Ipv6::extensions`], see
//! [`ipv6_ext`](crate::ipv6_ext). Source: RFC 8200, RFC 6437 (flow label).

use core::fmt;
use core::net::Ipv6Addr;

use crate::bytes::{be16, be32, get, put, put16, put32, span, span_mut, view};
use crate::checksum::{self, Sum};
use crate::ipv6_ext::{Extensions, UpperLayer, upper_layer};
use crate::{Fault, Header, IpProtocol, Malformed};

/// Length of the fixed header.
pub const HEADER_LEN: usize = 40;

pub(crate) mod field {
    pub(super) const VERSION_CLASS_LABEL: usize = 0;
    pub(super) const PAYLOAD_LEN: usize = 4;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(crate) const SRC: usize = 8;
    pub(crate) const DST: usize = 24;
}

const INITIAL: [u8; HEADER_LEN] = {
    let mut initial = [0; HEADER_LEN];
    initial[field::VERSION_CLASS_LABEL] = 0x60;
    initial[field::NEXT_HEADER] = IpProtocol::NO_NEXT.0;
    initial[field::HOP_LIMIT] = 64;
    initial
};

view! {
    /// An IPv6 packet. `init` writes version 6, no next header and a hop limit of 64.
    Ipv6, Header::Ipv6, HEADER_LEN, check: check, initial: INITIAL
}

#[inline(always)]
fn check(head: &[u8; HEADER_LEN], available: usize) -> Result<(), Fault> {
    if head[field::VERSION_CLASS_LABEL] >> 4 != 6 {
        Err(Fault::Version)
    } else if HEADER_LEN + usize::from(be16(head, field::PAYLOAD_LEN)) > available {
        Err(Fault::Length)
    } else {
        Ok(())
    }
}

impl<T: AsRef<[u8]>> Ipv6<T> {
    /// DSCP and ECN together.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (be32(self.head(), field::VERSION_CLASS_LABEL) >> 20) as u8
    }

    /// Differentiated services code point.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit congestion notification: 0 not capable, 3 congestion experienced.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        be32(self.head(), field::VERSION_CLASS_LABEL) & 0xf_ffff
    }

    /// Length of everything behind the fixed header.
    #[inline]
    pub fn payload_len(&self) -> u16 {
        be16(self.head(), field::PAYLOAD_LEN)
    }

    /// The protocol behind the fixed header: an extension or a transport protocol.
    #[inline]
    pub fn next_header(&self) -> IpProtocol {
        IpProtocol(self.head()[field::NEXT_HEADER])
    }

    /// Hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.head()[field::HOP_LIMIT]
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from(get::<HEADER_LEN, 16>(self.head(), field::SRC))
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from(get::<HEADER_LEN, 16>(self.head(), field::DST))
    }

    /// Everything behind the fixed header, extensions included, without link padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        span(self.bytes.as_ref(), HEADER_LEN, HEADER_LEN + usize::from(self.payload_len()))
    }

    /// The extension headers, in order.
    #[inline]
    pub fn extensions(&self) -> Extensions<'_> {
        Extensions::new(self.next_header(), self.payload())
    }

    /// Walks the extension headers and returns the header behind them and its offset in
    /// [`payload`](Self::payload).
    ///
    /// # Errors
    ///
    /// An extension header is cut off or there are too many of them.
    #[inline]
    pub fn upper_layer(&self) -> Result<UpperLayer, Malformed> {
        upper_layer(self.next_header(), self.payload())
    }

    /// The pseudo header sum for the checksum of a transport header of `length` bytes with its
    /// data. With a routing header the destination is the last one, which only the caller knows.
    #[inline]
    pub fn pseudo_header(&self, protocol: IpProtocol, length: u32) -> Sum {
        checksum::pseudo_v6(self.src(), self.dst(), protocol, length)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv6<T> {
    /// Sets DSCP and ECN.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        let head = self.head_mut();
        let rest = be32(head, field::VERSION_CLASS_LABEL) & !0x0ff0_0000;
        put32(head, field::VERSION_CLASS_LABEL, rest | u32::from(class) << 20);
    }

    /// Sets the flow label (20 bits).
    #[inline]
    pub fn set_flow_label(&mut self, label: u32) {
        let head = self.head_mut();
        let rest = be32(head, field::VERSION_CLASS_LABEL) & !0xf_ffff;
        put32(head, field::VERSION_CLASS_LABEL, rest | label & 0xf_ffff);
    }

    /// Sets the length of everything behind the fixed header.
    #[inline]
    pub fn set_payload_len(&mut self, len: u16) {
        put16(self.head_mut(), field::PAYLOAD_LEN, len);
    }

    /// Sets the protocol behind the fixed header.
    #[inline]
    pub fn set_next_header(&mut self, next: IpProtocol) {
        self.head_mut()[field::NEXT_HEADER] = next.0;
    }

    /// Sets the hop limit.
    #[inline]
    pub fn set_hop_limit(&mut self, limit: u8) {
        self.head_mut()[field::HOP_LIMIT] = limit;
    }

    /// Decrements the hop limit, as a router does. Returns false and changes nothing if it is
    /// already 0 or would become 0: such a packet is not forwarded.
    #[inline]
    pub fn decrement_hop_limit(&mut self) -> bool {
        let limit = &mut self.head_mut()[field::HOP_LIMIT];
        let forwardable = *limit > 1;
        *limit -= u8::from(forwardable);
        forwardable
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src(&mut self, src: Ipv6Addr) {
        put(self.head_mut(), field::SRC, src.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_dst(&mut self, dst: Ipv6Addr) {
        put(self.head_mut(), field::DST, dst.octets());
    }

    /// Everything behind the fixed header, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let to = HEADER_LEN + usize::from(self.payload_len());
        span_mut(self.bytes.as_mut(), HEADER_LEN, to)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Ipv6<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} {}", self.src(), self.dst(), self.next_header())?;
        write!(f, " hops {} length {}", self.hop_limit(), self.payload_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    // 2001:db8::1 > 2001:db8::2, UDP, class 0xb9, label 0x12345, one byte of padding behind.
    const PACKET: [u8; 45] = [
        0x6b, 0x91, 0x23, 0x45, 0x00, 0x04, 0x11, 0x40, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 1, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0xde, 0xad,
        0xbe, 0xef, 0,
    ];

    #[test]
    fn reads_the_golden_packet() {
        let ip = Ipv6::new_checked(&PACKET[..]).unwrap();
        assert_eq!((ip.traffic_class(), ip.dscp(), ip.ecn()), (0xb9, 46, 1));
        assert_eq!(ip.flow_label(), 0x12345);
        assert_eq!((ip.payload_len(), ip.next_header()), (4, IpProtocol::UDP));
        assert_eq!(ip.hop_limit(), 64);
        assert_eq!(ip.src(), "2001:db8::1".parse::<Ipv6Addr>().unwrap());
        assert_eq!(ip.dst(), "2001:db8::2".parse::<Ipv6Addr>().unwrap());
        assert_eq!(ip.payload(), [0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(ip.to_string(), "2001:db8::1 > 2001:db8::2 udp hops 64 length 4");
    }

    #[test]
    fn writes_the_golden_packet() {
        let mut bytes = [0; 45];
        let mut ip = Ipv6::init(&mut bytes[..]).unwrap();
        ip.set_flow_label(0x12345);
        ip.set_traffic_class(0xb9);
        ip.set_payload_len(4);
        ip.set_next_header(IpProtocol::UDP);
        ip.set_src("2001:db8::1".parse().unwrap());
        ip.set_dst("2001:db8::2".parse().unwrap());
        ip.payload_mut().copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(bytes, PACKET);
    }

    #[test]
    fn refuses_a_contradicting_length() {
        let fault = |bytes: &[u8]| Ipv6::new_checked(bytes).unwrap_err().fault;
        assert_eq!(fault(&PACKET[..39]), Fault::Truncated);
        assert_eq!(fault(&PACKET[..43]), Fault::Length);
        let mut other = PACKET;
        other[0] = 0x4b;
        assert_eq!(fault(&other), Fault::Version);
    }

    #[test]
    fn the_last_hop_is_not_forwarded() {
        let mut bytes = PACKET;
        let mut ip = Ipv6::new_checked(&mut bytes[..]).unwrap();
        ip.set_hop_limit(2);
        assert!(ip.decrement_hop_limit());
        assert_eq!(ip.hop_limit(), 1);
        assert!(!ip.decrement_hop_limit());
        ip.set_hop_limit(0);
        assert!(!ip.decrement_hop_limit());
        assert_eq!(ip.hop_limit(), 0);
    }
}
