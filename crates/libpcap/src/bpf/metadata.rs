//! Metadata of packets, and the ancillary loads of Linux by which programs load it.
//!
//! Sources: `SKF_AD_…` of `linux/filter.h`, and its treatment in `net/core/filter.c`,
//! `net/ethernet/eth.c` and `net/core/flow_dissector.c`. Fields that no port tells are 0, as for a
//! packet of which the kernel knows nothing either: the mark, the queue and the hash of its flow.

use std::hash::{BuildHasher, Hasher, RandomState};

/// `ARPHRD_ETHER`: the hardware type of Ethernet.
const ETHERNET: u16 = 1;
/// `ETH_P_802_3` and `ETH_P_802_2`: types that stand for frames that have a length instead.
const NOVELL: u32 = 1;
const LLC: u32 = 4;
/// Offset of the type in an Ethernet header, and of the header's end.
const TYPE: usize = 12;
const HEADER: usize = 14;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const ARP: u32 = 0x0806;
const TAGS: [u32; 2] = [0x8100, 0x88a8];
/// Tags and tunnels that are gone through at most, as in the kernel.
const HEADERS_MAX: usize = 15;

/// The metadata of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Packet type, by its destination on its link, or outgoing: `sll_pkttype`.
    pub packet_type: u8,
    /// The VLAN tag that was taken out of it.
    pub tag: Option<VlanTag>,
    /// The index of its interface; 0 where there is none.
    pub interface: u32,
    /// `ARPHRD_…` of its link.
    pub hardware: u16,
}

impl Default for Metadata {
    /// Metadata of an Ethernet frame to this host of which nothing else is known.
    fn default() -> Metadata {
        Metadata { packet_type: 0, tag: None, interface: 0, hardware: ETHERNET }
    }
}

/// A VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlanTag {
    /// Its type, as 0x8100.
    pub protocol: u16,
    /// Priority and VLAN.
    pub control: u16,
}

impl Metadata {
    /// The word that machine code gets: the tag's control information, whether there is a tag, and the packet
    /// type.
    #[inline]
    pub(super) fn packed(&self) -> u32 {
        let tag = self.tag.map_or(0, |tag| 1 << PRESENT_SHIFT | u32::from(tag.control));
        u32::from(self.packet_type) << TYPE_SHIFT | tag
    }
}

/// Layout of [`Metadata::packed`].
pub(super) const TAG_MASK: u32 = 0xffff;
pub(super) const PRESENT_SHIFT: u8 = 16;
pub(super) const TYPE_SHIFT: u8 = 24;

/// Ancillary loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ancillary {
    Protocol,
    PacketType,
    Interface,
    /// An attribute of netlink, of the type in X, from the place in A on.
    Attribute,
    /// An attribute of netlink inside of the attribute at the place in A, of the type in X.
    NestedAttribute,
    Mark,
    Queue,
    Hardware,
    Hash,
    Processor,
    Tag,
    TagPresent,
    /// Offset of a packet's payload.
    Payload,
    Random,
    TagProtocol,
}

impl Ancillary {
    /// The one of that number.
    pub(super) fn numbered(number: u32) -> Option<Ancillary> {
        Some(match number {
            0 => Ancillary::Protocol,
            4 => Ancillary::PacketType,
            8 => Ancillary::Interface,
            12 => Ancillary::Attribute,
            16 => Ancillary::NestedAttribute,
            20 => Ancillary::Mark,
            24 => Ancillary::Queue,
            28 => Ancillary::Hardware,
            32 => Ancillary::Hash,
            36 => Ancillary::Processor,
            44 => Ancillary::Tag,
            48 => Ancillary::TagPresent,
            52 => Ancillary::Payload,
            56 => Ancillary::Random,
            60 => Ancillary::TagProtocol,
            _ => return None,
        })
    }

    /// Returns true if it depends on A and X.
    pub(super) fn reads_registers(self) -> bool {
        matches!(self, Ancillary::Attribute | Ancillary::NestedAttribute)
    }

