//! `ct`, and `nat` inside of it.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::super::error::{Fail, Parsed};
use super::super::scan::{Pair, Pairs};
use super::super::{fields, number};
use super::{Scope, parse_actions};
use crate::wire::{Action, Ct, Nat, NatAddresses, NatFlags, Zone};

/// Protocols that open further connections, by their ports.
pub(super) const HELPERS: [(&str, u16); 2] = [("ftp", 21), ("tftp", 69)];

pub(super) fn ct<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, Action> {
    const NAMES: [&str; 7] = ["commit", "force", "table", "zone", "alg", "nat", "exec"];
    let inside = scope.deeper(pair.key, true)?;
    let mut ct = Ct {
        commit: false,
        force: false,
        zone: Zone::Number(0),
        table: None,
        helper: 0,
        actions: Vec::new(),
    };
    for pair in Pairs::new(pair.value) {
        let pair = pair?;
        match pair.key {
            "commit" => ct.commit = true,
            "force" => ct.force = true,
            "table" => {
                let table = scope.syntax.names().table(pair.wanted()?)?;
                if table == 255 {
                    return Err(Fail::new(pair.value, "there is no table 255"));
                }
                ct.table = Some(table);
            }
            "zone" => ct.zone = zone(pair.wanted()?)?,
            "alg" => {
                let text = pair.wanted()?;
                let known = HELPERS.iter().find(|(name, _)| *name == text);
                ct.helper = match known {
                    Some(&(_, port)) => port,
                    None if number::integer(text).is_some() => number::u16(text, "a port")?,
                    None => {
                        return Err(Fail::unknown(text, "helper", HELPERS.map(|(name, _)| name)));
                    }
                };
            }
            "nat" => ct.actions.push(nat(&pair)?),
            "exec" => {
                let mut inside = inside;
                ct.actions.extend(parse_actions(pair.value, &mut inside)?);
            }
            key => return Err(Fail::unknown(key, "argument of ct", NAMES)),
        }
    }
    if ct.force && !ct.commit {
        return Err(Fail::new(pair.whole, "\"force\" needs \"commit\""));
    }
    let plain = |action: &Action| match action {
        Action::Nat(nat) => nat.flags.0 == 0 && nat.addresses == NatAddresses::Unchanged,
        _ => false,
    };
    if !ct.commit && !ct.actions.iter().all(plain) {
        let fail = Fail::new(pair.whole, "only what is remembered can be changed");
        return Err(fail.help("ct(commit,…)"));
    }
    Ok(Action::Ct(Box::new(ct)))
}

fn zone(text: &str) -> Parsed<'_, Zone> {
    if number::integer(text).is_some() {
        return number::u16(text, "a zone").map(Zone::Number);
    }
    let part = fields::subfield(text)?;
    if part.bits() != 16 {
        return Err(Fail::new(text, "a zone has 16 bits").help("NXM_NX_REG0[0..15]"));
    }
    Ok(Zone::Field(part))
}

pub(super) fn nat<'t>(pair: &Pair<'t>) -> Parsed<'t, Action> {
    const NAMES: [&str; 5] = ["src", "dst", "persistent", "hash", "random"];
    let mut nat =
        Nat { flags: NatFlags::default(), addresses: NatAddresses::Unchanged, ports: None };
    for pair in Pairs::new(pair.value) {
        let pair = pair?;
        let flag = match pair.key {
            "src" => NatFlags::SOURCE,
            "dst" => NatFlags::DESTINATION,
            "persistent" => NatFlags::PERSISTENT,
            "hash" => NatFlags::HASH,
            "random" => NatFlags::RANDOM,
            key => return Err(Fail::unknown(key, "argument of nat", NAMES)),
        };
        nat.flags = nat.flags.with(flag);
        if !pair.value.is_empty() {
            if !matches!(pair.key, "src" | "dst") {
                return Err(Fail::new(pair.whole, format!("{} has no value", pair.key)));
            }
            (nat.addresses, nat.ports) = range(pair.value)?;
        }
    }
    let wrong = |what: &str| Err(Fail::new(pair.whole, what));
    if nat.flags.contains(NatFlags::SOURCE.with(NatFlags::DESTINATION)) {
        return wrong("nat translates the source or the destination");
    }
    if nat.flags.contains(NatFlags::HASH.with(NatFlags::RANDOM)) {
        return wrong("nat chooses by a hash or at random");
    }
    let way = nat.flags.0 & (NatFlags::SOURCE.0 | NatFlags::DESTINATION.0) != 0;
    if nat.flags.0 != 0 && !way {
        return wrong("nat needs src or dst for this");
    }
    Ok(Action::Nat(Box::new(nat)))
}

type Range = (NatAddresses, Option<(u16, Option<u16>)>);

/// `10.0.0.1-10.0.0.5:1000-2000`, `[fe80::1]-[fe80::5]:1000-2000`.
fn range(text: &str) -> Parsed<'_, Range> {
    let wrong = || {
        let fail = Fail::new(text, "not addresses and ports");
        fail.help("10.0.0.1-10.0.0.5:1000-2000, or [2001:db8::1]-[2001:db8::5]:1000-2000")
    };
    let v6 = text.starts_with('[')
        || text.split('-').next().is_some_and(|first| first.matches(':').count() > 1);
    let (addresses, ports) = match text.rfind(']') {
        Some(end) if v6 => (&text[..=end], text[end + 1..].strip_prefix(':')),
        _ if v6 => (text, None),
        _ => {
            text.split_once(':').map_or((text, None), |(addresses, ports)| (addresses, Some(ports)))
        }
    };
    let (first, last) = both(addresses);
    let bare = |text: &str| text.trim_matches(['[', ']']).to_owned();
    let addresses = if v6 {
        let address = |text: &str| bare(text).parse::<Ipv6Addr>().map_err(|_| wrong());
        let (first, last) = (address(first)?, last.map(address).transpose()?);
        if last.is_some_and(|last| last < first) {
            return Err(Fail::new(text, "the last address is before the first"));
        }
        NatAddresses::V6(first, last.filter(|&last| last != first))
    } else {
        let address = |text: &str| text.parse::<Ipv4Addr>().map_err(|_| wrong());
        let (first, last) = (address(first)?, last.map(address).transpose()?);
        if last.is_some_and(|last| last < first) {
            return Err(Fail::new(text, "the last address is before the first"));
        }
        NatAddresses::V4(first, last.filter(|&last| last != first))
    };
    let ports = match ports.map(both) {
        None => None,
        Some((first, last)) => {
            let first = number::u16(first, "a port")?;
            let last = last.map(|last| number::u16(last, "a port")).transpose()?;
            if first == 0 || last.is_some_and(|last| last < first) {
                return Err(Fail::new(text, "ports go from one above 0 to one not below it"));
            }
            Some((first, last.filter(|&last| last != first)))
        }
    };
    Ok((addresses, ports))
}

fn both(text: &str) -> (&str, Option<&str>) {
    text.split_once('-').map_or((text, None), |(first, last)| (first, Some(last)))
}
