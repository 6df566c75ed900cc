//! Probabilities as Click keeps and shows them: 28 binary places.

use linerate_graph::{Scope, Value};

/// A number of at least 0, in units of 2^-28. A probability when it is at most
/// [`Probability::ONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Probability(pub(crate) u32);

const PLACES: u32 = 28;

impl Probability {
    pub(crate) const ONE: Probability = Probability(1 << PLACES);

    /// Reads a decimal number; one that is too large is as large as can be.
    pub(crate) fn read(text: &str) -> Option<Probability> {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e'));
        let number: f64 = text.parse().ok().filter(|_| plain)?;
        Some(Probability((number * f64::from(1u32 << PLACES)).round() as u32))
    }

    /// That it does not happen.
    pub(crate) fn complement(self) -> Probability {
        Probability(Probability::ONE.0.wrapping_sub(self.0))
    }

    /// From 0 to 1.
    pub(crate) fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Probability::ONE.0)
    }

    /// Decimal digits until what is left is less than the number's own
    /// inaccuracy, by Knuth's `print_scaled` (TeX: The Program, section 103).
    /// In 32 bits, whose overflow shows in the digits as it does in Click's.
    pub(crate) fn text(self) -> String {
        let one = Probability::ONE.0;
        let mut text = (self.0 >> PLACES).to_string();
        let mut rest = self.0 & (one - 1);
        if rest == 0 {
            return text;
        }
        text.push('.');
        rest = rest.wrapping_mul(10).wrapping_add(5);
        let mut inaccuracy: u32 = 10;
        let mut rounder: u32 = 5;
        while rounder < one >> 1 {
            rounder *= 10;
        }
        loop {
            if inaccuracy > one {
                rest = rest.wrapping_add((one >> 1).wrapping_sub(rounder));
            }
            text.push((b'0' + (rest >> PLACES) as u8) as char);
            rest = (rest & (one - 1)).wrapping_mul(10);
            inaccuracy = inaccuracy.wrapping_mul(10);
            if rest <= inaccuracy {
                return text;
            }
        }
    }
}

impl Value for Probability {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Probability, String> {
        Probability::read(text).ok_or_else(|| "parse error".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Click 2.1 answers when `RandomSample` is read.
    #[test]
    fn numbers_are_shown_as_click_shows_them() {
        for (given, shown, complement) in [
            ("0.5", "0.5", "0.5"),
            ("0.1", "0.1", "0.9"),
            ("0.333333", "0.333333", "0.666667"),
            ("1", "1", "0"),
            ("0", "0", "1"),
            ("0.001", "0.001", "0.999"),
            ("0.0000001", "0.0000001", "0.9999999"),
            ("0.123456789", "0.12345678766", "0.876543213"),
        ] {
            let number = Probability::read(given).unwrap();
            assert_eq!(
                (number.text(), number.complement().text()),
                (shown.into(), complement.into())
            );
        }
        assert_eq!(Probability::read("-1"), None);
        assert_eq!(Probability::read("x"), None);
        assert!(Probability::read("2") > Some(Probability::ONE));
    }
}
