//! How many packets may be sent about others, such as ICMP errors.

const SECOND: u64 = 1_000_000_000;

/// So many errors per second, and so many at once.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Per second; none is too many when zero.
    pub rate: u32,
    /// At once.
    pub burst: u32,
    /// Billionths of errors that may be sent now.
    credit: u64,
    /// When that was.
    since: u64,
}

impl Limit {
    /// All of a burst may be sent now.
    pub fn new(rate: u32, burst: u32) -> Limit {
        let burst = burst.max(1);
        Limit { rate, burst, credit: u64::from(burst) * SECOND, since: 0 }
    }

    /// How many may be sent now, a steady time in nanoseconds.
    pub fn allowance(&mut self, now: u64) -> u64 {
        if self.rate == 0 {
            return u64::MAX;
        }
        let most = u64::from(self.burst) * SECOND;
        let passed = now.saturating_sub(self.since);
        let earned = passed.saturating_mul(u64::from(self.rate));
        self.credit = self.credit.saturating_add(earned).min(most);
        self.since = now;
        self.credit / SECOND
    }

    /// So many were sent.
    pub fn spend(&mut self, count: u64) {
        if self.rate != 0 {
            self.credit = self.credit.saturating_sub(count.saturating_mul(SECOND));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_errors_than_allowed() {
        let mut limit = Limit::new(10, 5);
        assert_eq!(limit.allowance(SECOND), 5);
        limit.spend(5);
        assert_eq!(limit.allowance(SECOND), 0);
        assert_eq!(limit.allowance(SECOND + 100_000_000), 1);
        assert_eq!(limit.allowance(100 * SECOND), 5);
        assert_eq!(Limit::new(0, 0).allowance(0), u64::MAX);
    }
}
