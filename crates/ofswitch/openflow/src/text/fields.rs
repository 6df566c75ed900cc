//! Names of fields in texts.
//!
//! A field has a name that is printed, others that are read, and those of its numbers
//! (`NXM_OF_ETH_SRC`), of which the first is printed where a part of it is named. Sources:
//! ovs-fields(7), and OpenFlow's specifications for fields that Open vSwitch does not have.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::error::{Fail, Parsed};
use crate::wire::{Field, Subfield};

/// Text form of a field's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Decimal,
    Hexadecimal,
    Ethernet,
    /// An address of IPv4 or IPv6.
    Address,
    Port,
    CtState,
    TcpFlags,
    TunnelFlags,
    Fragment,
    PacketType,
}

/// A field as texts have it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldName {
    pub(super) field: Field,
    /// Form of its values.
    pub(super) format: Format,
    /// The name that is printed, and others, with spaces between them.
    names: &'static str,
    /// The names of its numbers, with spaces between them.
    numbers: &'static str,
}

impl FieldName {
    /// The name that is printed.
    pub(super) fn name(&self) -> &'static str {
        self.names.split(' ').next().unwrap_or_default()
    }
}

macro_rules! known {
    ($($field:ident: $format:ident, $names:literal, $numbers:literal;)*) => {
        const KNOWN: &[FieldName] = &[$(FieldName {
            field: Field::$field,
            format: Format::$format,
            names: $names,
            numbers: $numbers,
        }),*];
    };
}

