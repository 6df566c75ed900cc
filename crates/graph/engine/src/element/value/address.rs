//! IPv4 addresses and prefixes, and Ethernet addresses: written out, by a name
//! `AddressInfo` defined, or by that of a network device.

use std::net::Ipv4Addr;

use linerate_packet::MacAddr;

use super::{Value, integer_in, or_parse_error};
use crate::{
    element::Scope,
    names::{device_gateway, device_ipv4, device_mac},
};

/// Splits off the suffix that tells the kind of address, in lower case: `mauer:ipnet`.
pub(super) fn suffixed(text: &str) -> (&str, String) {
    match text.rfind(':') {
        Some(colon) => (&text[..colon], text[colon..].to_ascii_lowercase()),
        None => (text, String::new()),
    }
}

/// The numbers between dots at the start of `text`, at most four, and how many
/// bytes they take.
pub(super) fn dotted(text: &str) -> (Vec<u8>, usize) {
    let bytes = text.as_bytes();
    let (mut parts, mut length) = (Vec::new(), 0);
    while parts.len() < 4 {
        let start = match bytes.get(length) {
            _ if parts.is_empty() => length,
            Some(b'.') => length + 1,
            _ => break,
        };
        let digits = bytes[start..].iter().take_while(|b| b.is_ascii_digit()).count();
        let Ok(part) = text[start..start + digits].parse::<u8>() else { break };
        parts.push(part);
        length = start + digits;
    }
    (parts, length)
}

/// An address from as many of its bytes as there are.
fn padded(parts: &[u8]) -> Ipv4Addr {
    let byte = |at: usize| parts.get(at).copied().unwrap_or(0);
    Ipv4Addr::new(byte(0), byte(1), byte(2), byte(3))
}

/// The mask of a prefix of that length.
fn mask(length: u32) -> Ipv4Addr {
    u32::MAX.checked_shl(32 - length.min(32)).unwrap_or(0).into()
}

fn ipv4(text: &str, scope: &Scope<'_>) -> Option<Ipv4Addr> {
    let (parts, length) = dotted(text);
    if parts.len() == 4 && length == text.len() {
        return Some(padded(&parts));
    }
    named_ipv4(text, scope)
}

fn named_ipv4(text: &str, scope: &Scope<'_>) -> Option<Ipv4Addr> {
    let (name, suffix) = suffixed(text);
    let find = |name| scope.names.find(scope.name, name, |entry| entry.ipv4);
    match suffix.as_str() {
        "" | ":ip" | ":ip4" => find(name).or_else(|| Some(device_ipv4(name)?.0)),
        ":bcast" => {
            let prefix = named_prefix(name, scope)?;
            Some(prefix.address | !prefix.mask)
        }
        ":gw" => {
            let defined = || scope.names.find(scope.name, name, |entry| entry.ipv4_net);
            let first = |(address, mask): (Ipv4Addr, Ipv4Addr)| {
                (address & mask) | Ipv4Addr::new(0, 0, 0, 1)
            };
            find(text)
                .or_else(|| defined().map(first))
                .or_else(|| device_gateway(name))
                .or_else(|| device_ipv4(name).map(first))
        }
        _ => None,
    }
}

impl Value for Ipv4Addr {
    const KIND: &'static str = "IP address";
    const EXPECTED: &'static str = "IP address";

    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ipv4Addr, String> {
        or_parse_error(ipv4(text, scope))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.to_string()
    }
}

/// An address and a mask: `18.26.4.0/24`, `18.26.4/24`,
/// `18.26.4.0/255.255.255.0`, `NAME:ipnet`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Prefix {
    /// The address, with all the bits that were written.
    pub address: Ipv4Addr,
    /// The mask, which need not be that of a prefix.
    pub mask: Ipv4Addr,
}

impl Default for Ipv4Prefix {
    fn default() -> Ipv4Prefix {
        Ipv4Prefix { address: Ipv4Addr::UNSPECIFIED, mask: Ipv4Addr::UNSPECIFIED }
    }
}

impl Ipv4Prefix {
    /// The length, when the mask is that of a prefix.
    pub fn length(&self) -> Option<u32> {
        let length = self.mask.to_bits().leading_ones();
        (mask(length) == self.mask).then_some(length)
    }
}

