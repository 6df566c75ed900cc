//! Values with intervals.

use serde::{Deserialize, Serialize};

/// A value and the interval it lies in with some confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate<T> {
    /// The best guess.
    pub value: T,
    /// The lower end of the interval.
    pub low: T,
    /// The upper end.
    pub high: T,
}

impl<T: PartialOrd> Estimate<T> {
    /// Returns true if the interval contains this.
    pub fn contains(&self, value: &T) -> bool {
        self.low <= *value && *value <= self.high
    }
}

impl Estimate<f64> {
    /// The best guess, and the middle `level` (0.9 for 90 %) of the samples.
    pub fn from_samples(value: f64, mut samples: Vec<f64>, level: f64) -> Self {
        samples.retain(|sample| !sample.is_nan());
        samples.sort_by(f64::total_cmp);
        let tail = (1.0 - level) / 2.0;
        Estimate {
            value,
            low: quantile(&samples, tail).unwrap_or(value),
            high: quantile(&samples, 1.0 - tail).unwrap_or(value),
        }
    }

    /// The estimate in a unit.
    pub fn map<T>(self, unit: impl Fn(f64) -> T) -> Estimate<T> {
        Estimate { value: unit(self.value), low: unit(self.low), high: unit(self.high) }
    }
}

impl<T: std::fmt::Display> std::fmt::Display for Estimate<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} ({} to {})", self.value, self.low, self.high)
    }
}

/// The value below which the share `share` of sorted samples lies,
/// interpolated between neighbours. `None` without samples.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    let (low, high) = (sorted[below], sorted[above]);
    // Infinite samples must not become NaN where they are not needed.
    if place == below as f64 || low == high {
        return Some(low);
    }
    Some(low + (high - low) * (place - below as f64))
}