known! {
    InPort: Port, "in_port_oxm", "OXM_OF_IN_PORT";
    InPort16: Port, "in_port", "NXM_OF_IN_PORT";
    InPhyPort: Port, "in_phy_port", "OXM_OF_IN_PHY_PORT";
    Metadata: Hexadecimal, "metadata", "OXM_OF_METADATA";
    TunnelId: Hexadecimal, "tun_id tunnel_id", "NXM_NX_TUN_ID OXM_OF_TUNNEL_ID";
    TunnelIpv4Src: Address, "tun_src", "NXM_NX_TUN_IPV4_SRC";
    TunnelIpv4Dst: Address, "tun_dst", "NXM_NX_TUN_IPV4_DST";
    TunnelIpv6Src: Address, "tun_ipv6_src", "NXM_NX_TUN_IPV6_SRC";
    TunnelIpv6Dst: Address, "tun_ipv6_dst", "NXM_NX_TUN_IPV6_DST";
    TunnelFlags: TunnelFlags, "tun_flags", "NXM_NX_TUN_FLAGS";
    TunnelGbpId: Decimal, "tun_gbp_id", "NXM_NX_TUN_GBP_ID";
    TunnelGbpFlags: Hexadecimal, "tun_gbp_flags", "NXM_NX_TUN_GBP_FLAGS";
    PacketMark: Hexadecimal, "pkt_mark", "NXM_NX_PKT_MARK";
    ConjunctionId: Decimal, "conj_id", "NXM_NX_CONJ_ID";
    ActionSetOutput: Port, "actset_output", "ONFOXM_ET_ACTSET_OUTPUT OXM_OF_ACTSET_OUTPUT";
    PacketType: PacketType, "packet_type", "OXM_OF_PACKET_TYPE";
    Reg0: Hexadecimal, "reg0", "NXM_NX_REG0";
    Reg1: Hexadecimal, "reg1", "NXM_NX_REG1";
    Reg2: Hexadecimal, "reg2", "NXM_NX_REG2";
    Reg3: Hexadecimal, "reg3", "NXM_NX_REG3";
    Reg4: Hexadecimal, "reg4", "NXM_NX_REG4";
    Reg5: Hexadecimal, "reg5", "NXM_NX_REG5";
    Reg6: Hexadecimal, "reg6", "NXM_NX_REG6";
    Reg7: Hexadecimal, "reg7", "NXM_NX_REG7";
    Reg8: Hexadecimal, "reg8", "NXM_NX_REG8";
    Reg9: Hexadecimal, "reg9", "NXM_NX_REG9";
    Reg10: Hexadecimal, "reg10", "NXM_NX_REG10";
    Reg11: Hexadecimal, "reg11", "NXM_NX_REG11";
    Reg12: Hexadecimal, "reg12", "NXM_NX_REG12";
    Reg13: Hexadecimal, "reg13", "NXM_NX_REG13";
    Reg14: Hexadecimal, "reg14", "NXM_NX_REG14";
    Reg15: Hexadecimal, "reg15", "NXM_NX_REG15";
    Xreg0: Hexadecimal, "xreg0", "OXM_OF_PKT_REG0";
    Xreg1: Hexadecimal, "xreg1", "OXM_OF_PKT_REG1";
    Xreg2: Hexadecimal, "xreg2", "OXM_OF_PKT_REG2";
    Xreg3: Hexadecimal, "xreg3", "OXM_OF_PKT_REG3";
    Xreg4: Hexadecimal, "xreg4", "OXM_OF_PKT_REG4";
    Xreg5: Hexadecimal, "xreg5", "OXM_OF_PKT_REG5";
    Xreg6: Hexadecimal, "xreg6", "OXM_OF_PKT_REG6";
    Xreg7: Hexadecimal, "xreg7", "OXM_OF_PKT_REG7";
    Xxreg0: Hexadecimal, "xxreg0", "NXM_NX_XXREG0";
    Xxreg1: Hexadecimal, "xxreg1", "NXM_NX_XXREG1";
    Xxreg2: Hexadecimal, "xxreg2", "NXM_NX_XXREG2";
    Xxreg3: Hexadecimal, "xxreg3", "NXM_NX_XXREG3";
    CtState: CtState, "ct_state", "NXM_NX_CT_STATE";
    CtZone: Hexadecimal, "ct_zone", "NXM_NX_CT_ZONE";
    CtMark: Hexadecimal, "ct_mark", "NXM_NX_CT_MARK";
    CtLabel: Hexadecimal, "ct_label", "NXM_NX_CT_LABEL";
    CtProto: Decimal, "ct_nw_proto", "NXM_NX_CT_NW_PROTO";
    CtIpv4Src: Address, "ct_nw_src", "NXM_NX_CT_NW_SRC";
    CtIpv4Dst: Address, "ct_nw_dst", "NXM_NX_CT_NW_DST";
    CtIpv6Src: Address, "ct_ipv6_src", "NXM_NX_CT_IPV6_SRC";
    CtIpv6Dst: Address, "ct_ipv6_dst", "NXM_NX_CT_IPV6_DST";
    CtTpSrc: Decimal, "ct_tp_src", "NXM_NX_CT_TP_SRC";
    CtTpDst: Decimal, "ct_tp_dst", "NXM_NX_CT_TP_DST";
    EthDst: Ethernet, "eth_dst dl_dst", "NXM_OF_ETH_DST OXM_OF_ETH_DST";
    EthSrc: Ethernet, "eth_src dl_src", "NXM_OF_ETH_SRC OXM_OF_ETH_SRC";
    EthType: Hexadecimal, "eth_type dl_type", "NXM_OF_ETH_TYPE OXM_OF_ETH_TYPE";
    VlanTci: Hexadecimal, "vlan_tci", "NXM_OF_VLAN_TCI";
    VlanVid: Decimal, "vlan_vid", "OXM_OF_VLAN_VID";
    VlanPcp: Decimal, "vlan_pcp", "OXM_OF_VLAN_PCP";
    MplsLabel: Decimal, "mpls_label", "OXM_OF_MPLS_LABEL";
    MplsTc: Decimal, "mpls_tc", "OXM_OF_MPLS_TC";
    MplsBos: Decimal, "mpls_bos", "OXM_OF_MPLS_BOS";
    MplsTtl: Decimal, "mpls_ttl", "NXM_NX_MPLS_TTL";
    PbbIsid: Hexadecimal, "pbb_isid", "OXM_OF_PBB_ISID";
    PbbUca: Decimal, "pbb_uca", "OXM_OF_PBB_UCA";
    NshFlags: Decimal, "nsh_flags", "NXOXM_NSH_FLAGS";
    NshTtl: Decimal, "nsh_ttl", "NXOXM_NSH_TTL";
    NshMdType: Decimal, "nsh_mdtype", "NXOXM_NSH_MDTYPE";
    NshNp: Decimal, "nsh_np", "NXOXM_NSH_NP";
    NshSpi: Hexadecimal, "nsh_spi nsp", "NXOXM_NSH_SPI";
    NshSi: Decimal, "nsh_si nsi", "NXOXM_NSH_SI";
    NshC1: Hexadecimal, "nsh_c1 nshc1", "NXOXM_NSH_C1";
    NshC2: Hexadecimal, "nsh_c2 nshc2", "NXOXM_NSH_C2";
    NshC3: Hexadecimal, "nsh_c3 nshc3", "NXOXM_NSH_C3";
    NshC4: Hexadecimal, "nsh_c4 nshc4", "NXOXM_NSH_C4";
    IpDscp: Decimal, "ip_dscp nw_tos_shifted", "OXM_OF_IP_DSCP";
    IpTos: Decimal, "nw_tos", "NXM_OF_IP_TOS";
    IpEcn: Decimal, "nw_ecn ip_ecn", "NXM_NX_IP_ECN OXM_OF_IP_ECN";
    IpProto: Decimal, "nw_proto ip_proto", "NXM_OF_IP_PROTO OXM_OF_IP_PROTO";
    IpTtl: Decimal, "nw_ttl ip_ttl", "NXM_NX_IP_TTL";
    IpFrag: Fragment, "ip_frag nw_frag", "NXM_NX_IP_FRAG";
    Ipv4Src: Address, "ip_src nw_src ipv4_src", "NXM_OF_IP_SRC OXM_OF_IPV4_SRC";
    Ipv4Dst: Address, "ip_dst nw_dst ipv4_dst", "NXM_OF_IP_DST OXM_OF_IPV4_DST";
    Ipv6Src: Address, "ipv6_src", "NXM_NX_IPV6_SRC OXM_OF_IPV6_SRC";
    Ipv6Dst: Address, "ipv6_dst", "NXM_NX_IPV6_DST OXM_OF_IPV6_DST";
    Ipv6Label: Hexadecimal, "ipv6_label ipv6_flabel", "NXM_NX_IPV6_LABEL OXM_OF_IPV6_FLABEL";
    Ipv6Extensions: Hexadecimal, "ipv6_exthdr", "OXM_OF_IPV6_EXTHDR";
    ArpOp: Decimal, "arp_op", "NXM_OF_ARP_OP OXM_OF_ARP_OP";
    ArpSpa: Address, "arp_spa", "NXM_OF_ARP_SPA OXM_OF_ARP_SPA";
    ArpTpa: Address, "arp_tpa", "NXM_OF_ARP_TPA OXM_OF_ARP_TPA";
    ArpSha: Ethernet, "arp_sha", "NXM_NX_ARP_SHA OXM_OF_ARP_SHA";
    ArpTha: Ethernet, "arp_tha", "NXM_NX_ARP_THA OXM_OF_ARP_THA";
    TcpSrc: Decimal, "tcp_src tp_src", "NXM_OF_TCP_SRC OXM_OF_TCP_SRC";
    TcpDst: Decimal, "tcp_dst tp_dst", "NXM_OF_TCP_DST OXM_OF_TCP_DST";
    TcpFlags: TcpFlags, "tcp_flags", "NXM_NX_TCP_FLAGS ONFOXM_ET_TCP_FLAGS OXM_OF_TCP_FLAGS";
    UdpSrc: Decimal, "udp_src", "NXM_OF_UDP_SRC OXM_OF_UDP_SRC";
    UdpDst: Decimal, "udp_dst", "NXM_OF_UDP_DST OXM_OF_UDP_DST";
    SctpSrc: Decimal, "sctp_src", "OXM_OF_SCTP_SRC";
    SctpDst: Decimal, "sctp_dst", "OXM_OF_SCTP_DST";
    Icmpv4Type: Decimal, "icmp_type icmpv4_type", "NXM_OF_ICMP_TYPE OXM_OF_ICMPV4_TYPE";
    Icmpv4Code: Decimal, "icmp_code icmpv4_code", "NXM_OF_ICMP_CODE OXM_OF_ICMPV4_CODE";
    Icmpv6Type: Decimal, "icmpv6_type", "NXM_NX_ICMPV6_TYPE OXM_OF_ICMPV6_TYPE";
    Icmpv6Code: Decimal, "icmpv6_code", "NXM_NX_ICMPV6_CODE OXM_OF_ICMPV6_CODE";
    NdTarget: Address, "nd_target ipv6_nd_target", "NXM_NX_ND_TARGET OXM_OF_IPV6_ND_TARGET";
    NdSll: Ethernet, "nd_sll ipv6_nd_sll", "NXM_NX_ND_SLL OXM_OF_IPV6_ND_SLL";
    NdTll: Ethernet, "nd_tll ipv6_nd_tll", "NXM_NX_ND_TLL OXM_OF_IPV6_ND_TLL";
}

