//! Routes, and those of IPv4 as text.

use std::{net::Ipv4Addr, sync::Arc};

use linerate_graph::{Ipv4OrPrefix, Scope, Value, parse_integer};
use linerate_tables::prefix::Prefix;

use super::{family::Family, table::Refusal};

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route<A> {
    /// No bits are set that are not in the mask.
    pub(super) address: A,
    pub(super) mask: A,
    /// Zero for none.
    pub(super) gateway: A,
    /// Below zero where only the prefix matters.
    pub(super) output: i32,
    /// Next hops that share flows, where there are several; the first is the one above.
    pub(super) several: Option<Arc<[Share<A>]>>,
}

/// One of several next hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Share<A> {
    /// Zero for none.
    pub(super) gateway: A,
    pub(super) output: u32,
    /// From 1.
    pub(super) weight: u32,
}

/// Most next hops of a route, and the greatest weight of one.
const MOST: usize = 256;
const HEAVIEST: u32 = 65_535;

impl<A: Family> Route<A> {
    pub(super) fn new(address: A, mask: A, gateway: A, output: i32) -> Route<A> {
        Route { address, mask, gateway, output, several: None }
    }

    /// A route for looking for the one with this address and mask.
    pub(super) fn key_of(address: A, mask: A) -> Route<A> {
        Route::new(address, mask, A::default(), -1)
    }

    /// One to several next hops, at least one.
    pub(super) fn several(address: A, mask: A, shares: &Arc<[Share<A>]>) -> Route<A> {
        let first = shares.first();
        let (gateway, output) =
            first.map_or((A::default(), -1), |share| (share.gateway, share.output as i32));
        Route { several: Some(Arc::clone(shares)), ..Route::new(address, mask, gateway, output) }
    }

    /// `None` when the mask is not that of a prefix.
    pub(super) fn prefix(&self) -> Option<Prefix<A>> {
        let length = A::mask(A::BITS).common(self.mask);
        let prefix = Prefix::new(self.address, length as u8).ok()?;
        (A::mask(length) == self.mask).then_some(prefix)
    }

    pub(super) fn key(&self) -> (A, A) {
        (self.address, self.mask)
    }

    pub(super) fn contains(&self, address: A) -> bool {
        address.and(self.mask) == self.address
    }

    /// The greatest and the least output it leads to.
    pub(super) fn outputs(&self) -> (i32, i32) {
        let all = self.several.iter().flat_map(|shares| shares.iter());
        let all = all.map(|share| share.output as i32).chain([self.output]);
        all.fold((i32::MIN, i32::MAX), |(most, least), output| {
            (most.max(output), least.min(output))
        })
    }
}

/// Reads `[GATEWAY] OUTPUT[*WEIGHT]` several times with bars between, by the reader `each` of
/// gateway and output; a weight that is not given is 1. A single next hop is not several, with any
/// weight.
pub(super) fn parse_several<A: Family>(
    text: &str,
    each: impl Fn(&str) -> Option<(A, i32)>,
) -> Option<Arc<[Share<A>]>> {
    let mut shares: Vec<Share<A>> = Vec::new();
    for one in text.split('|') {
        let (to, weight) = match one.rsplit_once('*') {
            Some((to, weight)) => (to, u32::try_from(parse_integer(weight.trim())?).ok()?),
            None => (one, 1),
        };
        let (gateway, output) = each(to)?;
        let output = u32::try_from(output).ok()?;
        if !(1..=HEAVIEST).contains(&weight) || shares.len() == MOST {
            return None;
        }
        shares.push(Share { gateway, output, weight });
    }
    Some(shares.into())
}

/// Formats the next hops of a route with several.
pub(super) fn several_text<A: Family>(shares: &[Share<A>], none: &str) -> String {
    let one = |Share { gateway, output, weight }: &Share<A>| {
        let gateway = if gateway.is_zero() { none.to_owned() } else { gateway.text() };
        let weight = if *weight == 1 { String::new() } else { format!("*{weight}") };
        format!("{gateway} {output}{weight}")
    };
    shares.iter().map(one).collect::<Vec<_>>().join(" | ")
}

/// Reads `ADDR/MASK [GATEWAY] OUTPUT`, with a dash for no gateway; a route that
/// is to go may be without output.
pub(super) fn parse(text: &str, scope: &Scope<'_>, removing: bool) -> Option<Route<u32>> {
    let text = text.trim_ascii_start();
    let end = text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len());
    let (prefix, rest) = text.split_at(end);
    let Ipv4OrPrefix(prefix) = Ipv4OrPrefix::parse(prefix, scope).ok()?;
    let mask = prefix.mask.to_bits();
    let address = prefix.address.to_bits() & mask;
    if rest.contains('|') {
        let shares = parse_several(rest, |to| hop(to, scope, false))?;
        return Some(Route::several(address, mask, &shares));
    }
    let (gateway, output) = hop(rest, scope, removing)?;
    Some(Route::new(address, mask, gateway, output))
}

/// Reads `[GATEWAY] OUTPUT`.
fn hop(text: &str, scope: &Scope<'_>, removing: bool) -> Option<(u32, i32)> {
    let mut words = text.split_ascii_whitespace();
    let mut word = words.next();
    let gateway = match word {
        Some("-") => Some(0),
        // Not looked for among the names of the host's interfaces, which takes
        // longer than all the rest.
        Some(last) if words.clone().next().is_none() && parse_integer(last).is_some() => None,
        Some(text) => Ipv4Addr::parse(text, scope).ok().map(u32::from),
        None => None,
    };
    if gateway.is_some() {
        word = words.next();
    }
    let output = match word {
        Some(word) => i32::try_from(parse_integer(word)?).ok()?,
        None if removing => -1,
        None => return None,
    };
    words.next().is_none().then_some((gateway.unwrap_or(0), output))
}

/// The route as Click shows it: in columns, or with spaces between.
pub(super) fn text(route: &Route<u32>, columns: bool) -> String {
    let tab = if columns { "\t" } else { " " };
    let wide = |text: String, width: usize| {
        if columns && text.len() + 1 < width { text + "\t\t" } else { text + tab }
    };
    let prefix = format!("{}/{}", route.address.text(), route.mask.mask_text());
    if let Some(shares) = &route.several {
        return wide(prefix, 17) + &several_text(shares, "-");
    }
    let gateway = if route.gateway == 0 { "-".into() } else { route.gateway.text() };
    wide(prefix, 17) + &wide(gateway, 9) + &route.output.to_string()
}

/// Returns Click's text for a change that was refused.
pub(super) fn refusal(route: &Route<u32>, refusal: Refusal<u32>) -> String {
    match refusal {
        Refusal::Exists(old) => format!("conflict with existing route '{}'", text(&old, false)),
        Refusal::Absent => format!("route '{}' not found", text(route, false)),
        Refusal::NoRoom => format!("no memory to store route '{}'", text(route, false)),
        Refusal::Mask => format!("route '{}' is not for a prefix", text(route, false)),
    }
}
