//! Numbers with units: times and bandwidths.

use std::{fmt, time::Duration};

use super::{Value, decimal::Decimal, or_parse_error};
use crate::element::Scope;

/// A unit: its symbol, and its size in units without a name: times `factor`, times ten to the
/// `power`th.
struct Unit(&'static str, i32, u64);

/// Letters in front of a unit and their powers of ten.
type Prefixes = &'static [(u8, i32)];

/// The first that a text ends with is meant: `ms` is a prefix and `s`.
const TIMES: &[Unit] = &[
    Unit("s", 0, 1),
    Unit("sec", 0, 1),
    Unit("m", 0, 60),
    Unit("min", 0, 60),
    Unit("h", 0, 3600),
    Unit("hr", 0, 3600),
    Unit("d", 0, 86_400),
    Unit("day", 0, 86_400),
];
const TIME_PREFIXES: Prefixes = &[(b'm', -3), (b'u', -6), (b'n', -9)];

/// Bits are an eighth: 125 thousandths.
const BANDWIDTHS: &[Unit] = &[
    Unit("baud", -3, 125),
    Unit("bps", -3, 125),
    Unit("b/s", -3, 125),
    Unit("Bps", 0, 1),
    Unit("B/s", 0, 1),
];
const BANDWIDTH_PREFIXES: Prefixes = &[(b'k', 3), (b'K', 3), (b'M', 6), (b'G', 9)];

/// The number in front of the unit, moved by the unit's power of ten, and the
/// unit's factor.
fn with_unit(
    text: &str,
    units: &[Unit],
    prefixes: Prefixes,
    signed: bool,
) -> Option<(Decimal, u64)> {
    let found = units.iter().find_map(|unit| Some((text.strip_suffix(unit.0)?, unit)));
    let Some((mut number, &Unit(_, mut power, factor))) = found else {
        return Some((Decimal::parse(text, signed)?, 1));
    };
    let last = number.as_bytes().last();
    if let Some((_, more)) = prefixes.iter().find(|(letter, _)| Some(letter) == last) {
        number = &number[..number.len() - 1];
        power += more;
    }
    let number = number.trim_end_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    Some((Decimal::parse(number, signed)?.shifted(power), factor))
}

/// Seconds and nanoseconds; clipped to the greatest time that Click holds.
fn parse_timestamp(text: &str, signed: bool) -> Option<(bool, Duration)> {
    let (number, factor) = with_unit(text, TIMES, TIME_PREFIXES, signed)?;
    let (seconds, nanos) = number.seconds(factor).unwrap_or((u128::MAX, 0));
    let time = match u32::try_from(seconds) {
        Ok(seconds) => Duration::new(seconds.into(), nanos),
        Err(_) => Duration::new(u32::MAX.into(), 999_999_999),
    };
    Some((number.negative, time))
}

/// A time as Click writes it, a number of seconds or with a unit, in
/// nanoseconds.
pub fn parse_time(text: &str) -> Option<f64> {
    let (negative, time) = parse_timestamp(text, true)?;
    let nanos = time.as_nanos() as f64;
    Some(if negative { -nanos } else { nanos })
}

impl Value for Duration {
    /// Click's `Timestamp`: a time not below zero, exact to the nanosecond.
    fn parse(text: &str, _: &Scope<'_>) -> Result<Duration, String> {
        or_parse_error(parse_timestamp(text, false).map(|(_, time)| time))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        timestamp(self.as_secs(), self.subsec_nanos())
    }
}

/// Seconds with six decimals, or nine where it takes them.
fn timestamp(seconds: u64, nanos: u32) -> String {
    if nanos.is_multiple_of(1000) {
        format!("{seconds}.{:06}", nanos / 1000)
    } else {
        format!("{seconds}.{nanos:09}")
    }
}

/// A time or a distance between times. Shown as seconds with six decimals, or
/// nine where it takes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SignedTime {
    /// Nanoseconds.
    pub nanos: i64,
}

impl SignedTime {
    /// This many nanoseconds, as packets carry them: in two's complement where
    /// they are below zero.
    pub fn from_nanos(nanos: u64) -> SignedTime {
        SignedTime { nanos: nanos.cast_signed() }
    }

