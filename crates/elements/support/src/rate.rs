//! Rates: token buckets and gaps, the arithmetic of all elements that have a rate in packets or
//! bytes.
//!
//! There are two kinds, as in Click. A [`Bucket`] fills with tokens up to its capacity, starts
//! full, and forgets tokens that do not fit: the packets it lets through in a burst are bounded by
//! the capacity. A [`Gap`] lets event `i` of every second happen `i` gaps after the second began,
//! and up to a second's events that were missed be made up for.
//!
//! A bucket is filled every millisecond, with whole parts of a token of which
//! there are nearly 2^32 in a full one; those of a millisecond are rounded down.
//! That is Click's arithmetic, which shows: from a bucket for one token 100 in a
//! second come 11 ms apart. Exact nanoseconds were smoother, but gave counts other than
//! those configurations were tuned to. A gap is counted in nanoseconds, since Click's
//! error there grows with the rate.

use linerate_graph::{ElementBuilder, Scope, Value, parse_bandwidth, parse_u32};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// Interval at which a bucket is filled, in nanoseconds.
const TICK: u64 = 1_000_000;

/// Least sleep of a task until the next gap is over when there are several in that time: 20 µs is
/// 50 wake-ups per millisecond at most.
const GRAIN: u64 = 20_000;

/// Bytes a bucket of bytes must hold for a packet to go, beside the capacity asked for: a packet
/// may be longer than the rest, and the difference is owed. As in Click.
pub const DEBT: u64 = 131_072;

/// Tokens per time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Tokens there are in every period.
    pub tokens: u64,
    /// Nanoseconds.
    pub period: u64,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate::per_second(0)
    }
}

impl Rate {
    /// So many per second.
    pub const fn per_second(tokens: u64) -> Rate {
        Rate { tokens, period: SECOND }
    }

