//! Malformed headers, as two small enums: which header, and which fault.
//!
//! A [`Malformed`] is two bytes and costs nothing to return, so it can be the drop reason of a
//! packet and the index of a counter. It never carries packet bytes.

use core::fmt;

/// The reason why bytes are not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("malformed {header} header: {fault}")]
pub struct Malformed {
    /// The header that was being read.
    pub header: Header,
    /// The fault of it.
    pub fault: Fault,
}

impl Malformed {
    pub(crate) const fn new(header: Header, fault: Fault) -> Self {
        Malformed { header, fault }
    }
}

/// A kind of header this crate reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Header {
    /// Ethernet II.
    Ethernet,
    /// An 802.1Q or 802.1ad tag.
    Vlan,
    /// ARP for IPv4 over Ethernet.
    Arp,
    /// IPv4.
    Ipv4,
    /// The fixed IPv6 header.
    Ipv6,
    /// An IPv6 extension header.
    Ipv6Extension,
    /// ICMP for IPv4.
    Icmp,
    /// ICMP for IPv6.
    Icmpv6,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// The port pair that begins UDP, TCP, SCTP and DCCP.
    Ports,
    /// VXLAN.
    Vxlan,
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Header::Ethernet => "ethernet",
            Header::Vlan => "vlan",
            Header::Arp => "arp",
            Header::Ipv4 => "ipv4",
            Header::Ipv6 => "ipv6",
            Header::Ipv6Extension => "ipv6 extension",
            Header::Icmp => "icmp",
            Header::Icmpv6 => "icmpv6",
            Header::Udp => "udp",
            Header::Tcp => "tcp",
            Header::Ports => "port",
            Header::Vxlan => "vxlan",
        })
    }
}

/// A way in which a header can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fault {
    /// The bytes end before the header does.
    Truncated,
    /// The version field is not the one of this protocol.
    Version,
    /// The header length field is below the minimum.
    HeaderLength,
    /// The length field is below the header's length or beyond the bytes.
    Length,
    /// An option or extension runs past the space it must fit in.
    Option,
    /// More nested headers than the walk follows.
    Depth,
    /// A flag that must be set is not.
    Flags,
    /// A valid header of a variant this crate does not read.
    Unsupported,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Truncated => "the bytes end inside it",
            Fault::Version => "the version is not this protocol's",
            Fault::HeaderLength => "the header length is below the minimum",
            Fault::Length => "the length field does not fit the bytes",
            Fault::Option => "an option runs past its end",
            Fault::Depth => "it is nested too deeply",
            Fault::Flags => "a flag that must be set is not",
            Fault::Unsupported => "the variant is not supported",
        })
    }
}
