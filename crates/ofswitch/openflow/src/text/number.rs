//! Numbers and addresses.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::error::{Fail, Parsed};

/// A number as C has it: hexadecimal behind `0x`, octal behind `0`, `-1` as 64 bits that are all
/// set.
pub(super) fn integer(text: &str) -> Option<u128> {
    let digits = |text: &str, base: u32| {
        let plain = text.chars().all(|letter| letter.is_digit(base));
        if plain { u128::from_str_radix(text, base).ok() } else { None }
    };
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return digits(hex, 16);
    }
    if let Some(positive) = text.strip_prefix('-') {
        let number = u64::try_from(digits(positive, 10)?).ok()?;
        return Some(number.wrapping_neg().into());
    }
    match text.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => digits(octal, 8),
        _ => digits(text, 10),
    }
}

/// A number of at most `most`.
pub(super) fn number<'t>(text: &'t str, what: &str, most: u128) -> Parsed<'t, u128> {
    match integer(text) {
        Some(number) if number <= most => Ok(number),
        Some(_) => Err(Fail::new(text, format!("{what} is at most {most}"))),
        None if text.is_empty() => Err(Fail::new(text, format!("{what} is missing"))),
        None => Err(Fail::new(text, format!("\"{text}\" is no number, as {what} has to be"))),
    }
}

pub(super) fn u8<'t>(text: &'t str, what: &str) -> Parsed<'t, u8> {
    number(text, what, u8::MAX.into()).map(|number| number as u8)
}

pub(super) fn u16<'t>(text: &'t str, what: &str) -> Parsed<'t, u16> {
    number(text, what, u16::MAX.into()).map(|number| number as u16)
}

pub(super) fn u32<'t>(text: &'t str, what: &str) -> Parsed<'t, u32> {
    number(text, what, u32::MAX.into()).map(|number| number as u32)
}

pub(super) fn u64<'t>(text: &'t str, what: &str) -> Parsed<'t, u64> {
    number(text, what, u64::MAX.into()).map(|number| number as u64)
}

/// Six bytes with colons between them.
pub(super) fn mac(text: &str) -> Option<u128> {
    let mut address = 0;
    let mut count = 0;
    for byte in text.split(':') {
        if byte.is_empty() || byte.len() > 2 || !byte.bytes().all(|digit| digit.is_ascii_hexdigit())
        {
            return None;
        }
        address = address << 8 | u128::from_str_radix(byte, 16).ok()?;
        count += 1;
    }
    (count == 6).then_some(address)
}

pub(super) fn print_mac(address: u128) -> String {
    let bytes = (address as u64).to_be_bytes();
    let [_, _, a, b, c, d, e, f] = bytes;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

/// Returns a mask of `bits` with its first `length` bits set.
pub(super) fn prefix(length: u32, bits: u32) -> u128 {
    let all = u128::MAX >> (128 - bits);
    if length == 0 { 0 } else { all << (bits - length) & all }
}

/// Returns the length of a mask that is a prefix.
fn prefix_length(mask: u128, bits: u32) -> Option<u32> {
    let length = mask.count_ones();
    (prefix(length, bits) == mask).then_some(length)
}

/// An address of `bits`, of IPv4 or IPv6.
pub(super) fn address(text: &str, bits: u32) -> Option<u128> {
    if bits == 32 {
        text.parse::<Ipv4Addr>().ok().map(|address| u32::from(address).into())
    } else {
        text.parse::<Ipv6Addr>().ok().map(u128::from)
    }
}

pub(super) fn print_address(address: u128, bits: u32) -> String {
    if bits == 32 {
        Ipv4Addr::from(address as u32).to_string()
    } else {
        Ipv6Addr::from(address).to_string()
    }
}

/// An address with a prefix's length or a mask behind it, where it is not whole.
pub(super) fn print_network(address: u128, mask: u128, bits: u32) -> String {
    let mut text = print_address(address, bits);
    match prefix_length(mask, bits) {
        Some(length) if length == bits => {}
        // Writing to a string cannot fail.
        Some(length) => _ = write!(text, "/{length}"),
        None => _ = write!(text, "/{}", print_address(mask, bits)),
    }
    text
}

/// Bytes as pairs of digits, with points between them as they like.
pub(super) fn bytes(text: &str) -> Parsed<'_, Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix(['.', ' ']) {
            rest = behind;
            continue;
        }
        let pair = rest.get(..2).filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let Some(byte) = byte else {
            return Err(Fail::new(rest, "not a byte of two hexadecimal digits"));
        };
        bytes.push(byte);
        rest = &rest[2..];
    }
    Ok(bytes)
}

pub(super) fn print_bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_c() {
        assert_eq!(integer("10"), Some(10));
        assert_eq!(integer("0x10"), Some(16));
        assert_eq!(integer("010"), Some(8));
        assert_eq!(integer("0"), Some(0));
        assert_eq!(integer("-1"), Some(u64::MAX.into()));
        for text in ["", "0x", "1x", "+1", "-", "--1", "08", "0x1_0"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_are_read_and_written() {
        assert_eq!(mac("00:1:02:aB:04:05"), Some(0x0001_02ab_0405));
        assert_eq!(mac("00:01:02:03:04"), None);
        assert_eq!(print_mac(0x0001_02ab_0405), "00:01:02:ab:04:05");
        let ten = address("10.0.0.0", 32).unwrap();
        assert_eq!(print_network(ten, prefix(8, 32), 32), "10.0.0.0/8");
        assert_eq!(print_network(ten, 0xff00_00ff, 32), "10.0.0.0/255.0.0.255");
        assert_eq!(print_network(1, u128::MAX, 128), "::1");
        assert_eq!(prefix(0, 128), 0);
        assert_eq!(bytes("11.2233").unwrap(), [0x11, 0x22, 0x33]);
        assert!(bytes("123").is_err());
    }
}
