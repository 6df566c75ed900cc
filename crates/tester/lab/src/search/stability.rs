//! Stability of a platform, which decides if measurements on it mean anything.
//!
//! In virtual machines a partial-drop rate often says more of the machine's other tenants than of
//! the device (PASTRAMI, arXiv 2410.18644). So the generator is measured against itself first.

use linerate_model::{quantile, units::PacketsPerSecond};
use serde::{Deserialize, Serialize};

/// Spread and drift of repeated measurements of one quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stability {
    /// The median.
    pub median: f64,
    /// The best (largest) measurement.
    pub best: f64,
    /// The 10th percentile, which nine of ten measurements reach.
    pub low: f64,
    /// The distance of the 10th and the 90th percentile, as a share of the
    /// median.
    pub spread: f64,
    /// Distance of the worst measurement below the median, as a share of it.
    pub worst_dip: f64,
    /// Difference of the median of the second half from that of the first, as a share of the
    /// whole's: positive if it gets faster.
    pub drift: f64,
}

impl Stability {
    /// From rates of successive short windows or trials. `None` for fewer than four of them, for
    /// negative or infinite ones, or if the median is zero.
    pub fn from_rates(rates: &[f64]) -> Option<Self> {
        if rates.len() < 4 || rates.iter().any(|rate| !rate.is_finite() || *rate < 0.0) {
            return None;
        }
        let at = |values: &[f64], share| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            quantile(&sorted, share)
        };
        let median = at(rates, 0.5).filter(|&median| median > 0.0)?;
        let (first, second) = rates.split_at(rates.len() / 2);
        let low = at(rates, 0.1)?;
        Some(Stability {
            median,
            low,
            best: at(rates, 1.0)?,
            spread: (at(rates, 0.9)? - low) / median,
            worst_dip: 1.0 - at(rates, 0.0)? / median,
            drift: (at(second, 0.5)? - at(first, 0.5)?) / median,
        })
    }

    /// Returns true if spread and drift are at most this share.
    pub fn is_within(&self, share: f64) -> bool {
        self.spread <= share && self.drift.abs() <= share
    }
}

/// Limits of the generator and the sink without a device between them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlatformLimits {
    /// Rates that were reached when as much as possible was asked for.
    pub unloaded: Stability,
    /// The share of frames lost on the way from generator to sink at a rate
    /// well below that.
    pub own_loss: f64,
}

impl PlatformLimits {
    /// The highest load to search at: the rate that the generator reached in nine of ten windows.
    pub fn highest_load(&self) -> PacketsPerSecond {
        PacketsPerSecond::new(self.unloaded.low)
    }

    /// Returns true if loss of so small a share can be told from the platform's own: that must be
    /// less than half of it. No loss can be told only where there is none.
    pub fn resolves(&self, loss_ratio: f64) -> bool {
        self.own_loss == 0.0 || self.own_loss < loss_ratio / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_platform_passes() {
        let rates: Vec<f64> = (0..20).map(|at| 1e6 + f64::from(at % 5) * 1e3).collect();
        let steady = Stability::from_rates(&rates).unwrap();
        assert!(steady.is_within(0.01), "{steady:?}");
        assert_eq!(steady.best, 1.004e6);
        assert!(steady.drift.abs() < 1e-9);
    }

    #[test]
    fn noise_dips_and_drift_are_seen() {
        let noisy = Stability::from_rates(&[1e6, 0.7e6, 1.1e6, 0.8e6, 1.2e6, 0.9e6]).unwrap();
        assert!(!noisy.is_within(0.1), "{noisy:?}");

        let mut dip = vec![1e6; 30];
        dip[7] = 0.2e6;
        let dip = Stability::from_rates(&dip).unwrap();
        assert!((dip.worst_dip - 0.8).abs() < 1e-9 && dip.is_within(0.01), "{dip:?}");

        let slower: Vec<f64> = (0..20).map(|at| 1e6 - f64::from(at) * 2e4).collect();
        let slower = Stability::from_rates(&slower).unwrap();
        assert!((-0.3..-0.2).contains(&slower.drift), "{slower:?}");
    }

    #[test]
    fn too_little_is_no_verdict() {
        assert_eq!(Stability::from_rates(&[1.0, 1.0, 1.0]), None);
        assert_eq!(Stability::from_rates(&[0.0; 10]), None);
        assert_eq!(Stability::from_rates(&[1.0, 2.0, f64::NAN, 1.0]), None);
    }

    #[test]
    fn small_losses_need_a_quiet_platform() {
        let unloaded = Stability::from_rates(&[2e6, 2e6, 1.9e6, 2e6, 2.1e6]).unwrap();
        let limits = |own_loss| PlatformLimits { unloaded, own_loss };
        assert!(limits(0.0).resolves(0.0));
        assert!(!limits(1e-4).resolves(0.0));
        assert!(limits(1e-4).resolves(0.005) && !limits(4e-3).resolves(0.005));
        let highest = limits(0.0).highest_load().get();
        assert!((1.9e6..2e6).contains(&highest), "{highest}");
    }
}
