//! Exponentially weighted moving averages, in Click's fixed point, so that decisions and printed
//! values are Click's.

/// The average of a quantity: each value moves it by 1/2^`stability` of the
/// difference.
#[derive(Debug, Clone)]
pub struct Average {
    stability: u32,
    /// With [`Average::SCALE`] bits behind the point.
    value: i64,
}

impl Average {
    /// Bits behind the point.
    pub const SCALE: u32 = 10;
    /// Updates with the same value after which the average is that value.
    const SETTLED: u64 = 100;

    /// Of nothing yet; each value counts for one in two to the power of `stability`.
    pub fn new(stability: u32) -> Average {
        Average { stability, value: 0 }
    }

    /// The shift: how slowly it follows.
    pub fn stability(&self) -> u32 {
        self.stability
    }

    /// One more value.
    pub fn update(&mut self, value: u64) {
        // Half a step more makes up for rounding down.
        let half = (1i64 << self.stability) >> 1;
        let scaled = ((value << Self::SCALE) as i64).wrapping_add(half);
        self.value += (scaled - self.value) >> self.stability;
    }

    /// As `times` updates with the same value.
    pub fn update_times(&mut self, value: u64, times: u64) {
        if times >= Self::SETTLED {
            self.value = (value << Self::SCALE) as i64;
        } else {
            (0..times).for_each(|_| self.update(value));
        }
    }

    /// The average with [`Average::SCALE`] bits behind the point.
    pub fn scaled(&self) -> i64 {
        self.value
    }

    /// The average, rounded.
    #[inline]
    pub fn rounded(&self) -> u64 {
        ((self.value + (1 << (Self::SCALE - 1))) >> Self::SCALE).max(0) as u64
    }

    /// Goes on from another.
    pub fn take_state(&mut self, old: &Average) {
        self.value = old.value;
    }
}

/// The rate of something that is counted: an average over milliseconds.
#[derive(Debug, Clone)]
pub struct RateAverage {
    average: Average,
    /// The millisecond being counted.
    tick: u64,
    count: u64,
}

impl Default for RateAverage {
    fn default() -> RateAverage {
        RateAverage::new()
    }
}

impl RateAverage {
    /// Ticks in a second.
    pub const FREQUENCY: u64 = 1000;
    const TICK_NS: u64 = 1_000_000;

    /// Of nothing yet.
    pub fn new() -> RateAverage {
        RateAverage { average: Average::new(4), tick: 0, count: 0 }
    }

    /// Time has come to `now`, in nanoseconds.
    #[inline]
    pub fn pass(&mut self, now: u64) {
        let tick = now / Self::TICK_NS;
        if tick != self.tick {
            self.average.update(self.count);
            self.average.update_times(0, tick.saturating_sub(self.tick + 1));
            (self.tick, self.count) = (tick, 0);
        }
    }

    /// Counts `count` more.
    #[inline]
    pub fn add(&mut self, count: u64) {
        self.count += count;
    }

    /// The rate per tick with [`Average::SCALE`] bits behind the point.
    pub fn scaled(&self) -> i64 {
        self.average.scaled()
    }
}

/// A number with `bits` bits behind the point in decimal, as few digits as
/// tell it from its neighbours.
pub fn binary_text(value: u64, bits: u32) -> String {
    let one = 1u64 << bits;
    let mut text = (value >> bits).to_string();
    let mut rest = value & (one - 1);
    if rest == 0 {
        return text;
    }
    text.push('.');
    let mut error = 10;
    let mut rounder = 5;
    while rounder < one >> 1 {
        rounder *= 10;
    }
    rest = 10 * rest + 5;
    loop {
        if error > one {
            rest = (rest + (one >> 1)).wrapping_sub(rounder);
        }
        text.push(char::from(b'0' + (rest >> bits) as u8));
        rest = 10 * (rest & (one - 1));
        error *= 10;
        if rest <= error {
            return text;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_point_in_decimal() {
        for (value, bits, text) in [
            (0, 10, "0"),
            (1024, 10, "1"),
            (10_000, 10, "9.766"),
            (20_000, 10, "19.531"),
            (6554, 16, "0.1"),
            (65536, 16, "1"),
            (32768, 16, "0.5"),
        ] {
            assert_eq!(binary_text(value, bits), text);
        }
    }

    #[test]
    fn a_steady_rate_is_found() {
        let mut rate = RateAverage::new();
        for tick in 0..1000 {
            rate.pass(tick * 1_000_000);
            rate.add(50);
        }
        // Rounded down at every step, as Click does.
        assert_eq!(rate.scaled(), (50 << 10) - 7);
        rate.pass(2_000_000_000);
        assert_eq!(rate.scaled(), 0);
    }
}