    /// Returns true if machine code has it: the loads that filters of programs ask for.
    pub(super) fn is_packed(self) -> bool {
        matches!(self, Ancillary::PacketType | Ancillary::Tag | Ancillary::TagPresent)
    }

    /// Loads the word.
    pub(super) fn load(self, packet: &[u8], about: &Metadata, a: u32, x: u32) -> u32 {
        match self {
            Ancillary::Protocol => protocol(packet, about),
            Ancillary::PacketType => about.packet_type.into(),
            Ancillary::Interface => about.interface,
            Ancillary::Attribute => attribute(packet, a, packet.len(), x),
            Ancillary::NestedAttribute => nested_attribute(packet, a, x),
            Ancillary::Mark | Ancillary::Queue | Ancillary::Hash => 0,
            Ancillary::Hardware => about.hardware.into(),
            Ancillary::Processor => rustix::thread::sched_getcpu() as u32,
            Ancillary::Tag => about.tag.map_or(0, |tag| tag.control.into()),
            Ancillary::TagPresent => about.tag.is_some().into(),
            Ancillary::Payload => payload(packet, about).unwrap_or(0),
            // Each has keys of its own.
            Ancillary::Random => RandomState::new().build_hasher().finish() as u32,
            Ancillary::TagProtocol => about.tag.map_or(0, |tag| tag.protocol.into()),
        }
    }
}

fn byte(packet: &[u8], at: usize) -> Option<u32> {
    packet.get(at).copied().map(u32::from)
}

fn half(packet: &[u8], at: usize) -> Option<u32> {
    let bytes = packet.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes).into())
}

/// The type of a packet, as the kernel finds it in a frame's header.
fn protocol(packet: &[u8], about: &Metadata) -> u32 {
    if about.hardware != ETHERNET {
        return match byte(packet, 0).map(|first| first >> 4) {
            Some(4) => IPV4,
            Some(6) => IPV6,
            _ => 0,
        };
    }
    match (half(packet, TYPE), half(packet, HEADER)) {
        (Some(kind), _) if kind >= 0x600 => kind,
        (Some(_), Some(0xffff)) => NOVELL,
        _ => LLC,
    }
}

/// Offset of the first attribute of that type, from `at` on and before `end`; 0 where none is.
fn attribute(packet: &[u8], at: u32, end: usize, kind: u32) -> u32 {
    const HEADER: usize = 4;
    const KIND: u16 = 0x3fff;
    let mut at = at as usize;
    // In the order of the machine's bytes, as netlink has them.
    while let Some([a, b, c, d]) = packet.get(at..).and_then(|rest| rest.first_chunk()) {
        let length = usize::from(u16::from_ne_bytes([*a, *b]));
        if length < HEADER || end.saturating_sub(at) < length {
            break;
        }
        if u32::from(u16::from_ne_bytes([*c, *d]) & KIND) == kind {
            return at as u32;
        }
        at += length.next_multiple_of(HEADER);
    }
    0
}

/// Finds an attribute inside of the attribute at `at`.
fn nested_attribute(packet: &[u8], at: u32, kind: u32) -> u32 {
    let Some(length) = packet.get(at as usize..).and_then(|rest| rest.first_chunk()) else {
        return 0;
    };
    let end = at as usize + usize::from(u16::from_ne_bytes(*length));
    if end > packet.len() { 0 } else { attribute(&packet[..end], at.saturating_add(4), end, kind) }
}

