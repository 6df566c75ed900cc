//! Numbers with units: parsing typed ones, printing them for people.
//!
//! Every kind of number has a range, which its errors name: parsed numbers can be added to a clock,
//! multiplied by a number of workers or of trials, and turned into nanoseconds or bits without an
//! overflow.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};

/// The longest time: a year, with a leap day.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
/// The shortest and the longest time from one update of a table to the next.
const INTERVALS: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(24 * 3600)];
/// The largest size, 1 PiB: eight times the address space of a process.
const LARGEST: u64 = 1 << 50;
/// The highest count.
const MOST: u64 = 1_000_000_000_000_000_000;

/// Whole numbers of a range.
pub(crate) fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Copy,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| format!("write a whole number from {least} to {most}"))
    }
}

/// Bytes, up to 1 PiB: `4096`, `64k`, `16M`, `1G`, with or without `iB`; powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let wrong = || format!("{text:?} is not a size: write bytes or 64k, 16M, 1G, up to 1024T");
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let shift = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "k" | "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    let bytes = number * (1u64 << shift) as f64;
    if bytes.fract() != 0.0 || bytes > LARGEST as f64 {
        return Err(wrong());
    }
    Ok(bytes as usize)
}

/// The size of a file as tcpdump has it, up to 1 PiB: `10` are millions of bytes; `64k`, `16M`, `1G` are
/// powers of 1024.
pub(crate) fn parse_file_size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "{text:?} is not a file size: write millions of bytes, or 64k, 16M, 1G, from 1 byte \
             to 1048576G"
        )
    };
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let scale = match &text[end..] {
        "" => 1_000_000,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..end].parse().map_err(|_| wrong())?;
    number.checked_mul(scale).filter(|bytes| (1..=LARGEST).contains(bytes)).ok_or_else(wrong)
}

/// A time, up to a year: `10` or `10s` are seconds; `500ms`, `20us`, `2m`, `1h`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "{text:?} is not a time: write seconds or 500ms, 20us, 10s, 2m, 1h, up to 8784h (a year)"
        )
    };
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    let time = Duration::try_from_secs_f64(seconds).ok();
    time.filter(|time| *time <= LONGEST).ok_or_else(wrong)
}

/// A time from one update of a table to the next, from 10 milliseconds to a day.
pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    let [least, most] = INTERVALS;
    if !(least..=most).contains(&interval) {
        return Err("an interval has 10ms to 24h".into());
    }
    Ok(interval)
}

/// A count, up to 10^18: `1000`, `10k`, `5M`, `1G`; powers of 1000.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("{text:?} is not a count: write a number or 10k, 5M, 1G, up to 1000000000G");
    if let Ok(number) = text.replace('_', "").parse::<u64>() {
        return Some(number).filter(|number| *number <= MOST).ok_or_else(wrong);
    }
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let scale = match unit {
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return Err(wrong()),
    };
    let count = number * scale;
    if count.fract() != 0.0 || count > MOST as f64 {
        return Err(wrong());
    }
    Ok(count as u64)
}

/// Splits a non-negative decimal number from the unit behind it.
pub(crate) fn split_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..end].parse().ok()?;
    Some((number, text[end..].trim_start()))
}

/// A rate or count for a table cell: three significant digits and a prefix.
pub(crate) fn short(value: f64) -> String {
    let (scaled, prefix) = match value.abs() {
        v if v >= 999.5e6 => (value / 1e9, " G"),
        v if v >= 999.5e3 => (value / 1e6, " M"),
        v if v >= 999.5 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        v if prefix.is_empty() && v.fract() == 0.0 => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{prefix}")
}

/// A short number with its unit: `987 pps`, `1.50 kpps`.
pub(crate) fn with_unit(value: f64, unit: &str) -> String {
    let number = short(value);
    let space = if number.contains(' ') { "" } else { " " };
    format!("{number}{space}{unit}")
}

/// Nanoseconds with the unit that suits them.
pub(crate) fn short_time(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} us", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// A count with its digits in groups: `45,200,000`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64k", 65536),
            ("16M", 16 << 20),
            ("1GiB", 1 << 30),
            ("1.5M", 3 << 19),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "-1", "4x", "1.0001k", "1025T", "4 4"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn file_sizes() {
        for (text, bytes) in [
            ("1", 1_000_000),
            ("20", 20_000_000),
            ("64k", 64 << 10),
            ("3K", 3 << 10),
            ("16m", 16 << 20),
            ("1G", 1 << 30),
        ] {
            assert_eq!(parse_file_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "0",
            "0k",
            "k",
            "-1",
            "1.5",
            "4x",
            "1MB",
            "1 M",
            "1048577G",
            "99999999999999999999",
        ] {
            assert!(parse_file_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, millis) in [("10", 10_000), ("500ms", 500), ("2m", 120_000), ("0.5s", 500)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_duration("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(parse_duration("8784h"), Ok(LONGEST));
        for text in ["", "s", "5 days", "1e3", "-1s", "8784.1h", "999999999999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn intervals() {
        assert_eq!(parse_interval("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(parse_interval("24h"), Ok(INTERVALS[1]));
        for text in ["0", "0s", "9ms", "1us", "25h", "8784h"] {
            assert!(parse_interval(text).unwrap_err().contains("10ms"), "{text}");
        }
    }

    #[test]
    fn counts() {
        for (text, count) in [("7", 7), ("10k", 10_000), ("1_000", 1000), ("2.5M", 2_500_000)] {
            assert_eq!(parse_count(text), Ok(count), "{text}");
        }
        assert_eq!(parse_count("1000000000G"), Ok(MOST));
        assert_eq!(parse_count(&MOST.to_string()), Ok(MOST));
        for text in ["", "k", "1.5", "ten", "1.0005k", "1000000001G", "18446744073709551615"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn short_numbers() {
        let cases = [
            (0.0, "0"),
            (7.0, "7"),
            (7.25, "7.25"),
            (999.0, "999"),
            (1500.0, "1.50 k"),
            (123_456.0, "123 k"),
            (999_600.0, "1.00 M"),
            (14_880_952.0, "14.9 M"),
            (2.5e9, "2.50 G"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
        assert_eq!(with_unit(987.0, "pps"), "987 pps");
        assert_eq!(with_unit(0.0, "bit/s"), "0 bit/s");
        assert_eq!(with_unit(1500.0, "pps"), "1.50 kpps");
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        for (nanoseconds, text) in
            [(7.0, "7 ns"), (1500.0, "1.5 us"), (2.5e6, "2.50 ms"), (3e9, "3.00 s")]
        {
            assert_eq!(short_time(nanoseconds), text);
        }
    }

    #[test]
    fn groups_of_three() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(45_200_000), "45,200,000");
    }
}
