//! Composition of a packet from a key: its headers, in the shortest form, without data.

use linerate_packet::checksum::checksum;

use super::extract::{
    ARP, ARP_OF_IPV4, BACKBONE, FRAGMENT, FRAGMENT_HEADER, ICMP, ICMPV6, IPV4, IPV6,
    LATER_FRAGMENT, MPLS, MPLS_MULTICAST, NO_TYPE, NSH, RARP, SCTP, SERVICE_VLAN, TCP, UDP, VLAN,
};
use super::{INNER_TCI, Key};
use crate::wire::{Field, VLAN_PRESENT};

/// Ethernet's least, without its checksum.
const SHORTEST: usize = 60;

/// The bytes of a packet with these fields; those of headers it cannot have are left out. Checksums
/// but that of IPv4 are zero.
#[must_use]
pub fn compose(key: &Key) -> Vec<u8> {
    let mut packet = Vec::with_capacity(128);
    put(&mut packet, key, Field::EthDst, 6);
    put(&mut packet, key, Field::EthSrc, 6);
    let tci = key.get(Field::VlanTci);
    if tci & VLAN_PRESENT != 0 {
        packet.extend(VLAN.to_be_bytes());
        packet.extend(((tci & !VLAN_PRESENT) as u16).to_be_bytes());
    }
    let kind = key.get(Field::EthType) as u16;
    // A frame without a type has a length there.
    let written = if kind == NO_TYPE { 46 } else { kind };
    packet.extend(written.to_be_bytes());
    match kind {
        IPV4 => ipv4(&mut packet, key),
        IPV6 => ipv6(&mut packet, key),
        ARP | RARP => arp(&mut packet, key),
        VLAN | SERVICE_VLAN => {
            let tci = (key.words()[INNER_TCI.word] >> INNER_TCI.shift) as u16;
            packet.extend((tci & !(VLAN_PRESENT as u16)).to_be_bytes());
        }
        BACKBONE => {
            let service = key.get(Field::PbbIsid) as u32 | (key.get(Field::PbbUca) as u32) << 27;
            packet.extend(service.to_be_bytes());
        }
        MPLS | MPLS_MULTICAST => {
            let get = |field| key.get(field) as u32;
            let entry = get(Field::MplsLabel) << 12
                | get(Field::MplsTc) << 9
                | get(Field::MplsBos) << 8
                | get(Field::MplsTtl);
            packet.extend(entry.to_be_bytes());
        }
        NSH => nsh(&mut packet, key),
        _ => {}
    }
    packet.resize(packet.len().max(SHORTEST), 0);
    packet
}

/// The last bytes of a field's value.
fn put(packet: &mut Vec<u8>, key: &Key, field: Field, bytes: usize) {
    packet.extend(&key.get(field).to_be_bytes()[16 - bytes..]);
}

/// The flags of a fragment, and where it begins: the first, or one behind it.
fn fragment(key: &Key, more: u16, first_unit: u16) -> u16 {
    let fragment = key.get(Field::IpFrag) as u64;
    match (fragment & FRAGMENT != 0, fragment & LATER_FRAGMENT != 0) {
        (false, _) => 0,
        (true, false) => more,
        (true, true) => first_unit,
    }
}

