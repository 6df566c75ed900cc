//! Comparison with Open vSwitch's extraction, printed by `ovs-ofctl parse-pcap`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;

use linerate_ofswitch::key::{INNER_TCI, Key, extract};
use linerate_ofswitch::pipeline::Step;
use linerate_openflow::wire::{Field, VLAN_PRESENT};

use crate::generate::{Random, damaged, packet};
use crate::pcap;

#[test]
#[ignore = "needs ovs-ofctl"]
fn open_vswitch_reads_the_same() {
    let program = linerate_test_support::require("ovs-ofctl");
    let mut random = Random::new(5);
    let packets: Vec<Vec<u8>> = (0..20_000)
        .map(|nth| if nth % 2 == 0 { packet(&mut random) } else { damaged(&mut random) })
        .collect();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("packets.pcap");
    pcap::write(&file, &packets);
    let output = Command::new(program).arg("parse-pcap").arg(&file).output();
    let output = output.expect("ovs-ofctl runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().count(), packets.len());
    let mut seen = BTreeMap::new();
    for (packet, line) in packets.iter().zip(text.lines()) {
        for name in compare(packet, line) {
            *seen.entry(name).or_insert(0) += 1;
        }
    }
    // Everything was there often.
    assert!(seen.len() >= 30 && seen.values().all(|&times| times > 50), "{seen:?}");
}

/// Compares the printed fields with ours, and returns their names.
fn compare<'a>(packet: &[u8], line: &'a str) -> Vec<&'a str> {
    let told = || format!("{line} {packet:02x?}");
    let mut key = Key::default();
    extract(packet, &mut key);
    let mut printed = BTreeMap::new();
    let mut kind = None;
    for part in line.split(',') {
        match part.split_once('=') {
            Some((name, value)) => _ = printed.insert(name, value),
            None => kind = Some(part),
        }
    }
    // The program reads two tags where a switch reads one: the inner is that of the rest without
    // the outer.
    let tag = |name, other: &str, priority| match (printed.get(name), printed.get(other)) {
        (Some(tci), None) => number(tci),
        (None, Some(vid)) => VLAN_PRESENT | number(vid) | number(printed[priority]) << 13,
        both => panic!("{both:?}: {}", told()),
    };
    assert_eq!(key.get(Field::VlanTci), tag("vlan_tci", "dl_vlan", "dl_vlan_pcp"), "{}", told());
    if printed.contains_key("dl_vlan1") {
        let inner = u128::from(key.words()[INNER_TCI.word] >> INNER_TCI.shift & 0xffff);
        let vlan = tag("vlan_tci1", "dl_vlan1", "dl_vlan_pcp1");
        assert_eq!(inner, vlan, "{}", told());
        let mut inside = packet.to_vec();
        Step::PopVlan.apply(&mut inside);
        extract(&inside, &mut key);
    }
    let ethernet = key.get(Field::EthType);
    if let Some(kind) = kind {
        let (types, protocol): (&[u128], _) = match kind {
            "ip" => (&[0x0800], None),
            "tcp" => (&[0x0800], Some(6)),
            "udp" => (&[0x0800], Some(17)),
            "sctp" => (&[0x0800], Some(132)),
            "icmp" => (&[0x0800], Some(1)),
            "ipv6" => (&[0x86dd], None),
            "tcp6" => (&[0x86dd], Some(6)),
            "udp6" => (&[0x86dd], Some(17)),
            "sctp6" => (&[0x86dd], Some(132)),
            "icmp6" => (&[0x86dd], Some(58)),
            "arp" => (&[0x0806], None),
            "rarp" => (&[0x8035], None),
            "mpls" => (&[0x8847], None),
            "mplsm" => (&[0x8848], None),
            other => panic!("{other}: {}", told()),
        };
        assert!(types.contains(&ethernet), "{ethernet:04x}: {}", told());
        if let Some(protocol) = protocol {
            assert_eq!(key.get(Field::IpProto), protocol, "{}", told());
        }
    }
    for (&name, &value) in &printed {
        let field = match name {
            "dl_type" => Field::EthType,
            "dl_src" => Field::EthSrc,
            "dl_dst" => Field::EthDst,
            "nw_src" => Field::Ipv4Src,
            "nw_dst" => Field::Ipv4Dst,
            "arp_spa" => Field::ArpSpa,
            "arp_tpa" => Field::ArpTpa,
            "arp_op" => Field::ArpOp,
            "arp_sha" => Field::ArpSha,
            "arp_tha" => Field::ArpTha,
            "ipv6_src" => Field::Ipv6Src,
            "ipv6_dst" => Field::Ipv6Dst,
            "ipv6_label" => Field::Ipv6Label,
            "nw_proto" => Field::IpProto,
            "nw_ecn" => Field::IpEcn,
            "nw_ttl" => Field::IpTtl,
            "nw_frag" => Field::IpFrag,
            "icmp_type" => Field::Icmpv4Type,
            "icmp_code" => Field::Icmpv4Code,
            "tp_src" => Field::TcpSrc,
            "tp_dst" => Field::TcpDst,
            "tcp_flags" => Field::TcpFlags,
            "nd_target" => Field::NdTarget,
            "nd_sll" => Field::NdSll,
            "nd_tll" => Field::NdTll,
            "mpls_label" => Field::MplsLabel,
            "mpls_tc" => Field::MplsTc,
            "mpls_bos" => Field::MplsBos,
            "mpls_ttl" => Field::MplsTtl,
            "nsh_flags" => Field::NshFlags,
            "nsh_ttl" => Field::NshTtl,
            "nsh_mdtype" => Field::NshMdType,
            "nsh_np" => Field::NshNp,
            "nsh_spi" => Field::NshSpi,
            "nsh_si" => Field::NshSi,
            "nsh_c1" => Field::NshC1,
            "nsh_c2" => Field::NshC2,
            "nsh_c3" => Field::NshC3,
            "nsh_c4" => Field::NshC4,
            "nw_tos" => {
                let tos = key.get(Field::IpTos) & !3;
                assert_eq!(tos, number(value), "{}", told());
                continue;
            }
            "in_port" | "vlan_tci" | "dl_vlan" | "dl_vlan_pcp" | "vlan_tci1" | "dl_vlan1"
            | "dl_vlan_pcp1" | "mpls_lse1" | "mpls_lse2" => continue,
            other => panic!("{other}: {}", told()),
        };
        // IGMP has no fields in OpenFlow.
        if printed.get("nw_proto") == Some(&"2") && name.starts_with("tp_") {
            continue;
        }
        assert_eq!(key.get(field), parse(name, value), "{name}: {}", told());
    }
    // Fields that are not printed are absent.
    if !line.contains("tp_src") && !line.contains("icmp_type") {
        assert_eq!(key.words()[5] >> 16, 0, "{}", told());
    }
    let odd = line.contains("nw_proto=58");
    if !odd && !line.contains("nd_target") && !line.contains("arp_sha") {
        assert_eq!(key.words()[11..15], [0; 4], "{}", told());
    }
    let addressed = ["nw_src", "arp_spa", "nsh_spi"].iter().any(|name| line.contains(name));
    if !addressed {
        assert_eq!(key.words()[4], 0, "{}", told());
    }
    printed.into_keys().chain(kind).collect()
}

fn parse(name: &str, value: &str) -> u128 {
    match name {
        "nw_frag" => match value {
            "no" => 0,
            "first" => 1,
            "later" => 3,
            other => panic!("{other}"),
        },
        "tcp_flags" => {
            const NAMES: [&str; 9] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns"];
            let bit = |name: &str| match NAMES.iter().position(|other| *other == name) {
                Some(nth) => 1 << nth,
                None => number(&format!("0x{}", name.trim_matches(['[', ']']))),
            };
            if value == "0" { 0 } else { value.split('|').map(bit).sum() }
        }
        _ if value.contains("::") || value.matches(':').count() == 7 => {
            value.parse::<Ipv6Addr>().expect("an address").to_bits()
        }
        _ if value.contains(':') => {
            value.split(':').fold(0, |sum, byte| sum << 8 | number(&format!("0x{byte}")))
        }
        _ if value.contains('.') => value.parse::<Ipv4Addr>().expect("an address").to_bits().into(),
        _ => number(value),
    }
}

fn number(text: &str) -> u128 {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|error| panic!("{text}: {error}"))
}