/// Offset of a packet's payload, behind its transport header; `None` where it has none.
fn payload(packet: &[u8], about: &Metadata) -> Option<u32> {
    let (mut kind, mut at) = match about.hardware {
        ETHERNET => (half(packet, TYPE)?, HEADER),
        _ => (protocol(packet, about), 0),
    };
    for _ in 0..HEADERS_MAX {
        let (transport, start) = match kind {
            tag if TAGS.contains(&tag) => {
                (kind, at) = (half(packet, at + 2)?, at + 4);
                continue;
            }
            // Which has none, and begins there itself.
            ARP => return Some(at as u32),
            IPV4 => behind_ipv4(packet, at)?,
            IPV6 => behind_ipv6(packet, at)?,
            _ => return None,
        };
        match transport {
            Transport::In(inner) => (kind, at) = (inner, start),
            Transport::Of(protocol) => return Some(behind_transport(packet, protocol, start)),
            Transport::Fragment => return Some(start as u32),
        }
    }
    None
}

/// The header behind a network header.
enum Transport {
    /// Another network header, of that type.
    In(u32),
    /// A header of that protocol.
    Of(u32),
    /// A piece of one that has begun in another packet.
    Fragment,
}

impl Transport {
    fn from_protocol(protocol: u32) -> Transport {
        match protocol {
            4 => Transport::In(IPV4),
            41 => Transport::In(IPV6),
            other => Transport::Of(other),
        }
    }
}

fn behind_ipv4(packet: &[u8], at: usize) -> Option<(Transport, usize)> {
    const FRAGMENTS: u32 = 0x3fff;
    const OFFSET: u32 = 0x1fff;
    let words = byte(packet, at)? & 15;
    let (fragment, protocol) = (half(packet, at + 6)?, byte(packet, at + 9)?);
    // A header with its addresses.
    byte(packet, at + 19).filter(|_| words >= 5)?;
    let transport = match fragment {
        piece if piece & OFFSET != 0 => Transport::Fragment,
        first if first & FRAGMENTS != 0 => Transport::Of(protocol),
        _ => Transport::from_protocol(protocol),
    };
    Some((transport, at + 4 * words as usize))
}

fn behind_ipv6(packet: &[u8], at: usize) -> Option<(Transport, usize)> {
    const OPTIONS: [u32; 3] = [0, 43, 60];
    const FRAGMENT: u32 = 44;
    const OFFSET: u32 = 0xfff8;
    byte(packet, at + 39)?;
    let (mut next, mut at) = (byte(packet, at + 6)?, at + 40);
    for _ in 0..HEADERS_MAX {
        match next {
            options if OPTIONS.contains(&options) => {
                let units = byte(packet, at + 1)? as usize + 1;
                (next, at) = (byte(packet, at)?, at + 8 * units);
            }
            FRAGMENT => {
                let is_first = half(packet, at + 2)? & OFFSET == 0;
                let protocol = byte(packet, at)?;
                let piece = if is_first { Transport::Of(protocol) } else { Transport::Fragment };
                return Some((piece, at + 8));
            }
            other => return Some((Transport::from_protocol(other), at)),
        }
    }
    None
}