static BY_NAME: LazyLock<HashMap<&'static str, &'static FieldName>> = LazyLock::new(|| {
    let names = |known: &'static FieldName| known.names.split(' ').chain(known.numbers.split(' '));
    KNOWN.iter().flat_map(|known| names(known).map(move |name| (name, known))).collect()
});

/// The field with a name.
pub(super) fn by_name(name: &str) -> Option<&'static FieldName> {
    BY_NAME.get(name).copied()
}

/// Returns the name and form of a field in texts.
pub(super) fn for_field(field: Field) -> &'static FieldName {
    static BY_FIELD: LazyLock<Vec<&'static FieldName>> = LazyLock::new(|| {
        let find = |&field: &Field| KNOWN.iter().find(|known| known.field == field);
        Field::ALL.iter().map(|field| find(field).expect("every field has a name")).collect()
    });
    BY_FIELD[field as usize]
}

/// The names fields have, for suggestions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().flat_map(|known| known.names.split(' '))
}

/// Returns the field with a name, independent of a match.
pub(super) fn field(text: &str) -> Parsed<'_, &'static FieldName> {
    by_name(text).ok_or_else(|| Fail::unknown(text, "field", names()))
}

/// A field or a part of one: `reg0`, `reg0[]`, `reg0[3]`, `reg0[0..15]`.
pub(super) fn subfield(text: &str) -> Parsed<'_, Subfield> {
    let Some((name, part)) = text.split_once('[') else {
        return Ok(Subfield::whole(field(text)?.field));
    };
    let field = field(name)?.field;
    let wrong = || {
        Fail::new(text, "not a part of a field")
            .help(format!("{name}[], {name}[3] or {name}[0..15]"))
    };
    let bits = part.strip_suffix(']').ok_or_else(wrong)?;
    if bits.is_empty() {
        return Ok(Subfield::whole(field));
    }
    let number = |text: &str| text.parse::<u16>().map_err(|_| wrong());
    let (first, last) = match bits.split_once("..") {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(bits)?, number(bits)?),
    };
    if last < first {
        return Err(Fail::new(text, "the last bit is before the first"));
    }
    let part = last.checked_sub(first).and_then(|bits| bits.checked_add(1));
    part.and_then(|bits| Subfield::new(field, first, bits)).ok_or_else(|| {
        Fail::new(
            text,
            format!("{name} has {} bits, the last is bit {}", field.bits(), field.bits() - 1),
        )
    })
}

