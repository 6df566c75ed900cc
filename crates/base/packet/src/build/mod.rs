//! Frame builders: lengths and checksums are computed, the payload is the caller's.
//!
//! A frame description is a plain struct. Its `layout` has the length of the frame and the offset
//! of each header; its `emit` writes the headers and computes the checksums over the bytes at the
//! payload's place, so the payload is written before. Frames are not padded: a caller that sends to
//! a link with a minimum length (60 bytes on Ethernet) pads with zeros.
//!
//! A traffic generator emits a template once and then varies it through [`Layout::patch`].
//!
//! ```
//! use linerate_packet::build::{Ip, Link, UdpFrame};
//! use linerate_packet::MacAddr;
//!
//! let udp = UdpFrame {
//!     link: Link::new(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
//!     ip: Ip::v4("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()),
//!     src_port: 1000,
//!     dst_port: 9,
//!     payload_len: 18,
//! };
//! let mut frame = [0; 64];
//! let layout = udp.emit(&mut frame).unwrap();
//! assert_eq!((layout.network, layout.transport, layout.payload, layout.len), (14, 34, 42, 60));
//! assert!(layout.patch().set_src_port(&mut frame, 1001));
//! ```

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum::Sum;
use crate::patch::Patch;
use crate::vlan::Tci;
use crate::{
    EtherType, Ethernet, IpProtocol, Ipv4, Ipv6, MacAddr, Malformed, Vlan, ethernet, ipv4, ipv6,
    vlan,
};

mod frames;

pub use frames::{ArpFrame, EchoFrame, TcpFrame, UdpFrame, VxlanFrame};

/// A frame that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The caller's buffer is too small.
    #[error("the frame needs {need} bytes, the buffer has {have}")]
    Buffer {
        /// Length of the frame.
        need: usize,
        /// Length of the buffer.
        have: usize,
    },
    /// The IP packet is longer than its length field can say.
    #[error("an ip packet of {0} bytes does not fit its 16-bit length field")]
    TooLong(usize),
    /// TCP options that do not fit a header.
    #[error("tcp options of {0} bytes: pad them to a multiple of 4, at most 40")]
    Options(usize),
}

/// Ethernet addresses and VLAN tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Source address.
    pub src: MacAddr,
    /// Destination address.
    pub dst: MacAddr,
    /// Tags between the addresses and the type.
    pub tags: Tagging,
}

/// VLAN tags of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tagging {
    /// No tag.
    #[default]
    Untagged,
    /// One 802.1Q tag.
    Single(Tci),
    /// An 802.1Q tag inside an 802.1ad tag.
    Double {
        /// The 802.1ad tag.
        outer: Tci,
        /// The 802.1Q tag.
        inner: Tci,
    },
}

impl Link {
    /// Without tags.
    #[must_use]
    pub const fn new(src: MacAddr, dst: MacAddr) -> Link {
        Link { src, dst, tags: Tagging::Untagged }
    }

    /// Length of the Ethernet header with its tags.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        ethernet::HEADER_LEN
            + match self.tags {
                Tagging::Untagged => 0,
                Tagging::Single(_) => vlan::HEADER_LEN,
                Tagging::Double { .. } => 2 * vlan::HEADER_LEN,
            }
    }

    /// Writes the Ethernet header and its tags alone; returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than the header.
    pub fn emit_header(
        &self,
        buffer: &mut [u8],
        ether_type: EtherType,
    ) -> Result<usize, BuildError> {
        let need = self.header_len();
        let frame = room(buffer, need)?;
        match self.emit(frame, ether_type) {
            Ok(()) => Ok(need),
            Err(_) => Err(BuildError::Buffer { need, have: need }),
        }
    }

    fn emit(&self, frame: &mut [u8], ether_type: EtherType) -> Result<(), Malformed> {
        let mut ethernet = Ethernet::init(frame)?;
        ethernet.set_src(self.src);
        ethernet.set_dst(self.dst);
        match self.tags {
            Tagging::Untagged => ethernet.set_ether_type(ether_type),
            Tagging::Single(tci) => {
                ethernet.set_ether_type(EtherType::VLAN);
                emit_tag(ethernet.payload_mut(), tci, ether_type)?;
            }
            Tagging::Double { outer, inner } => {
                ethernet.set_ether_type(EtherType::QINQ);
                let mut tag = emit_tag(ethernet.payload_mut(), outer, EtherType::VLAN)?;
                emit_tag(tag.payload_mut(), inner, ether_type)?;
            }
        }
        Ok(())
    }
}

fn emit_tag(
    bytes: &mut [u8],
    tci: Tci,
    ether_type: EtherType,
) -> Result<Vlan<&mut [u8]>, Malformed> {
    let mut tag = Vlan::init(bytes)?;
    tag.set_tci(tci);
    tag.set_ether_type(ether_type);
    Ok(tag)
}

/// An IPv4 or IPv6 header without options or extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Source and destination.
    pub addresses: Addresses,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// IPv4: may no router fragment it?
    pub dont_fragment: bool,
    /// IPv4: identification.
    pub ident: u16,
    /// IPv6: flow label.
    pub flow_label: u32,
}

