//! The headers of a merged frame that each of its segments needs anew, through tunnels.
//!
//! The virtio header gives the place of the innermost transport header, and nothing about the
//! headers in front of it: a VXLAN packet and a plain one look alike there. So the headers are
//! followed from the outside. Ethernet, IP and GRE name the next header. UDP does not, because the
//! port of a tunnel is configuration; behind UDP, and behind other headers that do not (MPLS, NSH,
//! the Ethernet of `gretap`), an IP header is looked for that leads to the transport header and
//! whose length and checksum are those of the frame. The bytes between (a VXLAN or Geneve header,
//! an inner Ethernet header, labels) do not depend on a segment's length and are copied as they
//! are.
//!
//! Source: `inet_gso_segment`, `ipv6_gso_segment`, `skb_udp_tunnel_segment` and `gre_gso_segment`
//! of the Linux kernel for the headers that change, RFC 791, RFC 8200, RFC 768, RFC 2784 and RFC
//! 2890 for their places.

use linerate_packet::{
    EtherType, IpProtocol, checksum::verify, ipv4, ipv6, ipv6_ext::upper_layer, udp, vlan,
};
use smallvec::SmallVec;

/// Most headers one behind the other: two tunnels have five.
pub(super) const DEPTH: usize = 8;
/// Bytes behind a UDP or GRE header in which an IP header may begin: Geneve with all its options
/// (260), Ethernet with four tags.
const SEARCHED: usize = 290;
/// IP headers that are tried in one frame, so that a frame made for it costs no more.
const TRIED: usize = 32;

/// The bits of IPv4 that say that a packet is a fragment: more to come, and an offset.
const FRAGMENT: u16 = 0x3fff;
/// Optional fields of GRE version 0, by their flags.
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_KEY: u16 = 0x2000;
const GRE_SEQUENCE: u16 = 0x1000;
/// Ethernet in GRE.
pub(super) const BRIDGED: EtherType = EtherType(0x6558);
/// Network service header (RFC 8300), and MPLS for groups.
const NSH: EtherType = EtherType(0x894f);
const MPLS_MULTICAST: EtherType = EtherType(0x8848);
/// MPLS in IP (RFC 4023).
const MPLS_IN_IP: IpProtocol = IpProtocol(137);

/// A header in front of the transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) kind: LayerKind,
    /// Offset of its first byte.
    pub(super) start: u32,
    /// Offset of its end; of IPv6, of the end of the fixed header.
    pub(super) end: u32,
}

/// Kind of header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayerKind {
    Ipv4,
    Ipv6,
    Udp,
    /// With a checksum; GRE without one has nothing that changes.
    Gre,
}

/// From the outermost to the innermost.
pub(super) type Layers = SmallVec<[Layer; DEPTH]>;

/// The outermost network header, behind any VLAN tags, and its type.
pub(super) fn link(frame: &[u8]) -> Option<(usize, EtherType)> {
    let mut at = 12;
    loop {
        let ethertype = EtherType(half(frame, at)?);
        at += 2;
        if !ethertype.is_vlan() {
            return Some((at, ethertype));
        }
        at += vlan::HEADER_LEN - 2;
    }
}

/// A 16-bit field.
pub(super) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// The end of an IP header, with the extensions of IPv6, and the protocol behind it.
fn behind_ip(packet: &[u8]) -> Option<(LayerKind, usize, IpProtocol)> {
    match packet.first()? >> 4 {
        4 => {
            let header = packet.first_chunk::<{ ipv4::HEADER_LEN }>()?;
            let end = usize::from(header[0] & 0x0f) * 4;
            (end >= ipv4::HEADER_LEN).then_some((LayerKind::Ipv4, end, IpProtocol(header[9])))
        }
        6 => {
            let (header, payload) = packet.split_first_chunk::<{ ipv6::HEADER_LEN }>()?;
            let upper = upper_layer(IpProtocol(header[6]), payload).ok()?;
            Some((LayerKind::Ipv6, ipv6::HEADER_LEN + upper.offset, upper.protocol))
        }
        _ => None,
    }
}

/// The end of the outermost IP header.
pub(super) fn behind_outermost(frame: &[u8]) -> Option<usize> {
    let (network, _) = link(frame)?;
    let (_, length, _) = behind_ip(frame.get(network..)?)?;
    Some(network + length)
}

/// Offsets of the IP and the TCP header of a frame that is TCP over IP without a tunnel, and as
/// long as its packet; `None` for any other.
pub(super) fn whole_tcp(frame: &[u8]) -> Option<(usize, usize)> {
    let (network, ethertype) = link(frame)?;
    let packet = frame.get(network..)?;
    let (kind, length, protocol) = behind_ip(packet)?;
    let is_typed = match kind {
        LayerKind::Ipv4 => ethertype == EtherType::IPV4 && half(packet, 6)? & FRAGMENT == 0,
        _ => ethertype == EtherType::IPV6,
    };
    let is_tcp = is_typed && protocol == IpProtocol::TCP && says_length(packet);
    is_tcp.then_some((network, network + length))
}

/// Returns true if an IP header says that its packet is all of these bytes.
fn says_length(packet: &[u8]) -> bool {
    let said = |field: usize, length: usize| {
        // A length that does not fit the field is written as zero, or without its upper bits.
        half(packet, field)
            .is_some_and(|said| said == length as u16 || (said == 0 && length > 0xffff))
    };
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => said(2, packet.len()),
        Some(6) => packet.len() >= ipv6::HEADER_LEN && said(4, packet.len() - ipv6::HEADER_LEN),
        _ => false,
    }
}

