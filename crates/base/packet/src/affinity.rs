//! Affinity hash of packets: for balancers that keep packets of a flow together.
//!
//! Frames that are not IP, or not well-formed, go by their Ethernet addresses and type. Tunnels are
//! looked into on request, one deep: VXLAN (RFC 7348), GRE (RFC 2784 and RFC 2890: IP or Ethernet
//! in it), GTP-U (3GPP TS 29.281) and IP in IP (RFC 2003, RFC 4213); not those that are cut into
//! fragments.

use core::net::Ipv4Addr;

use crate::{
    EtherType, Ethernet, IpProtocol, Vxlan,
    flow::{Flow, FlowKey, FlowV4, FlowV6, VlanRule, extract, extract_ip},
    udp, vlan, vxlan,
};

pub use crate::flow_hash::number_hash;

/// The port that user packets of mobile networks go to, in GTP.
const GTP_U: u16 = 2152;
/// Ethernet in GRE.
const BRIDGED: EtherType = EtherType(0x6558);

/// Parts of a packet's flow that are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HashFields {
    /// Addresses, protocol, ports and VLAN.
    #[default]
    Flow,
    /// Addresses and VLAN: all between two hosts is together, fragments too.
    Addresses,
    /// The VLAN alone, that of the outermost tag.
    Vlan,
}

/// Affinity hash: from packets to hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Affinity {
    /// Parts that are hashed.
    pub parts: HashFields,
    /// Whether tunnels are looked into.
    pub inner: bool,
    /// Whether both directions of a flow have the same hash.
    pub symmetric: bool,
    /// Rule for the VLAN tag that is hashed.
    pub vlan: VlanRule,
    /// Seed of the hash. Without it, a sender that can choose addresses cannot choose hashes.
    pub seed: u64,
}

impl Affinity {
    /// The hash of an Ethernet frame, and whether it is that of an IP flow.
    #[inline]
    #[must_use]
    pub fn hash(&self, frame: &[u8]) -> (u64, bool) {
        if self.parts == HashFields::Vlan {
            return (vlan_key(frame).hash64(self.seed), true);
        }
        if let Some(flow) =
            plain_ipv4_flow(frame).filter(|flow| !(self.inner && may_be_tunnel(flow)))
        {
            return (self.hash_of(flow), true);
        }
        self.hash_any(frame)
    }

    /// The hash of a flow of IPv4.
    #[inline(always)]
    fn hash_of(&self, flow: FlowV4) -> u64 {
        let FlowKey::V4(flow) = (match self.parts {
            HashFields::Addresses => addresses(FlowKey::V4(flow)),
            HashFields::Flow | HashFields::Vlan => FlowKey::V4(flow),
        }) else {
            unreachable!("a flow of IPv4 stays one")
        };
        if !self.symmetric {
            return flow.hash64(self.seed);
        }
        // As `FlowV4::symmetric`, without a branch: directions come in no order that could be guessed.
        let end = |ip: Ipv4Addr, port: u16| u64::from(ip.to_bits()) << 16 | u64::from(port);
        let (one, other) = (end(flow.src, flow.src_port), end(flow.dst, flow.dst_port));
        let parts = |end: u64| (Ipv4Addr::from_bits((end >> 16) as u32), end as u16);
        let ((src, src_port), (dst, dst_port)) = (parts(one.min(other)), parts(one.max(other)));
        FlowV4 { src, dst, src_port, dst_port, ..flow }.hash64(self.seed)
    }

    /// As `hash`, for frames that [`plain_ipv4_flow`] does not read. Out of line, so that the
    /// others do not pay.
    #[inline(never)]
    fn hash_any(&self, frame: &[u8]) -> (u64, bool) {
        let (key, is_ip) = match extract(frame, self.vlan) {
            Ok(flow) if self.inner => (self.inside(frame, flow), true),
            Ok(flow) => (flow.key, true),
            Err(_) => (ethernet_key(frame), false),
        };
        let key = if is_ip && self.parts == HashFields::Addresses { addresses(key) } else { key };
        let key = if self.symmetric { key.symmetric() } else { key };
        (key.hash64(self.seed), is_ip)
    }

