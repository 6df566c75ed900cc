//! Parsing and printing of `encap` and `decap`.

use super::super::error::{Fail, Parsed};
use super::super::number;
use super::super::scan::{Pair, Pairs, parts};
use super::Scope;
use crate::wire::{Action, Encap, EncapProperty, PacketType, Version};

const HEADERS: [(&str, PacketType); 4] = [
    ("ethernet", PacketType::ETHERNET),
    ("nsh", PacketType::NSH),
    ("mpls", PacketType::MPLS),
    ("mpls_mc", PacketType::MPLS_MULTICAST),
];

/// Number of packet type namespaces (OpenFlow 1.5.1, section 7.2.3.11).
const SPACES: u16 = 5;

/// Parses `encap(HEADER)`, as in `encap(mpls)`, or `encap(HEADER(PROPERTIES))`.
pub(super) fn encap<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, Action> {
    check_version(pair, scope)?;
    let names = || HEADERS.iter().map(|&(name, _)| name);
    let mut headers = Pairs::new(pair.wanted()?);
    let Some(header) = headers.next().transpose()? else {
        return Err(Fail::new(pair.whole, "encap needs a header").help("encap(ethernet)"));
    };
    let known = HEADERS.iter().find(|(name, _)| *name == header.key);
    let Some(&(_, packet_type)) = known else {
        return Err(Fail::unknown(header.key, "header", names()));
    };
    let mut encap = Encap::new(packet_type);
    if packet_type == PacketType::NSH {
        for property in Pairs::new(header.value) {
            encap.properties.push(self::property(&property?)?);
        }
        if !encap.is_valid() {
            return Err(Fail::new(header.value, "a header has at most 244 bytes of metadata"));
        }
    } else if !header.value.is_empty() {
        return Err(Fail::new(header.whole, "this header has no properties"));
    }
    match headers.next().transpose()? {
        None => Ok(Action::Encap(encap)),
        Some(more) => Err(Fail::new(more.whole, "encap adds one header")),
    }
}

/// Parses a property of a network service header.
fn property<'t>(pair: &Pair<'t>) -> Parsed<'t, EncapProperty> {
    match pair.key {
        "md_type" => match number::u8(pair.wanted()?, "a type of metadata")? {
            kind @ 1..=2 => Ok(EncapProperty::NshMdType(kind)),
            _ => Err(Fail::new(pair.value, "metadata are of type 1 or 2")),
        },
        "tlv" => tlv(pair),
        key => Err(Fail::unknown(key, "property of a header", ["md_type", "tlv"])),
    }
}

/// Parses a piece of metadata, as in `tlv(0x1000,10,0x12345678)`.
fn tlv<'t>(pair: &Pair<'t>) -> Parsed<'t, EncapProperty> {
    let mut arguments = parts(pair.wanted()?);
    let (Some(class), Some(kind), Some(value), None) =
        (arguments.next(), arguments.next(), arguments.next(), arguments.next())
    else {
        let fail = Fail::new(pair.whole, "a piece of metadata has a class, a type and a value");
        return Err(fail.help("tlv(0x1000,10,0x12345678)"));
    };
    let class = number::u16(class, "a class of metadata")?;
    let kind = number::u8(kind, "a type of metadata")?;
    let Some(digits) = value.strip_prefix("0x") else {
        return Err(Fail::new(value, "the value of metadata begins with 0x"));
    };
    let value = number::bytes(digits)?;
    let most = EncapProperty::NSH_TLV_LONGEST;
    if value.len() > most {
        return Err(Fail::new(digits, format!("the value of metadata has at most {most} bytes")));
    }
    Ok(EncapProperty::NshTlv { class, kind, value })
}

/// Parses `decap()`, or `decap(packet_type(ns=1,type=0x800))`.
pub(super) fn decap<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, Action> {
    check_version(pair, scope)?;
    let mut behind = PacketType::NEXT;
    for argument in Pairs::new(pair.value) {
        let argument = argument?;
        if argument.key != "packet_type" {
            return Err(Fail::unknown(argument.key, "argument of decap", ["packet_type"]));
        }
        behind = packet_type(&argument)?;
    }
    Ok(Action::Decap(behind))
}

fn packet_type<'t>(argument: &Pair<'t>) -> Parsed<'t, PacketType> {
    let (mut space, mut kind) = (None, None);
    for part in Pairs::new(argument.wanted()?) {
        let part = part?;
        match part.key {
            "ns" => space = Some(number::u16(part.wanted()?, "a name space")?),
            "type" => kind = Some(number::u16(part.wanted()?, "a packet's type")?),
            key => return Err(Fail::unknown(key, "part of a packet type", ["ns", "type"])),
        }
    }
    match (space, kind) {
        (Some(space), _) if space >= SPACES => {
            Err(Fail::new(argument.value, format!("name spaces go from 0 to {}", SPACES - 1)))
        }
        (Some(space), Some(kind)) => Ok(PacketType(u32::from(space) << 16 | u32::from(kind))),
        _ => {
            let fail = Fail::new(argument.whole, "a packet type has a name space and a type");
            Err(fail.help("packet_type(ns=1,type=0x800)"))
        }
    }
}

pub(super) fn check_version<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, ()> {
    if scope.version() == Version::V10 {
        return Err(Fail::new(pair.key, format!("OpenFlow 1.0 has no {}", pair.key)));
    }
    Ok(())
}

pub(super) fn print_encap(encap: &Encap) -> String {
    let known = HEADERS.iter().find(|(_, packet_type)| *packet_type == encap.packet_type);
    let name = known.map_or("unknown", |(name, _)| name);
    if encap.properties.is_empty() {
        return format!("encap({name})");
    }
    let properties = encap.properties.iter().map(print_property).collect::<Vec<_>>();
    format!("encap({name}({}))", properties.join(","))
}

fn print_property(property: &EncapProperty) -> String {
    match property {
        EncapProperty::NshMdType(kind) => format!("md_type={kind}"),
        EncapProperty::NshTlv { class, kind, value } => {
            let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("tlv({class:#06x},{kind},0x{digits})")
        }
    }
}

pub(super) fn print_decap(behind: PacketType) -> String {
    match (behind, behind.kind()) {
        (PacketType::NEXT, _) => "decap()".to_owned(),
        (_, 0) => format!("decap(packet_type(ns={},type=0))", behind.space()),
        (_, kind) => format!("decap(packet_type(ns={},type={kind:#x}))", behind.space()),
    }
}
