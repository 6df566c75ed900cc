//! How many packets or bytes may go by now: the arithmetic of all elements
//! that have a rate.
//!
//! There are two kinds, as in Click. A [`Bucket`] fills with tokens up to its
//! capacity, starts full, and forgets what does not fit: what it lets through
//! in a burst is bounded by the capacity. A [`Gap`] lets event `i` of every
//! second happen `i` gaps after the second began, and up to a second's events
//! that were missed be made up for.
//!
//! Both count in whole fractions of a token, so no time is ever lost to
//! rounding. Click counts in ticks of a millisecond and rounds the tokens of a
//! tick down, which makes 10 packets per second come 101 ms apart.

use linerate_graph::{Make, Scope, Value, parse_bandwidth, parse_u32};

/// Nanoseconds in a second.
pub(super) const SECOND: u64 = 1_000_000_000;

/// Who sleeps until the next packet is due sleeps at least so long when the
/// rate has several in that time: 20 µs is 50 wake-ups per millisecond at most
/// and the finest Click can do is one.
const GRAIN: u64 = 20_000;

/// What a bucket of bytes must hold for a packet to go, beside the capacity
/// asked for: a packet may be longer than what is left, and the difference is
/// owed. As in Click.
pub(super) const OWED: u64 = 131_072;

/// Tokens per time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    /// Tokens there are in every period.
    pub(super) tokens: u64,
    /// Nanoseconds.
    pub(super) period: u64,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate::per_second(0)
    }
}

impl Rate {
    pub(super) const fn per_second(tokens: u64) -> Rate {
        Rate { tokens, period: SECOND }
    }

    /// A rate of packets: a number per second as in Click, or `1/min`, `1/hr`.
    pub(super) fn packets(text: &str) -> Result<Rate, String> {
        let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
        let tokens = parse_u32(number.trim_end())?.into();
        let seconds = match unit.trim_start() {
            "s" | "sec" => 1,
            "min" => 60,
            "h" | "hr" => 3600,
            _ => return Err("invalid number".into()),
        };
        Ok(Rate { tokens, period: seconds * SECOND })
    }

    /// A rate of bytes, as a bandwidth.
    pub(super) fn bytes(text: &str) -> Option<Rate> {
        // Whatever does not fit is beyond any link.
        Some(Rate::per_second(parse_bandwidth(text)?.round() as u64))
    }

    /// As it is written in a configuration.
    pub(super) fn text(self, unit: Unit) -> String {
        match (unit, self.period / SECOND) {
            (Unit::Bytes, _) => bandwidth_text(self.tokens),
            (Unit::Packets, 60) => format!("{}/min", self.tokens),
            (Unit::Packets, 3600) => format!("{}/hr", self.tokens),
            (Unit::Packets, _) => self.tokens.to_string(),
        }
    }

    /// Tokens in `ns` nanoseconds, rounded down.
    pub(super) fn tokens_in(self, ns: u64) -> u64 {
        let tokens = u128::from(self.tokens) * u128::from(ns) / u128::from(self.period);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

/// What a rate is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Packets,
    Bytes,
}

impl Unit {
    /// Reads a rate.
    pub(super) fn parse(self, text: &str) -> Result<Rate, String> {
        match self {
            Unit::Packets => Rate::packets(text),
            Unit::Bytes => Rate::bytes(text).ok_or_else(|| "parse error".into()),
        }
    }

