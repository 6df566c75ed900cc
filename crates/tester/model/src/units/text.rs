//! Quantities as text: four significant digits and an SI prefix.

use std::fmt;

/// A quantity could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text does not begin with a number.
    #[error("'{0}' does not begin with a number")]
    Number(String),
    /// Other text than the unit follows the number.
    #[error("'{text}' is not a number of {unit}{}", if *.prefixed { " (k, M, G... may precede the unit)" } else { "" })]
    Unit {
        /// The text.
        text: String,
        /// The unit wanted.
        unit: &'static str,
        /// Set if the unit takes prefixes.
        prefixed: bool,
    },
    /// Negative, or not finite.
    #[error("'{0}' is out of range")]
    Range(String),
}

/// The prefixes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefixes {
    /// None; a bare number is accepted.
    None,
    /// The prefixes of the SI; the unit must be given.
    Decimal,
    /// k, M and G; a bare number is accepted.
    Count,
    /// Decimal and binary; a bare number is accepted. Printed with binary
    /// ones where they are exact, since sizes of memory are.
    Bytes,
}

/// Format of a quantity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// The symbol printed, then others that are read.
    pub(super) symbols: &'static [&'static str],
    pub(super) prefixes: Prefixes,
}

const SMALL: &[(&str, f64)] = &[("m", 1e-3), ("µ", 1e-6), ("n", 1e-9), ("p", 1e-12)];
const LARGE: &[(&str, f64)] = &[("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)];
const BINARY: &[(&str, f64)] =
    &[("Gi", 1_073_741_824.0), ("Mi", 1_048_576.0), ("Ki", 1024.0), ("K", 1024.0)];

impl Unit {
    pub(super) fn write(self, value: f64, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, factor) = self.prefix(value.abs());
        let number = match formatter.precision() {
            Some(digits) => format!("{:.digits$}", value / factor),
            None => significant(value / factor),
        };
        formatter.pad_integral(true, "", &format!("{number} {prefix}{}", self.symbols[0]))
    }

    /// The prefix that leaves the number between 1 and 1000.
    fn prefix(self, magnitude: f64) -> (&'static str, f64) {
        if magnitude == 0.0 || !magnitude.is_finite() || self.prefixes == Prefixes::None {
            return ("", 1.0);
        }
        if self.prefixes == Prefixes::Bytes {
            let exact = |&&(_, factor): &&(&str, f64)| {
                magnitude >= factor && (magnitude / factor).fract() == 0.0
            };
            if let Some(&found) = BINARY.iter().find(exact) {
                return found;
            }
        }
        // A number that would be printed as 1000 has the next prefix.
        let rounded = magnitude * (1.0 + 5e-5);
        if let Some(&found) = LARGE.iter().find(|(_, factor)| rounded >= *factor) {
            return found;
        }
        if rounded >= 1.0 || self.prefixes != Prefixes::Decimal {
            return ("", 1.0);
        }
        SMALL.iter().find(|(_, factor)| rounded >= *factor).copied().unwrap_or(SMALL[3])
    }

    pub(super) fn read(self, text: &str) -> Result<f64, ParseError> {
        let trimmed = text.trim();
        let (value, rest) =
            number(trimmed).ok_or_else(|| ParseError::Number(trimmed.to_string()))?;
        let factor = self.factor(rest.trim_start()).ok_or_else(|| ParseError::Unit {
            text: trimmed.to_string(),
            unit: self.symbols[0],
            prefixed: self.prefixes != Prefixes::None,
        })?;
        let value = value * factor;
        if value.is_finite() && value >= 0.0 {
            Ok(value)
        } else {
            Err(ParseError::Range(trimmed.to_string()))
        }
    }

    fn factor(self, unit: &str) -> Option<f64> {
        let prefix = self.symbols.iter().find_map(|symbol| unit.strip_suffix(symbol));
        let prefix = match (prefix, self.prefixes) {
            (Some(prefix), _) => prefix,
            (None, Prefixes::None) => unit,
            // "1518", "16K" or "2M"; but a clock or a rate needs its unit.
            (None, Prefixes::Bytes | Prefixes::Count) => unit,
            (None, Prefixes::Decimal) => return None,
        };
        if prefix.is_empty() {
            return Some(1.0);
        }
        let among = |table: &[(&str, f64)]| {
            table.iter().find(|(symbol, _)| *symbol == prefix).map(|&(_, factor)| factor)
        };
        match self.prefixes {
            Prefixes::None => None,
            Prefixes::Count => among(LARGE),
            Prefixes::Bytes => among(BINARY).or_else(|| among(LARGE)),
            Prefixes::Decimal if prefix == "u" => Some(1e-6),
            Prefixes::Decimal => among(LARGE).or_else(|| among(SMALL)),
        }
    }
}

/// Four significant digits, without zeros at the end.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let decimals = (3 - value.abs().log10().floor() as i64).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        text
    }
}