    /// The flow inside of a tunnel, or that of the packet.
    fn inside(&self, frame: &[u8], outer: Flow) -> FlowKey {
        let rest = frame.get(outer.transport.into()..).unwrap_or(&[]);
        let found = match (outer.key.protocol(), outer.key.ports()) {
            _ if outer.fragment => None,
            (IpProtocol::UDP, (_, vxlan::UDP_PORT)) => rest
                .get(udp::HEADER_LEN..)
                .and_then(|rest| Vxlan::new_checked(rest).ok())
                .and_then(|tunnel| extract(tunnel.payload(), self.vlan).ok()),
            (IpProtocol::UDP, (_, GTP_U)) => {
                rest.get(udp::HEADER_LEN..).and_then(gtp).and_then(|packet| extract_ip(packet).ok())
            }
            (IpProtocol::GRE, _) => gre(rest).and_then(|(kind, packet)| match kind {
                EtherType::IPV4 | EtherType::IPV6 => extract_ip(packet).ok(),
                BRIDGED => extract(packet, self.vlan).ok(),
                _ => None,
            }),
            (IpProtocol::IPV4 | IpProtocol::IPV6, _) => extract_ip(rest).ok(),
            _ => None,
        };
        found.map_or(outer.key, |inner| inner.key)
    }
}

/// The flow of nearly all packets: IPv4 without options, in Ethernet without a tag, whole, and of a
/// protocol with ports. It equals the result of [`extract`], by one look at each field.
#[inline(always)]
fn plain_ipv4_flow(frame: &[u8]) -> Option<FlowV4> {
    const NETWORK: usize = 14;
    /// Of Ethernet, IP and the ports.
    const HEADERS: usize = 14 + 20 + 4;
    /// Flags and offset of a fragment, without that which forbids them.
    const FRAGMENT: u32 = 0x3fff;
    let head: &[u8; HEADERS] = frame.first_chunk()?;
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let length = usize::from(half(NETWORK + 2));
    let protocol = IpProtocol(head[NETWORK + 9]);
    let is_usual = word(NETWORK - 2) & 0xffff_ff00 == 0x0800_4500
        && word(NETWORK + 4) & FRAGMENT == 0
        && length >= HEADERS - NETWORK
        && length <= frame.len() - NETWORK
        && protocol.has_ports();
    is_usual.then(|| FlowV4 {
        src: Ipv4Addr::from_bits(word(NETWORK + 12)),
        dst: Ipv4Addr::from_bits(word(NETWORK + 16)),
        src_port: half(NETWORK + 20),
        dst_port: half(NETWORK + 22),
        vlan: 0,
        protocol,
    })
}

/// Returns true if a flow with ports may have another one in it.
fn may_be_tunnel(flow: &FlowV4) -> bool {
    flow.protocol == IpProtocol::UDP && matches!(flow.dst_port, vxlan::UDP_PORT | GTP_U)
}

/// Returns the type and the bytes of the payload behind a GRE header of version 0.
fn gre(header: &[u8]) -> Option<(EtherType, &[u8])> {
    const WORDS: [u8; 3] = [0x80, 0x20, 0x10]; // checksum, key, sequence number
    let &[flags, version, high, low, ..] = header else { return None };
    // Routing, which is not in use, and bits that are not known.
    if flags & 0x4f != 0 || version != 0 {
        return None;
    }
    let words = WORDS.iter().filter(|word| flags & **word != 0).count();
    Some((EtherType(u16::from_be_bytes([high, low])), header.get(4 + 4 * words..)?))
}

/// The packet of a user that is behind a GTP-U header of version 1.
fn gtp(header: &[u8]) -> Option<&[u8]> {
    /// A packet, not a message between nodes.
    const G_PDU: u8 = 255;
    let &[flags, G_PDU, _, _, _, _, _, _, ref rest @ ..] = header else { return None };
    if flags & 0xf0 != 0x30 {
        return None;
    }
    if flags & 0x07 == 0 {
        return Some(rest);
    }
    let (fields, mut rest) = rest.split_at_checked(4)?;
    let mut next = if flags & 0x04 == 0 { 0 } else { fields[3] };
    // Each extension begins with its length in words and ends with the type of the next.
    while next != 0 {
        let (extension, behind) = rest.split_at_checked(4 * usize::from(*rest.first()?))?;
        next = *extension.last()?;
        rest = behind;
    }
    Some(rest)
}

/// The key without protocol and ports.
fn addresses(key: FlowKey) -> FlowKey {
    let (protocol, src_port, dst_port) = (IpProtocol(0), 0, 0);
    match key {
        FlowKey::V4(flow) => FlowKey::V4(FlowV4 { protocol, src_port, dst_port, ..flow }),
        FlowKey::V6(flow) => FlowKey::V6(FlowV6 { protocol, src_port, dst_port, ..flow }),
    }
}

/// The VLAN in the shape of a flow, to be hashed as one; 0 for a frame without a tag.
fn vlan_key(frame: &[u8]) -> FlowKey {
    let tag = vlan::walk(frame).ok().and_then(|tags| tags.outer);
    let vlan = tag.map_or(0, vlan::Tci::id);
    let nowhere = [0; 4].into();
    let (src_port, dst_port, protocol) = (0, 0, IpProtocol(0));
    FlowKey::V4(FlowV4 { src: nowhere, dst: nowhere, src_port, dst_port, vlan, protocol })
}

