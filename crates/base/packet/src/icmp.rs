//! ICMP for IPv4.
//!
//! `new_checked` asks for the 8 bytes that every message has. Echo messages are read through their
//! identifier and sequence number; the packet quoted by an error message is the payload. Source:
//! RFC 792.

use core::fmt;

use crate::bytes::{be16, be32, put16, put32, span, span_mut, view};
use crate::checksum;
use crate::{Header, IpProtocol};

/// Length of the header.
pub const HEADER_LEN: usize = 8;

pub(crate) mod field {
    pub(super) const KIND: usize = 0;
    pub(super) const CODE: usize = 1;
    pub(crate) const CHECKSUM: usize = 2;
    pub(super) const REST: usize = 4;
    pub(crate) const IDENT: usize = 4;
    pub(crate) const SEQ: usize = 6;
}

/// The type of an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IcmpType(pub u8);

impl IcmpType {
    /// Answer to an echo request.
    pub const ECHO_REPLY: IcmpType = IcmpType(0);
    /// The quoted packet could not be delivered; the code says why.
    pub const UNREACHABLE: IcmpType = IcmpType(3);
    /// A better router for the quoted packet.
    pub const REDIRECT: IcmpType = IcmpType(5);
    /// "Ping".
    pub const ECHO_REQUEST: IcmpType = IcmpType(8);
    /// The time to live of the quoted packet ran out.
    pub const TIME_EXCEEDED: IcmpType = IcmpType(11);
    /// A field of the quoted packet is wrong.
    pub const PARAMETER_PROBLEM: IcmpType = IcmpType(12);

    /// Does the message quote the packet that caused it?
    #[inline]
    #[must_use]
    pub const fn is_error(self) -> bool {
        matches!(
            self,
            IcmpType::UNREACHABLE
                | IcmpType::REDIRECT
                | IcmpType::TIME_EXCEEDED
                | IcmpType::PARAMETER_PROBLEM
        )
    }
}

view! {
    /// An ICMP message.
    Icmp, Header::Icmp, HEADER_LEN, check: |_, _| Ok(()), initial: [0; HEADER_LEN]
}

impl<T: AsRef<[u8]>> Icmp<T> {
    /// The protocol number that announces it.
    pub const PROTOCOL: IpProtocol = IpProtocol::ICMP;

    /// The type of the message.
    #[inline]
    pub fn kind(&self) -> IcmpType {
        IcmpType(self.head()[field::KIND])
    }

    /// The type's variant.
    #[inline]
    pub fn code(&self) -> u8 {
        self.head()[field::CODE]
    }

    /// The checksum as it is in the packet.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.head(), field::CHECKSUM)
    }

    /// The second half of the header, whose meaning the type decides (in "fragmentation needed" the
    /// low 16 bits are the next hop's MTU).
    #[inline]
    pub fn rest(&self) -> u32 {
        be32(self.head(), field::REST)
    }

    /// Identifier of an echo message.
    #[inline]
    pub fn ident(&self) -> u16 {
        be16(self.head(), field::IDENT)
    }

    /// Sequence number of an echo message.
    #[inline]
    pub fn seq(&self) -> u16 {
        be16(self.head(), field::SEQ)
    }

    /// Everything behind the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        span(self.bytes.as_ref(), HEADER_LEN, usize::MAX)
    }

    /// Is the checksum over the whole message right?
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum::verify(self.bytes.as_ref())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmp<T> {
    /// Sets the type of the message.
    #[inline]
    pub fn set_kind(&mut self, kind: IcmpType) {
        self.head_mut()[field::KIND] = kind.0;
    }

    /// Sets the type's variant.
    #[inline]
    pub fn set_code(&mut self, code: u8) {
        self.head_mut()[field::CODE] = code;
    }

    /// Writes a checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.head_mut(), field::CHECKSUM, checksum);
    }

    /// Sets the second half of the header.
    #[inline]
    pub fn set_rest(&mut self, rest: u32) {
        put32(self.head_mut(), field::REST, rest);
    }

    /// Sets the identifier of an echo message.
    #[inline]
    pub fn set_ident(&mut self, ident: u16) {
        put16(self.head_mut(), field::IDENT, ident);
    }

    /// Sets the sequence number of an echo message.
    #[inline]
    pub fn set_seq(&mut self, seq: u16) {
        put16(self.head_mut(), field::SEQ, seq);
    }

    /// Computes and writes the checksum over the whole message.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let check = checksum::checksum(self.bytes.as_ref());
        self.set_checksum(check);
    }

    /// Everything behind the header, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        span_mut(self.bytes.as_mut(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Icmp<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            IcmpType::ECHO_REQUEST => {
                write!(f, "icmp echo request id {} seq {}", self.ident(), self.seq())
            }
            IcmpType::ECHO_REPLY => {
                write!(f, "icmp echo reply id {} seq {}", self.ident(), self.seq())
            }
            IcmpType::UNREACHABLE => write!(f, "icmp unreachable code {}", self.code()),
            IcmpType::TIME_EXCEEDED => write!(f, "icmp time exceeded code {}", self.code()),
            IcmpType(other) => write!(f, "icmp type {other} code {}", self.code()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Malformed};
    use std::string::ToString;

    const ECHO: [u8; 13] =
        [0x08, 0x00, 0xa1, 0xf2, 0x12, 0x34, 0x00, 0x07, b'h', b'e', b'l', b'l', b'o'];

    #[test]
    fn reads_the_golden_message() {
        let icmp = Icmp::new_checked(&ECHO[..]).unwrap();
        assert_eq!((icmp.kind(), icmp.code()), (IcmpType::ECHO_REQUEST, 0));
        assert_eq!((icmp.ident(), icmp.seq(), icmp.rest()), (0x1234, 7, 0x1234_0007));
        assert_eq!(icmp.payload(), b"hello");
        assert!(icmp.verify_checksum(), "{:#06x}", icmp.checksum());
        assert!(!icmp.kind().is_error() && IcmpType::UNREACHABLE.is_error());
        assert_eq!(icmp.to_string(), "icmp echo request id 4660 seq 7");
    }

    #[test]
    fn writes_the_golden_message() {
        let mut bytes = [0xaa; 13];
        let mut icmp = Icmp::init(&mut bytes[..]).unwrap();
        icmp.set_kind(IcmpType::ECHO_REQUEST);
        icmp.set_ident(0x1234);
        icmp.set_seq(7);
        icmp.payload_mut().copy_from_slice(b"hello");
        icmp.fill_checksum();
        assert_eq!(bytes, ECHO);
    }

    #[test]
    fn refuses_a_short_message() {
        let short = Malformed { header: Header::Icmp, fault: Fault::Truncated };
        assert_eq!(Icmp::new_checked(&ECHO[..7]), Err(short));
    }
}
