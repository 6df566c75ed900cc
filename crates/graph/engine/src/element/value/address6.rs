//! IPv6 addresses and prefixes.

use std::net::Ipv6Addr;

use super::{Value, address::suffixed, integer_in, or_parse_error};
use crate::element::Scope;

fn ipv6(text: &str, scope: &Scope<'_>) -> Option<Ipv6Addr> {
    text.parse().ok().or_else(|| {
        let (name, suffix) = suffixed(text);
        matches!(suffix.as_str(), "" | ":ip6").then_some(())?;
        scope.names.find(scope.name, name, |entry| entry.ipv6)
    })
}

impl Value for Ipv6Addr {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ipv6Addr, String> {
        or_parse_error(ipv6(text, scope))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.to_string()
    }
}

/// An IPv6 address and how many of its bits count: `3ffe::/16`, `NAME:ip6net`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Prefix {
    /// The address, with all the bits that were written.
    pub address: Ipv6Addr,
    /// The length.
    pub length: u8,
}

impl Default for Ipv6Prefix {
    fn default() -> Ipv6Prefix {
        Ipv6Prefix { address: Ipv6Addr::UNSPECIFIED, length: 0 }
    }
}

fn with_slash(text: &str, scope: &Scope<'_>) -> Option<Ipv6Prefix> {
    let (before, after) = text.rsplit_once('/')?;
    let address = ipv6(before, scope)?;
    let length = integer_in(after, 10, true).filter(|length| (0..=128).contains(length));
    let length = match length {
        Some(length) => length as u8,
        None => {
            let mask = ipv6(after, scope)?.to_bits();
            let length = mask.leading_ones();
            (mask.count_ones() == length).then_some(length as u8)?
        }
    };
    Some(Ipv6Prefix { address, length })
}

fn named_prefix(text: &str, scope: &Scope<'_>) -> Option<Ipv6Prefix> {
    let (name, suffix) = suffixed(text);
    matches!(suffix.as_str(), "" | ":ip6net").then_some(())?;
    let (address, length) = scope.names.find(scope.name, name, |entry| entry.ipv6_net)?;
    Some(Ipv6Prefix { address, length })
}

impl Value for Ipv6Prefix {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ipv6Prefix, String> {
        or_parse_error(with_slash(text, scope).or_else(|| named_prefix(text, scope)))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        format!("{}/{}", self.address, self.length)
    }
}

/// A prefix, or an address, which is a prefix of 128 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ipv6OrPrefix(pub Ipv6Prefix);

impl Value for Ipv6OrPrefix {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ipv6OrPrefix, String> {
        let whole = |address| Ipv6Prefix { address, length: 128 };
        let prefix = with_slash(text, scope)
            .or_else(|| ipv6(text, scope).map(whole))
            .or_else(|| named_prefix(text, scope));
        or_parse_error(prefix.map(Ipv6OrPrefix))
    }

    fn unparse(&self, scope: &Scope<'_>) -> String {
        let Ipv6OrPrefix(prefix) = self;
        if prefix.length == 128 { prefix.address.to_string() } else { prefix.unparse(scope) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        element::value::tests::{read, read_with},
        names::Names,
    };

    #[test]
    fn addresses_and_prefixes() {
        let address: Ipv6Addr = "3ffe:1001::9".parse().unwrap();
        for text in ["3ffe:1001::9", "3FFE:1001:0:0::9", "3ffe:1001::0.0.0.9"] {
            assert_eq!(read(text), Ok(address), "{text}");
        }
        for text in ["", ":", "1::2::3", "1:2", "12345::", "::g"] {
            assert_eq!(read::<Ipv6Addr>(text), Err("parse error".into()), "{text}");
        }
        assert_eq!(read("3ffe:1001::9/16"), Ok(Ipv6Prefix { address, length: 16 }));
        assert_eq!(read("3ffe:1001::9/ffff:8000::"), Ok(Ipv6Prefix { address, length: 17 }));
        for text in ["::/129", "::/ff:", "::/", "::", "::/8000::1"] {
            assert_eq!(read::<Ipv6Prefix>(text), Err("parse error".into()), "{text}");
        }
        let whole = Ipv6OrPrefix(Ipv6Prefix { address, length: 128 });
        assert_eq!(read("3ffe:1001::9"), Ok(whole));
    }

    #[test]
    fn names() {
        let mut names = Names::default();
        names.define("x", "m").ipv6 = Some(Ipv6Addr::LOCALHOST);
        names.define("x", "m").ipv6_net = Some((Ipv6Addr::LOCALHOST, 64));
        let net = Ipv6Prefix { address: Ipv6Addr::LOCALHOST, length: 64 };
        assert_eq!(read_with("m:ip6", &names), Ok(Ipv6Addr::LOCALHOST));
        assert_eq!(read_with("m:ip6net", &names), Ok(net));
        assert_eq!(read_with("m", &names), Ok(net));
        assert!(read_with::<Ipv6Addr>("m:ip", &names).is_err());
    }
}