    /// A rate of packets: a number per second as in Click, or `1/min`, `1/hr`.
    pub fn packets(text: &str) -> Result<Rate, String> {
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
    pub fn bytes(text: &str) -> Option<Rate> {
        // A rate that does not fit is beyond any link.
        Some(Rate::per_second(parse_bandwidth(text)?.round() as u64))
    }

    /// As it is written in a configuration.
    pub fn text(self, unit: Unit) -> String {
        match (unit, self.period / SECOND) {
            (Unit::Bytes, _) => bandwidth_text(self.tokens),
            (Unit::Packets, 60) => format!("{}/min", self.tokens),
            (Unit::Packets, 3600) => format!("{}/hr", self.tokens),
            (Unit::Packets, _) => self.tokens.to_string(),
        }
    }

    /// Tokens in `ns` nanoseconds, rounded down.
    pub fn tokens_in(self, ns: u64) -> u64 {
        let tokens = u128::from(self.tokens) * u128::from(ns) / u128::from(self.period);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

/// Unit of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// Reads a rate.
    pub fn parse(self, text: &str) -> Result<Rate, String> {
        match self {
            Unit::Packets => Rate::packets(text),
            Unit::Bytes => Rate::bytes(text).ok_or_else(|| "parse error".into()),
        }
    }

    /// The argument `RATE`, which must be given.
    pub fn argument(self, make: &mut ElementBuilder<'_>) -> Rate {
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

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.0.text(Unit::Packets)
    }
}

#[derive(Default)]
struct Bytes(Rate);

impl Value for Bytes {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Bytes, String> {
        Ok(Bytes(Unit::Bytes.parse(text)?))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.0.text(Unit::Bytes)
    }
}

/// A bandwidth as Click's handlers show it.
pub fn bandwidth_text(bytes: u64) -> String {
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
pub fn interval_text(ns: u64) -> String {
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
pub struct Bucket {
    rate: Rate,
    /// Parts of a token in a full bucket.
    full: u64,
    /// Parts in a token.
    scale: u64,
    /// Parts that come in a tick.
    per_tick: u64,
    /// Parts there are.
    level: u64,
    /// When it was last filled.
    at: u64,
}

impl Bucket {
    /// One that is full when it is first filled; without a rate it remains empty.
    pub fn new(rate: Rate, capacity: u64) -> Bucket {
        // Rates per hour, which Click has not, need finer parts.
        let full = if rate.period == SECOND { u64::from(u32::MAX) } else { u64::MAX >> 16 };
        let ticks = rate.period / TICK;
        // There is room for the tokens of a tick.
        let scale = full / capacity.max(rate.tokens.div_ceil(ticks)).clamp(1, full);
        let per_tick = u128::from(rate.tokens) * u128::from(scale) / u128::from(ticks);
        let per_tick = (per_tick as u64).max(rate.tokens.min(1));
        Bucket { rate, full, scale, per_tick, level: 0, at: 0 }
    }

    /// The rate it has, of whole parts in a tick, rounded.
    pub fn rate(&self) -> Rate {
        let ticks = u128::from(self.rate.period / TICK);
        let parts = u128::from(self.per_tick) * ticks + u128::from(self.per_tick / 2);
        Rate { tokens: (parts / u128::from(self.scale)) as u64, period: self.rate.period }
    }

    /// Goes on with another rate and capacity and the tokens there are.
    pub fn change(&mut self, rate: Rate, capacity: u64) {
        let old = std::mem::replace(self, Bucket::new(rate, capacity));
        self.take_state(&old);
    }

    /// Goes on with another rate and capacity, as full as it was.
    pub fn change_filled(&mut self, rate: Rate, capacity: u64) {
        let old = std::mem::replace(self, Bucket::new(rate, capacity));
        let level = u128::from(old.level) * u128::from(self.full) / u128::from(old.full);
        (self.level, self.at) = (level as u64, old.at);
    }

    /// Takes over how many tokens another one has.
    pub fn take_state(&mut self, old: &Bucket) {
        let level = u128::from(old.level) * u128::from(self.scale) / u128::from(old.scale);
        (self.level, self.at) = (u64::try_from(level).unwrap_or(u64::MAX).min(self.full), old.at);
    }

    /// Adds the tokens that have come since the last time.
    #[inline]
    pub fn fill(&mut self, now: u64) {
        let ticks = (now / TICK).saturating_sub(self.at / TICK);
        // Saturated values are far more than there is room for.
        let more = ticks.saturating_mul(self.per_tick);
        self.level = self.level.saturating_add(more).min(self.full);
        self.at = self.at.max(now);
    }

    /// Whole tokens there are.
    #[inline]
    pub fn tokens(&self) -> u64 {
        self.level / self.scale
    }

    /// Takes tokens out, at most those there are.
    #[inline]
    pub fn take(&mut self, tokens: u64) {
        self.level = self.level.saturating_sub(tokens.saturating_mul(self.scale));
    }

    /// Sets how many tokens there are.
    pub fn set(&mut self, tokens: u64) {
        self.level = tokens.saturating_mul(self.scale).min(self.full);
    }

    /// When to look again, some ticks after it was last filled, if it is to hold
    /// `tokens`; `None` when it never will.
    pub fn look_at(&self, tokens: u64) -> Option<u64> {
        let level = tokens.checked_mul(self.scale).filter(|level| *level <= self.full)?;
        if self.per_tick == 0 {
            return None;
        }
        let ticks = level.saturating_sub(self.level).div_ceil(self.per_tick);
        Some(self.at.saturating_add(ticks.saturating_mul(TICK)))
    }
}

/// Events at equal distances in every second.
#[derive(Debug, Clone)]
pub struct Gap {
    rate: u64,
    /// The second events are counted in; `None` before the first look.
    second: Option<u64>,
    /// Events of that second so far, below zero while events of the second
    /// before are still to be made up for.
    count: i64,
}

impl Gap {
    /// So many per second.
    pub fn new(rate: u64) -> Gap {
        Gap { rate: rate.min(1 << 50), second: None, count: 0 }
    }

    /// Per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Forgets all events.
    pub fn reset(&mut self) {
        *self = Gap::new(self.rate);
    }

    /// Goes on with another rate.
    pub fn change(&mut self, rate: u64, now: u64) {
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
    pub fn due(&mut self, now: u64) -> u64 {
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
    pub fn add(&mut self, events: u64) {
        self.count = self.count.saturating_add_unsigned(events);
    }

    /// When an event may happen that may not now; `None` when none ever may.
    pub fn look_at(&self, now: u64) -> Option<u64> {
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

    /// Times at which tokens are taken, in milliseconds, by a task that takes all there are
    /// whenever it looks until `end`.
    fn times(bucket: &mut Bucket, end: u64) -> Vec<u64> {
        let (mut now, mut times) = (START, Vec::new());
        while now <= START + end {
            bucket.fill(now);
            let tokens = bucket.tokens();
            bucket.take(tokens);
            times.extend((0..tokens).map(|_| (now - START) / 1_000_000));
            now = bucket.look_at(1).unwrap();
        }
        times
    }

    /// Click's answers, of its tests and in simulated time.
    #[test]
    fn tokens_come_in_ticks() {
        for (rate, burst, seconds, count) in [
            (2, 1, 10, 20),
            (2, 50, 10, 69),
            (100, 1, 10, 910),
            (100, 2, 10, 1001),
            (1000, 20, 3, 3019),
        ] {
            let mut bucket = Bucket::new(Rate::per_second(rate), burst);
            let times = times(&mut bucket, seconds * SECOND - 1);
            assert_eq!(times.len(), count, "{rate} {burst}");
        }
        let mut bucket = Bucket::new(Rate::per_second(10), 2);
        assert_eq!(times(&mut bucket, SECOND / 2), [0, 0, 101, 201, 301, 401]);
    }

    #[test]
    fn one_per_hour_comes_once_an_hour() {
        let mut bucket = Bucket::new(Rate { tokens: 1, period: HOUR }, 1);
        let times = times(&mut bucket, 1000 * HOUR);
        assert_eq!(times.len(), 1000);
        let late = times.iter().zip(0..).map(|(time, hour)| time - hour * 3_600_000);
        assert!(late.max() <= Some(1000), "at most a tick each");
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
        // The tokens of a tick always have room.
        let mut bucket = Bucket::new(Rate::per_second(5_000_000), 1);
        bucket.fill(START);
        assert_eq!(bucket.tokens(), 5000);
    }

    #[test]
    fn another_rate_keeps_the_tokens_or_how_full_it_is() {
        let mut bucket = Bucket::new(Rate::per_second(100), 40);
        bucket.fill(START);
        bucket.take(20);
        let mut other = bucket.clone();
        bucket.change(Rate::per_second(100), 80);
        other.change_filled(Rate::per_second(100), 80);
        assert_eq!((bucket.tokens(), other.tokens()), (20, 40));
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
        // The second in between is lost but for its counted events.
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
