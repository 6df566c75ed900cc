//! Token bucket of a meter band, in one word that all workers share.
//!
//! The word is the time when the bucket will be full again (the generic cell rate algorithm, ITU-T
//! I.371: its theoretical arrival time), so a packet that passes is one addition to it, and one
//! that does not changes nothing. A worker that loses the race between load and store tries again;
//! none waits.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Parts of a nanosecond that are counted.
const PARTS: u64 = 64;

/// Tokens of a band.
#[derive(Debug)]
pub(super) struct Bucket {
    /// When it is full again, in parts of a nanosecond since the meter was added.
    full: AtomicU64,
    /// Cost of a unit, in the same, times 2^16.
    unit: u128,
    /// Cost of a burst.
    burst: u64,
}

impl Bucket {
    /// Creates a bucket of so many units per second, and a burst; without a burst it is that of a
    /// second. A unit is a packet, or 1,000 bits.
    pub(super) fn new(rate: u32, burst: u32) -> Bucket {
        let rate = u128::from(rate.max(1));
        let unit = (u128::from(1_000_000_000 * PARTS) << 16) / rate;
        let burst = if burst == 0 { rate } else { u128::from(burst) };
        let burst = u64::try_from((burst * unit) >> 16).unwrap_or(u64::MAX);
        Bucket { full: AtomicU64::new(0), unit, burst }
    }

    /// Takes thousandths of units at a time in nanoseconds since the meter was added, if there are
    /// as many.
    pub(super) fn take(&self, thousandths: u64, since: u64) -> bool {
        let now = since.saturating_mul(PARTS);
        let cost = (u128::from(thousandths) * self.unit / 1000) >> 16;
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let took = self.full.fetch_update(Relaxed, Relaxed, |full| {
            let full = full.max(now).saturating_add(cost);
            (full - now <= self.burst).then_some(full)
        });
        took.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let bucket = Bucket::new(1000, 10);
        let passed = |at: u64, tries: u32| (0..tries).filter(|_| bucket.take(1000, at)).count();
        assert_eq!(passed(0, 20), 10);
        assert_eq!(passed(1_000_000, 5), 1);
        assert_eq!(passed(5_500_000, 50), 4);
        assert_eq!(passed(1_000_000_000, 50), 10);
    }

    #[test]
    fn bits_are_counted_as_packets_are() {
        // 8 Mbit/s, and a burst of 8 kbit: 1,000 bytes.
        let bucket = Bucket::new(8000, 8);
        assert!(bucket.take(8 * 600, 0));
        assert!(!bucket.take(8 * 600, 0));
        assert!(bucket.take(8 * 400, 0));
        assert!(bucket.take(8 * 1000, 1_000_000));
    }

    #[test]
    fn without_a_burst_it_is_that_of_a_second() {
        let bucket = Bucket::new(100, 0);
        assert_eq!((0..1000).filter(|_| bucket.take(1000, 7)).count(), 100);
    }
}
