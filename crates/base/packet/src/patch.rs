//! Patch: changes addresses and ports of a finished packet while its checksums stay right.
//!
//! For address translation, and for traffic generators that vary the fields of a template. A
//! [`Patch`] knows where the headers of one packet layout begin; every change is a store and an
//! incremental update of the checksums that cover it (RFC 1624), whatever the packet's length. A
//! UDP checksum of zero means none and stays zero.
//!
//! The bytes are trusted to have the layout; if they do not, nonsense is written, but inside the
//! frame.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::{IpProtocol, checksum, icmp, icmpv6, ipv4, ipv6, tcp, udp};

/// Offsets of the headers in packets of one layout.
///
/// The setters return false, and change nothing, if the frame ends before the headers do or if the
/// protocol does not have the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    network: usize,
    transport: usize,
    protocol: IpProtocol,
    /// Offset of the transport checksum, if the protocol has one.
    check: Option<usize>,
}

impl Patch {
    /// For packets with the IP header at `network` and a header of `protocol` at `transport`. For a
    /// fragment other than the first give [`IpProtocol::NO_NEXT`]: only the IP header is changed.
    #[inline]
    #[must_use]
    pub const fn new(network: u16, transport: u16, protocol: IpProtocol) -> Patch {
        let (network, transport) = (network as usize, transport as usize);
        let check = match protocol {
            IpProtocol::TCP => Some(transport + tcp::field::CHECKSUM),
            IpProtocol::UDP => Some(transport + udp::field::CHECKSUM),
            IpProtocol::ICMP => Some(transport + icmp::field::CHECKSUM),
            IpProtocol::ICMPV6 => Some(transport + icmpv6::field::CHECKSUM),
            _ => None,
        };
        Patch { network, transport, protocol, check }
    }

    /// Sets the IPv4 source address.
    #[inline]
    #[must_use = "a frame that is too short was not changed"]
    pub fn set_src_v4(&self, frame: &mut [u8], src: Ipv4Addr) -> bool {
        self.set_v4(frame, ipv4::field::SRC, src).is_some()
    }

    /// Sets the IPv4 destination address.
    #[inline]
    #[must_use = "a frame that is too short was not changed"]
    pub fn set_dst_v4(&self, frame: &mut [u8], dst: Ipv4Addr) -> bool {
        self.set_v4(frame, ipv4::field::DST, dst).is_some()
    }

    /// Sets the IPv4 identification.
    #[inline]
    #[must_use = "a frame that is too short was not changed"]
    pub fn set_ident(&self, frame: &mut [u8], ident: u16) -> bool {
        let new = ident.to_be_bytes();
        self.set_ipv4_field(frame, ipv4::field::IDENT, new).is_some()
    }

    /// Sets the IPv6 source address.
    #[inline]
    #[must_use = "a frame that is too short was not changed"]
    pub fn set_src_v6(&self, frame: &mut [u8], src: Ipv6Addr) -> bool {
        self.set_v6(frame, ipv6::field::SRC, src).is_some()
    }

    /// Sets the IPv6 destination address.
    #[inline]
    #[must_use = "a frame that is too short was not changed"]
    pub fn set_dst_v6(&self, frame: &mut [u8], dst: Ipv6Addr) -> bool {
        self.set_v6(frame, ipv6::field::DST, dst).is_some()
    }

    /// Sets the source port of TCP or UDP.
    #[inline]
    #[must_use = "a frame that is too short was not changed"]
    pub fn set_src_port(&self, frame: &mut [u8], port: u16) -> bool {
        self.has_ports() && self.set_transport(frame, udp::field::SRC_PORT, port).is_some()
    }

    /// Sets the destination port of TCP or UDP.
    #[inline]
    #[must_use = "a frame that is too short was not changed"]
    pub fn set_dst_port(&self, frame: &mut [u8], port: u16) -> bool {
        self.has_ports() && self.set_transport(frame, udp::field::DST_PORT, port).is_some()
    }

    /// Sets the identifier of an ICMP or `ICMPv6` echo message.
    #[inline]
    #[must_use = "a frame that is too short was not changed"]
    pub fn set_echo_ident(&self, frame: &mut [u8], ident: u16) -> bool {
        self.is_icmp() && self.set_transport(frame, icmp::field::IDENT, ident).is_some()
    }

