//! Burning a number of cycles.
//!
//! The cycles are those of a chain of multiplications, each waiting for the
//! one before, whose length per tick of the cycle counter is measured once per
//! process. A loop that watches the counter instead would take time during
//! which the thread was not running for work done.
//!
//! A chain uses one execution unit, and out-of-order execution would do what comes
//! before and behind it on the others meanwhile: a load of 60 cycles would hide input
//! and output of 50. So it is fenced: it begins when all before it is done, and what is
//! behind it begins when it is.

use std::{hint::black_box, sync::OnceLock};

use linerate_memory::clock::{cycles, serialize};

/// Burns cycles, without touching memory.
#[derive(Debug, Clone)]
pub struct Burner {
    /// Steps that take a cycle, times 2^16.
    steps_per_cycle: u64,
    /// Cycles that waiting for what comes before takes, without a step.
    overhead: u64,
    state: u64,
}

impl Burner {
    /// Finds out how fast this machine is, which takes a millisecond the first
    /// time.
    pub fn new() -> Burner {
        Burner { steps_per_cycle: steps_per_cycle(), overhead: overhead(), state: 1 }
    }

    /// Takes so many ticks of the cycle counter, but no fewer than some twenty:
    /// what it takes to begin when everything before is done.
    #[inline]
    pub fn burn(&mut self, cycles: u64) {
        if cycles == 0 {
            return;
        }
        let own = cycles.saturating_sub(self.overhead);
        let steps = (u128::from(own) * u128::from(self.steps_per_cycle)) >> 16;
        self.state = serialised(self.state, steps as u64);
    }
}

impl Default for Burner {
    fn default() -> Burner {
        Burner::new()
    }
}

/// A number of steps, between fences: the core executes nothing else meanwhile.
#[inline]
fn serialised(state: u64, steps: u64) -> u64 {
    serialize();
    let state = black_box(chain(state, steps));
    serialize();
    state
}

/// A number of steps, each of which needs the result of the one before. All in
/// registers: what memory would add varies.
#[inline(never)]
fn chain(mut state: u64, steps: u64) -> u64 {
    for _ in 0..steps {
        state = step(state);
    }
    state
}

/// A multiplication alone could be contracted over several steps; the shift
/// prevents that.
#[inline(always)]
fn step(state: u64) -> u64 {
    (state ^ (state >> 29)).wrapping_mul(6_364_136_223_846_793_005)
}

fn steps_per_cycle() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(|| {
        const STEPS: u64 = 1 << 15;
        let once = || {
            let start = cycles();
            black_box(chain(black_box(1), STEPS));
            cycles().saturating_sub(start).max(1)
        };
        // The fastest of several: interruptions only make it slower.
        let best = (0..32).map(|_| once()).min().unwrap_or(1);
        ((STEPS << 16) / best).max(1)
    })
}

fn overhead() -> u64 {
    static OVERHEAD: OnceLock<u64> = OnceLock::new();
    *OVERHEAD.get_or_init(|| {
        const CALLS: u64 = 256;
        let once = || {
            let start = cycles();
            for _ in 0..CALLS {
                black_box(serialised(black_box(1), 0));
            }
            cycles().saturating_sub(start) / CALLS
        };
        (0..32).map(|_| once()).min().unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_not_shortened() {
        let mut expected = 7u64;
        for steps in 0..100 {
            assert_eq!(chain(7, steps), expected);
            expected = step(expected);
        }
    }
}
