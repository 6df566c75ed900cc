//! Times of packets: nanoseconds since the epoch, as text and as arguments.

use std::fmt;

use linerate_graph::{Scope, Value, parse_time};

const SECOND: u64 = 1_000_000_000;

/// A time, or a length of time, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(pub(super) u64);

impl Stamp {
    /// Reads seconds with a fraction exactly, where a floating-point number
    /// would lose the nanoseconds of today's dates; with a unit as all times.
    pub(super) fn parse(text: &str) -> Option<Stamp> {
        let text = text.trim();
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || whole.len() + fraction.len() == 0 {
            let time = parse_time(text)?;
            return (0.0..1.8e19).contains(&time).then(|| Stamp(time.round() as u64));
        }
        let seconds: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let nanoseconds = fraction
            .bytes()
            .chain(std::iter::repeat(b'0'))
            .take(9)
            .fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
        Some(Stamp(seconds.checked_mul(SECOND)?.checked_add(nanoseconds)?))
    }

    pub(super) fn plus(self, other: Stamp) -> Stamp {
        Stamp(self.0.saturating_add(other.0))
    }
}

impl Value for Stamp {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Stamp, String> {
        Stamp::parse(text).ok_or_else(|| "invalid time".into())
    }
}

/// Seconds and microseconds, or nanoseconds where microseconds are not exact.
impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0 / SECOND, self.0 % SECOND);
        if rest.is_multiple_of(1000) {
            write!(f, "{seconds}.{:06}", rest / 1000)
        } else {
            write!(f, "{seconds}.{rest:09}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact_and_units_understood() {
        for (text, ns, printed) in [
            ("1700000000.123456789", 1_700_000_000_123_456_789, "1700000000.123456789"),
            ("1700000000.5", 1_700_000_000_500_000_000, "1700000000.500000"),
            (".000001", 1000, "0.000001"),
            ("3", 3_000_000_000, "3.000000"),
            ("2ms", 2_000_000, "0.002000"),
            ("1min", 60_000_000_000, "60.000000"),
            ("1.0000000019", 1_000_000_001, "1.000000001"),
        ] {
            let stamp = Stamp::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((stamp.0, stamp.to_string().as_str()), (ns, printed), "{text}");
        }
        for text in ["", ".", "x", "-1", "1.2.3", "99999999999999999999"] {
            assert_eq!(Stamp::parse(text), None, "{text}");
        }
    }
}
