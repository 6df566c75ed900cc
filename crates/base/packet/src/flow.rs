//! Flow keys of frames, and the offsets of their headers.
//!
//! The key is the 5-tuple and the VLAN. The rules, for every part of the key:
//!
//! - **VLAN**: that of the outermost tag unless the caller asks for another ([`VlanRule`]); 0 if
//!   the frame is untagged or its tag carries a priority only, which counts as untagged in 802.1Q.
//! - **Fragments** have no ports, the first one included: otherwise the pieces of a datagram would
//!   be spread over two flows, and later pieces have no ports to read. An IPv6 packet with a
//!   fragment header that is whole all the same (RFC 6946) is not a fragment.
//! - **Ports** are those of TCP, UDP, UDP-Lite, SCTP and DCCP; 0 for every other protocol, echo
//!   identifiers not being ports.
//! - Tunnels are not looked into: the key is that of the outermost IP header.
//!
//! IP lengths are checked as by the views; checksums are not verified.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::{
    EtherType, Ethernet, Fault, Header, IpProtocol, Ipv4, Ipv6, Malformed, ethernet, ipv6, vlan,
};

/// A flow of IPv4 packets. Sixteen bytes, so comparing and hashing are two words each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowV4 {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Source port, or 0.
    pub src_port: u16,
    /// Destination port, or 0.
    pub dst_port: u16,
    /// VLAN identifier, or 0.
    pub vlan: u16,
    /// Transport protocol.
    pub protocol: IpProtocol,
}

/// A flow of IPv6 packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowV6 {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Source port, or 0.
    pub src_port: u16,
    /// Destination port, or 0.
    pub dst_port: u16,
    /// VLAN identifier, or 0.
    pub vlan: u16,
    /// Transport protocol.
    pub protocol: IpProtocol,
}

const _: () = assert!(size_of::<FlowV4>() == 16 && size_of::<FlowV6>() == 40);

/// A flow of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowKey {
    /// IPv4.
    V4(FlowV4),
    /// IPv6.
    V6(FlowV6),
}

impl FlowV4 {
    /// The flow in the other direction.
    #[inline]
    #[must_use]
    pub const fn reversed(self) -> FlowV4 {
        let FlowV4 { src, dst, src_port, dst_port, vlan, protocol } = self;
        FlowV4 { src: dst, dst: src, src_port: dst_port, dst_port: src_port, vlan, protocol }
    }

    /// One key for both directions: the smaller end (address, then port) as source.
    #[inline]
    #[must_use]
    pub fn symmetric(self) -> FlowV4 {
        let end = |ip: Ipv4Addr, port: u16| u64::from(ip.to_bits()) << 16 | u64::from(port);
        if end(self.src, self.src_port) <= end(self.dst, self.dst_port) {
            self
        } else {
            self.reversed()
        }
    }
}

impl FlowV6 {
    /// The flow in the other direction.
    #[inline]
    #[must_use]
    pub const fn reversed(self) -> FlowV6 {
        let FlowV6 { src, dst, src_port, dst_port, vlan, protocol } = self;
        FlowV6 { src: dst, dst: src, src_port: dst_port, dst_port: src_port, vlan, protocol }
    }

    /// One key for both directions: the smaller end (address, then port) as source.
    #[inline]
    #[must_use]
    pub fn symmetric(self) -> FlowV6 {
        let (src, dst) = (self.src.to_bits(), self.dst.to_bits());
        if (src, self.src_port) <= (dst, self.dst_port) { self } else { self.reversed() }
    }
}

impl FlowKey {
    /// The flow in the other direction.
    #[inline]
    #[must_use]
    pub const fn reversed(self) -> FlowKey {
        match self {
            FlowKey::V4(flow) => FlowKey::V4(flow.reversed()),
            FlowKey::V6(flow) => FlowKey::V6(flow.reversed()),
        }
    }

    /// One key for both directions: the smaller end (address, then port) as source.
    #[inline]
    #[must_use]
    pub fn symmetric(self) -> FlowKey {
        match self {
            FlowKey::V4(flow) => FlowKey::V4(flow.symmetric()),
            FlowKey::V6(flow) => FlowKey::V6(flow.symmetric()),
        }
    }

    /// Transport protocol.
    #[inline]
    #[must_use]
    pub const fn protocol(&self) -> IpProtocol {
        match self {
            FlowKey::V4(flow) => flow.protocol,
            FlowKey::V6(flow) => flow.protocol,
        }
    }

    /// VLAN identifier, or 0.
    #[inline]
    #[must_use]
    pub const fn vlan(&self) -> u16 {
        match self {
            FlowKey::V4(flow) => flow.vlan,
            FlowKey::V6(flow) => flow.vlan,
        }
    }

    /// Source and destination port, or zeros.
    #[inline]
    #[must_use]
    pub const fn ports(&self) -> (u16, u16) {
        match self {
            FlowKey::V4(flow) => (flow.src_port, flow.dst_port),
            FlowKey::V6(flow) => (flow.src_port, flow.dst_port),
        }
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (src_port, dst_port) = self.ports();
        match self {
            FlowKey::V4(FlowV4 { src, dst, .. }) => {
                write!(f, "{} {src}:{src_port} > {dst}:{dst_port}", self.protocol())?;
            }
            FlowKey::V6(FlowV6 { src, dst, .. }) => {
                write!(f, "{} [{src}]:{src_port} > [{dst}]:{dst_port}", self.protocol())?;
            }
        }
        match self.vlan() {
            0 => Ok(()),
            vlan => write!(f, " vlan {vlan}"),
        }
    }
}

