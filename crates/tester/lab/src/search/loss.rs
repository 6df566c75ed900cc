//! RFC 2544's frame loss rate (section 26.3): loss against load, from the top.

use linerate_model::units::PacketsPerSecond;

/// Loads from 100 % of the highest downwards, until two trials in a row have
/// lost nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct LossCurve {
    highest: PacketsPerSecond,
    step: f64,
    points: Vec<(PacketsPerSecond, f64)>,
}

impl LossCurve {
    /// Steps of this share of the highest load; the RFC allows at most 0.1,
    /// and a larger one is taken for that.
    pub fn new(highest: PacketsPerSecond, step: f64) -> Self {
        LossCurve { highest, step: step.clamp(1e-3, 0.1), points: Vec::new() }
    }

    /// The next load, or `None` at the end.
    pub fn next_load(&self) -> Option<PacketsPerSecond> {
        let lossless = |point: &&(PacketsPerSecond, f64)| point.1 == 0.0;
        if self.points.iter().rev().take_while(lossless).count() >= 2 {
            return None;
        }
        let share = 1.0 - self.step * self.points.len() as f64;
        // The last step would otherwise be a hair above zero.
        (share > self.step * 1e-6).then(|| self.highest * share)
    }

    /// Tells the loss ratio at the next load; nothing at the end.
    pub fn record(&mut self, loss_ratio: f64) {
        if let Some(load) = self.next_load() {
            self.points.push((load, loss_ratio));
        }
    }

    /// Loads measured and the share lost, from the highest load.
    pub fn points(&self) -> &[(PacketsPerSecond, f64)] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(capacity: f64, step: f64) -> LossCurve {
        let mut curve = LossCurve::new(PacketsPerSecond::new(10e6), step);
        while let Some(load) = curve.next_load() {
            curve.record((1.0 - capacity / load.get()).max(0.0));
        }
        curve
    }

    #[test]
    fn it_ends_after_two_trials_without_loss() {
        let curve = run(6.5e6, 0.1);
        let loads: Vec<f64> =
            curve.points().iter().map(|(load, _)| (load.get() / 1e6).round()).collect();
        assert_eq!(loads, [10.0, 9.0, 8.0, 7.0, 6.0, 5.0]);
        assert!((curve.points()[0].1 - 0.35).abs() < 1e-9);
        assert_eq!(curve.points()[5].1, 0.0);
    }

    #[test]
    fn nothing_lost_at_all_takes_two_trials() {
        assert_eq!(run(20e6, 0.05).points().len(), 2);
    }

    #[test]
    fn a_dead_device_is_tried_at_every_step() {
        assert_eq!(run(0.0, 0.1).points().len(), 10);
        // Coarser steps than the RFC's are not taken.
        assert_eq!(run(0.0, 0.5).points().len(), 10);
    }
}
