//! IPv4 routes as text.

use std::net::Ipv4Addr;

use linerate_graph::{Ipv4OrPrefix, Scope, Value, parse_integer};

use super::{
    family::Family,
    table::{Refusal, Route},
};

/// Reads `ADDR/MASK [GATEWAY] OUTPUT`, with a dash for no gateway; a route that
/// is to go may be without output.
pub(super) fn parse(text: &str, scope: &Scope<'_>, removing: bool) -> Option<Route<u32>> {
    let mut words = text.split_ascii_whitespace();
    let Ipv4OrPrefix(prefix) = Ipv4OrPrefix::parse(words.next()?, scope).ok()?;
    let mask = prefix.mask.to_bits();
    let mut word = words.next();
    let gateway = match word {
        Some("-") => Some(0),
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
    let address = prefix.address.to_bits() & mask;
    let route = Route { address, mask, gateway: gateway.unwrap_or(0), output };
    words.next().is_none().then_some(route)
}

/// The route as Click shows it: in columns, or with spaces between.
pub(super) fn text(route: &Route<u32>, columns: bool) -> String {
    let tab = if columns { "\t" } else { " " };
    let wide = |text: String, width: usize| match columns && text.len() + 1 < width {
        true => text + "\t\t",
        false => text + tab,
    };
    let prefix = format!("{}/{}", route.address.text(), route.mask.mask_text());
    let gateway = if route.gateway == 0 { "-".into() } else { route.gateway.text() };
    wide(prefix, 17) + &wide(gateway, 9) + &route.output.to_string()
}

/// Why nothing was changed, in Click's words.
pub(super) fn refusal(route: &Route<u32>, refusal: Refusal<u32>) -> String {
    match refusal {
        Refusal::Exists(old) => format!("conflict with existing route '{}'", text(&old, false)),
        Refusal::Absent => format!("route '{}' not found", text(route, false)),
        Refusal::NoRoom => format!("no memory to store route '{}'", text(route, false)),
        Refusal::Mask => format!("route '{}' is not for a prefix", text(route, false)),
    }
}
