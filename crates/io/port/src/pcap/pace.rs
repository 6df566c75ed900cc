//! When each packet of a replay is due.
//!
//! All times are reckoned from the start of the replay, never from the packet before, so that
//! rounding and lateness do not add up: a replay that was held up catches up.

use std::str::FromStr;

const SECOND: u64 = 1_000_000_000;

/// Rate of the replay, as in the option `rate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rate {
    /// As fast as they are taken.
    Max,
    /// With the gaps they were recorded with.
    Recorded,
    /// So many packets per second, evenly.
    PerSecond(u64),
}

impl FromStr for Rate {
    type Err = ();

    /// `max`, `recorded`, or a number with an optional `k`, `M` or `G` and an optional `pps`.
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "max" => return Ok(Self::Max),
            "recorded" => return Ok(Self::Recorded),
            _ => {}
        }
        let number = text.strip_suffix("pps").unwrap_or(text);
        let (number, factor) = match number.as_bytes().last() {
            Some(b'k' | b'K') => (&number[..number.len() - 1], 1e3),
            Some(b'M') => (&number[..number.len() - 1], 1e6),
            Some(b'G') => (&number[..number.len() - 1], 1e9),
            _ => (number, 1.0),
        };
        let rate = number.parse::<f64>().map_err(|_| ())? * factor;
        // Beyond a packet per nanosecond there is nothing to pace.
        if (1.0..=1e9).contains(&rate) { Ok(Self::PerSecond(rate.round() as u64)) } else { Err(()) }
    }
}

/// The schedule of a replay.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Rate,
    /// Factor on the recorded speed.
    speed: f64,
    /// Packets replayed.
    done: u64,
    /// Time of the first record of this pass through the file.
    first_ts: Option<u64>,
    /// When this pass began.
    pass_start: u64,
    /// Latest time a packet of this pass was due.
    latest: u64,
}

impl Pace {
    pub(super) fn new(rate: Rate, speed: f64) -> Self {
        Self { rate, speed, done: 0, first_ts: None, pass_start: 0, latest: 0 }
    }

    /// Returns true if packets are due at once at any time.
    pub(super) fn is_unlimited(&self) -> bool {
        self.rate == Rate::Max
    }

    /// When the next packet, recorded at `ts_ns`, is due: nanoseconds after the start of the
    /// replay. `None` if at once.
    pub(super) fn due(&mut self, ts_ns: u64) -> Option<u64> {
        match self.rate {
            Rate::Max => None,
            Rate::PerSecond(rate) => {
                // Whole seconds and the rest apart, so that nothing overflows or drifts.
                Some(self.done / rate * SECOND + self.done % rate * SECOND / rate)
            }
            Rate::Recorded => {
                // A record out of order, older than the first, is due at once.
                let gap = ts_ns.saturating_sub(*self.first_ts.get_or_insert(ts_ns));
                let gap = match self.speed {
                    1.0 => gap,
                    speed => (gap as f64 / speed) as u64,
                };
                let due = self.pass_start.saturating_add(gap);
                self.latest = self.latest.max(due);
                Some(due)
            }
        }
    }

    /// The packet that was due has been replayed.
    pub(super) fn sent(&mut self) {
        self.done += 1;
    }

    /// The file begins again: its first record is due with the last one.
    pub(super) fn again(&mut self) {
        self.first_ts = None;
        self.pass_start = self.latest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        let cases = [
            ("max", Some(Rate::Max)),
            ("recorded", Some(Rate::Recorded)),
            ("1Mpps", Some(Rate::PerSecond(1_000_000))),
            ("14.88Mpps", Some(Rate::PerSecond(14_880_000))),
            ("2.5k", Some(Rate::PerSecond(2500))),
            ("7", Some(Rate::PerSecond(7))),
            ("1G", Some(Rate::PerSecond(1_000_000_000))),
            ("0", None),
            ("-1", None),
            ("nan", None),
            ("inf", None),
            ("2G", None),
            ("fast", None),
            ("", None),
            ("pps", None),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }

    #[test]
    fn an_even_rate_does_not_drift() {
        let mut pace = Pace::new(Rate::PerSecond(3), 1.0);
        let mut due = Vec::new();
        for _ in 0..7 {
            due.push(pace.due(0).unwrap());
            pace.sent();
        }
        let third = SECOND / 3;
        let expected =
            [0, third, 2 * third, SECOND, SECOND + third, SECOND + 2 * third, 2 * SECOND];
        assert_eq!(due[..2], expected[..2]);
        assert_eq!((due[3], due[6]), (SECOND, 2 * SECOND));
        pace.done = u64::MAX;
        let pace = Pace { rate: Rate::PerSecond(SECOND), ..pace }.due(0);
        assert_eq!(pace, Some(u64::MAX));
    }

    #[test]
    fn recorded_gaps_are_kept_scaled_and_chained() {
        let mut pace = Pace::new(Rate::Recorded, 1.0);
        let times =
            [1_700_000_000_000_000_000, 1_700_000_000_000_001_000, 1_700_000_060_000_000_001];
        assert_eq!(times.map(|ts| pace.due(ts).unwrap()), [0, 1_000, 60_000_000_001]);
        // Out of order: not before its turn, not later either.
        assert_eq!(pace.due(times[0] - 5), Some(0));
        pace.again();
        assert_eq!(
            times.map(|ts| pace.due(ts).unwrap() - 60_000_000_001),
            [0, 1_000, 60_000_000_001]
        );
        let mut pace = Pace::new(Rate::Recorded, 2.0);
        assert_eq!(times.map(|ts| pace.due(ts).unwrap()), [0, 500, 30_000_000_000]);
    }
}