fn named_prefix(text: &str, scope: &Scope<'_>) -> Option<Ipv4Prefix> {
    let (name, suffix) = suffixed(text);
    if !matches!(suffix.as_str(), "" | ":net" | ":ipnet" | ":ip4net") {
        return None;
    }
    let defined = scope.names.find(scope.name, name, |entry| entry.ipv4_net);
    let (address, mask) = defined.or_else(|| device_ipv4(name))?;
    Some(Ipv4Prefix { address, mask })
}

fn with_slash(text: &str, scope: &Scope<'_>) -> Option<Ipv4Prefix> {
    let (before, after) = text.rsplit_once('/').filter(|(before, _)| !before.is_empty())?;
    let (parts, length) = dotted(before);
    let (address, known) = if length == before.len() {
        (padded(&parts), 8 * parts.len() as u32)
    } else {
        (named_ipv4(before, scope)?, 32)
    };
    let length = integer_in(after, 10, true).filter(|length| (0..=32).contains(length));
    let mask_written = match length {
        Some(length) => mask(length as u32),
        None => ipv4(after, scope)?,
    };
    // A mask longer than the address that was written is a mistake.
    let covered = mask_written & mask(known) == mask_written;
    covered.then_some(Ipv4Prefix { address, mask: mask_written })
}

impl Value for Ipv4Prefix {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ipv4Prefix, String> {
        or_parse_error(with_slash(text, scope).or_else(|| named_prefix(text, scope)))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        match self.length() {
            Some(length) => format!("{}/{length}", self.address),
            None => format!("{}/{}", self.address, self.mask),
        }
    }
}

/// A prefix, or an address, which is a prefix of 32 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ipv4OrPrefix(pub Ipv4Prefix);

impl Value for Ipv4OrPrefix {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ipv4OrPrefix, String> {
        let whole = |address| Ipv4Prefix { address, mask: Ipv4Addr::BROADCAST };
        let prefix = with_slash(text, scope)
            .or_else(|| ipv4(text, scope).map(whole))
            .or_else(|| named_prefix(text, scope));
        or_parse_error(prefix.map(Ipv4OrPrefix))
    }

    fn unparse(&self, scope: &Scope<'_>) -> String {
        let Ipv4OrPrefix(prefix) = self;
        if prefix.length() == Some(32) { prefix.address.to_string() } else { prefix.unparse(scope) }
    }
}

/// Six numbers of one or two digits between equal separators.
fn mac(text: &str) -> Option<MacAddr> {
    let separator = text.chars().find(|c| matches!(c, '-' | ':'))?;
    let mut parts = text.split(separator);
    let mut bytes = [0; 6];
    for byte in &mut bytes {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        let digits = part.bytes().all(|b| b.is_ascii_hexdigit());
        *byte = u8::from_str_radix(part, 16).ok().filter(|_| digits)?;
    }
    parts.next().is_none().then_some(MacAddr(bytes))
}

impl Value for MacAddr {
    const KIND: &'static str = "Ethernet address";
    const EXPECTED: &'static str = "Ethernet address";

    fn parse(text: &str, scope: &Scope<'_>) -> Result<MacAddr, String> {
        let named = || {
            let (name, suffix) = suffixed(text);
            matches!(suffix.as_str(), "" | ":eth" | ":ether" | ":ethernet").then_some(())?;
            let defined = scope.names.find(scope.name, name, |entry| entry.mac);
            defined.or_else(|| device_mac(name))
        };
        or_parse_error(mac(text).or_else(named))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        element::value::tests::{read, read_with},
        names::Names,
    };

    fn prefix(address: [u8; 4], mask: [u8; 4]) -> Ipv4Prefix {
        Ipv4Prefix { address: address.into(), mask: mask.into() }
    }

