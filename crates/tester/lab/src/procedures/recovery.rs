//! Recovery from overload.

use linerate_model::units::{PacketsPerSecond, Seconds};
use serde::Serialize;

use super::{Observe, Points, TrialOptions, TrialStatus, repeated, unless_broken_off};
use crate::{
    search::{recovery_loads, recovery_time},
    trials::{Order, Phase, RunError, Runner},
};

/// Options of a recovery test.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryOptions {
    /// The device's throughput.
    pub throughput: PacketsPerSecond,
    /// The highest rate there is.
    pub line_rate: PacketsPerSecond,
    /// Time of the overload (RFC 2544: at least 60 s).
    pub overload: Seconds,
    /// Time of half of that load, which follows.
    pub after: Seconds,
    /// Number of overloads.
    pub repetitions: u32,
}

/// Result of one overload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recovered {
    /// The overload.
    #[serde(rename = "overload_pps")]
    pub overload: PacketsPerSecond,
    /// Time from the halving of the load until the last lost frame was sent; none if the generator
    /// did not send all of it.
    #[serde(rename = "recovery_s")]
    pub time: Option<Seconds>,
    /// Whether frames were lost at all; without loss there was no overload.
    pub overloaded: bool,
    /// The generator did not send all frames.
    pub generator_limited: bool,
}

/// Overloads the device, halves the load, and takes the time until no more frames are lost. Broken
/// off, it returns the results of the overloads before, if there were any.
///
/// # Errors
///
/// When a trial cannot be run.
pub fn recovery(
    runner: &mut dyn Runner,
    options: &RecoveryOptions,
    trial_options: &TrialOptions,
    observe: Observe<'_>,
) -> Result<Points<Recovered>, RunError> {
    let (overload, half) = recovery_loads(options.throughput, options.line_rate);
    let phases =
        vec![Phase::lasting(overload, options.overload), Phase::lasting(half, options.after)];
    let order = Order { phases, residual: trial_options.residual };
    let time = options.overload + options.after;
    let mut points = Vec::new();
    let mut interrupted = false;
    for _ in 0..options.repetitions {
        let trial =
            repeated(runner, &order, Some(overload), Some(time), trial_options, &mut *observe);
        let Some((outcome, taken)) = unless_broken_off(trial, !points.is_empty())? else {
            interrupted = true;
            break;
        };
        let reduced = outcome.begun.get(1).copied().unwrap_or(options.overload);
        let generator_limited = taken == TrialStatus::GeneratorLimit;
        points.push(Recovered {
            overload,
            time: (!generator_limited).then(|| recovery_time(reduced, outcome.last_loss)),
            overloaded: outcome.frames.received < outcome.frames.accepted,
            generator_limited,
        });
    }
    Ok(Points { points, interrupted })
}