pub(super) fn print_subfield(part: Subfield) -> String {
    let name = for_field(part.field()).numbers.split(' ').next().unwrap_or_default();
    let (first, bits) = (part.offset(), part.bits());
    if u32::from(bits) == part.field().bits() {
        format!("{name}[]")
    } else if bits == 1 {
        format!("{name}[{first}]")
    } else {
        format!("{name}[{first}..{}]", first + bits - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names_of_their_own() {
        let mut count = 0;
        for &field in Field::ALL {
            let known = for_field(field);
            assert_eq!(known.field, field);
            for name in known.names.split(' ').chain(known.numbers.split(' ')) {
                assert_eq!(by_name(name).map(|known| known.field), Some(field), "{name}");
                count += 1;
            }
            let name = field.name();
            let same = by_name(name).map(|known| known.field);
            // The narrow one has the usual name, and the wide one OpenFlow's.
            let others = ["in_port", "in_port_16", "ip_tos"];
            assert!(same == Some(field) || others.contains(&name), "{name}");
        }
        assert_eq!(BY_NAME.len(), count);
    }

    #[test]
    fn parts_of_fields_are_read_as_printed() {
        for text in ["NXM_NX_REG3[]", "NXM_OF_VLAN_TCI[0..11]", "NXM_NX_CT_LABEL[127]"] {
            assert_eq!(print_subfield(subfield(text).unwrap()), text);
        }
        assert_eq!(subfield("reg3").unwrap(), Subfield::whole(Field::Reg3));
        for text in ["reg3[32]", "reg3[3..2]", "reg3[", "reg3[x]", "reg3[1..]", "rag3[]"] {
            assert!(subfield(text).is_err(), "{text}");
        }
    }
}
