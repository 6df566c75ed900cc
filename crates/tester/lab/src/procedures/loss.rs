//! The frame loss rate against load.

use linerate_model::units::{PacketsPerSecond, Seconds};
use serde::Serialize;

use super::{Observe, Points, TrialOptions, TrialStatus, steady, unless_broken_off};
use crate::{
    search::LossCurve,
    trials::{RunError, Runner},
};

/// Loss at one load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LossAt {
    /// Intended load.
    #[serde(rename = "load_pps")]
    pub load: PacketsPerSecond,
    /// The load that was sent.
    #[serde(rename = "sent_pps")]
    pub sent: PacketsPerSecond,
    /// Share of the frames sent that did not come back.
    pub loss_ratio: f64,
    /// The generator could not send the intended load.
    pub generator_limited: bool,
}

/// Measures loss from the highest load downwards in steps of a share of it
/// (RFC 2544: at most a tenth) until two trials have lost nothing. Broken off, it returns the
/// points there are, if any.
///
/// # Errors
///
/// When a trial cannot be run.
pub fn loss(
    runner: &mut dyn Runner,
    highest: PacketsPerSecond,
    step: f64,
    time: Seconds,
    trial_options: &TrialOptions,
    observe: Observe<'_>,
) -> Result<Points<LossAt>, RunError> {
    let mut curve = LossCurve::new(highest, step);
    let mut points = Vec::new();
    let mut interrupted = false;
    while let Some(load) = curve.next_load() {
        let trial = steady(runner, load, time, trial_options, &mut *observe);
        let Some((outcome, taken)) = unless_broken_off(trial, !points.is_empty())? else {
            interrupted = true;
            break;
        };
        let frames = outcome.frames;
        let lost = frames.accepted.saturating_sub(frames.received);
        let point = LossAt {
            load,
            sent: outcome.sent_rate(),
            loss_ratio: lost as f64 / frames.accepted.max(1) as f64,
            generator_limited: taken == TrialStatus::GeneratorLimit,
        };
        // Nothing lost of too little sent is no trial without loss.
        let complete = !point.generator_limited || lost > 0;
        curve.record(if complete { point.loss_ratio } else { f64::MIN_POSITIVE });
        points.push(point);
    }
    Ok(Points { points, interrupted })
}
