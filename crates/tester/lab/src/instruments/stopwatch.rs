//! The time of a piece of code, after Paoloni.

use linerate_memory::clock::{cycles_after, cycles_before};

/// Measures pieces of code with serialised readings of the cycle counter, from
/// which the cost of the readings themselves is subtracted.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    overhead: u64,
}

/// Pairs of readings of which the shortest is the overhead.
const READINGS: usize = 1000;

impl Stopwatch {
    /// Measures the cost of the readings: some ten microseconds.
    pub fn new() -> Stopwatch {
        let pair = |_| {
            let before = cycles_before();
            cycles_after().saturating_sub(before)
        };
        Stopwatch { overhead: (0..READINGS).map(pair).min().unwrap_or(0) }
    }

    /// Cycles of two readings with nothing in between.
    pub fn overhead(&self) -> u64 {
        self.overhead
    }

    /// Cycles that `code` takes.
    #[inline]
    pub fn time(&self, code: impl FnOnce()) -> u64 {
        let before = cycles_before();
        code();
        cycles_after().saturating_sub(before).saturating_sub(self.overhead)
    }

    /// Cycles that `code` takes, each time of `runs`, in ascending order. A first
    /// run, which finds caches and predictors cold, is not among them.
    pub fn times(&self, runs: usize, mut code: impl FnMut()) -> Vec<u64> {
        code();
        let mut times: Vec<u64> = (0..runs).map(|_| self.time(&mut code)).collect();
        times.sort_unstable();
        times
    }
}

impl Default for Stopwatch {
    fn default() -> Stopwatch {
        Stopwatch::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_run_is_not_counted_and_times_ascend() {
        let watch = Stopwatch::new();
        let mut calls = 0;
        let times = watch.times(9, || calls += 1);
        assert_eq!((calls, times.len()), (10, 9));
        assert!(times.is_sorted());
    }
}
