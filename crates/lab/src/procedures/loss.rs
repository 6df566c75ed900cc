//! The frame loss rate against load.

use linerate_model::units::{PacketsPerSecond, Seconds};
use serde::Serialize;

use super::{Manner, Observe, Taken, steady};
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
/// (RFC 2544: at most a tenth) until two trials have lost nothing.
///
/// # Errors
///
/// When a trial cannot be run.
pub fn loss(
    runner: &mut dyn Runner,
    highest: PacketsPerSecond,
    step: f64,
    time: Seconds,
    manner: &Manner,
    observe: Observe<'_>,
) -> Result<Vec<LossAt>, RunError> {
    let mut curve = LossCurve::new(highest, step);
    let mut points = Vec::new();
    while let Some(load) = curve.next_load() {
        let (outcome, taken) = steady(runner, load, time, manner, observe)?;
        let frames = outcome.frames;
        let lost = frames.accepted.saturating_sub(frames.received);
        let point = LossAt {
            load,
            sent: outcome.sent_rate(),
            loss_ratio: lost as f64 / frames.accepted.max(1) as f64,
            generator_limited: taken == Taken::GeneratorLimit,
        };
        // Nothing lost of too little sent is no trial without loss.
        let complete = !point.generator_limited || lost > 0;
        curve.record(if complete { point.loss_ratio } else { f64::MIN_POSITIVE });
        points.push(point);
    }
    Ok(points)
}
