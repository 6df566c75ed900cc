//! Truth values, integers, real and fixed point numbers.

use std::fmt::{self, Write as _};

use super::{PARSE_ERROR, Value, decimal::Decimal, or_parse_error};
use crate::element::Scope;

impl Value for bool {
    const KIND: &'static str = "bool";
    const EXPECTED: &'static str = "boolean";

    fn parse(text: &str, _: &Scope<'_>) -> Result<bool, String> {
        or_parse_error(parse_bool(text))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.to_string()
    }
}

/// A truth value as Click writes it.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "true" | "yes" | "t" | "y" | "1" => Some(true),
        "false" | "no" | "f" | "n" | "0" => Some(false),
        _ => None,
    }
}

/// An integer as Click writes it: decimal, `0x` hexadecimal, `0b` binary, `0`
/// octal, with underscores between digits; `None` when it is none.
pub fn parse_integer(text: &str) -> Option<i128> {
    integer_in(text, 0, true)
}

/// An integer in the given base, or with a prefix that tells it if that is 0.
/// A minus is allowed if `signed`. Numbers that nothing holds come out large.
pub fn integer_in(text: &str, base: u32, signed: bool) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' if signed => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let prefix = |lower, upper| digits.strip_prefix(lower).or_else(|| digits.strip_prefix(upper));
    let (digits, radix) = match base {
        0 | 16 if prefix("0x", "0X").is_some() => (&digits[2..], 16),
        0 if prefix("0b", "0B").is_some() => (&digits[2..], 2),
        0 if digits.starts_with('0') => (digits, 8),
        0 => (digits, 10),
        base => (digits, base),
    };
    let mut value: i128 = 0;
    let mut after_digit = false;
    for byte in digits.bytes() {
        if byte == b'_' && after_digit {
            after_digit = false;
            continue;
        }
        let digit = char::from(byte).to_digit(radix)?;
        value = (value * i128::from(radix) + i128::from(digit)).min(1 << 100);
        after_digit = true;
    }
    after_digit.then_some(if negative { -value } else { value })
}

macro_rules! integers {
    ($expected:literal: $($type:ty)*) => {$(
        impl Value for $type {
            const EXPECTED: &'static str = $expected;

            fn parse(text: &str, _: &Scope<'_>) -> Result<$type, String> {
                let value = integer_in(text, 0, <$type>::MIN != 0).ok_or("invalid number")?;
                let bound = if value < 0 { <$type>::MIN } else { <$type>::MAX };
                <$type>::try_from(value).map_err(|_| format!("out of range, bound {bound}"))
            }

            fn unparse(&self, _: &Scope<'_>) -> String {
                self.to_string()
            }
        }
    )*};
}

integers!("uint8_t": u8);
integers!("integer": u16 u32 u64 usize i8 i16 i32 i64);

/// A number of 32 bits not below zero.
///
/// # Errors
///
/// Click's texts for a text that is no such number.
pub fn parse_u32(text: &str) -> Result<u32, String> {
    let value = integer_in(text, 0, false).ok_or("invalid number")?;
    u32::try_from(value).map_err(|_| format!("out of range, bound {}", u32::MAX))
}

impl Value for f64 {
    /// Infinities and texts that are no number are refused, unlike in Click: no element has a use
    /// for them.
    fn parse(text: &str, _: &Scope<'_>) -> Result<f64, String> {
        if let Some(hexadecimal) = parse_integer(text).filter(|_| text.contains(['x', 'X'])) {
            return Ok(hexadecimal as f64);
        }
        let plain = |b: u8| b.is_ascii_digit() || b"+-.eE".contains(&b);
        let value: f64 =
            text.parse().ok().filter(|_| text.bytes().all(plain)).ok_or(PARSE_ERROR)?;
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        if value.is_infinite() {
            let sign = if value < 0.0 { "-" } else { "" };
            return Err(format!("out of range, bound {sign}inf"));
        }
        if value == 0.0 && mantissa.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
            return Err("underflow, rounded to 0".into());
        }
        Ok(value)
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.to_string()
    }
}

/// A number not below zero with `BITS` bits behind the point, in 32 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fixed<const BITS: u32>(pub u32);

impl<const BITS: u32> Fixed<BITS> {
    /// The number one: certainty, for a probability.
    pub const ONE: Fixed<BITS> = Fixed(1 << BITS);

    /// Reads a decimal number.
    ///
    /// # Errors
    ///
    /// When it is none or too large, in Click's words.
    pub fn read(text: &str) -> Result<Fixed<BITS>, String> {
        let number = Decimal::parse(text, false).ok_or(PARSE_ERROR)?;
        let value = number.times(1 << BITS).and_then(|value| u32::try_from(value).ok());
        value.map(Fixed).ok_or_else(|| format!("out of range, bound {}", Fixed::<BITS>(u32::MAX)))
    }

    /// One less it; it wraps around.
    pub fn complement(self) -> Fixed<BITS> {
        Fixed(Self::ONE.0.wrapping_sub(self.0))
    }

    /// Returns the number as a double, exactly.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE.0)
    }
}

impl<const BITS: u32> Value for Fixed<BITS> {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Fixed<BITS>, String> {
        Fixed::read(text)
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.to_string()
    }
}

