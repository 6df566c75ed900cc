//! The match of OpenFlow 1.0: a struct of twelve fields, and bits for its wildcards.
//!
//! Fields that need others which are not matched do not count, as the specification (1.0.2, section
//! 3.4) has it. Fields of IPv6 are encoded as far as the struct has those of IPv4, as in Open
//! vSwitch.

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::field::Field;
use super::matching::{Match, VLAN_PRESENT};
use super::oxm::Entry;
use super::port_number::PortNumber;
use super::unencodable::Unencodable;

const IN_PORT: u32 = 1;
const VLAN: u32 = 1 << 1;
const ETH_SRC: u32 = 1 << 2;
const ETH_DST: u32 = 1 << 3;
const ETH_TYPE: u32 = 1 << 4;
const PROTOCOL: u32 = 1 << 5;
const TP_SRC: u32 = 1 << 6;
const TP_DST: u32 = 1 << 7;
const SOURCE_SHIFT: u32 = 8;
const DESTINATION_SHIFT: u32 = 14;
const PRIORITY: u32 = 1 << 20;
const TOS: u32 = 1 << 21;
/// Nothing counts: each bit, and the address masks at 32.
const ALL: u32 = (1 << 22) - 1;
const ADDRESS_BITS: u32 = 0x3f;
/// The number of a VLAN that stands for no tag.
const UNTAGGED: u16 = 0xffff;

/// Returns the fields that the two ports of the struct stand for.
fn transport_fields(ethernet: u16, protocol: u8) -> Option<(Field, Field)> {
    Some(match (ethernet, protocol) {
        (0x0800 | 0x86dd, 6) => (Field::TcpSrc, Field::TcpDst),
        (0x0800 | 0x86dd, 17) => (Field::UdpSrc, Field::UdpDst),
        (0x0800 | 0x86dd, 132) => (Field::SctpSrc, Field::SctpDst),
        (0x0800, 1) => (Field::Icmpv4Type, Field::Icmpv4Code),
        (0x86dd, 58) => (Field::Icmpv6Type, Field::Icmpv6Code),
        _ => return None,
    })
}

/// The mask of an address of which `ignored` low bits do not count; 32 and more are all.
fn address_mask(wildcards: u32, shift: u32) -> u32 {
    let ignored = wildcards >> shift & ADDRESS_BITS;
    u32::MAX.checked_shl(ignored).unwrap_or(0)
}

/// Returns true if a match that begins so compares all fields, as wholes.
pub(crate) fn is_exact(bytes: &[u8]) -> bool {
    let wildcards = bytes.first_chunk().map(|word| u32::from_be_bytes(*word));
    wildcards.is_some_and(|wildcards| wildcards & ALL == 0)
}

pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Match, Fault> {
    let mut all = reader.part(40)?;
    let wildcards = all.u32()?;
    let in_port = all.u16()?;
    let source = all.number(6)?;
    let destination = all.number(6)?;
    let (vlan, priority) = (all.u16()?, all.u8()?);
    all.skip(1)?;
    let (ethernet, tos, protocol) = (all.u16()?, all.u8()?, all.u8()?);
    all.skip(2)?;
    let (from, to) = (all.u32()?, all.u32()?);
    let (tp_src, tp_dst) = (all.u16()?, all.u16()?);

    let counts = |bit: u32| wildcards & bit == 0;
    let mut matching = Match::new();
    let mut add = |entry: Entry| matching = std::mem::take(&mut matching).with_entry(entry);
    let exact = Entry::exact;
    if counts(IN_PORT) {
        add(exact(Field::InPort, PortNumber::from_short(in_port).0.into()));
    }
    if counts(ETH_SRC) {
        add(exact(Field::EthSrc, source));
    }
    if counts(ETH_DST) {
        add(exact(Field::EthDst, destination));
    }
    let priority = counts(PRIORITY).then(|| exact(Field::VlanPcp, priority.into()));
    match (counts(VLAN), vlan) {
        (true, UNTAGGED) => add(exact(Field::VlanVid, 0)),
        (true, number) => {
            add(exact(Field::VlanVid, VLAN_PRESENT | u128::from(number & 0xfff)));
            priority.into_iter().for_each(&mut add);
        }
        // A priority alone wants a tag, with any number.
        (false, _) => {
            if let Some(priority) = priority {
                add(Entry::masked(Field::VlanVid, VLAN_PRESENT, VLAN_PRESENT));
                add(priority);
            }
        }
    }
    if !counts(ETH_TYPE) {
        return Ok(matching);
    }
    add(exact(Field::EthType, ethernet.into()));
    let (ip, arp) = (matches!(ethernet, 0x0800 | 0x86dd), matches!(ethernet, 0x0806 | 0x8035));
    if ip && counts(TOS) {
        add(exact(Field::IpDscp, u128::from(tos >> 2)));
    }
    if (ip || arp) && counts(PROTOCOL) {
        add(exact(if ip { Field::IpProto } else { Field::ArpOp }, protocol.into()));
    }
    if ethernet == 0x0800 || arp {
        let fields =
            if arp { [Field::ArpSpa, Field::ArpTpa] } else { [Field::Ipv4Src, Field::Ipv4Dst] };
        let from_mask = address_mask(wildcards, SOURCE_SHIFT);
        let to_mask = address_mask(wildcards, DESTINATION_SHIFT);
        add(Entry::masked(fields[0], from.into(), from_mask.into()));
        add(Entry::masked(fields[1], to.into(), to_mask.into()));
    }
    if !counts(PROTOCOL) {
        return Ok(matching);
    }
    if let Some((source, destination)) = transport_fields(ethernet, protocol) {
        if counts(TP_SRC) {
            add(exact(source, tp_src.into()));
        }
        if counts(TP_DST) {
            add(exact(destination, tp_dst.into()));
        }
    }
    Ok(matching)
}

