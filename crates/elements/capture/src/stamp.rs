//! Times of packets: nanoseconds since the epoch, as text and as arguments.

use std::fmt;

use linerate_graph::{Scope, SignedTime, Value};

/// A time, or a length of time, in nanoseconds: a [`SignedTime`] that is not
/// below zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(pub(super) u64);

impl Stamp {
    /// Reads seconds, or a number with a unit.
    pub(super) fn parse(text: &str) -> Option<Stamp> {
        let time = SignedTime::read(text.trim())?;
        u64::try_from(time.nanos).ok().map(Stamp)
    }

    pub(super) fn plus(self, other: Stamp) -> Stamp {
        Stamp(self.0.saturating_add(other.0))
    }
}

impl Value for Stamp {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Stamp, String> {
        Stamp::parse(text).ok_or_else(|| "parse error".into())
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.to_string()
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SignedTime::from_nanos(self.0).fmt(f)
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
            ("1.0000000019", 1_000_000_002, "1.000000002"),
        ] {
            let stamp = Stamp::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((stamp.0, stamp.to_string().as_str()), (ns, printed), "{text}");
        }
        for text in ["", ".", "x", "-1", "1.2.3"] {
            assert_eq!(Stamp::parse(text), None, "{text}");
        }
    }
}