impl<const BITS: u32> fmt::Display for Fixed<BITS> {
    /// Writes digits until the rest is within their precision, as TeX's `print_scaled` does ("TeX:
    /// The Program", section 103), in 32 bits; for at most 28 bits behind the point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 1u32 << BITS;
        write!(f, "{}", self.0 >> BITS)?;
        let mut left = self.0 & (one - 1);
        if left == 0 {
            return Ok(());
        }
        f.write_char('.')?;
        let mut rounding = 5u32;
        while rounding < one / 2 {
            rounding *= 10;
        }
        left = left * 10 + 5;
        let mut within = 10u32;
        loop {
            if within > one {
                left = left.wrapping_add((one / 2).wrapping_sub(rounding));
            }
            write!(f, "{}", left >> BITS)?;
            left = 10 * (left & (one - 1));
            within = within.wrapping_mul(10);
            if left <= within {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::value::tests::read;

    #[test]
    fn truth() {
        for text in ["true", "yes", "t", "y", "1"] {
            assert_eq!(read(text), Ok(true), "{text}");
        }
        for text in ["false", "no", "f", "n", "0"] {
            assert_eq!(read(text), Ok(false), "{text}");
        }
        for text in ["True", "on", "off", "2", "", "maybe"] {
            assert_eq!(read::<bool>(text), Err("parse error".into()), "{text}");
        }
    }

    #[test]
    fn integers_in_every_base() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-17", Some(-17)),
            ("+17", Some(17)),
            ("0x1F", Some(31)),
            ("0b101", Some(5)),
            ("017", Some(15)),
            ("1_000", Some(1000)),
            ("0_7", Some(7)),
            ("08", None),
            ("1_", None),
            ("_1", None),
            ("1__0", None),
            ("0x", None),
            ("0x_1", None),
            ("", None),
            ("-", None),
            ("--1", None),
            ("1.5", None),
            (" 1", None),
            ("é", None),
        ] {
            assert_eq!(parse_integer(text), expected, "{text}");
        }
        assert_eq!(integer_in("1F", 16, false), Some(31));
        assert_eq!(integer_in("010", 10, false), Some(10));
        assert_eq!(integer_in("0x10", 10, false), None);
    }

    #[test]
    fn integers_know_their_bounds() {
        let wrong = |text: &str, message: &str| assert_eq!(text, message);
        assert_eq!(read("2147483647"), Ok(i32::MAX));
        assert_eq!(read("-0"), Ok(0));
        wrong(&read::<i32>("99999999999").unwrap_err(), "out of range, bound 2147483647");
        wrong(&read::<i32>("-99999999999").unwrap_err(), "out of range, bound -2147483648");
        wrong(&read::<u32>("4294967296").unwrap_err(), "out of range, bound 4294967295");
        wrong(&read::<u8>("256").unwrap_err(), "out of range, bound 255");
        wrong(
            &read::<u64>(&"9".repeat(99)).unwrap_err(),
            &format!("out of range, bound {}", u64::MAX),
        );
        wrong(&read::<u32>("-1").unwrap_err(), "invalid number");
        wrong(&read::<i64>("x").unwrap_err(), "invalid number");
    }

    #[test]
    fn real_numbers() {
        for (text, expected) in [
            ("1", Ok(1.0)),
            ("-.5", Ok(-0.5)),
            ("1e3", Ok(1000.0)),
            ("0x10", Ok(16.0)),
            ("1e999", Err("out of range, bound inf")),
            ("-1e999", Err("out of range, bound -inf")),
            ("1e-999", Err("underflow, rounded to 0")),
            ("0e-999", Ok(0.0)),
            ("1 ", Err("parse error")),
            ("nan", Err("parse error")),
            ("", Err("parse error")),
        ] {
            assert_eq!(read::<f64>(text), expected.map_err(String::from), "{text}");
        }
    }

    #[test]
    fn fixed_point() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("0.5", Ok(0x8000)),
            ("1e-2", Ok(655)),
            ("65535.99998", Ok(u32::MAX)),
            ("65536", Err("out of range, bound 65535.99998")),
            ("99999999", Err("out of range, bound 65535.99998")),
            ("-1", Err("parse error")),
            ("x", Err("parse error")),
        ] {
            let read = read::<Fixed<16>>(text).map(|value| value.0);
            assert_eq!(read, expected.map_err(String::from), "{text}");
        }
        assert_eq!(Fixed::<10>(1536).to_string(), "1.5");
        // Click 2.1's answers when `RandomSample` is read.
        for (given, shown, complement) in [
            ("0.5", "0.5", "0.5"),
            ("0.1", "0.1", "0.9"),
            ("0.333333", "0.333333", "0.666667"),
            ("1", "1", "0"),
            ("0", "0", "1"),
            ("1e-3", "0.001", "0.999"),
            ("0.0000001", "0.0000001", "0.9999999"),
            ("0.123456789", "0.12345678766", "0.876543213"),
        ] {
            let number = Fixed::<28>::read(given).unwrap();
            assert_eq!(number.to_string(), shown);
            assert_eq!(number.complement().to_string(), complement);
        }
        assert!(Fixed::<28>::read("2") > Ok(Fixed::ONE));
        assert_eq!(read::<Fixed<28>>("17").unwrap_err(), "out of range, bound 15.9999999966");
    }

    proptest::proptest! {
        #[test]
        fn a_printed_fixed_point_number_is_read(value: u32) {
            assert_eq!(read::<Fixed<16>>(&Fixed::<16>(value).to_string()), Ok(Fixed(value)));
        }

        #[test]
        fn nothing_panics(text: String) {
            let _ = (read::<f64>(&text), read::<i64>(&text), read::<bool>(&text));
        }
    }
}
