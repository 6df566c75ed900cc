//! Packet types, which identify the outermost header (OpenFlow 1.5.1, section 7.2.3.11).

/// Type of a packet's outermost header: a namespace, and a type in the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketType(pub u32);

impl PacketType {
    /// Ethernet.
    pub const ETHERNET: PacketType = PacketType(0);
    /// For `decap`: the type that the removed header names (Open vSwitch's `PT_USE_NEXT_PROTO`).
    pub const NEXT: PacketType = PacketType(0xfffe);
    /// MPLS unicast.
    pub const MPLS: PacketType = PacketType::of_ethernet(0x8847);
    /// MPLS multicast.
    pub const MPLS_MULTICAST: PacketType = PacketType::of_ethernet(0x8848);

    /// IPv4.
    pub const IPV4: PacketType = PacketType::of_ethernet(0x0800);
    /// IPv6.
    pub const IPV6: PacketType = PacketType::of_ethernet(0x86dd);
    /// A network service header.
    pub const NSH: PacketType = PacketType::of_ethernet(0x894f);

    /// The packet type of an EtherType.
    #[must_use]
    pub const fn of_ethernet(kind: u16) -> PacketType {
        PacketType(1 << 16 | kind as u32)
    }

    /// The namespace.
    #[must_use]
    pub const fn space(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The type in the namespace.
    #[must_use]
    pub const fn kind(self) -> u16 {
        self.0 as u16
    }

    /// Returns true for MPLS, unicast or multicast.
    #[must_use]
    pub const fn is_mpls(self) -> bool {
        self.0 == PacketType::MPLS.0 || self.0 == PacketType::MPLS_MULTICAST.0
    }
}
