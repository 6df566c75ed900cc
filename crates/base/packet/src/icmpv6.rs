//! ICMP for IPv6, with the parts neighbour discovery needs to answer and to learn addresses.
//!
//! `new_checked` asks for the 8 bytes that every message has. Source: RFC 4443, RFC 4861.

use core::fmt;
use core::net::Ipv6Addr;

use crate::bytes::{be16, be32, put16, put32, span, span_mut, view};
use crate::checksum::Sum;
use crate::{Fault, Header, IpProtocol, MacAddr, Malformed};

/// Length of the header.
pub const HEADER_LEN: usize = 8;
/// Length of a neighbour solicitation or advertisement without options.
pub const NEIGHBOUR_LEN: usize = 24;

pub(crate) mod field {
    pub(super) const KIND: usize = 0;
    pub(super) const CODE: usize = 1;
    pub(crate) const CHECKSUM: usize = 2;
    pub(super) const REST: usize = 4;
    pub(super) const IDENT: usize = 4;
    pub(super) const SEQ: usize = 6;
}

/// The type of an `ICMPv6` message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Icmpv6Type(pub u8);

impl Icmpv6Type {
    /// The quoted packet could not be delivered; the code says why.
    pub const UNREACHABLE: Icmpv6Type = Icmpv6Type(1);
    /// The quoted packet is larger than the next link's MTU.
    pub const PACKET_TOO_BIG: Icmpv6Type = Icmpv6Type(2);
    /// The hop limit of the quoted packet ran out.
    pub const TIME_EXCEEDED: Icmpv6Type = Icmpv6Type(3);
    /// A field of the quoted packet is wrong.
    pub const PARAMETER_PROBLEM: Icmpv6Type = Icmpv6Type(4);
    /// "Ping".
    pub const ECHO_REQUEST: Icmpv6Type = Icmpv6Type(128);
    /// Answer to an echo request.
    pub const ECHO_REPLY: Icmpv6Type = Icmpv6Type(129);
    /// Router solicitation: asks for the routers of the link.
    pub const ROUTER_SOLICITATION: Icmpv6Type = Icmpv6Type(133);
    /// A router and its prefixes.
    pub const ROUTER_ADVERTISEMENT: Icmpv6Type = Icmpv6Type(134);
    /// Neighbour solicitation: asks for the link-layer address of the target.
    pub const NEIGHBOUR_SOLICITATION: Icmpv6Type = Icmpv6Type(135);
    /// The sender has the target address.
    pub const NEIGHBOUR_ADVERTISEMENT: Icmpv6Type = Icmpv6Type(136);

    /// Does the message quote the packet that caused it?
    #[inline]
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 < 128
    }
}

view! {
    /// An `ICMPv6` message.
    Icmpv6, Header::Icmpv6, HEADER_LEN, check: |_, _| Ok(()), initial: [0; HEADER_LEN]
}

impl<T: AsRef<[u8]>> Icmpv6<T> {
    /// The protocol number that announces it.
    pub const PROTOCOL: IpProtocol = IpProtocol::ICMPV6;

    /// The type of the message.
    #[inline]
    pub fn kind(&self) -> Icmpv6Type {
        Icmpv6Type(self.head()[field::KIND])
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

    /// The second half of the header, whose meaning the type decides (in "packet too big" the MTU).
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

    /// The target address of a neighbour solicitation or advertisement; nothing for other types and
    /// for messages that are too short.
    #[inline]
    pub fn target(&self) -> Option<Ipv6Addr> {
        self.neighbour_body()?.first_chunk().copied().map(Ipv6Addr::from)
    }

    /// The options of a neighbour solicitation or advertisement; none for other types.
    #[inline]
    pub fn neighbour_options(&self) -> NeighbourOptions<'_> {
        let rest = self.neighbour_body().and_then(|body| body.get(16..)).unwrap_or(&[]);
        NeighbourOptions { rest }
    }

    fn neighbour_body(&self) -> Option<&[u8]> {
        let neighbour = matches!(
            self.kind(),
            Icmpv6Type::NEIGHBOUR_SOLICITATION | Icmpv6Type::NEIGHBOUR_ADVERTISEMENT
        );
        neighbour.then(|| self.payload())
    }

    /// Everything behind the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        span(self.bytes.as_ref(), HEADER_LEN, usize::MAX)
    }

    /// Is the checksum over pseudo header and message right?
    #[inline]
    pub fn verify_checksum(&self, mut pseudo: Sum) -> bool {
        pseudo.add_bytes(self.bytes.as_ref());
        pseudo.is_valid()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmpv6<T> {
    /// Sets the type of the message.
    #[inline]
    pub fn set_kind(&mut self, kind: Icmpv6Type) {
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

    /// Computes and writes the checksum over pseudo header and message.
    #[inline]
    pub fn fill_checksum(&mut self, mut pseudo: Sum) {
        self.set_checksum(0);
        pseudo.add_bytes(self.bytes.as_ref());
        self.set_checksum(pseudo.finish());
    }

    /// Everything behind the header, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        span_mut(self.bytes.as_mut(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Icmpv6<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind(), self.target()) {
            (Icmpv6Type::ECHO_REQUEST, _) => {
                write!(f, "icmpv6 echo request id {} seq {}", self.ident(), self.seq())
            }
            (Icmpv6Type::ECHO_REPLY, _) => {
                write!(f, "icmpv6 echo reply id {} seq {}", self.ident(), self.seq())
            }
            (Icmpv6Type::NEIGHBOUR_SOLICITATION, Some(target)) => {
                write!(f, "icmpv6 neighbour solicitation for {target}")
            }
            (Icmpv6Type::NEIGHBOUR_ADVERTISEMENT, Some(target)) => {
                write!(f, "icmpv6 neighbour advertisement of {target}")
            }
            (Icmpv6Type(other), _) => write!(f, "icmpv6 type {other} code {}", self.code()),
        }
    }
}

