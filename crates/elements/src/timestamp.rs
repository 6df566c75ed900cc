//! Times as Click reads and shows them.

use linerate_graph::{Scope, Value};

const SECOND: i128 = 1_000_000_000;

const UNITS: [(&str, i128); 12] = [
    ("nsec", 1),
    ("usec", 1_000),
    ("msec", 1_000_000),
    ("sec", SECOND),
    ("min", 60 * SECOND),
    ("hr", 3600 * SECOND),
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];

/// A time or a distance between times, in nanoseconds.
///
/// Kept in [`Meta::timestamp`](linerate_memory::Meta::timestamp) as it is, in
/// two's complement where it is negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Timestamp(pub(crate) i64);

impl Timestamp {
    /// Reads seconds, or a number with a unit, to the nanosecond.
    pub(crate) fn read(text: &str) -> Option<Timestamp> {
        let with_unit = UNITS.iter().find_map(|(unit, scale)| {
            let number = text.strip_suffix(unit)?.trim_end();
            number.ends_with(|c: char| c.is_ascii_digit() || c == '.').then_some((number, *scale))
        });
        let (number, scale) = with_unit.unwrap_or((text, SECOND));
        let (negative, number) = match number.strip_prefix('-') {
            Some(number) => (true, number),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let mut value = format!("0{whole}").parse::<i64>().ok().map(i128::from)? * scale;
        let mut place = scale;
        for digit in fraction.bytes() {
            place /= 10;
            value += place * i128::from(digit - b'0');
        }
        let value = i64::try_from(value).ok()?;
        Some(Timestamp(if negative { -value } else { value }))
    }

    /// Seconds with six decimals, or nine where it takes them.
    pub(crate) fn text(self) -> String {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (seconds, rest) =
            (self.0.unsigned_abs() / 1_000_000_000, self.0.unsigned_abs() % 1_000_000_000);
        match rest % 1000 {
            0 => format!("{sign}{seconds}.{:06}", rest / 1000),
            _ => format!("{sign}{seconds}.{rest:09}"),
        }
    }

    /// With a unit: below a second the largest that leaves no fraction.
    pub(crate) fn interval(self) -> String {
        if self.0.unsigned_abs() >= 1_000_000_000 {
            return format!("{}s", self.text());
        }
        match self.0 {
            ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
            ns if ns % 1000 == 0 => format!("{}us", ns / 1000),
            ns => format!("{ns}ns"),
        }
    }
}

impl Value for Timestamp {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Timestamp, String> {
        Timestamp::read(text).ok_or_else(|| "parse error".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Click 2.1 shows as the `time` of `AdjustTimestamp`.
    #[test]
    fn intervals_are_read_and_shown() {
        for (given, shown) in [
            ("0.5", "500ms"),
            ("1", "1.000000s"),
            ("1.0000001", "1.000000100s"),
            ("100us", "100us"),
            ("-3", "-3.000000s"),
            ("1 min", "60.000000s"),
            ("90", "90.000000s"),
            ("0.001", "1ms"),
            ("0.00001", "10us"),
            ("4000", "4000.000000s"),
            (".5ms", "500us"),
            ("3ns", "3ns"),
        ] {
            assert_eq!(Timestamp::read(given).unwrap().interval(), shown, "{given}");
        }
        for wrong in ["", ".", "x", "1.x", "--1", "1 hour", "99999999999999999999"] {
            assert_eq!(Timestamp::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nothing_is_lost_far_from_the_epoch() {
        let time = Timestamp::read("1435000000.123456789").unwrap();
        assert_eq!(time.0, 1_435_000_000_123_456_789);
        assert_eq!(time.text(), "1435000000.123456789");
        assert_eq!(Timestamp::read("-2.25").unwrap().text(), "-2.250000");
    }
}
