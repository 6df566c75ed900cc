//! Limits of generator and sink without a device to measure.

use linerate_model::units::{PacketsPerSecond, Seconds};
use serde::Serialize;

use super::{Observe, Report, TrialOptions, TrialStatus};
use crate::{
    search::{Goal, PlatformLimits, Stability},
    trials::{Order, Phase, RunError, Runner},
};

/// Time for which the generator sends as fast as it can.
const FAST: Seconds = Seconds::new(0.5);
/// Trials at a part of that.
const SLOW_TRIALS: usize = 11;
/// Length of each.
const SLOW: Seconds = Seconds::new(0.1);
/// Frames after which the rate is known well enough to say how many make a
/// trial.
const PROBE: u64 = 20_000;
/// Spread and drift of a steady platform, at most.
const STEADY: f64 = 0.1;

/// The limits of a platform, and the loads worth trying on it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Platform {
    /// The measured limits.
    pub limits: PlatformLimits,
    /// The highest load worth trying.
    #[serde(rename = "highest_pps")]
    pub highest: PacketsPerSecond,
    /// The load at which its own loss was measured.
    #[serde(rename = "slow_pps")]
    pub slow: PacketsPerSecond,
    /// Whether rates vary and drift by a tenth at most.
    pub steady: bool,
}

impl Platform {
    /// Returns true if a goal's share of loss can be told from the platform's own.
    pub fn resolves(&self, goal: &Goal) -> bool {
        self.limits.resolves(goal.loss_ratio)
    }
}

/// Measures generator and sink without a device, or with one that does nothing: rate and evenness
/// of the frames going out, and the loss that half of some short trials stay below at `slow` of
/// that, or of `most` if that is less. That ends when it is settled that `told`, the share of loss
/// that must be told from it, cannot be.
///
/// `None` when nothing comes back at all.
///
/// # Errors
///
/// When a trial cannot be run.
pub fn platform(
    runner: &mut dyn Runner,
    slow: f64,
    most: Option<PacketsPerSecond>,
    told: Option<f64>,
    trial_options: &TrialOptions,
    observe: Observe<'_>,
) -> Result<Option<Platform>, RunError> {
    let mut fast = |frames| {
        let phases = vec![Phase { load: None, frames }];
        let outcome = runner.run(&Order { phases, residual: trial_options.residual })?;
        let frames = outcome.frames;
        let loss_ratio = frames.loss_ratio();
        let taken = TrialStatus::Counted;
        observe(&Report { load: None, duration: None, frames, loss_ratio, taken });
        Ok::<_, RunError>(outcome)
    };
    let rate = fast(PROBE)?.sent_rate();
    let outcome = fast(((rate * FAST).get() as u64).max(PROBE))?;
    let Some(unloaded) = Stability::from_rates(&outcome.windows) else { return Ok(None) };
    let mut limits = PlatformLimits { unloaded, own_loss: 1.0 };
    // On a busy machine the generator may have stood still in a tenth of the windows: then its mean
    // rate is the highest, and trials that it does not send in full are void.
    let steady_rate = limits.highest_load();
    let mean_rate = outcome.sent_rate();
    let highest = if steady_rate.get() > 0.0 { steady_rate.min(mean_rate) } else { mean_rate };
    let load = most.map_or(highest, |most| most.min(highest)) * slow;
    let mut losses = Vec::with_capacity(SLOW_TRIALS);
    let mut received = 0;
    let mut hiding = 0;
    // A trial that is not sent in full shows the loss as well.
    let trial_options = TrialOptions { retries: 0, ..*trial_options };
    for _ in 0..SLOW_TRIALS {
        let (outcome, _) = super::steady(runner, load, SLOW, &trial_options, observe)?;
        let frames = outcome.frames;
        received += frames.received;
        // Unsent frames are the generator's, and show in the trials that they make void.
        let own_loss = (1.0 - frames.received as f64 / frames.accepted.max(1) as f64).max(0.0);
        losses.push(own_loss);
        let hides = |told| !PlatformLimits { unloaded, own_loss }.resolves(told);
        hiding += usize::from(told.is_some_and(hides));
        if hiding > SLOW_TRIALS / 2 {
            break;
        }
    }
    losses.sort_by(f64::total_cmp);
    limits.own_loss = losses[losses.len() / 2];
    let steady = unloaded.is_within(STEADY);
    Ok((received > 0).then_some(Platform { limits, highest, slow: load, steady }))
}