/// The headers that lead to the transport header of `protocol` at `transport`.
pub(super) fn to_transport(frame: &[u8], transport: usize, protocol: IpProtocol) -> Option<Layers> {
    let mut walk = Walk { frame, transport, protocol, layers: Layers::new(), tries: TRIED };
    let (network, ethertype) = link(frame)?;
    walk.typed(network, ethertype).then_some(walk.layers)
}

/// The walk along the headers. Its functions return whether the transport header was reached; the
/// layers are then those on the way, and as before otherwise.
struct Walk<'a> {
    frame: &'a [u8],
    transport: usize,
    protocol: IpProtocol,
    layers: Layers,
    tries: usize,
}

impl Walk<'_> {
    /// Goes on with a header of a type.
    fn typed(&mut self, at: usize, ethertype: EtherType) -> bool {
        match ethertype {
            EtherType::IPV4 => self.is_version(at, 4) && self.ip(at),
            EtherType::IPV6 => self.is_version(at, 6) && self.ip(at),
            EtherType::MPLS | MPLS_MULTICAST | NSH => self.search(at),
            _ => false,
        }
    }

    fn is_version(&self, at: usize, version: u8) -> bool {
        self.frame.get(at).is_some_and(|byte| byte >> 4 == version)
    }

    fn ip(&mut self, at: usize) -> bool {
        let Some(tries) = self.tries.checked_sub(1) else { return false };
        self.tries = tries;
        let packet = self.frame.get(at..).unwrap_or_default();
        let Some((kind, length, protocol)) = behind_ip(packet) else { return false };
        let end = if kind == LayerKind::Ipv6 { ipv6::HEADER_LEN } else { length };
        self.over(kind, at, at + end, |walk| walk.upper(at + length, protocol))
    }

    /// Goes on over a header that changes.
    fn over(
        &mut self,
        kind: LayerKind,
        start: usize,
        end: usize,
        go_on: impl FnOnce(&mut Self) -> bool,
    ) -> bool {
        if self.layers.len() == DEPTH || end > self.transport {
            return false;
        }
        self.layers.push(Layer { kind, start: start as u32, end: end as u32 });
        let is_reached = go_on(self);
        if !is_reached {
            self.layers.pop();
        }
        is_reached
    }

    /// Goes on with the payload of IP.
    fn upper(&mut self, at: usize, protocol: IpProtocol) -> bool {
        if at >= self.transport {
            return at == self.transport && protocol == self.protocol;
        }
        match protocol {
            IpProtocol::UDP => self.udp(at),
            IpProtocol::GRE => self.gre(at),
            IpProtocol::IPV4 => self.is_version(at, 4) && self.ip(at),
            IpProtocol::IPV6 => self.is_version(at, 6) && self.ip(at),
            MPLS_IN_IP => self.search(at),
            _ => false,
        }
    }

    /// A tunnel over UDP: GRE, or a header with an IP header behind it.
    fn udp(&mut self, at: usize) -> bool {
        let end = at + udp::HEADER_LEN;
        let ethertype = half(self.frame, end + 2).map(EtherType);
        let may_be_gre = matches!(ethertype, Some(EtherType::IPV4 | EtherType::IPV6 | BRIDGED));
        self.over(LayerKind::Udp, at, end, |walk| (may_be_gre && walk.gre(end)) || walk.search(end))
    }

    fn gre(&mut self, at: usize) -> bool {
        let (Some(flags), Some(ethertype)) = (half(self.frame, at), half(self.frame, at + 2))
        else {
            return false;
        };
        let Some(gre) = Gre::from_flags(flags) else { return false };
        let end = at + gre.length;
        let go_on = |walk: &mut Self| match EtherType(ethertype) {
            typed @ (EtherType::IPV4 | EtherType::IPV6) => walk.typed(end, typed),
            // Ethernet, ERSPAN, labels.
            _ => walk.search(end),
        };
        if gre.has_checksum { self.over(LayerKind::Gre, at, end, go_on) } else { go_on(self) }
    }

    /// Looks for the IP header that leads to the transport header.
    fn search(&mut self, from: usize) -> bool {
        (from..self.transport.min(from + SEARCHED)).any(|at| self.is_whole(at) && self.ip(at))
    }

    /// Returns true if an IP header as long as the rest of the frame is there.
    fn is_whole(&self, at: usize) -> bool {
        let packet = self.frame.get(at..).unwrap_or_default();
        let is_right = |first: u8| {
            first >> 4 != 4 || packet.get(..usize::from(first & 0x0f) * 4).is_some_and(verify)
        };
        says_length(packet) && packet.first().copied().is_some_and(is_right)
    }
}

/// A GRE header, as its flags describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gre {
    pub(super) length: usize,
    pub(super) has_checksum: bool,
}

impl Gre {
    /// Of version 0, without source routes, which have no fixed length.
    pub(super) fn from_flags(flags: u16) -> Option<Gre> {
        let fields = [GRE_CHECKSUM, GRE_KEY, GRE_SEQUENCE];
        let known = fields.iter().fold(0, |all, field| all | field);
        (flags & !known == 0).then(|| Gre {
            length: 4 + 4 * fields.iter().filter(|field| flags & **field != 0).count(),
            has_checksum: flags & GRE_CHECKSUM != 0,
        })
    }
}