    /// Sets the sequence number of an ICMP or `ICMPv6` echo message.
    #[inline]
    #[must_use = "a frame that is too short was not changed"]
    pub fn set_echo_seq(&self, frame: &mut [u8], seq: u16) -> bool {
        self.is_icmp() && self.set_transport(frame, icmp::field::SEQ, seq).is_some()
    }

    /// Overwrites an even number of bytes of the payload, `at` an even number of bytes behind the
    /// start of the transport header.
    #[inline]
    #[must_use = "a frame that is too short was not changed"]
    pub fn set_payload<const N: usize>(&self, frame: &mut [u8], at: usize, new: &[u8; N]) -> bool {
        let mut set = || {
            self.check_fits(frame)?;
            let field = frame.get_mut(self.transport + at..)?.first_chunk_mut()?;
            let old = core::mem::replace(field, *new);
            self.update_check(frame, &old, new)
        };
        set().is_some()
    }

    #[inline]
    const fn has_ports(&self) -> bool {
        matches!(self.protocol, IpProtocol::TCP | IpProtocol::UDP)
    }

    #[inline]
    const fn is_icmp(&self) -> bool {
        matches!(self.protocol, IpProtocol::ICMP | IpProtocol::ICMPV6)
    }

    #[inline]
    fn set_v4(&self, frame: &mut [u8], at: usize, new: Ipv4Addr) -> Option<()> {
        self.check_fits(frame)?;
        let new = new.octets();
        let old = self.set_ipv4_field(frame, at, new)?;
        // ICMP for IPv4 is the one checksum here that covers no pseudo header.
        if self.protocol == IpProtocol::ICMP {
            return Some(());
        }
        self.update_check(frame, &old, &new)
    }

    #[inline]
    fn set_v6(&self, frame: &mut [u8], at: usize, new: Ipv6Addr) -> Option<()> {
        self.check_fits(frame)?;
        let new = new.octets();
        let header = frame.get_mut(self.network..)?.first_chunk_mut::<{ ipv6::HEADER_LEN }>()?;
        let old = core::mem::replace(header[at..].first_chunk_mut()?, new);
        self.update_check(frame, &old, &new)
    }

    #[inline]
    fn set_transport(&self, frame: &mut [u8], at: usize, new: u16) -> Option<()> {
        self.check_fits(frame)?;
        let new = new.to_be_bytes();
        let field = frame.get_mut(self.transport + at..)?.first_chunk_mut()?;
        let old = core::mem::replace(field, new);
        self.update_check(frame, &old, &new)
    }

    /// Writes a field of the IPv4 header with its checksum and returns the old value.
    #[inline]
    fn set_ipv4_field<const N: usize>(
        &self,
        frame: &mut [u8],
        at: usize,
        new: [u8; N],
    ) -> Option<[u8; N]> {
        let header = frame.get_mut(self.network..)?.first_chunk_mut::<{ ipv4::HEADER_LEN }>()?;
        let old = core::mem::replace(header[at..].first_chunk_mut()?, new);
        let check = header[ipv4::field::CHECKSUM..].first_chunk_mut()?;
        *check = checksum::update_bytes(u16::from_be_bytes(*check), &old, &new).to_be_bytes();
        Some(old)
    }

    /// Nothing may be written before it is known that the checksum can be, too.
    #[inline]
    fn check_fits(&self, frame: &[u8]) -> Option<()> {
        match self.check {
            Some(at) if at + 2 > frame.len() => None,
            _ => Some(()),
        }
    }

    #[inline]
    fn update_check<const N: usize>(
        &self,
        frame: &mut [u8],
        old: &[u8; N],
        new: &[u8; N],
    ) -> Option<()> {
        let Some(at) = self.check else {
            return Some(());
        };
        let field = frame.get_mut(at..)?.first_chunk_mut::<2>()?;
        let check = u16::from_be_bytes(*field);
        let updated = checksum::update_bytes(check, old, new);
        let updated = match self.protocol {
            IpProtocol::UDP if check == 0 => 0,
            IpProtocol::UDP => checksum::udp_nonzero(updated),
            _ => updated,
        };
        *field = updated.to_be_bytes();
        Some(())
    }
}
