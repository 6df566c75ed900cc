//! Actions that choose by a flow's hash: `bundle`, `bundle_load` and `multipath`.

use super::super::error::{Fail, Parsed};
use super::super::number;
use super::super::scan::{Pair, parts};
use super::Scope;
use super::parse::settable;
use crate::wire::{Action, Bundle, Multipath};

/// Fields that make a flow, by their numbers.
pub(super) const FIELDS: [&str; 7] = [
    "eth_src",
    "symmetric_l4",
    "symmetric_l3l4",
    "symmetric_l3l4+udp",
    "nw_src",
    "nw_dst",
    "symmetric_l3",
];
/// Selections of a port, by their numbers.
pub(super) const BUNDLES: [&str; 2] = ["active_backup", "hrw"];
/// Mappings of a hash to a number, by their numbers.
pub(super) const MULTIPATHS: [&str; 4] = ["modulo_n", "hash_threshold", "hrw", "iter_hash"];

fn one_of<'t>(text: &'t str, kind: &str, known: &[&'static str]) -> Parsed<'t, u16> {
    let found = known.iter().position(|name| name.eq_ignore_ascii_case(text));
    let found = found.map(|found| found as u16);
    found.ok_or_else(|| Fail::unknown(text, kind, known.iter().copied()))
}

pub(super) fn bundle<'t>(pair: &Pair<'t>, scope: &Scope<'_>, load: bool) -> Parsed<'t, Action> {
    let help = if load {
        "bundle_load(symmetric_l4,0,hrw,ofport,reg0[],members:1,2)"
    } else {
        "bundle(symmetric_l4,0,hrw,ofport,members:1,2)"
    };
    let missing = || Fail::new(pair.whole, format!("{} needs more arguments", pair.key)).help(help);
    let mut parts = parts(pair.value);
    let mut next = || parts.next().ok_or_else(missing);
    let fields = one_of(next()?, "kind of flow", &FIELDS)?;
    let basis = number::u16(next()?, "a basis")?;
    let algorithm = one_of(next()?, "way to choose", &BUNDLES)?;
    one_of(next()?, "kind of members", &["ofport"])?;
    let destination = if load {
        let text = next()?;
        let part = settable(text)?;
        if part.bits() < 16 {
            return Err(Fail::new(text, "a port's number needs 16 bits"));
        }
        Some(part)
    } else {
        None
    };
    let first = next()?;
    let first = first.strip_prefix("members").or_else(|| first.strip_prefix("slaves"));
    let first = first.map(str::trim_start).and_then(|first| first.strip_prefix([':', '=', '(']));
    let first = first.ok_or_else(|| Fail::new(pair.whole, "members:… are missing").help(help))?;
    let bare =
        |member: &'t str| member.trim_matches(|letter| matches!(letter, '[' | ']' | '(' | ')'));
    let members = std::iter::once(first).chain(parts).map(bare).filter(|member| !member.is_empty());
    let port = |member| {
        let port = scope.syntax.names().port(member)?;
        match port.short() {
            Ok(_) => Ok(port),
            Err(_) => Err(Fail::new(member, "ports of a bundle have 16 bits")),
        }
    };
    let members = members.map(port).collect::<Parsed<'t, Vec<_>>>()?;
    Ok(Action::Bundle(Box::new(Bundle { algorithm, fields, basis, members, destination })))
}

pub(super) fn multipath<'t>(pair: &Pair<'t>) -> Parsed<'t, Action> {
    let missing = || {
        Fail::new(pair.whole, "multipath needs more arguments")
            .help("multipath(symmetric_l4,0,hrw,4,0,reg0[])")
    };
    let mut parts = parts(pair.value);
    let mut next = || parts.next().ok_or_else(missing);
    let fields = one_of(next()?, "kind of flow", &FIELDS)?;
    let basis = number::u16(next()?, "a basis")?;
    let algorithm = one_of(next()?, "way to choose", &MULTIPATHS)?;
    let links = next()?;
    let count = number::number(links, "the number of links", 65536)? as u32;
    let argument = number::u32(next()?, "the argument")?;
    let destination = settable(next()?)?;
    let Some(max_link) = count.checked_sub(1) else {
        return Err(Fail::new(links, "there is at least one link"));
    };
    if destination.bits() < 16 && max_link >> destination.bits() != 0 {
        let bits = destination.bits();
        return Err(Fail::new(pair.value, format!("{bits} bits do not count {count} links")));
    }
    let max_link = max_link as u16;
    Ok(Action::Multipath(Multipath { fields, basis, algorithm, max_link, argument, destination }))
}
