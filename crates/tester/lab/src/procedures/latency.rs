//! Latency against load.

use linerate_model::units::{PacketsPerSecond, Seconds};
use serde::Serialize;

use super::{Observe, Points, TrialOptions, TrialStatus, steady, unless_broken_off};
use crate::trials::{LatencyFigures, RunError, Runner};

/// Latency at one load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyAt {
    /// Share of the throughput.
    pub share: f64,
    /// The load.
    #[serde(rename = "load_pps")]
    pub load: PacketsPerSecond,
    /// Share of the frames sent that did not come back.
    pub loss_ratio: f64,
    /// Latency of the other frames; none if none came back.
    #[serde(flatten)]
    pub latency: Option<LatencyFigures>,
    /// The generator could not send this load: the figures are of a lower one.
    pub generator_limited: bool,
}

/// Measures latency at shares of a throughput. Every frame is measured. Broken off, it returns
/// the points there are, if any.
///
/// # Errors
///
/// When a trial cannot be run.
pub fn latency(
    runner: &mut dyn Runner,
    throughput: PacketsPerSecond,
    shares: &[f64],
    time: Seconds,
    trial_options: &TrialOptions,
    observe: Observe<'_>,
) -> Result<Points<LatencyAt>, RunError> {
    let mut points = Vec::new();
    let mut interrupted = false;
    for &share in shares {
        let load = throughput * share;
        let trial = steady(runner, load, time, trial_options, &mut *observe);
        let Some((outcome, taken)) = unless_broken_off(trial, !points.is_empty())? else {
            interrupted = true;
            break;
        };
        let frames = outcome.frames;
        points.push(LatencyAt {
            share,
            load,
            loss_ratio: frames.accepted.saturating_sub(frames.received) as f64
                / frames.accepted.max(1) as f64,
            latency: LatencyFigures::from_latency(&outcome.latency),
            generator_limited: taken == TrialStatus::GeneratorLimit,
        });
    }
    Ok(Points { points, interrupted })
}
