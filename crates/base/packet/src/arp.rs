//! ARP requests and replies for IPv4 over Ethernet.
//!
//! `new_checked` asks for 28 bytes and for exactly this pair of address families; ARP for others is
//! [`Fault::Unsupported`]. Source: RFC 826.

use core::fmt;
use core::net::Ipv4Addr;

use crate::bytes::{be16, get, put, put16, view};
use crate::{Fault, Header, MacAddr};

/// Length of the message.
pub const HEADER_LEN: usize = 28;

/// Hardware type Ethernet, protocol type IPv4, and their address lengths.
const FAMILIES: [u8; 6] = [0x00, 0x01, 0x08, 0x00, 6, 4];

const INITIAL: [u8; HEADER_LEN] = {
    let mut initial = [0; HEADER_LEN];
    initial.first_chunk_mut::<6>().unwrap().copy_from_slice(&FAMILIES);
    initial
};

mod field {
    pub(super) const OPERATION: usize = 6;
    pub(super) const SENDER_MAC: usize = 8;
    pub(super) const SENDER_IP: usize = 14;
    pub(super) const TARGET_MAC: usize = 18;
    pub(super) const TARGET_IP: usize = 24;
}

/// Operation of an ARP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation(pub u16);

impl Operation {
    /// Request: asks for the hardware address of the target.
    pub const REQUEST: Operation = Operation(1);
    /// The sender has it.
    pub const REPLY: Operation = Operation(2);
}

view! {
    /// An ARP message for IPv4 over Ethernet.
    Arp, Header::Arp, HEADER_LEN,
    check: |head, _| if head[..6] == FAMILIES { Ok(()) } else { Err(Fault::Unsupported) },
    initial: INITIAL
}

impl<T: AsRef<[u8]>> Arp<T> {
    /// Request, reply or something rarer.
    #[inline]
    pub fn operation(&self) -> Operation {
        Operation(be16(self.head(), field::OPERATION))
    }

    /// The sender's Ethernet address.
    #[inline]
    pub fn sender_mac(&self) -> MacAddr {
        MacAddr(get(self.head(), field::SENDER_MAC))
    }

    /// The sender's IPv4 address.
    #[inline]
    pub fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(get::<HEADER_LEN, 4>(self.head(), field::SENDER_IP))
    }

    /// The target's Ethernet address; not meaningful in a request.
    #[inline]
    pub fn target_mac(&self) -> MacAddr {
        MacAddr(get(self.head(), field::TARGET_MAC))
    }

    /// The target's IPv4 address.
    #[inline]
    pub fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(get::<HEADER_LEN, 4>(self.head(), field::TARGET_IP))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Arp<T> {
    /// Sets the operation.
    #[inline]
    pub fn set_operation(&mut self, operation: Operation) {
        put16(self.head_mut(), field::OPERATION, operation.0);
    }

    /// Sets the sender's Ethernet address.
    #[inline]
    pub fn set_sender_mac(&mut self, mac: MacAddr) {
        put(self.head_mut(), field::SENDER_MAC, mac.0);
    }

    /// Sets the sender's IPv4 address.
    #[inline]
    pub fn set_sender_ip(&mut self, ip: Ipv4Addr) {
        put(self.head_mut(), field::SENDER_IP, ip.octets());
    }

    /// Sets the target's Ethernet address.
    #[inline]
    pub fn set_target_mac(&mut self, mac: MacAddr) {
        put(self.head_mut(), field::TARGET_MAC, mac.0);
    }

    /// Sets the target's IPv4 address.
    #[inline]
    pub fn set_target_ip(&mut self, ip: Ipv4Addr) {
        put(self.head_mut(), field::TARGET_IP, ip.octets());
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Arp<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation() {
            Operation::REQUEST => {
                write!(f, "arp who has {} tell {}", self.target_ip(), self.sender_ip())
            }
            Operation::REPLY => write!(f, "arp {} is at {}", self.sender_ip(), self.sender_mac()),
            Operation(other) => write!(f, "arp operation {other} from {}", self.sender_ip()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Malformed;
    use std::string::ToString;

    const REPLY: [u8; 28] = [
        0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x0a, 10, 0,
        0, 1, 0x02, 0x00, 0x00, 0x00, 0x00, 0x0b, 10, 0, 0, 2,
    ];

    #[test]
    fn reads_the_golden_reply() {
        let arp = Arp::new_checked(&REPLY[..]).unwrap();
        assert_eq!(arp.operation(), Operation::REPLY);
        assert_eq!(arp.sender_mac(), MacAddr([2, 0, 0, 0, 0, 10]));
        assert_eq!(arp.sender_ip(), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(arp.target_mac(), MacAddr([2, 0, 0, 0, 0, 11]));
        assert_eq!(arp.target_ip(), Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(arp.to_string(), "arp 10.0.0.1 is at 02:00:00:00:00:0a");
    }

    #[test]
    fn writes_the_golden_reply() {
        let mut bytes = [0xaa; 28];
        let mut arp = Arp::init(&mut bytes[..]).unwrap();
        arp.set_operation(Operation::REPLY);
        arp.set_sender_mac(MacAddr([2, 0, 0, 0, 0, 10]));
        arp.set_sender_ip(Ipv4Addr::new(10, 0, 0, 1));
        arp.set_target_mac(MacAddr([2, 0, 0, 0, 0, 11]));
        arp.set_target_ip(Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(bytes, REPLY);
    }

    #[test]
    fn refuses_other_families_and_short_messages() {
        for at in 0..6 {
            let mut other = REPLY;
            other[at] ^= 0x80;
            let unsupported = Malformed { header: Header::Arp, fault: Fault::Unsupported };
            assert_eq!(Arp::new_checked(&other[..]), Err(unsupported), "byte {at}");
        }
        let short = Malformed { header: Header::Arp, fault: Fault::Truncated };
        assert_eq!(Arp::new_checked(&REPLY[..27]), Err(short));
    }
}