/// The struct with the fields so far.
#[derive(Default)]
struct Standard {
    wildcards: u32,
    in_port: u16,
    source: u128,
    destination: u128,
    vlan: u16,
    priority: u8,
    ethernet: u16,
    tos: u8,
    protocol: u8,
    from: u32,
    to: u32,
    tp_src: u16,
    tp_dst: u16,
}

impl Standard {
    fn add(&mut self, entry: &Entry, whole: &Match) -> Result<(), Unencodable> {
        let (field, value) = (entry.field(), entry.value());
        let cannot = Unencodable::Field(field);
        let ethernet = whole.exact(Field::EthType).unwrap_or(0) as u16;
        let protocol = whole.exact(Field::IpProto).unwrap_or(0) as u8;
        match field {
            Field::Ipv4Src | Field::ArpSpa | Field::Ipv4Dst | Field::ArpTpa => {
                let mask = entry.mask() as u32;
                if mask.leading_ones() + mask.trailing_zeros() != 32 {
                    return Err(cannot);
                }
                let (address, shift) = if matches!(field, Field::Ipv4Src | Field::ArpSpa) {
                    (&mut self.from, SOURCE_SHIFT)
                } else {
                    (&mut self.to, DESTINATION_SHIFT)
                };
                *address = value as u32;
                self.wildcards &= !(ADDRESS_BITS << shift);
                self.wildcards |= mask.trailing_zeros() << shift;
                return Ok(());
            }
            // Any tag: a priority alone expresses it.
            Field::VlanVid
                if (value, entry.mask()) == (VLAN_PRESENT, VLAN_PRESENT)
                    && whole.get(Field::VlanPcp).is_some() =>
            {
                return Ok(());
            }
            _ => {}
        }
        if !entry.is_exact() {
            return Err(cannot);
        }
        let bit = match field {
            Field::InPort => {
                self.in_port = PortNumber(value as u32).short()?;
                IN_PORT
            }
            Field::EthSrc => {
                self.source = value;
                ETH_SRC
            }
            Field::EthDst => {
                self.destination = value;
                ETH_DST
            }
            Field::VlanVid => {
                self.vlan = if value == 0 { UNTAGGED } else { value as u16 & 0xfff };
                VLAN
            }
            Field::VlanPcp => {
                self.priority = value as u8;
                PRIORITY
            }
            Field::EthType => {
                self.ethernet = value as u16;
                ETH_TYPE
            }
            Field::IpDscp => {
                self.tos = (value as u8) << 2;
                TOS
            }
            Field::IpProto | Field::ArpOp => {
                self.protocol = u8::try_from(value).map_err(|_| cannot)?;
                PROTOCOL
            }
            _ => match transport_fields(ethernet, protocol) {
                Some((source, _)) if source == field => {
                    self.tp_src = value as u16;
                    TP_SRC
                }
                Some((_, destination)) if destination == field => {
                    self.tp_dst = value as u16;
                    TP_DST
                }
                _ => return Err(cannot),
            },
        };
        self.wildcards &= !bit;
        Ok(())
    }
}

pub(crate) fn encode(matching: &Match, out: &mut Writer) -> Result<(), Unencodable> {
    let any_address = 32 << SOURCE_SHIFT | 32 << DESTINATION_SHIFT;
    let bits = ADDRESS_BITS << SOURCE_SHIFT | ADDRESS_BITS << DESTINATION_SHIFT;
    let mut all = Standard { wildcards: ALL & !bits | any_address, ..Standard::default() };
    for entry in matching.entries() {
        all.add(entry, matching)?;
    }
    out.u32(all.wildcards);
    out.u16(all.in_port);
    out.number(all.source, 6);
    out.number(all.destination, 6);
    out.u16(all.vlan);
    out.u8(all.priority);
    out.zeros(1);
    out.u16(all.ethernet);
    out.u8(all.tos);
    out.u8(all.protocol);
    out.zeros(2);
    out.u32(all.from);
    out.u32(all.to);
    out.u16(all.tp_src);
    out.u16(all.tp_dst);
    Ok(())
}