    /// Reads seconds, or a number with a unit, to the nanosecond.
    pub fn read(text: &str) -> Option<SignedTime> {
        if let Some(nanos) = plain_seconds(text) {
            return Some(SignedTime { nanos });
        }
        let (negative, time) = parse_timestamp(text, true)?;
        let nanos = time.as_nanos() as i64;
        Some(SignedTime { nanos: if negative { -nanos } else { nanos } })
    }

    /// With a unit: below a second the largest that leaves no fraction.
    pub fn interval(self) -> String {
        match self.nanos {
            ns if ns.unsigned_abs() >= 1_000_000_000 => format!("{self}s"),
            ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
            ns if ns % 1000 == 0 => format!("{}us", ns / 1000),
            ns => format!("{ns}ns"),
        }
    }
}

/// Nanoseconds of seconds as files have them, `1700000000.123456`: without the cost of numbers of
/// other forms.
fn plain_seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: u32 = whole.parse().ok()?;
    let padded = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = padded.fold(0, |nanos, digit| nanos * 10 + i64::from(digit - b'0'));
    Some(i64::from(seconds) * 1_000_000_000 + nanos)
}

impl fmt::Display for SignedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.nanos < 0 { "-" } else { "" };
        let nanos = self.nanos.unsigned_abs();
        let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        write!(f, "{sign}{}", timestamp(seconds, rest as u32))
    }
}

impl Value for SignedTime {
    fn parse(text: &str, _: &Scope<'_>) -> Result<SignedTime, String> {
        or_parse_error(SignedTime::read(text))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.to_string()
    }
}

/// A time in units of ten to the minus `DIGITS`th seconds, rounded, in 32
/// bits: `Seconds<3>` holds milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seconds<const DIGITS: i32>(pub u32);

impl<const DIGITS: i32> Value for Seconds<DIGITS> {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Seconds<DIGITS>, String> {
        let (number, factor) = or_parse_error(with_unit(text, TIMES, TIME_PREFIXES, false))?;
        let value = number.shifted(DIGITS).times(factor);
        let value = value.and_then(|value| u32::try_from(value).ok());
        value.map(Seconds).ok_or_else(|| "out of range".into())
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        let (value, one) = (u64::from(self.0), 10u64.pow(DIGITS.unsigned_abs()));
        let Ok(digits @ 1..) = usize::try_from(DIGITS) else { return (value * one).to_string() };
        let fraction = format!("{:0digits$}", value % one);
        match fraction.trim_end_matches('0') {
            "" => (value / one).to_string(),
            fraction => format!("{}.{fraction}", value / one),
        }
    }
}

/// A rate of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bandwidth {
    /// Bytes per second, a whole number.
    pub bytes: f64,
    /// Whether there was no unit.
    pub unitless: bool,
}

impl Value for Bandwidth {
    /// Click holds up to 4 GB/s; here there is room for the rates of today.
    fn parse(text: &str, _: &Scope<'_>) -> Result<Bandwidth, String> {
        let parsed = with_unit(text, BANDWIDTHS, BANDWIDTH_PREFIXES, false);
        let (number, factor) = or_parse_error(parsed)?;
        let bytes = number.times(factor).filter(|bytes| *bytes <= 1 << 53).ok_or("out of range")?;
        let has_unit = BANDWIDTHS.iter().any(|unit| text.ends_with(unit.0));
        Ok(Bandwidth { bytes: bytes as f64, unitless: !has_unit && bytes > 0 })
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        format!("{}{}", self.bytes, if self.unitless { "" } else { "Bps" })
    }
}