fn ipv4(packet: &mut Vec<u8>, key: &Key) {
    let at = packet.len();
    packet.extend([0x45]);
    put(packet, key, Field::IpTos, 1);
    packet.extend([0; 4]);
    packet.extend(fragment(key, 0x2000, 1).to_be_bytes());
    put(packet, key, Field::IpTtl, 1);
    put(packet, key, Field::IpProto, 1);
    packet.extend([0, 0]);
    put(packet, key, Field::Ipv4Src, 4);
    put(packet, key, Field::Ipv4Dst, 4);
    transport(packet, key, false);
    let length = (packet.len() - at) as u16;
    packet[at + 2..at + 4].copy_from_slice(&length.to_be_bytes());
    let sum = checksum(&packet[at..at + 20]);
    packet[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
}

fn ipv6(packet: &mut Vec<u8>, key: &Key) {
    let at = packet.len();
    let class = key.get(Field::IpTos) as u32;
    packet.extend((6 << 28 | class << 20 | key.get(Field::Ipv6Label) as u32).to_be_bytes());
    packet.extend([0, 0]);
    let word = fragment(key, 1, 8);
    if word == 0 {
        put(packet, key, Field::IpProto, 1);
    } else {
        packet.push(FRAGMENT_HEADER);
    }
    put(packet, key, Field::IpTtl, 1);
    put(packet, key, Field::Ipv6Src, 16);
    put(packet, key, Field::Ipv6Dst, 16);
    if word != 0 {
        put(packet, key, Field::IpProto, 1);
        packet.push(0);
        packet.extend(word.to_be_bytes());
        packet.extend([0; 4]);
    }
    transport(packet, key, true);
    let length = (packet.len() - at - 40) as u16;
    packet[at + 4..at + 6].copy_from_slice(&length.to_be_bytes());
}

fn transport(packet: &mut Vec<u8>, key: &Key, v6: bool) {
    if key.get(Field::IpFrag) as u64 & LATER_FRAGMENT != 0 {
        return packet.extend([0; 8]);
    }
    let protocol = key.get(Field::IpProto) as u8;
    let at = packet.len();
    let is_message = protocol == if v6 { ICMPV6 } else { ICMP };
    if is_message {
        put(packet, key, Field::Icmpv4Type, 1);
        put(packet, key, Field::Icmpv4Code, 1);
        packet.extend([0; 6]);
    } else if matches!(protocol, TCP | UDP | SCTP) {
        put(packet, key, Field::TcpSrc, 2);
        put(packet, key, Field::TcpDst, 2);
    }
    match protocol {
        TCP => {
            packet.extend([0; 8]);
            packet.extend((0x5000 | key.get(Field::TcpFlags) as u16).to_be_bytes());
            packet.extend([0; 6]);
        }
        UDP => packet.extend([0, 8, 0, 0]),
        SCTP => packet.extend([0; 8]),
        ICMPV6 if is_message && matches!(packet[at], 135 | 136) => {
            put(packet, key, Field::NdTarget, 16);
            for (option, field) in [(1, Field::NdSll), (2, Field::NdTll)] {
                if key.get(field) != 0 {
                    packet.extend([option, 1]);
                    put(packet, key, field, 6);
                }
            }
        }
        _ => {}
    }
}

fn arp(packet: &mut Vec<u8>, key: &Key) {
    packet.extend(ARP_OF_IPV4);
    put(packet, key, Field::ArpOp, 2);
    put(packet, key, Field::ArpSha, 6);
    put(packet, key, Field::ArpSpa, 4);
    put(packet, key, Field::ArpTha, 6);
    put(packet, key, Field::ArpTpa, 4);
}

/// Appends a network service header, with metadata of type 1 only.
fn nsh(packet: &mut Vec<u8>, key: &Key) {
    let get = |field| key.get(field) as u16;
    let context = get(Field::NshMdType) == 1;
    let words = if context { 6 } else { 2 };
    let base = (get(Field::NshFlags) & 3) << 12 | (get(Field::NshTtl) & 0x3f) << 6 | words;
    packet.extend(base.to_be_bytes());
    put(packet, key, Field::NshMdType, 1);
    put(packet, key, Field::NshNp, 1);
    put(packet, key, Field::NshSpi, 3);
    put(packet, key, Field::NshSi, 1);
    if context {
        for field in [Field::NshC1, Field::NshC2, Field::NshC3, Field::NshC4] {
            put(packet, key, field, 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;
    use crate::text::Syntax;
    use crate::wire::Version;

    /// A composed packet has the fields that it was composed of.
    #[test]
    fn packets_have_the_fields_they_were_made_of() {
        let packets = [
            "dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,dl_type=0x1234",
            "dl_vlan=7,dl_vlan_pcp=5,ip,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_proto=47,nw_ttl=9",
            "tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_tos=184,nw_ecn=1,nw_ttl=64,tp_src=1,tp_dst=2,\
             tcp_flags=+syn",
            "udp,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,tp_src=5,tp_dst=6",
            "sctp,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,tp_src=5,tp_dst=6",
            "icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,icmp_type=8,icmp_code=0",
            "tcp6,ipv6_src=2001:db8::1,ipv6_dst=2001:db8::2,ipv6_label=0x12345,nw_ttl=3,tp_src=9,\
             tp_dst=10",
            "icmp6,ipv6_src=fe80::1,ipv6_dst=fe80::2,nw_ttl=255,icmp_type=135,icmp_code=0,\
             nd_target=fe80::2,nd_sll=02:00:00:00:00:09",
            "udp,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,ip_frag=first,tp_src=5,tp_dst=6",
            "udp,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,ip_frag=later",
            "arp,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.2,arp_sha=02:00:00:00:00:01",
            "mpls,mpls_label=16,mpls_tc=3,mpls_bos=1,mpls_ttl=64",
            "dl_type=0x894f,nsh_flags=2,nsh_ttl=63,nsh_mdtype=1,nsh_np=3,nsh_spi=0x123456,\
             nsh_si=255,nsh_c1=0x11223344,nsh_c2=5,nsh_c3=6,nsh_c4=7",
            "dl_type=0x894f,nsh_ttl=7,nsh_mdtype=2,nsh_np=1,nsh_spi=5,nsh_si=3",
        ];
        let syntax = Syntax::new(Version::V15);
        for text in packets {
            let (said, _) = key::of_match(&syntax.matching(text).expect(text));
            let mut found = Key::default();
            key::extract(&compose(&said), &mut found);
            assert_eq!(found.words(), said.words(), "{text}");
        }
    }
}
