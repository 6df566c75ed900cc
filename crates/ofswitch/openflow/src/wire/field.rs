//! The fields of packets: their properties and numbers.
//!
//! A field may have several numbers: OpenFlow's, an extension's, and the one Nicira's format had
//! before. They are one field here, except where a number has fewer bits than another: then the
//! narrower is a field of its own in actions (`InPort16`, `IpTos`, `VlanTci`), and in a match it
//! becomes the wider.
//!
//! Sources: OpenFlow 1.3.5 section 7.2.3.8, 1.5.1 section 7.2.3.8, ONF extensions 109 and 233 and
//! Open vSwitch's manual page ovs-fields(7). There are no fields for options of Geneve
//! (`tun_metadata`), for ERSPAN and GTP-U, and no registers above 15.

use super::fault::ONF;
use super::version::Version;

/// The class of OpenFlow's own fields.
pub(crate) const BASIC: u16 = 0x8000;
/// The class of registers of 64 bits.
const REGISTERS: u16 = 0x8001;
/// The class of experimenters' fields.
pub(crate) const EXPERIMENTER: u16 = 0xffff;
/// The experimenter of Open vSwitch's fields of network service headers.
const NSH: u32 = 0x005a_d650;

/// Whether a field can be matched with a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Masks {
    /// With any mask.
    Masked,
    /// Only as a whole.
    Exact,
}

/// Whether actions can set a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writes {
    Settable,
    ReadOnly,
}

/// Match that a field needs before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Needs {
    /// Every packet has it.
    Nothing,
    /// `InPort`.
    InPort,
    /// A tag of a VLAN.
    Vlan,
    /// A label of MPLS.
    Mpls,
    /// A tag of provider backbone bridging.
    Pbb,
    /// A network service header.
    Nsh,
    /// IPv4 or IPv6.
    Ip,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// ARP, or RARP.
    Arp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// ICMP.
    Icmpv4,
    /// ICMP for IPv6.
    Icmpv6,
    /// A neighbour solicitation or advertisement.
    Discovery,
    /// A neighbour solicitation.
    Solicitation,
    /// A neighbour advertisement.
    Advertisement,
    /// A packet with connection state.
    Tracked,
}

/// A number of a field on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) class: u16,
    pub(crate) number: u8,
    /// Number of the experimenter, in their class.
    pub(crate) experimenter: u32,
    /// The first version this number is written in; it is read in all.
    since: Version,
}

const fn form(class: u16, number: u8, experimenter: u32, since: Version) -> Form {
    Form { class, number, experimenter, since }
}

const fn basic(number: u8) -> Form {
    form(BASIC, number, 0, Version::V13)
}

const fn basic14(number: u8) -> Form {
    form(BASIC, number, 0, Version::V14)
}

const fn basic15(number: u8) -> Form {
    form(BASIC, number, 0, Version::V15)
}

const fn register(number: u8) -> Form {
    form(REGISTERS, number, 0, Version::V13)
}

const fn onf(number: u8) -> Form {
    form(EXPERIMENTER, number, ONF, Version::V13)
}

const fn nsh(number: u8) -> Form {
    form(EXPERIMENTER, number, NSH, Version::V13)
}

const fn nxm(class: u16, number: u8) -> Form {
    form(class, number, 0, Version::V10)
}

struct Info {
    name: &'static str,
    bits: u8,
    bytes: u8,
    masks: Masks,
    writes: Writes,
    needs: Needs,
    forms: &'static [Form],
}