/// Rule for the tag of a stack that is the key's VLAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VlanRule {
    /// The first on the wire, which the next switch looks at.
    #[default]
    Outer,
    /// The last: the customer's, in a provider's network.
    Inner,
    /// None: the same 5-tuple in two VLANs is one flow.
    Ignore,
}

/// Flow of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The conversation.
    pub key: FlowKey,
    /// Offset of the IP header.
    pub network: u16,
    /// Offset of the payload of the IP header and its extensions. In a fragment other than the
    /// first it is data.
    pub transport: u16,
    /// Is the packet a piece of a larger datagram?
    pub fragment: bool,
}

/// Reason why a frame has no flow key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NoFlow {
    /// It carries something other than IP.
    #[error("not an ip packet: {0}")]
    NotIp(EtherType),
    /// A header is malformed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// Reads the flow key of an Ethernet frame.
///
/// ```
/// use linerate_packet::flow::{NoFlow, VlanRule, extract};
/// use linerate_packet::EtherType;
/// let arp = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x08, 0x06, 0, 1];
/// assert_eq!(extract(&arp, VlanRule::Outer), Err(NoFlow::NotIp(EtherType::ARP)));
/// ```
///
/// # Errors
///
/// The frame carries no IP packet or one with malformed headers.
#[inline]
pub fn extract(frame: &[u8], rule: VlanRule) -> Result<Flow, NoFlow> {
    let ethernet = Ethernet::new_checked(frame)?;
    let ether_type = ethernet.ether_type();
    if ether_type.is_vlan() {
        return extract_tagged(frame, rule);
    }
    extract_network(frame, ethernet::HEADER_LEN, ether_type, 0)
}

/// Reads the flow key of an IP packet of either version, offsets counted from its first byte.
///
/// # Errors
///
/// It is no IP packet, or one with malformed headers.
#[inline]
pub fn extract_ip(packet: &[u8]) -> Result<Flow, NoFlow> {
    match packet.first().map(|byte| byte >> 4) {
        Some(6) => Ok(extract_v6(packet, 0, 0)?),
        _ => Ok(extract_v4(packet, 0, 0)?),
    }
}

/// Out of line, so that untagged frames do not pay for it with registers.
#[inline(never)]
fn extract_tagged(frame: &[u8], rule: VlanRule) -> Result<Flow, NoFlow> {
    let tags = vlan::walk(frame)?;
    let tag = match rule {
        VlanRule::Outer => tags.outer,
        VlanRule::Inner => tags.inner,
        VlanRule::Ignore => None,
    };
    extract_network(frame, tags.payload, tags.ether_type, tag.map_or(0, vlan::Tci::id))
}

#[inline(always)]
fn extract_network(
    frame: &[u8],
    network: usize,
    ether_type: EtherType,
    vlan: u16,
) -> Result<Flow, NoFlow> {
    let packet = frame.get(network..).unwrap_or(&[]);
    match ether_type {
        EtherType::IPV4 => Ok(extract_v4(packet, network, vlan)?),
        EtherType::IPV6 => Ok(extract_v6(packet, network, vlan)?),
        other => Err(NoFlow::NotIp(other)),
    }
}

#[inline(always)]
fn extract_v4(packet: &[u8], network: usize, vlan: u16) -> Result<Flow, Malformed> {
    let ip = Ipv4::new_checked(packet)?;
    let (protocol, fragment) = (ip.protocol(), ip.is_fragment());
    let (src_port, dst_port) = ports(protocol, fragment, ip.payload())?;
    let key = FlowV4 { src: ip.src(), dst: ip.dst(), src_port, dst_port, vlan, protocol };
    let transport = (network + ip.header_len()) as u16;
    Ok(Flow { key: FlowKey::V4(key), network: network as u16, transport, fragment })
}

#[inline(always)]
fn extract_v6(packet: &[u8], network: usize, vlan: u16) -> Result<Flow, Malformed> {
    let ip = Ipv6::new_checked(packet)?;
    let upper = ip.upper_layer()?;
    let (protocol, fragment) = (upper.protocol, upper.is_fragment());
    let rest = ip.payload().get(upper.offset..).unwrap_or(&[]);
    let (src_port, dst_port) = ports(protocol, fragment, rest)?;
    let key = FlowV6 { src: ip.src(), dst: ip.dst(), src_port, dst_port, vlan, protocol };
    // At most 4 tags and 8 extensions of 2048 bytes: far below 65536.
    let transport = (network + ipv6::HEADER_LEN + upper.offset) as u16;
    Ok(Flow { key: FlowKey::V6(key), network: network as u16, transport, fragment })
}

#[inline]
fn ports(protocol: IpProtocol, fragment: bool, header: &[u8]) -> Result<(u16, u16), Malformed> {
    if fragment || !protocol.has_ports() {
        return Ok((0, 0));
    }
    match *header {
        [a, b, c, d, ..] => Ok((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))),
        _ => Err(Malformed::new(Header::Ports, Fault::Truncated)),
    }
}