    /// The argument `RATE`, which must be given.
    pub(super) fn argument(self, make: &mut Make<'_>) -> Rate {
        match self {
            Unit::Packets => make.need::<Packets>("RATE").0,
            Unit::Bytes => make.need::<Bytes>("RATE").0,
        }
    }
}

#[derive(Default)]
struct Packets(Rate);

impl Value for Packets {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Packets, String> {
        Ok(Packets(Unit::Packets.parse(text)?))
    }
}

#[derive(Default)]
struct Bytes(Rate);

impl Value for Bytes {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Bytes, String> {
        Ok(Bytes(Unit::Bytes.parse(text)?))
    }
}

/// A bandwidth as Click's handlers show it.
pub(super) fn bandwidth_text(bytes: u64) -> String {
    let (value, digits, unit) = match bytes {
        0x2000_0000.. => (bytes, 6, "MBps"),
        125_000_000.. => (bytes * 8, 9, "Gbps"),
        125_000.. => (bytes * 8, 6, "Mbps"),
        _ => (bytes * 8, 3, "kbps"),
    };
    let one = 10u64.pow(digits);
    let fraction = format!("{:0width$}", value % one, width = digits as usize);
    match fraction.trim_end_matches('0') {
        "" => format!("{}{unit}", value / one),
        fraction => format!("{}.{fraction}{unit}", value / one),
    }
}

/// A time as Click's handlers show an interval.
pub(super) fn interval_text(ns: u64) -> String {
    let (seconds, rest) = (ns / SECOND, ns % SECOND);
    match rest {
        _ if seconds > 0 && rest.is_multiple_of(1000) => format!("{seconds}.{:06}s", rest / 1000),
        _ if seconds > 0 => format!("{seconds}.{rest:09}s"),
        _ if rest.is_multiple_of(1_000_000) => format!("{}ms", rest / 1_000_000),
        _ if rest.is_multiple_of(1000) => format!("{}us", rest / 1000),
        _ => format!("{rest}ns"),
    }
}

/// Tokens that come at a rate, as many as there is room for.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    rate: Rate,
    capacity: u64,
    /// In parts of a token, of which there are `rate.period` in one: a
    /// nanosecond brings `rate.tokens` of them.
    level: u64,
    /// When it was last filled.
    at: u64,
}

impl Bucket {
    /// A full one; without a rate an empty one, which it remains.
    pub(super) fn new(rate: Rate, capacity: u64) -> Bucket {
        let capacity = capacity.clamp(1, u64::MAX / rate.period);
        let level = if rate.tokens == 0 { 0 } else { capacity * rate.period };
        Bucket { rate, capacity, level, at: 0 }
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Goes on with another rate and capacity and the tokens there are.
    pub(super) fn change(&mut self, rate: Rate, capacity: u64) {
        let tokens = self.tokens();
        *self = Bucket { at: self.at, ..Bucket::new(rate, capacity) };
        self.level = self.level.min(tokens.saturating_mul(rate.period));
    }

    /// Takes over how full another one is.
    pub(super) fn take_state(&mut self, old: &Bucket) {
        self.at = old.at;
        self.level = self.level.min(old.tokens().saturating_mul(self.rate.period));
    }

    /// Adds the tokens that have come since the last time.
    #[inline]
    pub(super) fn fill(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.at);
        // What saturates is far more than the capacity.
        let more = elapsed.saturating_mul(self.rate.tokens);
        self.level = self.level.saturating_add(more).min(self.capacity * self.rate.period);
        self.at = self.at.max(now);
    }

    /// Whole tokens there are.
    #[inline]
    pub(super) fn tokens(&self) -> u64 {
        self.level / self.rate.period
    }

    /// Takes tokens out, at most those there are.
    #[inline]
    pub(super) fn take(&mut self, tokens: u64) {
        self.level = self.level.saturating_sub(tokens.saturating_mul(self.rate.period));
    }

    /// Sets how many tokens there are.
    pub(super) fn set(&mut self, tokens: u64) {
        self.level = tokens.min(self.capacity) * self.rate.period;
    }

    /// When it will hold `tokens`; `None` when it never will.
    pub(super) fn ready_at(&self, tokens: u64) -> Option<u64> {
        if tokens > self.capacity || self.rate.tokens == 0 {
            return None;
        }
        let missing = (tokens * self.rate.period).saturating_sub(self.level);
        Some(self.at.saturating_add(missing.div_ceil(self.rate.tokens)))
    }

    /// When to look again if it is to hold `tokens`: when it does, or a little
    /// later when more come soon after and there is room for them.
    pub(super) fn look_at(&self, tokens: u64) -> Option<u64> {
        let ready = self.ready_at(tokens)?;
        let full = self.ready_at(self.capacity)?;
        Some(ready.max(full.min(self.at.saturating_add(GRAIN))))
    }
}