/// A row is a field, its name, its bits, the bytes they are in, its use in matches and actions, its
/// needs, and its numbers, the preferred first.
macro_rules! fields {
    ($($name:ident: $text:literal, $bits:literal, $bytes:literal, $masks:ident, $writes:ident,
       $needs:ident, [$($form:expr),*];)*) => {
        /// A field of packets' headers, or of the metadata beside them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Field {
            $(#[doc = concat!("`", $text, "`, of ", stringify!($bits), " bits.")] $name,)*
        }

        impl Field {
            /// Every field.
            pub const ALL: &'static [Field] = &[$(Field::$name),*];

            #[inline]
            const fn info(self) -> &'static Info {
                const INFO: &[Info] = &[$(Info {
                    name: $text,
                    bits: $bits,
                    bytes: $bytes,
                    masks: Masks::$masks,
                    writes: Writes::$writes,
                    needs: Needs::$needs,
                    forms: &[$($form),*],
                }),*];
                &INFO[self as usize]
            }
        }
    };
}

fields! {
    // Metadata of a packet.
    InPort: "in_port", 32, 4, Exact, Settable, Nothing, [basic(0)];
    InPort16: "in_port_16", 16, 2, Exact, Settable, Nothing, [nxm(0, 0)];
    InPhyPort: "in_phy_port", 32, 4, Exact, ReadOnly, InPort, [basic(1)];
    Metadata: "metadata", 64, 8, Masked, Settable, Nothing, [basic(2)];
    TunnelId: "tunnel_id", 64, 8, Masked, Settable, Nothing, [basic(38), nxm(1, 16)];
    TunnelIpv4Src: "tun_src", 32, 4, Masked, Settable, Nothing, [nxm(1, 31)];
    TunnelIpv4Dst: "tun_dst", 32, 4, Masked, Settable, Nothing, [nxm(1, 32)];
    TunnelIpv6Src: "tun_ipv6_src", 128, 16, Masked, Settable, Nothing, [nxm(1, 109)];
    TunnelIpv6Dst: "tun_ipv6_dst", 128, 16, Masked, Settable, Nothing, [nxm(1, 110)];
    TunnelFlags: "tun_flags", 1, 2, Masked, Settable, Nothing, [nxm(1, 104)];
    TunnelGbpId: "tun_gbp_id", 16, 2, Masked, Settable, Nothing, [nxm(1, 38)];
    TunnelGbpFlags: "tun_gbp_flags", 8, 1, Masked, Settable, Nothing, [nxm(1, 39)];
    PacketMark: "pkt_mark", 32, 4, Masked, Settable, Nothing, [nxm(1, 33)];
    ConjunctionId: "conj_id", 32, 4, Exact, ReadOnly, Nothing, [nxm(1, 37)];
    ActionSetOutput: "actset_output", 32, 4, Exact, ReadOnly, Nothing, [basic15(43), onf(43)];
    PacketType: "packet_type", 32, 4, Exact, ReadOnly, Nothing, [basic15(44)];
    Reg0: "reg0", 32, 4, Masked, Settable, Nothing, [nxm(1, 0)];
    Reg1: "reg1", 32, 4, Masked, Settable, Nothing, [nxm(1, 1)];
    Reg2: "reg2", 32, 4, Masked, Settable, Nothing, [nxm(1, 2)];
    Reg3: "reg3", 32, 4, Masked, Settable, Nothing, [nxm(1, 3)];
    Reg4: "reg4", 32, 4, Masked, Settable, Nothing, [nxm(1, 4)];
    Reg5: "reg5", 32, 4, Masked, Settable, Nothing, [nxm(1, 5)];
    Reg6: "reg6", 32, 4, Masked, Settable, Nothing, [nxm(1, 6)];
    Reg7: "reg7", 32, 4, Masked, Settable, Nothing, [nxm(1, 7)];
    Reg8: "reg8", 32, 4, Masked, Settable, Nothing, [nxm(1, 8)];
    Reg9: "reg9", 32, 4, Masked, Settable, Nothing, [nxm(1, 9)];
    Reg10: "reg10", 32, 4, Masked, Settable, Nothing, [nxm(1, 10)];
    Reg11: "reg11", 32, 4, Masked, Settable, Nothing, [nxm(1, 11)];
    Reg12: "reg12", 32, 4, Masked, Settable, Nothing, [nxm(1, 12)];
    Reg13: "reg13", 32, 4, Masked, Settable, Nothing, [nxm(1, 13)];
    Reg14: "reg14", 32, 4, Masked, Settable, Nothing, [nxm(1, 14)];
    Reg15: "reg15", 32, 4, Masked, Settable, Nothing, [nxm(1, 15)];
    Xreg0: "xreg0", 64, 8, Masked, Settable, Nothing, [register(0)];
    Xreg1: "xreg1", 64, 8, Masked, Settable, Nothing, [register(1)];
    Xreg2: "xreg2", 64, 8, Masked, Settable, Nothing, [register(2)];
    Xreg3: "xreg3", 64, 8, Masked, Settable, Nothing, [register(3)];
    Xreg4: "xreg4", 64, 8, Masked, Settable, Nothing, [register(4)];
    Xreg5: "xreg5", 64, 8, Masked, Settable, Nothing, [register(5)];
    Xreg6: "xreg6", 64, 8, Masked, Settable, Nothing, [register(6)];
    Xreg7: "xreg7", 64, 8, Masked, Settable, Nothing, [register(7)];
    Xxreg0: "xxreg0", 128, 16, Masked, Settable, Nothing, [nxm(1, 111)];
    Xxreg1: "xxreg1", 128, 16, Masked, Settable, Nothing, [nxm(1, 112)];
    Xxreg2: "xxreg2", 128, 16, Masked, Settable, Nothing, [nxm(1, 113)];
    Xxreg3: "xxreg3", 128, 16, Masked, Settable, Nothing, [nxm(1, 114)];
    // Connections.
    CtState: "ct_state", 32, 4, Masked, ReadOnly, Nothing, [nxm(1, 105)];
    CtZone: "ct_zone", 16, 2, Exact, ReadOnly, Nothing, [nxm(1, 106)];
    CtMark: "ct_mark", 32, 4, Masked, Settable, Nothing, [nxm(1, 107)];
    CtLabel: "ct_label", 128, 16, Masked, Settable, Nothing, [nxm(1, 108)];
    CtProto: "ct_nw_proto", 8, 1, Exact, ReadOnly, Tracked, [nxm(1, 119)];
    CtIpv4Src: "ct_nw_src", 32, 4, Masked, ReadOnly, Tracked, [nxm(1, 120)];
    CtIpv4Dst: "ct_nw_dst", 32, 4, Masked, ReadOnly, Tracked, [nxm(1, 121)];
    CtIpv6Src: "ct_ipv6_src", 128, 16, Masked, ReadOnly, Tracked, [nxm(1, 122)];
    CtIpv6Dst: "ct_ipv6_dst", 128, 16, Masked, ReadOnly, Tracked, [nxm(1, 123)];
    CtTpSrc: "ct_tp_src", 16, 2, Masked, ReadOnly, Tracked, [nxm(1, 124)];
    CtTpDst: "ct_tp_dst", 16, 2, Masked, ReadOnly, Tracked, [nxm(1, 125)];
    // Ethernet, tags and labels.
    EthDst: "eth_dst", 48, 6, Masked, Settable, Nothing, [basic(3), nxm(0, 1)];
    EthSrc: "eth_src", 48, 6, Masked, Settable, Nothing, [basic(4), nxm(0, 2)];
    EthType: "eth_type", 16, 2, Exact, Settable, Nothing, [basic(5), nxm(0, 3)];
    VlanTci: "vlan_tci", 16, 2, Masked, Settable, Nothing, [nxm(0, 4)];
    VlanVid: "vlan_vid", 13, 2, Masked, Settable, Nothing, [basic(6)];
    VlanPcp: "vlan_pcp", 3, 1, Exact, Settable, Vlan, [basic(7)];
    MplsLabel: "mpls_label", 20, 4, Exact, Settable, Mpls, [basic(34)];
    MplsTc: "mpls_tc", 3, 1, Exact, Settable, Mpls, [basic(35)];
    MplsBos: "mpls_bos", 1, 1, Exact, Settable, Mpls, [basic(36)];
    MplsTtl: "mpls_ttl", 8, 1, Exact, Settable, Mpls, [nxm(1, 30)];
    PbbIsid: "pbb_isid", 24, 3, Masked, Settable, Pbb, [basic(37)];
    PbbUca: "pbb_uca", 1, 1, Exact, Settable, Pbb, [basic14(41)];
    // Network service headers.
    NshFlags: "nsh_flags", 8, 1, Masked, Settable, Nsh, [nsh(1)];
    NshTtl: "nsh_ttl", 8, 1, Exact, Settable, Nsh, [nsh(10)];
    NshMdType: "nsh_mdtype", 8, 1, Exact, ReadOnly, Nsh, [nsh(2)];
    NshNp: "nsh_np", 8, 1, Exact, ReadOnly, Nsh, [nsh(3)];
    NshSpi: "nsh_spi", 24, 4, Exact, Settable, Nsh, [nsh(4)];
    NshSi: "nsh_si", 8, 1, Exact, Settable, Nsh, [nsh(5)];
    NshC1: "nsh_c1", 32, 4, Masked, Settable, Nsh, [nsh(6)];
    NshC2: "nsh_c2", 32, 4, Masked, Settable, Nsh, [nsh(7)];
    NshC3: "nsh_c3", 32, 4, Masked, Settable, Nsh, [nsh(8)];
    NshC4: "nsh_c4", 32, 4, Masked, Settable, Nsh, [nsh(9)];
    // IP and ARP.
    IpDscp: "ip_dscp", 6, 1, Exact, Settable, Ip, [basic(8)];
    IpTos: "ip_tos", 8, 1, Exact, Settable, Ip, [nxm(0, 5)];
    IpEcn: "ip_ecn", 2, 1, Exact, Settable, Ip, [basic(9), nxm(1, 28)];
    IpProto: "ip_proto", 8, 1, Exact, Settable, Ip, [basic(10), nxm(0, 6)];
    IpTtl: "ip_ttl", 8, 1, Exact, Settable, Ip, [nxm(1, 29)];
    IpFrag: "ip_frag", 2, 1, Masked, ReadOnly, Ip, [nxm(1, 26)];
    Ipv4Src: "ipv4_src", 32, 4, Masked, Settable, Ipv4, [basic(11), nxm(0, 7)];
    Ipv4Dst: "ipv4_dst", 32, 4, Masked, Settable, Ipv4, [basic(12), nxm(0, 8)];
    Ipv6Src: "ipv6_src", 128, 16, Masked, Settable, Ipv6, [basic(26), nxm(1, 19)];
    Ipv6Dst: "ipv6_dst", 128, 16, Masked, Settable, Ipv6, [basic(27), nxm(1, 20)];
    Ipv6Label: "ipv6_flabel", 20, 4, Masked, Settable, Ipv6, [basic(28), nxm(1, 27)];
    Ipv6Extensions: "ipv6_exthdr", 9, 2, Masked, ReadOnly, Ipv6, [basic(39)];
    ArpOp: "arp_op", 16, 2, Exact, Settable, Arp, [basic(21), nxm(0, 15)];
    ArpSpa: "arp_spa", 32, 4, Masked, Settable, Arp, [basic(22), nxm(0, 16)];
    ArpTpa: "arp_tpa", 32, 4, Masked, Settable, Arp, [basic(23), nxm(0, 17)];
    ArpSha: "arp_sha", 48, 6, Masked, Settable, Arp, [basic(24), nxm(1, 17)];
    ArpTha: "arp_tha", 48, 6, Masked, Settable, Arp, [basic(25), nxm(1, 18)];
    // Headers behind IP.
    TcpSrc: "tcp_src", 16, 2, Masked, Settable, Tcp, [basic(13), nxm(0, 9)];
    TcpDst: "tcp_dst", 16, 2, Masked, Settable, Tcp, [basic(14), nxm(0, 10)];
    TcpFlags: "tcp_flags", 12, 2, Masked, ReadOnly, Tcp, [basic15(42), onf(42), nxm(1, 34)];
    UdpSrc: "udp_src", 16, 2, Masked, Settable, Udp, [basic(15), nxm(0, 11)];
    UdpDst: "udp_dst", 16, 2, Masked, Settable, Udp, [basic(16), nxm(0, 12)];
    SctpSrc: "sctp_src", 16, 2, Masked, Settable, Sctp, [basic(17)];
    SctpDst: "sctp_dst", 16, 2, Masked, Settable, Sctp, [basic(18)];
    Icmpv4Type: "icmpv4_type", 8, 1, Exact, Settable, Icmpv4, [basic(19), nxm(0, 13)];
    Icmpv4Code: "icmpv4_code", 8, 1, Exact, Settable, Icmpv4, [basic(20), nxm(0, 14)];
    Icmpv6Type: "icmpv6_type", 8, 1, Exact, Settable, Icmpv6, [basic(29), nxm(1, 21)];
    Icmpv6Code: "icmpv6_code", 8, 1, Exact, Settable, Icmpv6, [basic(30), nxm(1, 22)];
    NdTarget: "ipv6_nd_target", 128, 16, Masked, Settable, Discovery, [basic(31), nxm(1, 23)];
    NdSll: "ipv6_nd_sll", 48, 6, Masked, Settable, Solicitation, [basic(32), nxm(1, 24)];
    NdTll: "ipv6_nd_tll", 48, 6, Masked, Settable, Advertisement, [basic(33), nxm(1, 25)];
}

