//! What is known about a packet besides its bytes.

use std::time::Duration;

/// Per-packet metadata, one cache line per buffer, in an array of its own so
/// that a path that does not use it never touches it.
///
/// A buffer fresh from the pool holds the metadata of its previous packet:
/// whoever is first to rely on a field sets it, or calls [`Meta::reset`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Meta {
    /// When the packet was received, in nanoseconds since the epoch; 0 when
    /// nobody has asked for the time yet.
    pub timestamp: u64,
    /// Flow hash; 0 when not computed.
    pub flow_hash: u32,
    /// Port the packet was received on.
    pub port: u16,
    /// Queue of that port.
    pub queue: u16,
    /// Offset of the network header from the start of the packet, in ones' complement
    /// when it lies before that; [`Meta::UNSET`] when not known.
    pub network: u16,
    /// Offset of the transport header, in the same way.
    pub transport: u16,
    /// 802.1Q tag control information; 0 when there is none.
    pub vlan: u16,
    /// Paint (colour) annotation.
    pub paint: u8,
    /// How the packet was addressed on its link: [`Meta::TO_HOST`] and so on,
    /// as Click numbers it.
    pub packet_type: u8,
    /// Destination annotation: an IPv6 address, or an IPv4 address in its
    /// first four bytes.
    pub destination: [u8; 16],
    /// Room for annotations of elements.
    pub user: [u8; 24],
}

const _: () = assert!(size_of::<Meta>() == 64 && align_of::<Meta>() == 64);

impl Meta {
    /// Header offset that is not known: no byte before the start.
    pub const UNSET: u16 = u16::MAX;
    /// [`Meta::packet_type`] of a packet to this host, or not known.
    pub const TO_HOST: u8 = 0;
    /// [`Meta::packet_type`] of a packet to all stations of the link.
    pub const BROADCAST: u8 = 1;
    /// [`Meta::packet_type`] of a packet to a group of stations.
    pub const MULTICAST: u8 = 2;
    /// [`Meta::packet_type`] of a packet to another station.
    pub const OTHER_HOST: u8 = 3;
    /// [`Meta::packet_type`] of a packet this host sends.
    pub const OUTGOING: u8 = 4;
    /// [`Meta::packet_type`] of a packet this host sends to itself.
    pub const LOOPBACK: u8 = 5;

    /// Metadata of a packet nothing is known about.
    pub const EMPTY: Meta = Meta {
        timestamp: 0,
        flow_hash: 0,
        port: 0,
        queue: 0,
        network: Meta::UNSET,
        transport: Meta::UNSET,
        vlan: 0,
        paint: 0,
        packet_type: Meta::TO_HOST,
        destination: [0; 16],
        user: [0; 24],
    };

    /// Forgets everything.
    #[inline]
    pub fn reset(&mut self) {
        *self = Meta::EMPTY;
    }

    /// The receive time, when it was taken.
    pub fn time(&self) -> Option<Duration> {
        (self.timestamp != 0).then(|| Duration::from_nanos(self.timestamp))
    }
}
