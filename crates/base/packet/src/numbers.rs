//! Assigned numbers of payloads: Ethernet types and IP protocols.
//!
//! Newtypes over the wire value, not enums, so that an unknown number is an ordinary value.
//! Source: the IANA registries "ieee-802-numbers" and "protocol-numbers".

use core::fmt;

/// Type of the payload of an Ethernet frame or a VLAN tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP.
    pub const ARP: EtherType = EtherType(0x0806);
    /// 802.1Q tag (customer VLAN).
    pub const VLAN: EtherType = EtherType(0x8100);
    /// IPv6.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// MPLS, unicast.
    pub const MPLS: EtherType = EtherType(0x8847);
    /// 802.1ad tag (service VLAN, the outer one of "`QinQ`").
    pub const QINQ: EtherType = EtherType(0x88a8);
    /// LLDP.
    pub const LLDP: EtherType = EtherType(0x88cc);
    /// Outer tag of stacked VLANs before 802.1ad assigned [`EtherType::QINQ`].
    pub const QINQ_LEGACY: EtherType = EtherType(0x9100);

    /// Is the field an 802.3 length (an LLC frame) and not a type? Types begin at 0x0600.
    #[inline]
    #[must_use]
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }

    /// Does it announce a VLAN tag?
    #[inline]
    #[must_use]
    pub const fn is_vlan(self) -> bool {
        matches!(self, EtherType::VLAN | EtherType::QINQ | EtherType::QINQ_LEGACY)
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EtherType::IPV4 => f.write_str("ipv4"),
            EtherType::ARP => f.write_str("arp"),
            EtherType::VLAN => f.write_str("vlan"),
            EtherType::IPV6 => f.write_str("ipv6"),
            EtherType::MPLS => f.write_str("mpls"),
            EtherType::QINQ => f.write_str("qinq"),
            EtherType::LLDP => f.write_str("lldp"),
            EtherType::QINQ_LEGACY => f.write_str("qinq-9100"),
            EtherType(other) => write!(f, "{other:#06x}"),
        }
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Protocol of the payload of an IPv4 packet or an IPv6 header.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: IpProtocol = IpProtocol(0);
    /// ICMP for IPv4.
    pub const ICMP: IpProtocol = IpProtocol(1);
    /// IGMP.
    pub const IGMP: IpProtocol = IpProtocol(2);
    /// IPv4 in IP.
    pub const IPV4: IpProtocol = IpProtocol(4);
    /// TCP.
    pub const TCP: IpProtocol = IpProtocol(6);
    /// UDP.
    pub const UDP: IpProtocol = IpProtocol(17);
    /// DCCP.
    pub const DCCP: IpProtocol = IpProtocol(33);
    /// IPv6 in IP.
    pub const IPV6: IpProtocol = IpProtocol(41);
    /// IPv6 routing header.
    pub const ROUTING: IpProtocol = IpProtocol(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: IpProtocol = IpProtocol(44);
    /// GRE.
    pub const GRE: IpProtocol = IpProtocol(47);
    /// Encapsulating security payload.
    pub const ESP: IpProtocol = IpProtocol(50);
    /// Authentication header.
    pub const AH: IpProtocol = IpProtocol(51);
    /// ICMP for IPv6.
    pub const ICMPV6: IpProtocol = IpProtocol(58);
    /// Nothing follows (IPv6).
    pub const NO_NEXT: IpProtocol = IpProtocol(59);
    /// IPv6 destination options.
    pub const DESTINATION: IpProtocol = IpProtocol(60);
    /// SCTP.
    pub const SCTP: IpProtocol = IpProtocol(132);
    /// IPv6 mobility header.
    pub const MOBILITY: IpProtocol = IpProtocol(135);
    /// UDP-Lite.
    pub const UDP_LITE: IpProtocol = IpProtocol(136);
    /// Host identity protocol.
    pub const HIP: IpProtocol = IpProtocol(139);
    /// Shim6.
    pub const SHIM6: IpProtocol = IpProtocol(140);

    /// Does its header begin with a source and a destination port of 16 bits each?
    #[inline]
    #[must_use]
    pub const fn has_ports(self) -> bool {
        matches!(
            self,
            IpProtocol::TCP
                | IpProtocol::UDP
                | IpProtocol::DCCP
                | IpProtocol::SCTP
                | IpProtocol::UDP_LITE
        )
    }
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            IpProtocol::ICMP => f.write_str("icmp"),
            IpProtocol::IGMP => f.write_str("igmp"),
            IpProtocol::TCP => f.write_str("tcp"),
            IpProtocol::UDP => f.write_str("udp"),
            IpProtocol::GRE => f.write_str("gre"),
            IpProtocol::ESP => f.write_str("esp"),
            IpProtocol::AH => f.write_str("ah"),
            IpProtocol::ICMPV6 => f.write_str("icmpv6"),
            IpProtocol::SCTP => f.write_str("sctp"),
            IpProtocol(other) => write!(f, "protocol {other}"),
        }
    }
}

impl fmt::Debug for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