impl Field {
    /// Returns its name: OpenFlow's in lower case, or Open vSwitch's where OpenFlow has no such
    /// field.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the number of its bits.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u32 {
        self.info().bits as u32
    }

    /// Returns the number of bytes its value takes on the wire.
    #[must_use]
    #[inline]
    pub const fn bytes(self) -> usize {
        self.info().bytes as usize
    }

    /// A mask of all its bits.
    #[must_use]
    #[inline]
    pub const fn all_bits(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// Returns true if the field can have a value that fits into its bits.
    pub(crate) const fn allows(self, value: u128) -> bool {
        match self {
            // Six bits are on the wire.
            Field::NshTtl => value < 64,
            Field::NshMdType => matches!(value, 1 | 2),
            _ => true,
        }
    }

    /// Returns true if part of it can be matched.
    #[must_use]
    #[inline]
    pub const fn is_maskable(self) -> bool {
        matches!(self.info().masks, Masks::Masked)
    }

    /// Returns true if actions can set it.
    #[must_use]
    #[inline]
    pub const fn is_settable(self) -> bool {
        matches!(self.info().writes, Writes::Settable)
    }

    /// Returns the match that it needs before it.
    #[must_use]
    #[inline]
    pub const fn needs(self) -> Needs {
        self.info().needs
    }

    /// Register `number` of 32 bits, of which there are sixteen.
    #[must_use]
    pub fn register(number: u8) -> Option<Field> {
        let first = Field::Reg0 as usize;
        (number < 16).then(|| Field::ALL[first + usize::from(number)])
    }

    /// Returns the registers of 32 bits it consists of, a bit for each; 0 for other fields.
    #[must_use]
    #[inline]
    pub const fn registers(self) -> u16 {
        let number = self as usize;
        if number >= Field::Reg0 as usize && number <= Field::Reg15 as usize {
            1 << (number - Field::Reg0 as usize)
        } else if number >= Field::Xreg0 as usize && number <= Field::Xreg7 as usize {
            0b11 << (2 * (number - Field::Xreg0 as usize))
        } else if number >= Field::Xxreg0 as usize && number <= Field::Xxreg3 as usize {
            0b1111 << (4 * (number - Field::Xxreg0 as usize))
        } else {
            0
        }
    }

    /// The field with this number.
    pub(crate) fn from_number(class: u16, number: u8, experimenter: u32) -> Option<Field> {
        const BASICS: [Option<Field>; 128] = of_class(BASIC);
        const NXM_0: [Option<Field>; 128] = of_class(0);
        const NXM_1: [Option<Field>; 128] = of_class(1);
        let table = match class {
            BASIC => &BASICS,
            0 => &NXM_0,
            1 => &NXM_1,
            _ => {
                let same = |form: &Form| {
                    (form.class, form.number, form.experimenter) == (class, number, experimenter)
                };
                let has = |field: &Field| field.info().forms.iter().any(same);
                return Field::ALL.iter().copied().find(has);
            }
        };
        table.get(usize::from(number)).copied().flatten()
    }

    /// The number it is written with.
    pub(crate) fn form(self, version: Version) -> Form {
        let forms = self.info().forms;
        // A field that this version has no number for is written with the oldest, which switches
        // that have it read.
        *forms.iter().find(|form| form.since <= version).unwrap_or(&forms[forms.len() - 1])
    }

    /// Returns true if its header has four bytes in Nicira's actions: no experimenter's field.
    pub(crate) fn is_short(self) -> bool {
        self.form(Version::V10).class != EXPERIMENTER
    }

    /// The number it has in OpenFlow's own class, for bitmaps of fields.
    #[must_use]
    pub fn basic_number(self) -> Option<u8> {
        self.info().forms.iter().find(|form| form.class == BASIC).map(|form| form.number)
    }
}