    #[test]
    fn addresses() {
        assert_eq!(read("18.26.4.9"), Ok(Ipv4Addr::new(18, 26, 4, 9)));
        assert_eq!(read("018.026.04.9"), Ok(Ipv4Addr::new(18, 26, 4, 9)));
        for text in ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.4 ", "1..2.3", "a"] {
            assert_eq!(read::<Ipv4Addr>(text), Err("parse error".into()), "{text}");
        }
        let two = vec![Ipv4Addr::new(1, 0, 0, 1), Ipv4Addr::new(1, 0, 0, 2)];
        assert_eq!(read(" 1.0.0.1  1.0.0.2 "), Ok(two));
        assert_eq!(read("lo"), Ok(Ipv4Addr::LOCALHOST));
        assert_eq!(read("lo:bcast"), Ok(Ipv4Addr::new(127, 255, 255, 255)));
        assert_eq!(read("lo:gw"), Ok(Ipv4Addr::new(127, 0, 0, 1)));
    }

    #[test]
    fn prefixes() {
        for (text, expected) in [
            ("18.26.4.9/24", prefix([18, 26, 4, 9], [255, 255, 255, 0])),
            ("18.26.4/24", prefix([18, 26, 4, 0], [255, 255, 255, 0])),
            ("18/8", prefix([18, 0, 0, 0], [255, 0, 0, 0])),
            ("0/0", prefix([0; 4], [0; 4])),
            ("1.2.3.4/255.255.0.0", prefix([1, 2, 3, 4], [255, 255, 0, 0])),
            ("1.2.3.4/0.0.0.255", prefix([1, 2, 3, 4], [0, 0, 0, 255])),
            ("1.2.3.4/032", prefix([1, 2, 3, 4], [255; 4])),
            ("lo:ipnet", prefix([127, 0, 0, 1], [255, 0, 0, 0])),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for text in ["1.2.3.4", "1.2.3.4/33", "1.2/24", "/24", "1.2.3.4/", "1.2.3.4/-1", "x/2"] {
            assert_eq!(read::<Ipv4Prefix>(text), Err("parse error".into()), "{text}");
        }
        assert_eq!(read("1.2.3.4"), Ok(Ipv4OrPrefix(prefix([1, 2, 3, 4], [255; 4]))));
        assert_eq!(prefix([0; 4], [255, 128, 0, 0]).length(), Some(9));
        assert_eq!(prefix([0; 4], [0, 0, 0, 1]).length(), None);
    }

    #[test]
    fn ethernet_addresses() {
        let expected = MacAddr([0, 0x50, 0xba, 0x85, 0x84, 0xa9]);
        for text in ["00-50-BA-85-84-A9", "00:50:ba:85:84:a9", "0:50:ba:85:84:a9"] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for text in
            ["", "0:1:2:3:4", "0:1:2:3:4:5:6", "0:1-2:3:4:5", "000:1:2:3:4:5", "+1:2:3:4:5:6"]
        {
            assert_eq!(read::<MacAddr>(text), Err("parse error".into()), "{text}");
        }
    }

    #[test]
    fn names() {
        let mut names = Names::default();
        let entry = names.define("x", "m");
        entry.ipv4 = Some(Ipv4Addr::new(10, 0, 0, 7));
        entry.ipv4_net = Some((Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(255, 255, 255, 0)));
        entry.mac = Some(MacAddr::BROADCAST);
        for (text, expected) in [
            ("m", Some([10, 0, 0, 7])),
            ("m:ip", Some([10, 0, 0, 7])),
            ("m:IP4", Some([10, 0, 0, 7])),
            ("m:bcast", Some([10, 0, 0, 255])),
            ("m:gw", Some([10, 0, 0, 1])),
            ("m:eth", None),
            ("n", None),
        ] {
            assert_eq!(read_with(text, &names).ok(), expected.map(Ipv4Addr::from), "{text}");
        }
        let net = prefix([10, 0, 0, 7], [255, 255, 255, 0]);
        assert_eq!(read_with("m", &names), Ok(net));
        assert_eq!(read_with("m:net", &names), Ok(net));
        assert_eq!(read_with("m/8", &names), Ok(prefix([10, 0, 0, 7], [255, 0, 0, 0])));
        assert_eq!(read_with("m", &names), Ok(Ipv4OrPrefix(prefix([10, 0, 0, 7], [255; 4]))));
        assert_eq!(read_with("m:ipnet", &names), Ok(Ipv4OrPrefix(net)));
        assert_eq!(read_with("m:eth", &names), Ok(MacAddr::BROADCAST));
        assert_eq!(read_with("m", &names), Ok(MacAddr::BROADCAST));
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text: String, near in "[0-9a-f:./-]{0,20}") {
            for text in [text, near] {
                let _ = (mac(&text), dotted(&text), suffixed(&text));
                let _ = padded(&dotted(&text).0);
            }
        }
    }
}
