//! Several workers on one thing: the universal scalability law.

use serde::{Deserialize, Serialize};

/// Contention and coherence of workers.
///
/// Gunther, "A General Theory of Computational Scalability Based on Rational Functions" (2008): the
/// capacity of `N` workers is `N / (1 + s (N-1) + c N (N-1))` times that of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// `s`: the share of the work that only one does at a time.
    pub contention: f64,
    /// `c`: the share that each pair spends on agreeing.
    pub coherence: f64,
}

impl Scaling {
    /// Factor by which each packet takes longer with so many workers.
    pub fn penalty(self, workers: f64) -> f64 {
        1.0 + (self.contention + self.coherence * workers) * (workers - 1.0)
    }

    /// Throughput of so many workers over that of one.
    pub fn speedup(self, workers: f64) -> f64 {
        workers / self.penalty(workers)
    }

    /// The number of workers past which more of them reach less:
    /// `sqrt((1 - s) / c)`, rounded to the better neighbour. `None` if there
    /// is no such number.
    pub fn best(self) -> Option<u32> {
        if self.coherence <= 0.0 {
            return (self.contention >= 1.0).then_some(1);
        }
        let peak = ((1.0 - self.contention).max(0.0) / self.coherence).sqrt();
        if peak >= f64::from(u32::MAX) {
            return None;
        }
        let below = peak.floor().max(1.0);
        let above = below + 1.0;
        let best = if self.speedup(above) > self.speedup(below) { above } else { below };
        Some(best as u32)
    }
}
