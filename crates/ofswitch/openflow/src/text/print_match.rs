//! Matches, as texts: in the order, and with the names, that Open vSwitch has.

use super::fields;
use super::names::Names;
use super::value;
use crate::wire::matching::VLAN_PRESENT;
use crate::wire::{Entry, Field, Match};

/// Fields before the word for the protocol.
const FIRST: [Field; 16] = [
    Field::PacketMark,
    Field::ConjunctionId,
    Field::ActionSetOutput,
    Field::CtState,
    Field::CtZone,
    Field::CtMark,
    Field::CtLabel,
    Field::CtIpv4Src,
    Field::CtIpv6Src,
    Field::CtIpv4Dst,
    Field::CtIpv6Dst,
    Field::CtProto,
    Field::CtTpSrc,
    Field::CtTpDst,
    Field::PacketType,
    Field::InPhyPort,
];

/// Fields behind it and behind registers, before tags.
const BEFORE_TAGS: [Field; 10] = [
    Field::TunnelId,
    Field::TunnelIpv4Src,
    Field::TunnelIpv4Dst,
    Field::TunnelIpv6Src,
    Field::TunnelIpv6Dst,
    Field::TunnelGbpId,
    Field::TunnelGbpFlags,
    Field::TunnelFlags,
    Field::Metadata,
    Field::InPort,
];

/// Fields behind the addresses of Ethernet.
const LAST: [Field; 47] = [
    Field::NshFlags,
    Field::NshTtl,
    Field::NshMdType,
    Field::NshNp,
    Field::NshSpi,
    Field::NshSi,
    Field::NshC1,
    Field::NshC2,
    Field::NshC3,
    Field::NshC4,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Label,
    Field::Ipv6Extensions,
    Field::ArpSpa,
    Field::ArpTpa,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::ArpOp,
    Field::ArpSha,
    Field::ArpTha,
    Field::IpDscp,
    Field::IpTos,
    Field::IpEcn,
    Field::IpTtl,
    Field::MplsLabel,
    Field::MplsTc,
    Field::MplsTtl,
    Field::MplsBos,
    Field::PbbIsid,
    Field::PbbUca,
    Field::IpFrag,
    Field::Icmpv4Type,
    Field::Icmpv4Code,
    Field::Icmpv6Type,
    Field::Icmpv6Code,
    Field::NdTarget,
    Field::NdSll,
    Field::NdTll,
    Field::TcpSrc,
    Field::TcpDst,
    Field::UdpSrc,
    Field::UdpDst,
    Field::SctpSrc,
    Field::SctpDst,
    Field::TcpFlags,
    Field::InPort16,
];

/// The name a field has in matches.
fn name(field: Field) -> &'static str {
    match field {
        Field::InPort | Field::InPort16 => "in_port",
        Field::EthSrc => "dl_src",
        Field::EthDst => "dl_dst",
        Field::EthType => "dl_type",
        Field::Ipv4Src => "nw_src",
        Field::Ipv4Dst => "nw_dst",
        Field::IpDscp => "nw_tos",
        Field::IpFrag => "nw_frag",
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => "tp_src",
        Field::TcpDst | Field::UdpDst | Field::SctpDst => "tp_dst",
        Field::Icmpv6Type => "icmp_type",
        Field::Icmpv6Code => "icmp_code",
        field => fields::for_field(field).name(),
    }
}

/// The parts of a match, with commas between them.
pub(super) fn print(matching: &Match, names: &Names) -> String {
    let mut parts: Vec<String> = Vec::new();
    let put = |parts: &mut Vec<String>, fields: &[Field]| {
        for &field in fields {
            if let Some(entry) = matching.get(field) {
                parts.push(format!("{}={}", name(field), print_value(entry, names)));
            }
        }
    };
    put(&mut parts, &FIRST);
    let (word, rest) = protocol(matching);
    parts.extend(word.map(str::to_owned));
    let registers = |entry: &&Entry| entry.field().registers() != 0;
    let mut registers: Vec<Field> =
        matching.entries().filter(registers).map(Entry::field).collect();
    registers.sort_unstable();
    put(&mut parts, &registers);
    put(&mut parts, &BEFORE_TAGS);
    print_tag(matching, &mut parts);
    put(&mut parts, &[Field::EthSrc, Field::EthDst]);
    if word.is_none() {
        put(&mut parts, &[Field::EthType]);
    }
    if let Some(protocol) = rest {
        // It comes behind the addresses.
        let at = LAST.iter().position(|&field| field == Field::ArpOp).unwrap_or_default();
        put(&mut parts, &LAST[..at]);
        parts.push(format!("nw_proto={protocol}"));
        put(&mut parts, &LAST[at..]);
    } else {
        put(&mut parts, &LAST);
    }
    parts.join(",")
}

fn print_value(entry: &Entry, names: &Names) -> String {
    let known = fields::for_field(entry.field());
    match entry.field() {
        Field::IpDscp => (entry.value() << 2).to_string(),
        Field::NshFlags if !entry.is_exact() => {
            format!("{:#04x}/{:#04x}", entry.value(), entry.mask())
        }
        _ => value::print(known, entry.value(), entry.mask(), names),
    }
}

/// Returns the word for the type of packets, and the protocol of IP where the word does not imply
/// it.
fn protocol(matching: &Match) -> (Option<&'static str>, Option<u128>) {
    let carried = matching.exact(Field::IpProto);
    let word = match (matching.exact(Field::EthType), carried) {
        (Some(0x0800), Some(1)) => "icmp",
        (Some(0x0800), Some(6)) => "tcp",
        (Some(0x0800), Some(17)) => "udp",
        (Some(0x0800), Some(132)) => "sctp",
        (Some(0x86dd), Some(6)) => "tcp6",
        (Some(0x86dd), Some(17)) => "udp6",
        (Some(0x86dd), Some(58)) => "icmp6",
        (Some(0x86dd), Some(132)) => "sctp6",
        (Some(0x0800), _) => return (Some("ip"), carried),
        (Some(0x86dd), _) => return (Some("ipv6"), carried),
        (Some(0x0806), _) => "arp",
        (Some(0x8035), _) => "rarp",
        (Some(0x8847), _) => "mpls",
        (Some(0x8848), _) => "mplsm",
        _ => return (None, carried),
    };
    (Some(word), None)
}

fn print_tag(matching: &Match, parts: &mut Vec<String>) {
    if let Some(tag) = matching.get(Field::VlanTci) {
        parts.push(if tag.is_exact() {
            format!("vlan_tci={:#06x}", tag.value())
        } else {
            format!("vlan_tci={:#06x}/{:#06x}", tag.value(), tag.mask())
        });
    }
    let priority = matching.exact(Field::VlanPcp);
    let Some(number) = matching.get(Field::VlanVid) else { return };
    let (value, mask) = (number.value(), number.mask());
    if number.is_exact() && value == 0 && priority.is_none() {
        parts.push("vlan_tci=0x0000".to_owned());
        return;
    }
    let tagged = value & VLAN_PRESENT != 0;
    if tagged && number.is_exact() {
        parts.push(format!("dl_vlan={}", value & 0xfff));
    } else if !tagged || mask != VLAN_PRESENT || priority.is_none() {
        let (class, under) = priority.map_or((0, 0), |class| (class << 13, 0xe000));
        parts.push(format!("vlan_tci={:#06x}/{:#06x}", value | class, mask | under));
        return;
    }
    if let Some(priority) = priority {
        parts.push(format!("dl_vlan_pcp={priority}"));
    }
}
