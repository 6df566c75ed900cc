//! Decimal numbers, exactly: `1_000.5e-3`.
//!
//! Click computes times and bandwidths from the digits, not from a floating
//! point number, so that `1.9ms` is 1900 microseconds and not one less.

/// Digits that count; more change nothing that is not out of range anyway.
const DIGITS: usize = 60;
/// Exponents beyond are as good as this one.
const EXPONENT: i64 = 10_000;

/// A number: its digits and where the point is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) negative: bool,
    /// Without leading zeros.
    digits: Vec<u8>,
    /// Digits before the point; below zero, zeros behind it.
    point: i64,
}

impl Decimal {
    /// Reads a number that is the whole text. A minus is allowed if `signed`.
    pub(super) fn parse(text: &str, signed: bool) -> Option<Decimal> {
        let bytes = text.as_bytes();
        let (negative, mut at) = match bytes.first()? {
            b'-' if signed => (true, 1),
            b'+' => (false, 1),
            _ => (false, 0),
        };
        let first = at;
        let (mut digits, mut point) = (Vec::new(), None);
        let (mut count, mut after_digit) = (0i64, false);
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'_' if after_digit => after_digit = false,
                b'.' if point.is_none() && (after_digit || at == first) => {
                    point = Some(count);
                    after_digit = false;
                }
                b'0'..=b'9' => {
                    digits.push(byte - b'0');
                    count += 1;
                    after_digit = true;
                }
                _ => break,
            }
            at += 1;
        }
        if digits.is_empty() {
            return None;
        }
        let mut point = point.unwrap_or(count);
        point = point.saturating_add(exponent(&bytes[at..])?);
        let zeros = digits.iter().take_while(|digit| **digit == 0).count();
        digits.drain(..zeros);
        digits.truncate(DIGITS);
        Some(Decimal { negative, digits, point: point - zeros as i64 })
    }

    /// The number times ten to the `power`th.
    pub(super) fn shifted(mut self, power: i32) -> Decimal {
        self.point += i64::from(power);
        self
    }

    /// The whole part of the magnitude, and the digits behind the point;
    /// nothing if it does not fit.
    fn parts(&self) -> Option<(u128, Vec<u8>)> {
        if self.digits.is_empty() {
            return Some((0, Vec::new()));
        }
        if self.point > 30 {
            return None;
        }
        let before = self.point.max(0) as usize;
        let digit = |at: usize| u128::from(self.digits.get(at).copied().unwrap_or(0));
        let whole = (0..before).fold(0, |whole, at| whole * 10 + digit(at));
        let zeros = (-self.point).clamp(0, DIGITS as i64) as usize;
        let behind = self.digits.iter().skip(before).copied();
        Some((whole, std::iter::repeat_n(0, zeros).chain(behind).collect()))
    }

    /// The magnitude times `factor`, rounded half up; nothing if it does not
    /// fit.
    pub(super) fn times(&self, factor: u64) -> Option<u128> {
        /// Digits of a fraction that count: with a factor below 2^40 the
        /// product fits.
        const FRACTION: u32 = 20;
        let (whole, behind) = self.parts()?;
        let digit = |at: usize| u128::from(behind.get(at).copied().unwrap_or(0));
        let fraction = (0..FRACTION as usize).fold(0, |value, at| value * 10 + digit(at));
        let one = 10u128.pow(FRACTION);
        let part = (fraction * u128::from(factor) + one / 2) / one;
        whole.checked_mul(u128::from(factor))?.checked_add(part)
    }

    /// The whole seconds of a time in seconds and its nanoseconds, rounded.
    pub(super) fn seconds(&self, factor: u64) -> Option<(u128, u32)> {
        const BILLION: u128 = 1_000_000_000;
        let nanos = self.clone().shifted(9).times(factor)?;
        Some((nanos / BILLION, (nanos % BILLION) as u32))
    }
}

/// The exponent that is all of `bytes`: 0 if they are empty.
fn exponent(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [] => return Some(0),
        [b'e' | b'E', b'-', digits @ ..] => (true, digits),
        [b'e' | b'E', b'+', digits @ ..] | [b'e' | b'E', digits @ ..] => (false, digits),
        _ => return None,
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |value: i64, digit: &u8| (value * 10 + i64::from(digit - b'0')).min(EXPONENT);
    let value = digits.iter().fold(0, add);
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str, factor: u64) -> Option<u128> {
        Decimal::parse(text, true)?.times(factor)
    }

    #[test]
    fn numbers() {
        for (text, factor, expected) in [
            ("0", 1, Some(0)),
            ("1_000", 1, Some(1000)),
            ("1.5", 2, Some(3)),
            (".5", 1, Some(1)),
            ("1.", 1, Some(1)),
            ("0.49999", 1, Some(0)),
            ("1.9e3", 1, Some(1900)),
            ("19e-1", 10, Some(19)),
            ("1e-30", 1, Some(0)),
            ("1e-99999999999999999999", 1, Some(0)),
            ("0e99999", 1, Some(0)),
            ("1e99999", 1, None),
            ("+7", 1, Some(7)),
            ("-7", 1, Some(7)),
            ("", 1, None),
            (".", 1, None),
            ("-", 1, None),
            ("1__0", 1, None),
            ("1.2.3", 1, None),
            ("1e", 1, None),
            ("1e+", 1, None),
            ("1x", 1, None),
            (" 1", 1, None),
        ] {
            assert_eq!(times(text, factor), expected, "{text} * {factor}");
        }
        assert!(Decimal::parse("-1", true).unwrap().negative);
        assert_eq!(Decimal::parse("-1", false), None);
        assert_eq!(Decimal::parse("1.0000000015", false).unwrap().seconds(1), Some((1, 2)));
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text: String, number in "[-+]?[0-9_.]{0,80}([eE][-+]?[0-9]{0,12})?") {
            for text in [text, number] {
                if let Some(decimal) = Decimal::parse(&text, true) {
                    decimal.times(86_400);
                    decimal.shifted(9).times(1 << 32);
                }
            }
        }
    }
}