/// The longest number at the start, and the rest of the text.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text
        .char_indices()
        .find(|&(at, character)| {
            let exponent = |character| matches!(character, 'e' | 'E');
            let before = text[..at].chars().next_back();
            let signs = matches!(character, '+' | '-') && before.is_none_or(exponent);
            // An exponent, not the beginning of a unit.
            let power = exponent(character)
                && text[at + 1..]
                    .starts_with(|next: char| next.is_ascii_digit() || matches!(next, '+' | '-'));
            !(character.is_ascii_digit() || matches!(character, '.' | '_') || signs || power)
        })
        .map_or(text.len(), |(at, _)| at);
    let value = text[..end].replace('_', "").parse().ok()?;
    Some((value, &text[end..]))
}

#[cfg(test)]
mod tests {
    use crate::units::*;

    #[test]
    fn are_printed_with_prefixes() {
        assert_eq!(PacketsPerSecond::new(14_880_952.0).to_string(), "14.88 Mpps");
        assert_eq!(Hertz::new(3.3e9).to_string(), "3.3 GHz");
        assert_eq!(Seconds::new(15.6e-9).to_string(), "15.6 ns");
        assert_eq!(Seconds::new(1.5e-13).to_string(), "0.15 ps");
        assert_eq!(Seconds::ZERO.to_string(), "0 s");
        assert_eq!(CyclesPerPacket::new(1053.2).to_string(), "1053 cycles/packet");
        assert_eq!(Bytes::new(1518.0).to_string(), "1.518 kB");
        assert_eq!(Bytes::new(65536.0).to_string(), "64 KiB");
        assert_eq!(BitsPerSecond::new(1e10).to_string(), "10 Gbit/s");
        assert_eq!(PercentPerGbit::new(9.56).to_string(), "9.56 %/Gbit/s");
        assert_eq!(Hertz::new(999_999_999.0).to_string(), "1 GHz");
        assert_eq!(format!("{:.2}", Hertz::new(3.3e9)), "3.30 GHz");
        assert_eq!(format!("{:>10}", Watts::new(5.0)), "       5 W");
    }

    #[test]
    fn are_read() {
        assert_eq!("3.3GHz".parse(), Ok(Hertz::new(3.3e9)));
        assert_eq!("10 Gbps".parse(), Ok(BitsPerSecond::new(1e10)));
        assert_eq!("1.5e3 us".parse(), Ok(Seconds::new(1.5e3 * 1e-6)));
        assert_eq!("64".parse(), Ok(Bytes::new(64.0)));
        assert_eq!("16K".parse(), Ok(Bytes::new(16384.0)));
        assert_eq!("4 MiB".parse(), Ok(Bytes::new(4_194_304.0)));
        assert_eq!("100".parse(), Ok(CyclesPerPacket::new(100.0)));
        assert_eq!("4_000".parse(), Ok(Packets::new(4000.0)));
    }

    #[test]
    fn texts_without_a_quantity_are_refused() {
        let error = |text: &str| text.parse::<Hertz>().unwrap_err().to_string();
        assert_eq!(error("fast"), "'fast' does not begin with a number");
        assert_eq!(error("3.3"), "'3.3' is not a number of Hz (k, M, G... may precede the unit)");
        assert_eq!(error("-1 GHz"), "'-1 GHz' is out of range");
        assert_eq!(error(""), "'' does not begin with a number");
        assert_eq!(
            "5 kcycles".parse::<Cycles>().unwrap_err().to_string(),
            "'5 kcycles' is not a number of cycles"
        );
        assert!("3 bananas".parse::<Packets>().is_err());
        assert!("1é".parse::<Bytes>().is_err());
    }
}
