//! Targets of routes, and the text of routes.

use linerate_graph::{
    Ipv4OrPrefix, Scope, Value,
    lang::config::{unquote, words},
    parse_integer,
};

use crate::{
    ipsec::association::{Association, KEY},
    routing::route::Route,
};

/// Target of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    /// Zero for none.
    pub(super) gateway: u32,
    /// Below zero where only the prefix matters.
    pub(super) output: i32,
    /// The tunnel's security parameters index; zero for none.
    pub(super) index: u32,
    /// Its keys, by number; zero for none.
    pub(super) association: u32,
}

/// A route and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TunnelRoute {
    pub(super) address: u32,
    pub(super) mask: u32,
    pub(super) target: Target,
}

/// A tunnel as it is written.
pub(super) struct ParsedTunnel {
    pub(super) index: u32,
    /// The first sequence number.
    pub(super) start: u32,
    pub(super) association: Association,
}

impl TunnelRoute {
    /// As the table of routes has it: instead of an output the place of the
    /// target.
    pub(super) fn route(&self, place: usize) -> Route<u32> {
        Route::new(self.address, self.mask, 0, place as i32)
    }
}

/// Reads `ADDR/MASK [GATEWAY] OUTPUT`, and the tunnel behind it. Errors of the tunnel go to `say`.
pub(super) fn parse(
    text: &str,
    scope: &Scope<'_>,
    removing: bool,
    say: &dyn Fn(&str),
) -> Option<(TunnelRoute, Option<ParsedTunnel>)> {
    let parts = words(text);
    let mut parts = parts.iter().copied().peekable();
    let Ipv4OrPrefix(prefix) = Ipv4OrPrefix::parse(parts.next()?, scope).ok()?;
    let mask = prefix.mask.to_bits();
    let number = |word: &str| parse_integer(word).and_then(|number| i32::try_from(number).ok());
    let gateway = match parts.peek() {
        Some(&"-") => Some(0),
        Some(word) if number(word).is_none() => {
            std::net::Ipv4Addr::parse(word, scope).ok().map(u32::from)
        }
        _ => None,
    };
    if gateway.is_some() {
        parts.next();
    }
    let output = match parts.next() {
        Some(word) => number(word)?,
        None if removing => -1,
        None => return None,
    };
    let written = match parts.peek() {
        Some(_) => Some(tunnel(&parts.collect::<Vec<_>>(), say)?),
        None => None,
    };
    let gateway = gateway.unwrap_or(0);
    let target = Target { gateway, output, index: 0, association: 0 };
    Some((TunnelRoute { address: prefix.address.to_bits() & mask, mask, target }, written))
}

/// Reads `SPI ENCRYPT_KEY AUTH_KEY REPLAY OOSIZE`.
fn tunnel(words: &[&str], say: &dyn Fn(&str)) -> Option<ParsedTunnel> {
    let mut right = true;
    let mut wrong = |name: &str, what: &str| {
        right = false;
        say(&format!("{name}: {what}\n"));
    };
    let mut number = |at: usize, name: &str, most: u32| match words.get(at) {
        None => {
            wrong(name, "required argument missing");
            0
        }
        Some(word) => match parse_integer(word) {
            Some(number) if (0..=i128::from(most)).contains(&number) => number as u32,
            Some(number) if number > 0 => {
                wrong(name, &format!("out of range, bound {most}"));
                0
            }
            _ => {
                wrong(name, "invalid number");
                0
            }
        },
    };
    let index = number(0, "SPI", u32::MAX);
    for (at, name) in [(1, "ENCRYPT_KEY"), (2, "AUTH_KEY")] {
        if words.len() <= at {
            // Only missing arguments can be wrong with a text.
            number(at, name, 0);
        }
    }
    let start = number(3, "REPLAY", u32::MAX);
    let window = number(4, "OOSIZE", u8::MAX.into()) as u8;
    if words.len() > 5 {
        right = false;
        say("too many arguments\n");
    }
    if !right {
        return None;
    }
    let key = |at: usize| <[u8; KEY]>::try_from(unquote(words[at])).ok();
    let (Some(encryption), Some(authentication)) = (key(1), key(2)) else {
        say("key has bad length\n");
        return None;
    };
    let association = Association::new(encryption, authentication, start, window);
    Some(ParsedTunnel { index, start, association })
}

/// A route as Click shows it, in columns or with spaces between, with the keys of
/// its tunnel.
pub(super) fn text(way: &TunnelRoute, keys: Option<&Association>, columns: bool) -> String {
    let TunnelRoute { address, mask, target } = way;
    let route = Route::new(*address, *mask, target.gateway, target.output);
    let mut text = crate::routing::route::text(&route, columns);
    if target.index != 0
        && let Some(keys) = keys
    {
        let hex = |key: [u8; KEY]| key.map(|byte| format!("{byte:02x}")).concat();
        text += &format!(
            "  |TUNNELED CONNECTION| \n|SPI| |ENC KEY| |AUTH KEY| ||\n |{}| |{}| |{}|\n",
            target.index,
            hex(keys.encryption_key),
            hex(keys.authentication_key)
        );
    }
    text
}