fn behind_transport(packet: &[u8], protocol: u32, at: usize) -> u32 {
    let header = match protocol {
        // TCP says itself how long its header is.
        6 => byte(packet, at + 12).map_or(0, |words| ((words & 0xf0) >> 2).max(20)),
        // ICMP, IGMP, UDP, ICMPv6 and UDP-Lite.
        1 | 2 | 17 | 58 | 136 => 8,
        // DCCP and SCTP.
        33 | 132 => 12,
        _ => 0,
    };
    at as u32 + header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ethernet(kind: u16, rest: &[&[u8]]) -> Vec<u8> {
        [&[2; 12][..], &kind.to_be_bytes(), &rest.concat()].concat()
    }

    fn ipv4(protocol: u8, fragment: u16) -> Vec<u8> {
        let mut header = vec![0; 20];
        (header[0], header[9]) = (0x45, protocol);
        header[6..8].copy_from_slice(&fragment.to_be_bytes());
        header
    }

    fn ipv6(next: u8) -> Vec<u8> {
        let mut header = vec![0; 40];
        (header[0], header[6]) = (0x60, next);
        header
    }

    #[test]
    fn payloads_begin_behind_the_transport() {
        let mut tcp = [0; 24];
        tcp[12] = 0x60;
        let about = Metadata::default();
        for (packet, expected) in [
            (ethernet(0x800, &[&ipv4(17, 0), &[0; 8]]), 42),
            (ethernet(0x800, &[&ipv4(6, 0), &tcp]), 58),
            (ethernet(0x800, &[&ipv4(6, 0)]), 34),
            (ethernet(0x800, &[&ipv4(17, 0x2000), &[0; 8]]), 42),
            (ethernet(0x800, &[&ipv4(17, 0x2001), &[0; 8]]), 34),
            (ethernet(0x800, &[&ipv4(4, 0), &ipv4(1, 0), &[0; 8]]), 62),
            (ethernet(0x8100, &[&[0, 5, 8, 0], &ipv4(132, 0), &[0; 12]]), 50),
            (ethernet(0x86dd, &[&ipv6(58), &[0; 8]]), 62),
            (ethernet(0x86dd, &[&ipv6(0), &[17, 0, 0, 0, 0, 0, 0, 0], &[0; 8]]), 70),
            (ethernet(0x86dd, &[&ipv6(44), &[17, 0, 0, 9, 0, 0, 0, 0], &[0; 8]]), 62),
            (ethernet(0x806, &[&[0; 28]]), 14),
            (ethernet(0x88b5, &[&[0; 28]]), 0),
            (ethernet(0x800, &[&[0x45; 10]]), 0),
        ] {
            let loaded = Ancillary::Payload.load(&packet, &about, 0, 0);
            assert_eq!(loaded, expected, "{packet:02x?}");
        }
        let tunnel = Metadata { hardware: 65_534, ..about };
        let packet = [ipv4(17, 0), vec![0; 8]].concat();
        assert_eq!(Ancillary::Payload.load(&packet, &tunnel, 0, 0), 28);
        assert_eq!(Ancillary::Protocol.load(&packet, &tunnel, 0, 0), IPV4);
    }

    #[test]
    fn a_length_in_the_place_of_a_type_has_types_that_stand_for_it() {
        let about = Metadata::default();
        for (packet, expected) in [
            (ethernet(0x88b5, &[&[0; 2]]), 0x88b5),
            (ethernet(40, &[&[0xff, 0xff]]), NOVELL),
            (ethernet(40, &[&[0xaa, 0xaa]]), LLC),
            (vec![0; 5], LLC),
        ] {
            assert_eq!(Ancillary::Protocol.load(&packet, &about, 0, 0), expected);
        }
    }

    #[test]
    fn attributes_are_found_by_their_type() {
        let attribute = |kind: u16, value: &[u8]| {
            let length = 4 + value.len() as u16;
            let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let inner = [attribute(1, &[9]), attribute(7, &[8, 8])].concat();
        let packet = [vec![0; 8], attribute(3, &[1, 2, 3]), attribute(5 | 0x8000, &inner)].concat();
        let about = Metadata::default();
        let find = |which: Ancillary, a, x| which.load(&packet, &about, a, x);
        assert_eq!(find(Ancillary::Attribute, 8, 3), 8);
        assert_eq!(find(Ancillary::Attribute, 8, 5), 16);
        assert_eq!(find(Ancillary::Attribute, 8, 7), 0);
        assert_eq!(find(Ancillary::NestedAttribute, 16, 7), 28);
        assert_eq!(find(Ancillary::NestedAttribute, 16, 3), 0);
        for nowhere in [packet.len() as u32, packet.len() as u32 - 2, u32::MAX] {
            assert_eq!(find(Ancillary::Attribute, nowhere, 3), 0);
            assert_eq!(find(Ancillary::NestedAttribute, nowhere, 3), 0);
        }
        // Longer than the packet.
        let cut = &packet[..packet.len() - 4];
        assert_eq!(Ancillary::Attribute.load(cut, &about, 8, 5), 0);
    }
}