/// Source and destination of one address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Source.
        src: Ipv4Addr,
        /// Destination.
        dst: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Source.
        src: Ipv6Addr,
        /// Destination.
        dst: Ipv6Addr,
    },
}

impl Ip {
    /// IPv4 with a time to live of 64, not to be fragmented.
    #[must_use]
    pub const fn v4(src: Ipv4Addr, dst: Ipv4Addr) -> Ip {
        Ip::new(Addresses::V4 { src, dst })
    }

    /// IPv6 with a hop limit of 64.
    #[must_use]
    pub const fn v6(src: Ipv6Addr, dst: Ipv6Addr) -> Ip {
        Ip::new(Addresses::V6 { src, dst })
    }

    const fn new(addresses: Addresses) -> Ip {
        Ip { addresses, traffic_class: 0, ttl: 64, dont_fragment: true, ident: 0, flow_label: 0 }
    }

    /// Length of the header.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        match self.addresses {
            Addresses::V4 { .. } => ipv4::HEADER_LEN,
            Addresses::V6 { .. } => ipv6::HEADER_LEN,
        }
    }

    const fn ether_type(&self) -> EtherType {
        match self.addresses {
            Addresses::V4 { .. } => EtherType::IPV4,
            Addresses::V6 { .. } => EtherType::IPV6,
        }
    }

    /// Writes the header of the packet that fills `packet`; the pseudo header sum for its payload.
    fn emit(&self, packet: &mut [u8], protocol: IpProtocol) -> Result<Sum, Malformed> {
        let len = packet.len();
        match self.addresses {
            Addresses::V4 { src, dst } => {
                let mut ip = Ipv4::init(packet)?;
                ip.set_tos(self.traffic_class);
                ip.set_total_len(len as u16);
                ip.set_ident(self.ident);
                ip.set_fragmentation(self.dont_fragment, false, 0);
                ip.set_ttl(self.ttl);
                ip.set_protocol(protocol);
                ip.set_src(src);
                ip.set_dst(dst);
                ip.fill_checksum();
                Ok(ip.pseudo_header())
            }
            Addresses::V6 { src, dst } => {
                let mut ip = Ipv6::init(packet)?;
                let len = (len - ipv6::HEADER_LEN) as u16;
                ip.set_traffic_class(self.traffic_class);
                ip.set_flow_label(self.flow_label);
                ip.set_payload_len(len);
                ip.set_next_header(protocol);
                ip.set_hop_limit(self.ttl);
                ip.set_src(src);
                ip.set_dst(dst);
                Ok(ip.pseudo_header(protocol, u32::from(len)))
            }
        }
    }
}

/// Offsets of the parts of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The IP header.
    pub network: usize,
    /// The header behind it.
    pub transport: usize,
    /// The protocol of that header.
    pub protocol: IpProtocol,
    /// The payload.
    pub payload: usize,
    /// Length of the frame.
    pub len: usize,
}

impl Layout {
    const fn new(
        link: &Link,
        ip: &Ip,
        protocol: IpProtocol,
        header_len: usize,
        payload_len: usize,
    ) -> Layout {
        let network = link.header_len();
        let transport = network + ip.header_len();
        let payload = transport + header_len;
        let len = payload.saturating_add(payload_len);
        Layout { network, transport, protocol, payload, len }
    }

    /// Changes fields of frames with this layout.
    #[must_use]
    pub const fn patch(&self) -> Patch {
        // The headers written here end below 130 bytes.
        Patch::new(self.network as u16, self.transport as u16, self.protocol)
    }

    /// Writes everything up to the transport header, which `transport` then writes into its bytes
    /// with the pseudo header sum it is given.
    fn emit(
        self,
        buffer: &mut [u8],
        link: &Link,
        ip: &Ip,
        transport: impl FnOnce(&mut [u8], Sum) -> Result<(), Malformed>,
    ) -> Result<Layout, BuildError> {
        let limit = match ip.addresses {
            Addresses::V4 { .. } => usize::from(u16::MAX),
            Addresses::V6 { .. } => usize::from(u16::MAX) + ipv6::HEADER_LEN,
        };
        if self.len - self.network > limit {
            return Err(BuildError::TooLong(self.len - self.network));
        }
        let frame = room(buffer, self.len)?;
        let have = frame.len();
        let write = || {
            link.emit(frame, ip.ether_type())?;
            let pseudo = ip.emit(&mut frame[self.network..], self.protocol)?;
            transport(&mut frame[self.transport..], pseudo)
        };
        match write() {
            Ok(()) => Ok(self),
            Err(_) => Err(BuildError::Buffer { need: self.len, have }),
        }
    }
}

/// The front of a buffer.
fn room(buffer: &mut [u8], need: usize) -> Result<&mut [u8], BuildError> {
    let have = buffer.len();
    buffer.get_mut(..need).ok_or(BuildError::Buffer { need, have })
}