/// A bandwidth in bytes per second, as Click writes it: `bps`, `Bps`, with
/// `k`, `M` or `G`; bytes when there is no unit.
pub fn parse_bandwidth(text: &str) -> Option<f64> {
    let (number, factor) = with_unit(text, BANDWIDTHS, BANDWIDTH_PREFIXES, false)?;
    number.times(factor).filter(|bytes| *bytes <= 1 << 53).map(|bytes| bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::value::tests::read;

    #[test]
    fn times() {
        for (text, nanos) in [
            ("1", 1_000_000_000),
            ("1.5s", 1_500_000_000),
            ("20 ms", 20_000_000),
            ("3us", 3_000),
            ("7 nsec", 7),
            ("1.9msec", 1_900_000),
            ("2min", 120_000_000_000),
            ("2m", 120_000_000_000),
            ("1 hr", 3_600_000_000_000),
            ("0.5day", 43_200_000_000_000),
            ("3.6e6 msec", 3_600_000_000_000),
            ("0.0000000015", 2),
        ] {
            assert_eq!(read(text), Ok(Duration::from_nanos(nanos)), "{text}");
            assert_eq!(parse_time(text), Some(nanos as f64), "{text}");
        }
        for text in ["", "soon", "s", "-1", "1y", "1 m s", "1 2"] {
            assert_eq!(read::<Duration>(text), Err("parse error".into()), "{text}");
        }
        let most = Duration::new(u32::MAX.into(), 999_999_999);
        assert_eq!(read("99999999999"), Ok(most));
        assert_eq!(read("1e40 d"), Ok(most));
        assert_eq!(read("-1.5ms"), Ok(SignedTime { nanos: -1_500_000 }));
        assert_eq!(read("1us"), Ok(SignedTime { nanos: 1000 }));
    }

    /// Click 2.1's texts for the `time` of `AdjustTimestamp`.
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
            ("1.0000000019", "1.000000002s"),
        ] {
            assert_eq!(SignedTime::read(given).unwrap().interval(), shown, "{given}");
        }
        for wrong in ["", ".", "x", "1.x", "--1", "1 hour"] {
            assert_eq!(SignedTime::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nothing_is_lost_far_from_the_epoch() {
        let time = SignedTime::read("1435000000.123456789").unwrap();
        assert_eq!(time.nanos, 1_435_000_000_123_456_789);
        assert_eq!(time.to_string(), "1435000000.123456789");
        assert_eq!(SignedTime::read("-2.25").unwrap().to_string(), "-2.250000");
        assert_eq!(
            SignedTime::from_nanos(SignedTime { nanos: -5 }.nanos.cast_unsigned()).nanos,
            -5
        );
    }

    #[test]
    fn seconds_are_rounded() {
        for (text, expected) in
            [("3600", 3600), ("60m", 3600), ("1.99 hr", 7164), ("1.99 s", 2), ("1ms", 0)]
        {
            assert_eq!(read(text), Ok(Seconds::<0>(expected)), "{text}");
        }
        assert_eq!(read("1.99 s"), Ok(Seconds::<1>(20)));
        assert_eq!(read("1.9ms"), Ok(Seconds::<3>(2)));
        assert_eq!(read("1.9ms"), Ok(Seconds::<6>(1900)));
        assert_eq!(read::<Seconds<0>>("5000000000"), Err("out of range".into()));
        assert_eq!(read::<Seconds<0>>("-1"), Err("parse error".into()));
    }

    #[test]
    fn bandwidths() {
        for (text, bytes) in [
            ("1000", 1000.0),
            ("8kbps", 1000.0),
            ("8 Kb/s", 1000.0),
            ("8baud", 1.0),
            ("12bps", 2.0),
            ("11bps", 1.0),
            ("1 MBps", 1e6),
            ("1.5MB/s", 1.5e6),
            ("1Gbps", 1.25e8),
            ("100Gbps", 1.25e10),
        ] {
            assert_eq!(read::<Bandwidth>(text).unwrap().bytes, bytes, "{text}");
            assert_eq!(parse_bandwidth(text), Some(bytes), "{text}");
        }
        assert!(read::<Bandwidth>("8").unwrap().unitless);
        assert!(!read::<Bandwidth>("8Bps").unwrap().unitless);
        for text in ["", "1M", "-1", "8 k bps", "fast", "1B"] {
            assert_eq!(read::<Bandwidth>(text), Err("parse error".into()), "{text}");
        }
        assert_eq!(read::<Bandwidth>("99999999GBps"), Err("out of range".into()));
    }
}