/// The fields with numbers of a class.
const fn of_class(class: u16) -> [Option<Field>; 128] {
    let mut table = [None; 128];
    let mut index = 0;
    while index < Field::ALL.len() {
        let forms = Field::ALL[index].info().forms;
        let mut nth = 0;
        while nth < forms.len() {
            if forms[nth].class == class {
                table[forms[nth].number as usize] = Some(Field::ALL[index]);
            }
            nth += 1;
        }
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::fault::NICIRA;
    use super::*;

    #[test]
    fn numbers_are_of_one_field() {
        for &field in Field::ALL {
            assert!(field.bits() as usize <= 8 * field.bytes(), "{}", field.name());
            for form in field.info().forms {
                let found = Field::from_number(form.class, form.number, form.experimenter);
                assert_eq!(found, Some(field), "{}", field.name());
            }
        }
        assert_eq!(Field::from_number(BASIC, 40, 0), None);
        assert_eq!(Field::from_number(1, 200, 0), None);
        assert_eq!(Field::from_number(EXPERIMENTER, 42, NICIRA), None);
        assert_eq!(Field::from_number(EXPERIMENTER, 4, NSH), Some(Field::NshSpi));
        assert_eq!(Field::from_number(EXPERIMENTER, 4, ONF), None);
    }

    #[test]
    fn the_number_written_is_the_versions() {
        let number = |field: Field, version| {
            let form = field.form(version);
            (form.class, form.number)
        };
        assert_eq!(number(Field::TcpFlags, Version::V10), (1, 34));
        assert_eq!(number(Field::TcpFlags, Version::V13), (EXPERIMENTER, 42));
        assert_eq!(number(Field::TcpFlags, Version::V15), (BASIC, 42));
        assert_eq!(number(Field::EthSrc, Version::V10), (0, 2));
        assert_eq!(number(Field::EthSrc, Version::V13), (BASIC, 4));
        assert_eq!(number(Field::Reg3, Version::V15), (1, 3));
        assert_eq!(number(Field::NshTtl, Version::V10), (EXPERIMENTER, 10));
        assert_eq!(Field::register(15), Some(Field::Reg15));
        assert_eq!(Field::register(16), None);
        assert_eq!(Field::Reg15.registers(), 1 << 15);
        assert_eq!(Field::Xreg7.registers(), 3 << 14);
        assert_eq!(Field::Xxreg1.registers(), 0xf0);
        assert_eq!(Field::EthSrc.registers(), 0);
    }
}
