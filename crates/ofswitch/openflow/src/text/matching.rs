//! Matches, from texts.
//!
//! Some names have a meaning only together with others: `nw_src` is an address of IPv4 or of ARP,
//! and `tp_dst` a port of TCP, UDP or SCTP. So all is collected first.

use super::error::{Fail, Parsed};
use super::fields::{self, FieldName};
use super::names::Names;
use super::number;
use super::scan::Pair;
use super::value;
use crate::wire::field::Needs;
use crate::wire::matching::{VLAN_PRESENT, split_tag};
use crate::wire::{Entry, Field, Match, Version};

/// Words for types of packets: type of Ethernet, and protocol of IP.
pub(super) const PROTOCOLS: [(&str, u128, u128); 17] = [
    ("ip", 0x0800, 0),
    ("ipv4", 0x0800, 0),
    ("ip4", 0x0800, 0),
    ("arp", 0x0806, 0),
    ("rarp", 0x8035, 0),
    ("icmp", 0x0800, 1),
    ("tcp", 0x0800, 6),
    ("udp", 0x0800, 17),
    ("sctp", 0x0800, 132),
    ("ipv6", 0x86dd, 0),
    ("ip6", 0x86dd, 0),
    ("icmp6", 0x86dd, 58),
    ("tcp6", 0x86dd, 6),
    ("udp6", 0x86dd, 17),
    ("sctp6", 0x86dd, 132),
    ("mpls", 0x8847, 0),
    ("mplsm", 0x8848, 0),
];

/// Field of a name, before the protocol is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Field(Field),
    NwSrc,
    NwDst,
    NwProto,
    TpSrc,
    TpDst,
    IcmpType,
    IcmpCode,
}

#[derive(Debug)]
struct MatchWord<'t> {
    slot: Slot,
    value: u128,
    mask: u128,
    at: &'t str,
    /// Part of a field, which others may add to.
    part: bool,
}

/// Fields of a match so far.
#[derive(Debug, Default)]
pub(super) struct MatchBuilder<'t> {
    said: Vec<MatchWord<'t>>,
    /// The control information of the outer tag: value, mask, and where.
    tag: Option<(u128, u128, &'t str)>,
}

const NUMBER: u128 = 0x0fff;
const PRIORITY: u128 = 0xe000;

impl<'t> MatchBuilder<'t> {
    /// Takes a pair of the match, and returns true if it is one.
    pub(super) fn take(&mut self, pair: &Pair<'t>, names: &Names) -> Parsed<'t, bool> {
        let key = pair.key;
        let protocol = PROTOCOLS.iter().find(|(name, ..)| *name == key);
        if let Some(&(_, kind, carried)) = protocol {
            if !pair.value.is_empty() {
                return Err(Fail::new(pair.whole, format!("\"{key}\" has no value")));
            }
            self.put(Slot::Field(Field::EthType), kind, u128::MAX, key)?;
            if carried != 0 {
                self.put(Slot::NwProto, carried, u128::MAX, key)?;
            }
            return Ok(true);
        }
        match key {
            // Packets of Ethernet, which all are.
            "eth" if pair.value.is_empty() => return Ok(true),
            "dl_vlan" => {
                let tag = number::number(pair.wanted()?, "dl_vlan", 0xffff)?;
                match tag {
                    0xffff => self.tag(0, 0xffff, pair.whole)?,
                    0..=NUMBER => {
                        self.tag(tag | VLAN_PRESENT, NUMBER | VLAN_PRESENT, pair.whole)?;
                    }
                    _ => {
                        let fail = Fail::new(pair.value, "a VLAN's number is at most 4095");
                        return Err(fail.help("0xffff is no tag"));
                    }
                }
                return Ok(true);
            }
            "dl_vlan_pcp" | "vlan_pcp" | "OXM_OF_VLAN_PCP" => {
                let priority = number::number(pair.wanted()?, "the priority of a tag", 7)?;
                self.tag(priority << 13 | VLAN_PRESENT, PRIORITY | VLAN_PRESENT, pair.whole)?;
                return Ok(true);
            }
            "vlan_tci" | "vlan_vid" | "NXM_OF_VLAN_TCI" | "OXM_OF_VLAN_VID" => {
                let known = fields::field(key)?;
                let (value, mask) = value::parse(known, pair.wanted()?, names)?;
                self.tag(value, mask, pair.whole)?;
                return Ok(true);
            }
            "nw_tos" | "NXM_OF_IP_TOS" => {
                let tos = u128::from(number::u8(pair.wanted()?, "nw_tos")?);
                if tos & 3 != 0 {
                    let fail =
                        Fail::new(pair.value, "the lower two bits of nw_tos have to be zero");
                    return Err(fail.help("nw_ecn matches these"));
                }
                self.put(Slot::Field(Field::IpDscp), tos >> 2, u128::MAX, pair.whole)?;
                return Ok(true);
            }
            _ => {}
        }
        if let Some((name, _)) = key.split_once('[') {
            return self.take_part(name, pair);
        }
        let Some(known) = fields::by_name(key) else { return Ok(false) };
        // That a field is there is no condition.
        if pair.value.is_empty() {
            return Ok(true);
        }
        let slot = slot(key, known);
        let known = match slot {
            // Ports of a match have 32 bits, under any name.
            Slot::Field(Field::InPort) => fields::for_field(Field::InPort),
            // An operation of ARP has more than a protocol.
            _ => known,
        };
        let (value, mask) = value::parse(known, pair.value, names)?;
        let maskable = known.field.is_maskable() || mask == known.field.all_bits();
        if !maskable && mask != 0 {
            return Err(Fail::new(
                pair.value,
                format!("{key} is matched as a whole or not at all"),
            ));
        }
        self.put(slot, value & mask, mask, pair.whole)?;
        Ok(true)
    }

    /// `reg0[0..7]=5`.
    fn take_part(&mut self, name: &'t str, pair: &Pair<'t>) -> Parsed<'t, bool> {
        let part = fields::subfield(pair.key)?;
        let known = fields::for_field(part.field());
        let bits = u32::from(part.bits());
        let most = u128::MAX >> (128 - bits);
        let value = number::number(pair.wanted()?, pair.key, most)?;
        let (value, mask) = (value << part.offset(), most << part.offset());
        if mask != known.field.all_bits() && !known.field.is_maskable() {
            return Err(Fail::new(pair.key, format!("{name} is matched as a whole or not at all")));
        }
        if part.field() == Field::VlanTci {
            self.tag(value, mask, pair.whole)?;
            return Ok(true);
        }
        let slot = slot(name, known);
        let same = self.said.iter_mut().find(|said| said.part && said.slot == slot);
        if let Some(said) = same {
            if said.mask & mask != 0 {
                return Err(Fail::new(pair.whole, "these bits are said twice"));
            }
            said.value |= value;
            said.mask |= mask;
            return Ok(true);
        }
        self.put(slot, value, mask, pair.whole)?;
        if let Some(said) = self.said.last_mut() {
            said.part = true;
        }
        Ok(true)
    }

