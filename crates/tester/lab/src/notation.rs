//! Notation of values, and of names in the code, for judgements and reports.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

/// Format of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// With the prefixes k, M, G, and m, µ, n.
    Decimal,
    /// With KiB, MiB, GiB.
    Bytes,
    /// As a share of 1, in percent.
    Share,
}

impl Unit {
    /// A value with three or four significant digits.
    pub fn write(self, value: f64) -> String {
        match self {
            Unit::Share => format!("{} %", digits(value * 100.0)),
            Unit::Bytes => {
                let (mut value, mut prefix) = (value, 0);
                while value >= 1024.0 && prefix < 4 {
                    value /= 1024.0;
                    prefix += 1;
                }
                format!("{} {}", digits(value), ["B", "KiB", "MiB", "GiB", "TiB"][prefix])
            }
            Unit::Decimal => {
                let steps = [(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")];
                let small = [(1e-3, " m"), (1e-6, " µ"), (1e-9, " n"), (1e-12, " p")];
                let size = value.abs();
                // A thousandth of a unit reads better as 0.001 than any prefix
                // only where no prefix is due: below one, decimals go to 0.01.
                let step = match size {
                    0.0 => (1.0, ""),
                    _ if size >= 0.00995 => {
                        *steps.iter().find(|(step, _)| size >= step * 0.9995).unwrap_or(&steps[3])
                    }
                    _ => *small.iter().find(|(step, _)| size >= step * 0.9995).unwrap_or(&small[3]),
                };
                // Ten thousand cycles are 10 k, but 1500 bytes stay as they are.
                if (1000.0..10_000.0).contains(&size) && value.fract() == 0.0 {
                    return format!("{value}");
                }
                format!("{}{}", digits(value / step.0), step.1)
            }
        }
    }
}

/// Three significant digits, or as many as a whole number has; no zeros at
/// the end.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        size if size >= 0.0995 => 3,
        0.0 => 0,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// The name of a variant as words: `SameCore` is "same core".
pub(crate) fn words(variant: &impl Debug) -> String {
    let mut words = String::new();
    for letter in format!("{variant:?}").chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::Placement;

    #[test]
    fn values_are_short() {
        for (unit, value, text) in [
            (Unit::Decimal, 14_880_952.0, "14.9 M"),
            (Unit::Decimal, 0.0, "0"),
            (Unit::Decimal, 1518.0, "1518"),
            (Unit::Decimal, 12_500.0, "12.5 k"),
            (Unit::Decimal, 0.25, "0.25"),
            (Unit::Decimal, 42e-9, "42 n"),
            (Unit::Decimal, -3.5e-6, "-3.5 µ"),
            (Unit::Bytes, 16384.0, "16 KiB"),
            (Unit::Bytes, 1.5 * 1024.0 * 1024.0, "1.5 MiB"),
            (Unit::Share, 0.465, "46.5 %"),
        ] {
            assert_eq!(unit.write(value), text);
        }
    }

    #[test]
    fn variants_are_words() {
        assert_eq!(words(&Placement::SameCore), "same core");
        assert_eq!(words(&Placement::Sibling), "sibling");
    }
}
