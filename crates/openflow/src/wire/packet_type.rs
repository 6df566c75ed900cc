//! Types of packets: which header comes first (OpenFlow 1.5.1, section 7.2.3.11).

/// Which header a packet begins with: a name space, and a type in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketType(pub u32);

impl PacketType {
    /// A header of Ethernet.
    pub const ETHERNET: PacketType = PacketType(0);
    /// Where a header is taken away, what it says is behind it.
    pub const NEXT: PacketType = PacketType(0xfffe);
    /// A label of MPLS.
    pub const MPLS: PacketType = PacketType::of_ethernet(0x8847);
    /// A label of MPLS, to several hosts.
    pub const MPLS_MULTICAST: PacketType = PacketType::of_ethernet(0x8848);

    /// What a header of Ethernet with this type has behind it.
    #[must_use]
    pub const fn of_ethernet(kind: u16) -> PacketType {
        PacketType(1 << 16 | kind as u32)
    }

    /// The name space.
    #[must_use]
    pub const fn space(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The type in the name space.
    #[must_use]
    pub const fn kind(self) -> u16 {
        self.0 as u16
    }

    /// Whether it is a label of MPLS.
    #[must_use]
    pub const fn is_mpls(self) -> bool {
        self.0 == PacketType::MPLS.0 || self.0 == PacketType::MPLS_MULTICAST.0
    }
}
