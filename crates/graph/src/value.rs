//! Kinds of values configuration arguments have, and how Click writes them.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    str::FromStr,
    time::Duration,
};

use linerate_packet::MacAddr;

use crate::{error::HandlerError, lang::config::string, make::Scope, plan::Plan};

/// Something an argument can be.
pub trait Value: Sized {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// What is wrong, to be put behind the argument's name.
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Self, String>;
}

impl Value for bool {
    fn parse(text: &str, _: &Scope<'_>) -> Result<bool, String> {
        parse_bool(text).ok_or_else(|| "syntax error".into())
    }
}

/// A truth value as Click writes it.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "true" | "yes" | "1" | "on" | "True" | "Yes" => Some(true),
        "false" | "no" | "0" | "off" | "False" | "No" => Some(false),
        _ => None,
    }
}

/// An integer as Click writes it: decimal, `0x` hexadecimal, `0` octal, with
/// underscores between digits; `None` when it is none.
pub fn parse_integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (digits, radix) =
        if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            (hex, 16)
        } else if digits.len() > 1 && digits.starts_with('0') {
            (&digits[1..], 8)
        } else {
            (digits, 10)
        };
    let mut value: i128 = 0;
    let mut after_digit = false;
    for byte in digits.bytes() {
        if byte == b'_' && after_digit {
            after_digit = false;
            continue;
        }
        let digit = (byte as char).to_digit(radix)?;
        value = (value * i128::from(radix) + i128::from(digit)).min(1 << 100);
        after_digit = true;
    }
    after_digit.then_some(if negative { -value } else { value })
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Value for $type {
            fn parse(text: &str, _: &Scope<'_>) -> Result<$type, String> {
                let value = parse_integer(text).ok_or("invalid number")?;
                let bound = |bound: $type| format!("out of range, bound {bound}");
                <$type>::try_from(value).map_err(|_| {
                    if value < 0 { bound(<$type>::MIN) } else { bound(<$type>::MAX) }
                })
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 usize i8 i16 i32 i64);

impl Value for f64 {
    fn parse(text: &str, _: &Scope<'_>) -> Result<f64, String> {
        let value: f64 = text.parse().map_err(|_| "invalid number")?;
        if value.is_finite() { Ok(value) } else { Err("invalid number".into()) }
    }
}

impl Value for String {
    fn parse(text: &str, _: &Scope<'_>) -> Result<String, String> {
        let bytes = string(text).ok_or("invalid string")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Value for Vec<u8> {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Vec<u8>, String> {
        string(text).ok_or_else(|| "invalid string".into())
    }
}

/// The argument as it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(pub String);

impl Value for Text {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Text, String> {
        Ok(Text(text.into()))
    }
}

/// Units of time and how many nanoseconds they are.
const TIME_UNITS: [(&str, f64); 12] = [
    ("nsec", 1.0),
    ("usec", 1e3),
    ("msec", 1e6),
    ("sec", 1e9),
    ("min", 60e9),
    ("hr", 3600e9),
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// A time as Click writes it: a number of seconds, or with a unit.
pub fn parse_time(text: &str) -> Option<f64> {
    let text = text.trim();
    let unit = TIME_UNITS.iter().find_map(|(unit, scale)| {
        let number = text.strip_suffix(unit)?.trim_end();
        number.ends_with(|c: char| c.is_ascii_digit() || c == '.').then_some((number, *scale))
    });
    let (number, scale) = unit.unwrap_or((text, 1e9));
    let plain =
        number.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e'));
    let value: f64 = number.parse().ok().filter(|_| plain)?;
    Some(value * scale)
}

impl Value for Duration {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Duration, String> {
        let time = parse_time(text).ok_or("invalid time")?;
        if !(0.0..1.8e19).contains(&time) {
            return Err(if time < 0.0 { "must be >= 0" } else { "out of range" }.into());
        }
        Ok(Duration::from_nanos(time.round() as u64))
    }
}

/// A rate of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bandwidth {
    /// Bytes per second.
    pub bytes: f64,
}

impl Value for Bandwidth {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Bandwidth, String> {
        parse_bandwidth(text)
            .map(|bytes| Bandwidth { bytes })
            .ok_or_else(|| "invalid bandwidth".into())
    }
}

/// A bandwidth in bytes per second, as Click writes it: `bps`, `Bps`, with
/// `k`, `M` or `G`; bytes when there is no unit.
pub fn parse_bandwidth(text: &str) -> Option<f64> {
    let text = text.trim();
    let text = text.strip_suffix("/s").unwrap_or(text);
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let unit = unit.trim_start();
    let (scale, unit) = match unit.as_bytes().first() {
        Some(b'k' | b'K') => (1e3, &unit[1..]),
        Some(b'M') => (1e6, &unit[1..]),
        Some(b'G') => (1e9, &unit[1..]),
        _ => (1.0, unit),
    };
    let bytes = match unit {
        "" | "Bps" | "B" | "baud" => 1.0,
        "bps" | "b" => 0.125,
        _ => return None,
    };
    Some(number * scale * bytes)
}

fn from_text<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

impl Value for MacAddr {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<MacAddr, String> {
        let text = text.strip_suffix(":eth").unwrap_or(text);
        from_text(&text.replace('-', ":"))
            .or_else(|| scope.names.find(scope.name, text, |entry| entry.mac))
            .ok_or_else(|| "invalid Ethernet address".into())
    }
}

impl Value for Ipv4Addr {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ipv4Addr, String> {
        let text = text.strip_suffix(":ip").unwrap_or(text);
        from_text(text)
            .or_else(|| scope.names.find(scope.name, text, |entry| entry.ipv4))
            .ok_or_else(|| "invalid IP address".into())
    }
}

impl Value for Ipv6Addr {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Ipv6Addr, String> {
        let text = text.strip_suffix(":ip6").unwrap_or(text);
        from_text(text)
            .or_else(|| scope.names.find(scope.name, text, |entry| entry.ipv6))
            .ok_or_else(|| "invalid IPv6 address".into())
    }
}

/// A reference to another element of the graph, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementRef(pub usize);

impl Value for ElementRef {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<ElementRef, String> {
        let found = scope.plan.resolve(text, scope.name);
        found.map(ElementRef).ok_or_else(|| "does not name an element".into())
    }
}

/// A reference to a handler: of an element, or a global one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerRef {
    /// The element's place in the plan.
    pub element: Option<usize>,
    /// The handler's name.
    pub handler: String,
}

impl HandlerRef {
    /// The handler `element.handler` or, global, `handler` names in a graph.
    ///
    /// # Errors
    ///
    /// When there is no such element.
    pub fn find(plan: &Plan, name: &str) -> Result<HandlerRef, HandlerError> {
        HandlerRef::within(plan, "", name)
    }

    /// The same as seen from an element in a compound.
    fn within(plan: &Plan, from: &str, name: &str) -> Result<HandlerRef, HandlerError> {
        match name.rsplit_once('.') {
            None | Some(("", _)) => {
                let handler = name.trim_start_matches('.').into();
                Ok(HandlerRef { element: None, handler })
            }
            Some((element, handler)) => {
                let found = plan.resolve(element, from).or_else(|| {
                    let number: usize = element.parse().ok()?;
                    (1..=plan.elements.len()).contains(&number).then(|| number - 1)
                });
                let found = found.ok_or_else(|| HandlerError::NoElement(element.into()))?;
                Ok(HandlerRef { element: Some(found), handler: handler.into() })
            }
        }
    }
}

impl Value for HandlerRef {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<HandlerRef, String> {
        if text.is_empty() || text.contains(char::is_whitespace) {
            return Err("bad handler name".into());
        }
        HandlerRef::within(scope.plan, scope.name, text).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_in_every_base() {
        let cases = [
            ("0", Some(0)),
            ("-17", Some(-17)),
            ("0x1F", Some(31)),
            ("017", Some(15)),
            ("1_000", Some(1000)),
            ("08", None),
            ("1_", None),
            ("", None),
            ("-", None),
            ("1.5", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_integer(text), expected, "{text}");
        }
    }

    #[test]
    fn times_and_bandwidths_with_units() {
        for (text, ns) in [
            ("1", 1e9),
            ("1.5s", 1.5e9),
            ("20 ms", 2e7),
            ("3us", 3e3),
            ("2min", 1.2e11),
            ("1hr", 3.6e12),
        ] {
            assert_eq!(parse_time(text), Some(ns), "{text}");
        }
        assert_eq!(parse_time("soon"), None);
        for (text, bytes) in
            [("1000", 1000.0), ("8kbps", 1000.0), ("1 MBps", 1e6), ("1Gbps", 1.25e8)]
        {
            assert_eq!(parse_bandwidth(text), Some(bytes), "{text}");
        }
        assert_eq!(parse_bandwidth("fast"), None);
    }
}