/// Ethernet addresses and type in the shape of a flow, to be hashed as one.
#[cold]
fn ethernet_key(frame: &[u8]) -> FlowKey {
    let end = |[a, b, c, d, e, f]: [u8; 6]| ([a, b, c, d].into(), u16::from_be_bytes([e, f]));
    let ethernet = Ethernet::new_checked(frame);
    let (src, dst, vlan) = ethernet.map_or(([0; 6], [0; 6], 0), |ethernet| {
        (ethernet.src().0, ethernet.dst().0, ethernet.ether_type().0)
    });
    let ((src, src_port), (dst, dst_port)) = (end(src), end(dst));
    FlowKey::V4(FlowV4 { src, dst, src_port, dst_port, vlan, protocol: IpProtocol(0) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::{vec, vec::Vec};

    use super::*;

    /// Generates changes of header bytes that decide the kind of a packet: offset and new value.
    fn odd() -> impl Strategy<Value = (usize, u8)> {
        let at = prop_oneof![12..18usize, 20..24usize, 34..38usize];
        (at, prop_oneof![any::<u8>(), prop::sample::select(vec![0, 8, 0x45, 6, 17, 0x40, 0x20])])
    }

    proptest! {
        /// Frames that the short way reads have the hash of the long one.
        #[test]
        fn both_ways_lead_to_one_hash(
            host in any::<u8>(), ports in any::<(u16, u16)>(), back in any::<bool>(),
            rest in prop::collection::vec(any::<u8>(), 0..40), cut in 0..60usize,
            odd in prop::collection::vec(odd(), 0..3), seed in any::<u64>(),
            (addresses, inner, symmetric) in any::<(bool, bool, bool)>(),
        ) {
            let mut packet = udp(host, ports, back, &rest);
            odd.iter().for_each(|(at, byte)| packet[*at] = *byte);
            if cut >= 30 {
                packet.truncate(packet.len() - (cut - 30));
            }
            let parts = if addresses { HashFields::Addresses } else { HashFields::Flow };
            let affinity = Affinity { seed, ..by(parts, inner, symmetric) };
            prop_assert_eq!(affinity.hash(&packet), affinity.hash_any(&packet));
        }
    }

    /// A frame from 10.0.0.`host` port `port` to 10.0.1.1 port `to`, or back, with `rest` behind
    /// the UDP header.
    fn udp(host: u8, ports: (u16, u16), back: bool, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        let length = (28 + rest.len()) as u16;
        packet.extend([0x45, 0]);
        packet.extend(length.to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        let (near, far) = ([10, 0, 0, host], [10, 0, 1, 1]);
        let (near_port, far_port) = (ports.0.to_be_bytes(), ports.1.to_be_bytes());
        let ends = if back { (far, near) } else { (near, far) };
        packet.extend(ends.0.into_iter().chain(ends.1));
        let ports = if back { (far_port, near_port) } else { (near_port, far_port) };
        packet.extend(ports.0.into_iter().chain(ports.1));
        packet.extend((length - 20).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(rest);
        packet
    }

    fn by(parts: HashFields, inner: bool, symmetric: bool) -> Affinity {
        Affinity { parts, inner, symmetric, ..Affinity::default() }
    }

    #[test]
    fn directions_are_one_flow_when_asked() {
        let (there, back) = (udp(1, (1000, 53), false, &[]), udp(1, (1000, 53), true, &[]));
        let (both, each) = (by(HashFields::Flow, false, true), by(HashFields::Flow, false, false));
        assert_eq!(both.hash(&there), both.hash(&back));
        assert_ne!(each.hash(&there), each.hash(&back));
        assert!(both.hash(&there).1);
    }

    #[test]
    fn frames_without_ip_are_hashed_by_ethernet_addresses() {
        let arp = |src: u8, dst: u8| [2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src, 8, 6, 0, 1];
        for parts in [HashFields::Flow, HashFields::Addresses] {
            let affinity = by(parts, true, true);
            let (there, is_ip) = affinity.hash(&arp(1, 2));
            assert!(!is_ip);
            assert_eq!(affinity.hash(&arp(2, 1)).0, there);
            assert_ne!(affinity.hash(&arp(3, 1)).0, there);
            assert_eq!(affinity.hash(&[]).0, affinity.hash(&[1, 2, 3]).0);
        }
    }

    #[test]
    fn hosts_stay_together_by_their_addresses() {
        let affinity = by(HashFields::Addresses, false, true);
        let one = affinity.hash(&udp(1, (1000, 53), false, &[])).0;
        assert_eq!(affinity.hash(&udp(1, (7, 8), true, &[])).0, one);
        assert_ne!(affinity.hash(&udp(2, (1000, 53), false, &[])).0, one);
    }

    #[test]
    fn a_vlan_stays_together_whatever_is_in_it() {
        let affinity = by(HashFields::Vlan, false, true);
        let tagged = |id: u8, host: u8| {
            let mut packet = udp(host, (1, 2), false, &[]);
            packet.splice(12..12, [0x81, 0, 0, id]);
            packet
        };
        assert_eq!(affinity.hash(&tagged(5, 1)), affinity.hash(&tagged(5, 2)));
        assert_ne!(affinity.hash(&tagged(5, 1)), affinity.hash(&tagged(6, 1)));
        assert_eq!(affinity.hash(&udp(1, (1, 2), false, &[])), affinity.hash(&[0; 4]));
    }

    #[test]
    fn tunnels_are_looked_into_when_asked() {
        let inner = |port: u16, back: bool| udp(9, (port, 53), back, &[]);
        let vxlan = |host: u8, inner: &[u8]| {
            let rest = [&[8, 0, 0, 0, 0, 0, 7, 0][..], inner].concat();
            udp(host, (5000, vxlan::UDP_PORT), false, &rest)
        };
        let (inside, outside) =
            (by(HashFields::Flow, true, true), by(HashFields::Flow, false, true));
        let plain = inside.hash(&inner(1, false));
        assert_eq!(inside.hash(&vxlan(1, &inner(1, false))), plain);
        assert_eq!(inside.hash(&vxlan(2, &inner(1, true))), plain);
        assert_ne!(inside.hash(&vxlan(1, &inner(2, false))), plain);
        let (one, other) = (vxlan(1, &inner(1, false)), vxlan(1, &inner(2, false)));
        assert_eq!(outside.hash(&one), outside.hash(&other));
        // IP in IP.
        let mut packet = udp(1, (0, 0), false, &[])[..34].to_vec();
        packet[23] = 4;
        packet.extend(&inner(1, false)[14..]);
        let length = (packet.len() - 14) as u16;
        packet[16..18].copy_from_slice(&length.to_be_bytes());
        assert_eq!(inside.hash(&packet), plain);
        // GRE: without and with all that can be in front, and with Ethernet in it.
        let gre = |header: &[u8], inner: &[u8]| {
            let mut packet = udp(1, (0, 0), false, &[])[..34].to_vec();
            packet[23] = 47;
            packet.extend([header, inner].concat());
            let length = (packet.len() - 14) as u16;
            packet[16..18].copy_from_slice(&length.to_be_bytes());
            packet
        };
        let (there, back) = (inner(1, false), inner(1, true));
        assert_eq!(inside.hash(&gre(&[0, 0, 8, 0], &there[14..])), plain);
        assert_eq!(inside.hash(&gre(&[0, 0, 0x65, 0x58], &back)), plain);
        let all = [0xb0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1];
        assert_eq!(inside.hash(&gre(&all, &back[14..])), plain);
        for header in [&[0x40, 0, 8, 0][..], &[0, 1, 8, 0], &[0, 0, 8, 1], &[0x80, 0, 8, 0], &[0]] {
            let packet = gre(header, &[]);
            assert_eq!(inside.hash(&packet), outside.hash(&packet), "{header:?}");
        }
        // GTP: the same.
        let gtp =
            |header: &[u8], inner: &[u8]| udp(1, (9, GTP_U), false, &[header, inner].concat());
        let short = [0x30, 255, 0, 0, 0, 0, 0, 7];
        assert_eq!(inside.hash(&gtp(&short, &there[14..])), plain);
        let extended = [
            &[0x34][..],
            &short[1..],
            &[0, 0, 0, 0x85],
            &[1, 0, 9, 0x40],
            &[2, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(inside.hash(&gtp(&extended.concat(), &back[14..])), plain);
        let sequence = [&[0x32][..], &short[1..], &[0, 1, 0, 0x85]].concat();
        assert_eq!(inside.hash(&gtp(&sequence, &back[14..])), plain);
        for wrong in [
            &[0x50, 255, 0, 0, 0, 0, 0, 7][..],
            &[0x30, 1, 0, 0, 0, 0, 0, 7],
            &[0x34, 255, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0x85, 0, 0, 0, 0],
            &[0x34, 255, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0x85, 200],
            &[0x34, 255, 0, 0, 0, 0, 0, 7, 0],
            &[0x30, 255, 0],
        ] {
            let packet = gtp(wrong, &[]);
            assert_eq!(inside.hash(&packet), outside.hash(&packet), "{wrong:?}");
        }
        // The inner packet makes no sense: the packet goes by its own flow.
        let broken = vxlan(1, &[0; 20]);
        assert_eq!(inside.hash(&broken), outside.hash(&broken));
    }
}