/// Events at equal distances in every second.
#[derive(Debug, Clone)]
pub(crate) struct Gap {
    rate: u64,
    /// The second events are counted in; `None` before the first look.
    second: Option<u64>,
    /// Events of that second so far, below zero while events of the second
    /// before are still to be made up for.
    count: i64,
}

impl Gap {
    pub(crate) fn new(rate: u64) -> Gap {
        Gap { rate: rate.min(1 << 50), second: None, count: 0 }
    }

    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// Forgets what has been.
    pub(crate) fn reset(&mut self) {
        *self = Gap::new(self.rate);
    }

    /// Goes on with another rate.
    pub(crate) fn change(&mut self, rate: u64, now: u64) {
        let known = self.second.is_some();
        *self = Gap::new(rate);
        if known {
            self.second = Some(now / SECOND);
            self.count = self.index(now % SECOND);
        }
    }

    /// The last event due in the first `ns` nanoseconds of a second.
    fn index(&self, ns: u64) -> i64 {
        Rate::per_second(self.rate).tokens_in(ns) as i64
    }

    /// Events that may happen now.
    #[inline]
    pub(crate) fn due(&mut self, now: u64) -> u64 {
        if self.rate == 0 {
            return 0;
        }
        let (second, ns) = (now / SECOND, now % SECOND);
        let index = self.index(ns);
        match self.second {
            // The first may happen at once when its time is at most half a gap
            // past.
            None => {
                let past = u128::from(ns) * u128::from(self.rate) - index as u128 * 1_000_000_000;
                self.count = index + i64::from(past > 500_000_000);
                self.second = Some(second);
            }
            Some(before) if second > before => {
                let rate = self.rate as i64;
                let ahead = self.count.max(0) as u64;
                let seconds = (second - before).min(ahead.div_ceil(self.rate));
                self.count -= seconds as i64 * rate;
                self.second = Some(second);
            }
            Some(_) => {}
        }
        (index - self.count + 1).max(0) as u64
    }

    /// Counts events that have happened.
    #[inline]
    pub(crate) fn add(&mut self, events: u64) {
        self.count = self.count.saturating_add_unsigned(events);
    }

