//! VXLAN headers: Ethernet frames inside UDP.
//!
//! `new_checked` asks for 8 bytes with the flag that says the network identifier is valid; the
//! reserved bits are ignored, as the standard wants. Source: RFC 7348 section 5.

use core::fmt;

use crate::bytes::{be32, put32, span, span_mut, view};
use crate::{Fault, Header};

/// Length of the header.
pub const HEADER_LEN: usize = 8;
/// The assigned UDP destination port.
pub const UDP_PORT: u16 = 4789;

mod field {
    pub(super) const FLAGS: usize = 0;
    pub(super) const VNI: usize = 4;
}

const VNI_VALID: u8 = 0x08;

view! {
    /// A VXLAN header and the frame behind it. `init` sets the flag for a valid identifier.
    Vxlan, Header::Vxlan, HEADER_LEN,
    check: |head, _| if head[field::FLAGS] & VNI_VALID != 0 { Ok(()) } else { Err(Fault::Flags) },
    initial: [VNI_VALID, 0, 0, 0, 0, 0, 0, 0]
}

impl<T: AsRef<[u8]>> Vxlan<T> {
    /// The virtual network's identifier, 24 bits.
    #[inline]
    pub fn vni(&self) -> u32 {
        be32(self.head(), field::VNI) >> 8
    }

    /// The inner Ethernet frame.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        span(self.bytes.as_ref(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Vxlan<T> {
    /// Sets the virtual network's identifier (24 bits).
    #[inline]
    pub fn set_vni(&mut self, vni: u32) {
        put32(self.head_mut(), field::VNI, vni << 8);
    }

    /// The inner Ethernet frame, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        span_mut(self.bytes.as_mut(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Vxlan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vxlan {}", self.vni())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Malformed;
    use std::string::ToString;

    const HEADER: [u8; 10] = [0x08, 0, 0, 0, 0x12, 0x34, 0x56, 0x00, 0xab, 0xcd];

    #[test]
    fn reads_the_golden_header() {
        let vxlan = Vxlan::new_checked(&HEADER[..]).unwrap();
        assert_eq!(vxlan.vni(), 0x123456);
        assert_eq!(vxlan.payload(), [0xab, 0xcd]);
        assert_eq!(vxlan.to_string(), "vxlan 1193046");
    }

    #[test]
    fn writes_the_golden_header() {
        let mut bytes = [0xaa; 10];
        let mut vxlan = Vxlan::init(&mut bytes[..]).unwrap();
        vxlan.set_vni(0xff12_3456);
        vxlan.payload_mut().copy_from_slice(&[0xab, 0xcd]);
        assert_eq!(bytes, HEADER);
    }

    #[test]
    fn refuses_an_invalid_identifier_and_a_short_header() {
        let mut invalid = HEADER;
        invalid[0] = 0xf7;
        let flags = Malformed { header: Header::Vxlan, fault: Fault::Flags };
        assert_eq!(Vxlan::new_checked(&invalid[..]), Err(flags));
        let short = Malformed { header: Header::Vxlan, fault: Fault::Truncated };
        assert_eq!(Vxlan::new_checked(&HEADER[..7]), Err(short));
    }
}
