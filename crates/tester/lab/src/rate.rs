//! Rate and rhythm of sending.

use std::{fmt, str::FromStr, time::Duration};

/// Bytes a frame takes on an Ethernet wire besides itself (FCS counted in it):
/// preamble, start delimiter and gap.
pub const LINE_OVERHEAD: usize = 20;
/// Numbers of rates: frames or bits per second, or percent.
const RATES: std::ops::RangeInclusive<f64> = 1e-6..=1e13;
/// Gaps drawn in one go.
const DRAWS: u64 = 1 << 16;
/// Frames of a burst.
const BURSTS: std::ops::RangeInclusive<u32> = 1..=1_000_000;

/// A rate: `1.5Mpps`; `100Mbit/s`, counted on the wire, gaps included; `25%`
/// of the link's speed; or `max`. Numbers are from a millionth to 10^13.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// As fast as the port takes frames.
    Max,
    /// Frames per second.
    Packets(f64),
    /// Bits per second on the wire.
    Bits(f64),
    /// Part of the link's speed, 1 for all of it.
    Link(f64),
}

impl Rate {
    /// Frames per second for frames of `mean_size` bytes, FCS included; `None`
    /// for as fast as possible.
    ///
    /// # Errors
    ///
    /// When a part of the link's speed is wanted and the link has none.
    pub fn packets_per_second(
        self,
        mean_size: f64,
        link: Option<u64>,
    ) -> Result<Option<f64>, String> {
        let per_frame = 8.0 * (mean_size + LINE_OVERHEAD as f64);
        match self {
            Rate::Max => Ok(None),
            Rate::Packets(rate) => Ok(Some(rate)),
            Rate::Bits(rate) => Ok(Some(rate / per_frame)),
            Rate::Link(part) => match link {
                Some(speed) => Ok(Some(part * speed as f64 / per_frame)),
                None => Err("this port has no link speed to take a part of: \
                             give the rate in pps or bit/s"
                    .into()),
            },
        }
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let wrong = || format!("{text:?} is not a rate: write max, 1.5Mpps, 100Mbit/s or 25%");
        if text.eq_ignore_ascii_case("max") {
            return Ok(Rate::Max);
        }
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let number: f64 = text[..end].parse().map_err(|_| wrong())?;
        let unit = text[end..].trim();
        if unit == "%" {
            return in_range(text, number).map(|number| Rate::Link(number / 100.0));
        }
        let (scale, unit) = match unit.as_bytes().first() {
            Some(b'k' | b'K') => (1e3, &unit[1..]),
            Some(b'M') => (1e6, &unit[1..]),
            Some(b'G') => (1e9, &unit[1..]),
            _ => (1.0, unit),
        };
        let rate = match unit {
            "" | "pps" => Rate::Packets,
            "bit/s" | "bps" | "bit" => Rate::Bits,
            _ => return Err(wrong()),
        };
        in_range(text, number * scale).map(rate)
    }
}

/// A rate's number: one that a gap of nanoseconds and a count of years can be computed from.
fn in_range(text: &str, number: f64) -> Result<f64, String> {
    if RATES.contains(&number) {
        return Ok(number);
    }
    let (least, most) = (RATES.start(), RATES.end());
    Err(format!("{text:?} is not a rate above zero: its number is from {least} to {most:e}"))
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Max => f.write_str("max"),
            Rate::Packets(rate) => write!(f, "{rate}pps"),
            Rate::Bits(rate) => write!(f, "{rate}bit/s"),
            Rate::Link(part) => write!(f, "{}%", part * 100.0),
        }
    }
}

/// The rhythm in which frames are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Equal gaps.
    Constant,
    /// Exponentially distributed gaps: independent arrivals.
    Poisson,
    /// So many frames back to back, then a gap that keeps the mean rate.
    Bursts(u32),
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let wrong = || format!("{text:?} is not a pattern: write cbr, poisson or bursts:N");
        match text {
            "cbr" | "constant" => Ok(Pattern::Constant),
            "poisson" => Ok(Pattern::Poisson),
            _ => {
                let count = text.strip_prefix("bursts:").ok_or_else(wrong)?;
                match count.parse() {
                    Ok(count) if BURSTS.contains(&count) => Ok(Pattern::Bursts(count)),
                    Ok(_) => Err(format!("bursts have 1 to {} frames", BURSTS.end())),
                    Err(_) => Err(wrong()),
                }
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Constant => f.write_str("cbr"),
            Pattern::Poisson => f.write_str("poisson"),
            Pattern::Bursts(count) => write!(f, "bursts:{count}"),
        }
    }
}

/// Says how many frames are due.
#[derive(Debug)]
pub struct Schedule {
    /// Mean gap in nanoseconds; `None` for as fast as possible.
    gap: Option<f64>,
    pattern: Pattern,
    /// Time at which the next frame or burst is due, in nanoseconds since the start.
    next: f64,
    random: fastrand::Rng,
}

