//! Actions that set fields.

use super::super::error::{Fail, Parsed};
use super::super::fields::{self, FieldName};
use super::super::scan::Pair;
use super::super::{number, value};
use super::Scope;
use super::parse::settable;
use crate::wire::matching::VLAN_PRESENT;
use crate::wire::{Action, Entry, Field, Subfield, Version};

/// Source and destination: `5->reg0`.
pub(super) fn arrow<'t>(pair: &Pair<'t>) -> Parsed<'t, (&'t str, &'t str)> {
    let example = match pair.key {
        "move" => "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
        "load" => "load:5->NXM_NX_REG0[]",
        _ => "set_field:5->reg0",
    };
    let wrong = || Fail::new(pair.whole, "there is no destination").help(example);
    let (source, destination) = pair.value.split_once("->").ok_or_else(wrong)?;
    Ok((source.trim(), destination.trim()))
}

/// Reads an action that sets a field, and says whether it is one.
pub(super) fn parse<'t>(
    key: &str,
    pair: &Pair<'t>,
    scope: &mut Scope<'_>,
    actions: &mut Vec<Action>,
) -> Parsed<'t, bool> {
    let entry = |name: &'static str| {
        let known = fields::field(name)?;
        let value = value::parse_exact(known, pair.wanted()?, scope.syntax.names())?;
        Ok(Action::SetField(Entry::exact(known.field, value)))
    };
    let action = match key {
        "set_field" => set_field(pair, scope)?,
        "load" => return load(pair, scope, actions).map(|()| true),
        "mod_dl_src" => entry("eth_src")?,
        "mod_dl_dst" => entry("eth_dst")?,
        "mod_nw_src" => entry("nw_src")?,
        "mod_nw_dst" => entry("nw_dst")?,
        "mod_nw_ecn" => entry("ip_ecn")?,
        "set_mpls_label" => entry("mpls_label")?,
        "set_mpls_tc" => entry("mpls_tc")?,
        "mod_nw_tos" => {
            let tos = number::u8(pair.wanted()?, "nw_tos")?;
            if tos & 3 != 0 {
                return Err(Fail::new(pair.value, "the lower two bits of nw_tos have to be zero")
                    .help("mod_nw_ecn sets these"));
            }
            Action::SetField(Entry::exact(Field::IpDscp, u128::from(tos >> 2)))
        }
        "set_tunnel" | "set_tunnel64" => {
            let id = number::u64(pair.wanted()?, "the number of a tunnel")?;
            Action::SetField(Entry::exact(Field::TunnelId, id.into()))
        }
        "mod_tp_src" | "mod_tp_dst" => port(key == "mod_tp_src", pair, scope)?,
        "mod_vlan_vid" | "set_vlan_vid" => {
            let number = number::number(pair.wanted()?, "a VLAN's number", 4095)? as u16;
            if scope.version() == Version::V10 {
                Action::SetVlanVid(number)
            } else {
                tag(key == "mod_vlan_vid", pair, scope, actions)?;
                Action::SetField(Entry::exact(Field::VlanVid, u128::from(number) | VLAN_PRESENT))
            }
        }
        "mod_vlan_pcp" | "set_vlan_pcp" => {
            let priority = number::number(pair.wanted()?, "the priority of a tag", 7)? as u8;
            if scope.version() == Version::V10 {
                Action::SetVlanPcp(priority)
            } else {
                tag(key == "mod_vlan_pcp", pair, scope, actions)?;
                Action::SetField(Entry::exact(Field::VlanPcp, priority.into()))
            }
        }
        _ => return Ok(false),
    };
    actions.push(action);
    Ok(true)
}

/// Newer versions set a tag only where there is one, so it is added where there may be none.
fn tag<'t>(
    add: bool,
    pair: &Pair<'t>,
    scope: &mut Scope<'_>,
    actions: &mut Vec<Action>,
) -> Parsed<'t, ()> {
    if scope.tagged {
        return Ok(());
    }
    if !add {
        let fail = Fail::new(pair.whole, format!("{} needs a tag that is there", pair.key));
        return Err(
            fail.help("push_vlan:0x8100 adds one, dl_vlan=… or vlan_tci=0x1000/0x1000 matches one")
        );
    }
    actions.push(Action::PushVlan(0x8100));
    scope.tagged = true;
    Ok(())
}