/// One option of a neighbour discovery message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourOption<'a> {
    /// The sender's Ethernet address.
    SourceLinkLayer(MacAddr),
    /// The target's Ethernet address.
    TargetLinkLayer(MacAddr),
    /// An option this crate has no name for.
    Other {
        /// Its number.
        kind: u8,
        /// The bytes behind kind and length.
        data: &'a [u8],
    },
}

/// The options of a neighbour discovery message. Ends after the first malformed one; an option of
/// length zero is malformed (RFC 4861 section 4.6).
#[derive(Clone, Debug)]
pub struct NeighbourOptions<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for NeighbourOptions<'a> {
    type Item = Result<NeighbourOption<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let len = usize::from(*self.rest.get(1).unwrap_or(&0)) * 8;
        let Some((&[kind, _, ref data @ ..], rest)) = self.rest.split_at_checked(len) else {
            self.rest = &[];
            return Some(Err(Malformed::new(Header::Icmpv6, Fault::Option)));
        };
        self.rest = rest;
        Some(Ok(match (kind, data) {
            (1, &[a, b, c, d, e, f]) => NeighbourOption::SourceLinkLayer([a, b, c, d, e, f].into()),
            (2, &[a, b, c, d, e, f]) => NeighbourOption::TargetLinkLayer([a, b, c, d, e, f].into()),
            _ => NeighbourOption::Other { kind, data },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use std::string::ToString;
    use std::vec::Vec;

    // Neighbour solicitation for fe80::2 from fe80::1 to ff02::1:ff00:2, with the sender's address.
    const SOLICITATION: [u8; 32] = [
        0x87, 0x00, 0x7a, 0x97, 0, 0, 0, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
        1, 1, 0x02, 0, 0, 0, 0, 1,
    ];

    fn pseudo(length: u32) -> Sum {
        let (src, dst) = ("fe80::1".parse().unwrap(), "ff02::1:ff00:2".parse().unwrap());
        checksum::pseudo_v6(src, dst, IpProtocol::ICMPV6, length)
    }

    #[test]
    fn reads_the_golden_solicitation() {
        let icmp = Icmpv6::new_checked(&SOLICITATION[..]).unwrap();
        assert_eq!((icmp.kind(), icmp.code()), (Icmpv6Type::NEIGHBOUR_SOLICITATION, 0));
        assert_eq!(icmp.target(), Some("fe80::2".parse().unwrap()));
        let options: Vec<_> = icmp.neighbour_options().map(Result::unwrap).collect();
        assert_eq!(options, [NeighbourOption::SourceLinkLayer(MacAddr([2, 0, 0, 0, 0, 1]))]);
        assert!(icmp.verify_checksum(pseudo(32)));
        assert_eq!(icmp.to_string(), "icmpv6 neighbour solicitation for fe80::2");
    }

    #[test]
    fn writes_the_golden_solicitation() {
        let mut bytes = [0xaa; 32];
        let mut icmp = Icmpv6::init(&mut bytes[..]).unwrap();
        icmp.set_kind(Icmpv6Type::NEIGHBOUR_SOLICITATION);
        icmp.payload_mut().copy_from_slice(&SOLICITATION[8..]);
        icmp.fill_checksum(pseudo(32));
        assert_eq!(bytes, SOLICITATION);
    }

    #[test]
    fn reads_and_writes_an_echo() {
        let mut bytes = [0; 8];
        let mut icmp = Icmpv6::init(&mut bytes[..]).unwrap();
        icmp.set_kind(Icmpv6Type::ECHO_REQUEST);
        icmp.set_ident(0x1234);
        icmp.set_seq(7);
        assert_eq!((icmp.ident(), icmp.seq(), icmp.rest()), (0x1234, 7, 0x1234_0007));
        assert_eq!(icmp.to_string(), "icmpv6 echo request id 4660 seq 7");
        assert_eq!(icmp.target(), None);
        assert_eq!(icmp.neighbour_options().count(), 0);
        assert!(!Icmpv6Type::ECHO_REQUEST.is_error() && Icmpv6Type::PACKET_TOO_BIG.is_error());
    }

    #[test]
    fn malformed_options_end_the_list() {
        let bad = Some(Err(Malformed { header: Header::Icmpv6, fault: Fault::Option }));
        for rest in [&[1][..], &[1, 0, 0, 0, 0, 0, 0, 0], &[1, 2, 0, 0, 0, 0, 0, 0]] {
            let mut options = NeighbourOptions { rest };
            assert_eq!(options.next(), bad);
            assert_eq!(options.next(), None);
        }
        let mut options = NeighbourOptions { rest: &[14, 1, 9, 9, 9, 9, 9, 9] };
        let nonce = NeighbourOption::Other { kind: 14, data: &[9; 6] };
        assert_eq!(options.next(), Some(Ok(nonce)));
        assert!(Icmpv6::new_checked(&SOLICITATION[..7]).is_err());
        assert_eq!(Icmpv6::new_checked(&SOLICITATION[..23]).unwrap().target(), None);
    }
}