impl Schedule {
    /// Frames at `rate` per second, or as fast as possible. Equal seeds give
    /// equal Poisson schedules.
    pub fn new(rate: Option<f64>, pattern: Pattern, seed: u64) -> Schedule {
        let random = fastrand::Rng::with_seed(seed);
        let mut schedule =
            Schedule { gap: rate.map(|rate| 1e9 / rate), pattern, next: 0.0, random };
        if pattern == Pattern::Poisson {
            schedule.next = schedule.draw();
        }
        schedule
    }

    /// Frames that come due together: those of a burst.
    #[inline]
    pub fn together(&self) -> u64 {
        match self.pattern {
            Pattern::Bursts(size) => size.into(),
            Pattern::Constant | Pattern::Poisson => 1,
        }
    }

    /// Frames that have come due by `elapsed` nanoseconds after the start and
    /// were not reported before, of independent ones at most some ten thousand; `None` for as many as the port takes.
    #[inline]
    pub fn due(&mut self, elapsed: u64) -> Option<u64> {
        let gap = self.gap?;
        let elapsed = elapsed as f64;
        if elapsed < self.next {
            return Some(0);
        }
        Some(match self.pattern {
            Pattern::Constant => {
                let due = ((elapsed - self.next) / gap) as u64 + 1;
                self.next += due as f64 * gap;
                due
            }
            Pattern::Bursts(size) => {
                let bursts = ((elapsed - self.next) / (gap * f64::from(size))) as u64 + 1;
                let due = bursts * u64::from(size);
                self.next += due as f64 * gap;
                due
            }
            Pattern::Poisson => {
                let mut due = 0;
                // The rest is due at the next call: a rate may be higher than gaps can be drawn.
                while self.next <= elapsed && due < DRAWS {
                    self.next += self.draw();
                    due += 1;
                }
                due
            }
        })
    }

    /// An exponentially distributed gap.
    fn draw(&mut self) -> f64 {
        let gap = self.gap.unwrap_or(0.0);
        // 1 - f64() is never zero.
        -(1.0 - self.random.f64()).ln() * gap
    }

    /// Time from `elapsed` nanoseconds after the start until the next frame is
    /// due.
    pub fn wait(&self, elapsed: u64) -> Duration {
        match self.gap {
            None => Duration::ZERO,
            Some(_) => Duration::from_nanos((self.next - elapsed as f64).max(0.0) as u64),
        }
    }

    /// Frames that come due in `time` nanoseconds on average.
    pub fn expected(&self, time: f64) -> Option<f64> {
        self.gap.map(|gap| time / gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_parse() {
        let cases = [
            ("max", Rate::Max),
            ("1000", Rate::Packets(1000.0)),
            ("1.5Mpps", Rate::Packets(1.5e6)),
            ("100Mbit/s", Rate::Bits(1e8)),
            ("10Gbps", Rate::Bits(1e10)),
            ("25%", Rate::Link(0.25)),
        ];
        for (text, rate) in cases {
            assert_eq!(text.parse(), Ok(rate), "{text}");
        }
        for text in ["", "0", "-5pps", "fast", "5 Mfoo", "%"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn line_rate_of_ten_gigabit() {
        // 14.88 Mpps, RFC 2544 section 20's arithmetic.
        let rate = Rate::Link(1.0).packets_per_second(64.0, Some(10_000_000_000)).unwrap().unwrap();
        assert!((rate - 14_880_952.0).abs() < 1.0, "{rate}");
        assert!(Rate::Link(1.0).packets_per_second(64.0, None).is_err());
    }

    #[test]
    fn a_constant_schedule_keeps_the_rate_whenever_it_is_asked() {
        let mut schedule = Schedule::new(Some(1e6), Pattern::Constant, 0);
        let mut random = fastrand::Rng::with_seed(1);
        let (mut time, mut due) = (0, 0);
        while time < 1_000_000_000 {
            time += random.u64(1..50_000);
            due += schedule.due(time).unwrap();
            assert!(schedule.wait(time) <= Duration::from_nanos(1000));
        }
        assert!(due.abs_diff(time / 1000) <= 1, "{due} {time}");
    }

    #[test]
    fn bursts_come_whole() {
        let mut schedule = Schedule::new(Some(1e6), Pattern::Bursts(100), 0);
        let due: Vec<u64> = (0..10).map(|i| schedule.due(i * 50_000).unwrap()).collect();
        assert_eq!(due, [100, 0, 100, 0, 100, 0, 100, 0, 100, 0]);
    }

    #[test]
    fn poisson_has_the_mean_and_the_variance_of_poisson() {
        let mut schedule = Schedule::new(Some(1e6), Pattern::Poisson, 7);
        let counts: Vec<f64> =
            (1..=10_000).map(|i| schedule.due(i * 100_000).unwrap() as f64).collect();
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        assert!((mean - 100.0).abs() < 1.0, "{mean}");
        assert!((variance / mean - 1.0).abs() < 0.1, "{variance}");
    }
}