/// Sets a port of a transport protocol, which newer versions need to know.
fn port<'t>(source: bool, pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, Action> {
    let number = number::u16(pair.wanted()?, "a port")?;
    if scope.version() == Version::V10 {
        return Ok(if source { Action::SetTpSrc(number) } else { Action::SetTpDst(number) });
    }
    let field = match (scope.ip().then_some(scope.protocol).flatten(), source) {
        (Some(6), true) => Field::TcpSrc,
        (Some(6), false) => Field::TcpDst,
        (Some(17), true) => Field::UdpSrc,
        (Some(17), false) => Field::UdpDst,
        (Some(132), true) => Field::SctpSrc,
        (Some(132), false) => Field::SctpDst,
        _ => {
            let fail = Fail::new(pair.whole, "it is not known whose port this is");
            return Err(fail.help("match tcp, udp or sctp, or say set_field:…->tcp_dst"));
        }
    };
    Ok(Action::SetField(Entry::exact(field, number.into())))
}

impl Scope<'_> {
    fn ip(&self) -> bool {
        matches!(self.ethernet, Some(0x0800 | 0x86dd))
    }
}

fn set_field<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, Action> {
    let (text, name) = arrow(pair)?;
    match name {
        "dl_vlan" => {
            let number = number::number(text, "a VLAN's number", 4095)?;
            if scope.version() == Version::V10 {
                return Ok(Action::SetVlanVid(number as u16));
            }
            return Ok(Action::SetField(Entry::exact(Field::VlanVid, number | VLAN_PRESENT)));
        }
        "dl_vlan_pcp" => {
            let priority = number::number(text, "the priority of a tag", 7)?;
            if scope.version() == Version::V10 {
                return Ok(Action::SetVlanPcp(priority as u8));
            }
            return Ok(Action::SetField(Entry::exact(Field::VlanPcp, priority)));
        }
        _ => {}
    }
    let mut known = fields::field(name)?;
    // The usual name of a port is that of the protocol matched.
    let of = |field| fields::for_field(field);
    known = match (name, scope.protocol) {
        ("tp_src", Some(17)) => of(Field::UdpSrc),
        ("tp_dst", Some(17)) => of(Field::UdpDst),
        ("tp_src", Some(132)) => of(Field::SctpSrc),
        ("tp_dst", Some(132)) => of(Field::SctpDst),
        _ => known,
    };
    if !known.field.is_settable() {
        return Err(Fail::new(name, format!("{name} cannot be set")));
    }
    let (value, mask) = value::parse(known, text, scope.syntax.names())?;
    if mask == 0 {
        return Err(Fail::new(text, "a mask without bits sets nothing"));
    }
    check_value(known, value, mask, text)?;
    Ok(Action::SetField(Entry::masked(known.field, value, mask)))
}

fn check_value<'t>(known: &FieldName, value: u128, mask: u128, text: &'t str) -> Parsed<'t, ()> {
    match known.field {
        Field::VlanVid if mask == known.field.all_bits() && value & VLAN_PRESENT == 0 => {
            let fail =
                Fail::new(text, "a tag's number has bit 0x1000, which says that it is there");
            Err(fail.help(format!("set_field:{}->vlan_vid", value | VLAN_PRESENT)))
        }
        Field::IpTos if value & 3 != 0 => {
            let fail = Fail::new(text, "the lower two bits of nw_tos have to be zero");
            Err(fail.help("nw_ecn is these"))
        }
        _ => Ok(()),
    }
}

/// Bits of a field as the field under a mask.
pub(super) fn loaded(part: Subfield, value: u128) -> Entry {
    let mask = u128::MAX >> (128 - u32::from(part.bits())) << part.offset();
    Entry::masked(part.field(), value << part.offset(), mask)
}

fn load<'t>(pair: &Pair<'t>, scope: &Scope<'_>, actions: &mut Vec<Action>) -> Parsed<'t, ()> {
    let (text, name) = arrow(pair)?;
    let part = settable(name)?;
    let bits = u32::from(part.bits());
    let most = u128::MAX >> (128 - bits);
    let value = match number::integer(text) {
        Some(_) if text == "-1" => most,
        Some(value) if value > most => {
            return Err(Fail::new(text, format!("{text} does not fit into {bits} bits")));
        }
        Some(value) => value,
        None => return Err(Fail::new(text, format!("\"{text}\" is no number"))),
    };
    if !part.field().allows(value << part.offset()) {
        return Err(Fail::new(text, format!("{name} cannot be set to {text}")));
    }
    // One action less there; a load has no room for an experimenter's field.
    if scope.version() == Version::V15 || !part.field().is_short() {
        actions.push(Action::SetField(loaded(part, value)));
        return Ok(());
    }
    // An action has 64 bits of value.
    let mut first = 0;
    while first < part.bits() {
        let bits = (part.bits() - first).min(64);
        let piece = Subfield::new(part.field(), part.offset() + first, bits);
        let Some(destination) = piece else { break };
        let value = (value >> first) as u64 & (u64::MAX >> (64 - bits));
        actions.push(Action::Load { destination, value });
        first += bits;
    }
    Ok(())
}
