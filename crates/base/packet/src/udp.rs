//! UDP datagrams.
//!
//! `new_checked` asks for a length field of at least 8 that fits the bytes; bytes behind it are
//! padding. UDP inside a jumbogram (length 0, RFC 2675) is refused. The checksum is verified only
//! on demand, since it costs a pass over the payload. Source: RFC 768, RFC 8200 section 8.1.

use core::fmt;

use crate::bytes::{be16, put16, span, span_mut, view};
use crate::checksum::{self, Sum};
use crate::{Fault, Header};

/// Length of the header.
pub const HEADER_LEN: usize = 8;

pub(crate) mod field {
    pub(crate) const SRC_PORT: usize = 0;
    pub(crate) const DST_PORT: usize = 2;
    pub(super) const LENGTH: usize = 4;
    pub(crate) const CHECKSUM: usize = 6;
}

view! {
    /// A UDP datagram.
    Udp, Header::Udp, HEADER_LEN, check: check, initial: [0; HEADER_LEN]
}

#[inline(always)]
fn check(head: &[u8; HEADER_LEN], available: usize) -> Result<(), Fault> {
    let length = usize::from(be16(head, field::LENGTH));
    if length < HEADER_LEN || length > available { Err(Fault::Length) } else { Ok(()) }
}

impl<T: AsRef<[u8]>> Udp<T> {
    /// Source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        be16(self.head(), field::SRC_PORT)
    }

    /// Destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        be16(self.head(), field::DST_PORT)
    }

    /// Length of header and payload.
    #[inline]
    pub fn length(&self) -> u16 {
        be16(self.head(), field::LENGTH)
    }

    /// The checksum as it is in the packet; zero means none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.head(), field::CHECKSUM)
    }

    /// The payload.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        span(self.bytes.as_ref(), HEADER_LEN, usize::from(self.length()))
    }

    /// Is the checksum right, or absent? Over IPv6 it may be absent only in tunnels (RFC 6936);
    /// a caller that minds looks at [`checksum`](Self::checksum).
    #[inline]
    pub fn verify_checksum(&self, mut pseudo: Sum) -> bool {
        pseudo.add_bytes(span(self.bytes.as_ref(), 0, usize::from(self.length())));
        self.checksum() == 0 || pseudo.is_valid()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Udp<T> {
    /// Sets the source port.
    #[inline]
    pub fn set_src_port(&mut self, port: u16) {
        put16(self.head_mut(), field::SRC_PORT, port);
    }

    /// Sets the destination port.
    #[inline]
    pub fn set_dst_port(&mut self, port: u16) {
        put16(self.head_mut(), field::DST_PORT, port);
    }

    /// Sets the length of header and payload.
    #[inline]
    pub fn set_length(&mut self, length: u16) {
        put16(self.head_mut(), field::LENGTH, length);
    }

    /// Writes a checksum; zero for none.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.head_mut(), field::CHECKSUM, checksum);
    }

    /// Computes and writes the checksum over header and payload.
    #[inline]
    pub fn fill_checksum(&mut self, mut pseudo: Sum) {
        self.set_checksum(0);
        pseudo.add_bytes(span(self.bytes.as_ref(), 0, usize::from(self.length())));
        self.set_checksum(checksum::udp_nonzero(pseudo.finish()));
    }

    /// The payload, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let to = usize::from(self.length());
        span_mut(self.bytes.as_mut(), HEADER_LEN, to)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Udp<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "udp {} > {} length {}", self.src_port(), self.dst_port(), self.length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpProtocol;
    use core::net::Ipv4Addr;
    use std::string::ToString;

    /// Port 12345 to 53, three bytes of payload, checksum for 10.0.0.1 > 10.0.0.2, one byte behind.
    const DATAGRAM: [u8; 12] =
        [0x30, 0x39, 0x00, 0x35, 0x00, 0x0b, 0xf7, 0x04, b'a', b'b', b'c', 0xee];

    fn pseudo() -> Sum {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        checksum::pseudo_v4(src, dst, IpProtocol::UDP, 11)
    }

    #[test]
    fn reads_the_golden_datagram() {
        let udp = Udp::new_checked(&DATAGRAM[..]).unwrap();
        assert_eq!((udp.src_port(), udp.dst_port()), (12345, 53));
        assert_eq!((udp.length(), udp.checksum()), (11, 0xf704));
        assert_eq!(udp.payload(), b"abc");
        assert!(udp.verify_checksum(pseudo()));
        assert_eq!(udp.to_string(), "udp 12345 > 53 length 11");
    }

    #[test]
    fn writes_the_golden_datagram() {
        let mut bytes = [0xee; 12];
        let mut udp = Udp::init(&mut bytes[..]).unwrap();
        udp.set_src_port(12345);
        udp.set_dst_port(53);
        udp.set_length(11);
        udp.payload_mut().copy_from_slice(b"abc");
        udp.fill_checksum(pseudo());
        assert_eq!(bytes, DATAGRAM);
    }

    #[test]
    fn a_wrong_checksum_is_seen_and_an_absent_one_accepted() {
        let mut bytes = DATAGRAM;
        bytes[9] ^= 1;
        assert!(!Udp::new_checked(&bytes[..]).unwrap().verify_checksum(pseudo()));
        bytes[6..8].fill(0);
        assert!(Udp::new_checked(&bytes[..]).unwrap().verify_checksum(pseudo()));
    }

    #[test]
    fn a_checksum_of_zero_is_written_as_ones() {
        let mut bytes = [0; 8];
        let mut udp = Udp::init(&mut bytes[..]).unwrap();
        udp.set_length(8);
        // With length 8 twice in the sum and 17 once, this port makes it all ones.
        udp.set_src_port(0xffff - 8 - 8 - 17);
        let zero = Ipv4Addr::UNSPECIFIED;
        let pseudo = checksum::pseudo_v4(zero, zero, IpProtocol::UDP, 8);
        udp.fill_checksum(pseudo);
        assert_eq!(udp.checksum(), 0xffff);
        assert!(udp.verify_checksum(pseudo));
    }

    #[test]
    fn refuses_a_contradicting_length() {
        let fault = |bytes: &[u8]| Udp::new_checked(bytes).unwrap_err().fault;
        assert_eq!(fault(&DATAGRAM[..7]), Fault::Truncated);
        assert_eq!(fault(&DATAGRAM[..10]), Fault::Length);
        let mut short = DATAGRAM;
        short[5] = 7;
        assert_eq!(fault(&short), Fault::Length);
    }
}
