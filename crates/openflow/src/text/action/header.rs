//! Parsing and printing of `encap` and `decap`.

use super::super::error::{Fail, Parsed};
use super::super::number;
use super::super::scan::{Pair, Pairs};
use super::Scope;
use crate::wire::{Action, Encap, PacketType, Version};

const HEADERS: [(&str, PacketType); 3] = [
    ("ethernet", PacketType::ETHERNET),
    ("mpls", PacketType::MPLS),
    ("mpls_mc", PacketType::MPLS_MULTICAST),
];

/// Number of packet type namespaces (OpenFlow 1.5.1, section 7.2.3.11).
const SPACES: u16 = 5;

/// Parses `encap(HEADER)`, as in `encap(mpls)`.
pub(super) fn encap<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, Action> {
    check_version(pair, scope)?;
    let names = || HEADERS.iter().map(|&(name, _)| name);
    let mut headers = Pairs::of(pair.wanted()?);
    let Some(header) = headers.next().transpose()? else {
        return Err(Fail::new(pair.whole, "encap needs a header").help("encap(ethernet)"));
    };
    if header.key == "nsh" {
        return Err(Fail::new(header.key, "encap adds no \"nsh\" here yet"));
    }
    let known = HEADERS.iter().find(|(name, _)| *name == header.key);
    let Some(&(_, packet_type)) = known else {
        return Err(Fail::unknown(header.key, "header", names()));
    };
    if !header.value.is_empty() {
        return Err(Fail::new(header.whole, "this header has no properties"));
    }
    match headers.next().transpose()? {
        None => Ok(Action::Encap(Encap::new(packet_type))),
        Some(more) => Err(Fail::new(more.whole, "encap adds one header")),
    }
}

/// Parses `decap()`, or `decap(packet_type(ns=1,type=0x800))`.
pub(super) fn decap<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, Action> {
    check_version(pair, scope)?;
    let mut behind = PacketType::NEXT;
    for argument in Pairs::of(pair.value) {
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
    for part in Pairs::of(argument.wanted()?) {
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

fn check_version<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, ()> {
    if scope.version() == Version::V10 {
        return Err(Fail::new(pair.key, format!("OpenFlow 1.0 has no {}", pair.key)));
    }
    Ok(())
}

pub(super) fn print_encap(encap: &Encap) -> String {
    let known = HEADERS.iter().find(|(_, packet_type)| *packet_type == encap.packet_type);
    format!("encap({})", known.map_or("unknown", |(name, _)| name))
}

pub(super) fn print_decap(behind: PacketType) -> String {
    match (behind, behind.kind()) {
        (PacketType::NEXT, _) => "decap()".to_owned(),
        (_, 0) => format!("decap(packet_type(ns={},type=0))", behind.space()),
        (_, kind) => format!("decap(packet_type(ns={},type={kind:#x}))", behind.space()),
    }
}