    fn put(&mut self, slot: Slot, value: u128, mask: u128, at: &'t str) -> Parsed<'t, ()> {
        if let Some(other) = self.said.iter().find(|said| said.slot == slot) {
            if (other.value, other.mask) == (value, mask) {
                return Ok(());
            }
            let fail = Fail::new(at, format!("\"{at}\" contradicts \"{}\"", other.at));
            return Err(fail.help("a flow matches one value, or one under a mask"));
        }
        if mask != 0 {
            self.said.push(MatchWord { slot, value, mask, at, part: false });
        }
        Ok(())
    }

    fn tag(&mut self, value: u128, mask: u128, at: &'t str) -> Parsed<'t, ()> {
        let (old, under, before) = self.tag.unwrap_or((0, 0, at));
        let both = under & mask;
        if (old ^ value) & both != 0 {
            return Err(Fail::new(at, format!("\"{at}\" contradicts \"{before}\"")));
        }
        self.tag = Some(((old & under) | (value & mask), under | mask, at));
        Ok(())
    }

    /// Returns the value of a field that is matched as a whole.
    fn exact(&self, slot: Slot) -> Option<u128> {
        self.said.iter().find(|said| said.slot == slot).map(|said| said.value)
    }

    /// Returns type of Ethernet and protocol of IP, where they are given.
    fn protocols(&self) -> (Option<u128>, Option<u128>) {
        let kind = self.exact(Slot::Field(Field::PacketType)).filter(|kind| kind >> 16 == 1);
        let ethernet = self.exact(Slot::Field(Field::EthType)).or(kind.map(|kind| kind & 0xffff));
        (ethernet, self.exact(Slot::NwProto))
    }

    /// Returns the match of all pairs.
    pub(super) fn finish(self, version: Version) -> Parsed<'t, Match> {
        let (ethernet, protocol) = self.protocols();
        let mut entries: Vec<(Entry, &'t str)> = Vec::new();
        for said in &self.said {
            let field = resolve(said, ethernet, protocol)?;
            if said.value & !field.all_bits() != 0 {
                return Err(Fail::new(said.at, format!("\"{}\" is too large", said.at)));
            }
            entries.push((Entry::masked(field, said.value, said.mask), said.at));
        }
        if let Some((value, mask, at)) = self.tag {
            let tag = Entry::masked(Field::VlanTci, value, mask);
            // OpenFlow's own field can express it.
            if mask & PRIORITY == 0 && version != Version::V10 {
                entries.push((Entry::masked(Field::VlanVid, value, mask), at));
            } else {
                entries.extend(split_tag(tag).map(|part| (part, at)));
            }
        }
        // Fields come behind those they need.
        entries.sort_by_key(|(entry, _)| entry.field());
        let mut matching = Match::new();
        for (entry, at) in entries {
            if entry.mask() == 0 {
                continue;
            }
            let (field, name) = (entry.field(), fields::for_field(entry.field()).name());
            if matching.get(field).is_some() {
                return Err(Fail::new(at, format!("{name} is said twice")));
            }
            let registers = field.registers();
            let same = |other: &&Entry| other.field().registers() & registers != 0;
            if let Some(other) = matching.entries().find(same) {
                let other = fields::for_field(other.field()).name();
                return Err(Fail::new(at, format!("{name} is a part of {other}")));
            }
            if !matching.meets(field.needs()) {
                let fail = Fail::new(at, format!("\"{at}\" matches packets that are not said"));
                return Err(fail.help(format!("first comes {}", needed(field.needs()))));
            }
            matching = matching.with_entry(entry);
        }
        Ok(matching)
    }
}

/// Returns the match that a field needs before it.
fn needed(needs: Needs) -> &'static str {
    match needs {
        Needs::Nothing => "nothing",
        Needs::InPort => "in_port=…",
        Needs::Vlan => "dl_vlan=… or vlan_tci=0x1000/0x1000, any tag",
        Needs::Mpls => "mpls, or mplsm",
        Needs::Pbb => "dl_type=0x88e7",
        Needs::Nsh => "dl_type=0x894f",
        Needs::Ip => "ip, ipv6, or a protocol of them like tcp",
        Needs::Ipv4 => "ip, or a protocol of it like tcp",
        Needs::Ipv6 => "ipv6, or a protocol of it like tcp6",
        Needs::Arp => "arp, or rarp",
        Needs::Tcp => "tcp, or tcp6",
        Needs::Udp => "udp, or udp6",
        Needs::Sctp => "sctp, or sctp6",
        Needs::Icmpv4 => "icmp",
        Needs::Icmpv6 => "icmp6",
        Needs::Discovery => "icmp6,icmp_type=135, or 136",
        Needs::Solicitation => "icmp6,icmp_type=135",
        Needs::Advertisement => "icmp6,icmp_type=136",
        Needs::Tracked => "ct_state=+trk-inv, or another bit that connections have",
    }
}

fn slot(name: &str, known: &FieldName) -> Slot {
    match name {
        "nw_src" | "ip_src" => Slot::NwSrc,
        "nw_dst" | "ip_dst" => Slot::NwDst,
        "tp_src" => Slot::TpSrc,
        "tp_dst" => Slot::TpDst,
        "icmp_type" => Slot::IcmpType,
        "icmp_code" => Slot::IcmpCode,
        _ => match known.field {
            Field::IpProto => Slot::NwProto,
            Field::InPort16 => Slot::Field(Field::InPort),
            field => Slot::Field(field),
        },
    }
}

/// The field a name is, where packets are of this type and this protocol.
fn resolve<'t>(
    said: &MatchWord<'t>,
    ethernet: Option<u128>,
    protocol: Option<u128>,
) -> Parsed<'t, Field> {
    let missing = |what: &str| {
        let fail = Fail::new(said.at, format!("\"{}\" does not say of which packets", said.at));
        fail.help(what)
    };
    let address = |v4: Field, arp: Field, v6: &str| match ethernet {
        Some(0x0800) => Ok(v4),
        Some(0x0806 | 0x8035) => Ok(arp),
        Some(0x86dd) => Err(missing(v6)),
        _ => Err(missing("first comes ip, a protocol of it like tcp, or arp")),
    };
    let port = |tcp, udp, sctp, icmp, icmp6| match (ethernet, protocol) {
        (Some(0x0800 | 0x86dd), Some(6)) => Ok(tcp),
        (Some(0x0800 | 0x86dd), Some(17)) => Ok(udp),
        (Some(0x0800 | 0x86dd), Some(132)) => Ok(sctp),
        (Some(0x0800), Some(1)) => Ok(icmp),
        (Some(0x86dd), Some(58)) => Ok(icmp6),
        _ => Err(missing("first comes tcp, udp or sctp, of IPv6 tcp6, udp6 or sctp6")),
    };
    match said.slot {
        Slot::Field(field) => Ok(field),
        Slot::NwSrc => address(Field::Ipv4Src, Field::ArpSpa, "of IPv6 it is ipv6_src"),
        Slot::NwDst => address(Field::Ipv4Dst, Field::ArpTpa, "of IPv6 it is ipv6_dst"),
        Slot::NwProto => Ok(match ethernet {
            Some(0x0806 | 0x8035) => Field::ArpOp,
            _ => Field::IpProto,
        }),
        Slot::TpSrc => {
            port(Field::TcpSrc, Field::UdpSrc, Field::SctpSrc, Field::Icmpv4Type, Field::Icmpv6Type)
        }
        Slot::TpDst => {
            port(Field::TcpDst, Field::UdpDst, Field::SctpDst, Field::Icmpv4Code, Field::Icmpv6Code)
        }
        Slot::IcmpType if ethernet == Some(0x86dd) => Ok(Field::Icmpv6Type),
        Slot::IcmpType => Ok(Field::Icmpv4Type),
        Slot::IcmpCode if ethernet == Some(0x86dd) => Ok(Field::Icmpv6Code),
        Slot::IcmpCode => Ok(Field::Icmpv4Code),
    }
}

/// Words that begin a pair of a match, for suggestions.
pub(super) fn words() -> impl Iterator<Item = &'static str> {
    let protocols = PROTOCOLS.iter().map(|&(name, ..)| name);
    protocols.chain(fields::names()).chain(["dl_vlan", "dl_vlan_pcp"])
}
