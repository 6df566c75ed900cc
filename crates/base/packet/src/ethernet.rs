//! Ethernet II frames, without the preamble and the frame check sequence.
//!
//! `new_checked` asks for the 14 header bytes only. VLAN tags are not looked through here: the type
//! of a tagged frame is the tag's, and [`vlan::walk`](crate::vlan::walk) goes on from there. Source:
//! IEEE 802.3 clause 3.

use core::fmt;

use crate::bytes::{be16, get, put, put16, span, span_mut, view};
use crate::{EtherType, Header, MacAddr};

/// Length of the header.
pub const HEADER_LEN: usize = 14;

mod field {
    pub(super) const DST: usize = 0;
    pub(super) const SRC: usize = 6;
    pub(super) const ETHER_TYPE: usize = 12;
}

view! {
    /// An Ethernet II frame.
    Ethernet, Header::Ethernet, HEADER_LEN, check: |_, _| Ok(()), initial: [0; HEADER_LEN]
}

impl<T: AsRef<[u8]>> Ethernet<T> {
    /// Destination address.
    #[inline]
    pub fn dst(&self) -> MacAddr {
        MacAddr(get(self.head(), field::DST))
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> MacAddr {
        MacAddr(get(self.head(), field::SRC))
    }

    /// The type of the payload; a length in 802.3 frames ([`EtherType::is_length`]).
    #[inline]
    pub fn ether_type(&self) -> EtherType {
        EtherType(be16(self.head(), field::ETHER_TYPE))
    }

    /// Everything behind the header, padding included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        span(self.bytes.as_ref(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ethernet<T> {
    /// Sets the destination address.
    #[inline]
    pub fn set_dst(&mut self, mac: MacAddr) {
        put(self.head_mut(), field::DST, mac.0);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src(&mut self, mac: MacAddr) {
        put(self.head_mut(), field::SRC, mac.0);
    }

    /// Sets the type.
    #[inline]
    pub fn set_ether_type(&mut self, ether_type: EtherType) {
        put16(self.head_mut(), field::ETHER_TYPE, ether_type.0);
    }

    /// Everything behind the header, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        span_mut(self.bytes.as_mut(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Ethernet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} {}", self.src(), self.dst(), self.ether_type())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Malformed};
    use std::string::ToString;

    const FRAME: [u8; 18] = [
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0x00, 0x5e, 0x10, 0x00, 0x01, 0x08, 0x06, 1, 2,
        3, 4,
    ];

    #[test]
    fn reads_the_golden_frame() {
        let frame = Ethernet::new_checked(&FRAME[..]).unwrap();
        assert_eq!(frame.dst(), MacAddr::BROADCAST);
        assert_eq!(frame.src(), MacAddr([2, 0, 0x5e, 0x10, 0, 1]));
        assert_eq!(frame.ether_type(), EtherType::ARP);
        assert_eq!(frame.payload(), [1, 2, 3, 4]);
        assert_eq!(frame.to_string(), "02:00:5e:10:00:01 > ff:ff:ff:ff:ff:ff arp");
    }

    #[test]
    fn writes_the_golden_frame() {
        let mut bytes = [0xaa; 18];
        let mut frame = Ethernet::init(&mut bytes[..]).unwrap();
        frame.set_dst(MacAddr::BROADCAST);
        frame.set_src(MacAddr([2, 0, 0x5e, 0x10, 0, 1]));
        frame.set_ether_type(EtherType::ARP);
        frame.payload_mut().copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!(bytes, FRAME);
    }

    #[test]
    fn refuses_a_short_frame() {
        let short = Malformed { header: Header::Ethernet, fault: Fault::Truncated };
        assert_eq!(Ethernet::new_checked(&FRAME[..13]), Err(short));
        assert!(Ethernet::new_checked(&FRAME[..14]).unwrap().payload().is_empty());
        assert!(Ethernet::init(&mut [0; 13][..]).is_err());
    }
}