    /// When an event may happen that may not now; `None` when none ever may.
    pub(crate) fn look_at(&self, now: u64) -> Option<u64> {
        let second = self.second.filter(|_| self.rate > 0)?;
        let count = self.count.max(0) as u64;
        let ns = u128::from(count % self.rate) * 1_000_000_000;
        let ns = ns.div_ceil(u128::from(self.rate)) as u64;
        let at = (second + count / self.rate) * SECOND + ns;
        let several = SECOND / self.rate < GRAIN;
        Some(if several { at.max(now.saturating_add(GRAIN)) } else { at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600 * SECOND;
    const START: u64 = 1_000_000_000 * SECOND;

    /// Takes what is there at every look until `end`; returns how many.
    fn drain(bucket: &mut Bucket, end: u64) -> u64 {
        let mut now = START;
        let mut taken = 0;
        loop {
            bucket.fill(now);
            taken += bucket.tokens();
            bucket.take(bucket.tokens());
            match bucket.look_at(1) {
                Some(next) if next <= end => now = next,
                _ => return taken,
            }
        }
    }

    #[test]
    fn a_bucket_is_exact_at_every_rate() {
        for (rate, time, burst) in [
            (Rate { tokens: 1, period: HOUR }, 1000 * HOUR, 1),
            (Rate::per_second(1), HOUR, 1),
            (Rate::per_second(3), HOUR, 2),
            (Rate::per_second(7919), 100 * SECOND, 100),
            (Rate::per_second(1_000_003), SECOND, 1000),
            (Rate::per_second(100_000_000), SECOND, 2_000_000),
        ] {
            let mut bucket = Bucket::new(rate, burst);
            let expected = burst + rate.tokens_in(time);
            let taken = drain(&mut bucket, START + time);
            // What has come since the last look is still to be taken.
            let late = 1 + rate.tokens_in(GRAIN);
            assert!((expected - late..=expected).contains(&taken), "{rate:?}: {taken} {expected}");
        }
    }

    #[test]
    fn one_per_hour_comes_on_the_nanosecond() {
        let mut bucket = Bucket::new(Rate { tokens: 1, period: HOUR }, 1);
        bucket.fill(START);
        assert_eq!(bucket.tokens(), 1);
        bucket.take(1);
        for hour in 1..100_000 {
            let at = START + hour * HOUR;
            assert_eq!(bucket.ready_at(1), Some(at));
            bucket.fill(at - 1);
            assert_eq!(bucket.tokens(), 0);
            bucket.fill(at);
            assert_eq!(bucket.tokens(), 1);
            bucket.take(1);
        }
    }

    #[test]
    fn a_burst_is_never_longer_than_the_capacity() {
        let mut bucket = Bucket::new(Rate::per_second(1000), 20);
        bucket.fill(START);
        assert_eq!(bucket.tokens(), 20);
        bucket.take(20);
        bucket.fill(START + HOUR);
        assert_eq!(bucket.tokens(), 20);
        // Time that goes back is no time.
        bucket.take(20);
        bucket.fill(START);
        assert_eq!(bucket.tokens(), 0);
    }

    #[test]
    fn without_a_rate_nothing_goes() {
        let mut bucket = Bucket::new(Rate::per_second(0), 10);
        bucket.fill(START);
        assert_eq!((bucket.tokens(), bucket.look_at(1)), (0, None));
        let mut gap = Gap::new(0);
        assert_eq!((gap.due(START), gap.look_at(START)), (0, None));
    }

    #[test]
    fn gaps_are_equal_and_seconds_full() {
        let mut gap = Gap::new(5);
        let mut now = START;
        let mut times = Vec::new();
        while now < START + 2 * SECOND {
            let due = gap.due(now);
            (0..due).for_each(|_| times.push((now - START) / 1_000_000));
            gap.add(due);
            now = gap.look_at(now).unwrap();
        }
        assert_eq!(times, [0, 200, 400, 600, 800, 1000, 1200, 1400, 1600, 1800]);
    }

    #[test]
    fn gaps_make_up_for_a_second_and_no_more() {
        let mut gap = Gap::new(10);
        assert_eq!(gap.due(START), 1);
        gap.add(1);
        // Nine of the first second and the first of the next.
        assert_eq!(gap.due(START + SECOND), 10);
        gap.add(10);
        assert_eq!(gap.due(START + SECOND), 0);
        // The second in between is lost but for what was counted.
        assert_eq!(gap.due(START + 9 * SECOND), 10);
    }

    #[test]
    fn long_packets_make_gaps_wait_for_seconds() {
        let mut gap = Gap::new(100);
        assert_eq!(gap.due(START), 1);
        gap.add(1550);
        let next = START + 15 * SECOND + SECOND / 2;
        assert_eq!(gap.look_at(START), Some(next));
        assert_eq!(gap.due(next - 1), 0);
        assert_eq!(gap.due(next), 1);
    }

    #[test]
    fn texts() {
        for (bytes, text) in [
            (0, "0kbps"),
            (1000, "8kbps"),
            (156, "1.248kbps"),
            (1_250_000, "10Mbps"),
            (125_000_000, "1Gbps"),
            (0x2000_0000, "536.870912MBps"),
        ] {
            assert_eq!(bandwidth_text(bytes), text);
        }
        for (ns, text) in [
            (300_000_000, "300ms"),
            (1_500_000, "1500us"),
            (7, "7ns"),
            (1_500_000_000, "1.500000s"),
            (3600 * SECOND, "3600.000000s"),
        ] {
            assert_eq!(interval_text(ns), text);
        }
        assert_eq!(Rate::packets("12"), Ok(Rate::per_second(12)));
        assert_eq!(Rate::packets("1/hr"), Ok(Rate { tokens: 1, period: HOUR }));
        assert!(Rate::packets("-1").is_err());
        assert!(Rate::packets("1/week").is_err());
        assert_eq!(Rate { tokens: 1, period: HOUR }.text(Unit::Packets), "1/hr");
    }
}
