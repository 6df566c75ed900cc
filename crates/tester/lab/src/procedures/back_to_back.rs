//! Bursts at line rate that a device takes without loss.

use linerate_model::units::{PacketsPerSecond, Seconds};
use serde::Serialize;

use super::{Observe, TrialOptions, TrialStatus, repeated, unless_broken_off};
use crate::{
    search::{BackToBack, BurstSearch, Unsent},
    trials::{Order, Phase, RunError, Runner},
};

/// Options of a back-to-back test.
#[derive(Clone, Copy, Debug)]
pub struct BurstsOptions {
    /// The rate within bursts.
    pub line_rate: PacketsPerSecond,
    /// The device's throughput at this frame size.
    pub throughput: PacketsPerSecond,
    /// The longest burst, as time (RFC 2544: 2 s).
    pub longest: Seconds,
    /// Resolution of a search, in frames.
    pub resolution: u64,
    /// Searches to average over (RFC 2544: 50).
    pub repetitions: u32,
}

/// Result of a back-to-back test.
#[derive(Clone, Debug, Serialize)]
pub struct Bursts {
    /// Longest burst without loss of each repetition that was sent as meant, in
    /// frames.
    pub bursts: Vec<u64>,
    /// Repetitions in which even the longest burst lost nothing: their values
    /// are lower bounds.
    pub unbounded: u32,
    /// Repetitions given up because the generator did not send a burst in full.
    pub generator_limited: u32,
    /// RFC 9004's figures; none where throughput is the line rate, or where all
    /// repetitions were given up.
    pub result: Option<BackToBack>,
    /// Whether it was broken off: there would have been more repetitions.
    pub interrupted: bool,
}

/// Searches for the longest burst without loss, several times. Broken off, it returns the results
/// of the searches before, if there were any.
///
/// # Errors
///
/// When a trial cannot be run.
pub fn back_to_back(
    runner: &mut dyn Runner,
    options: &BurstsOptions,
    trial_options: &TrialOptions,
    observe: Observe<'_>,
) -> Result<Bursts, RunError> {
    let rate = options.line_rate;
    let longest = ((rate * options.longest).get() as u64).max(1);
    // A frame that was not sent would pass for one that was lost.
    let trial_options = TrialOptions { unsent: Unsent::Void(0.0), ..*trial_options };
    let (mut bursts, mut unbounded, mut generator_limited) = (Vec::new(), 0, 0);
    let mut interrupted = false;
    'repetitions: for _ in 0..options.repetitions {
        let mut search = BurstSearch::new(longest, options.resolution);
        while let Some(frames) = search.next_burst() {
            let phases = vec![Phase { load: Some(rate), frames }];
            let order = Order { phases, residual: trial_options.residual };
            let trial = repeated(runner, &order, Some(rate), None, &trial_options, &mut *observe);
            let found = !bursts.is_empty() || generator_limited > 0;
            let Some((outcome, taken)) = unless_broken_off(trial, found)? else {
                interrupted = true;
                break 'repetitions;
            };
            if taken == TrialStatus::GeneratorLimit {
                generator_limited += 1;
                continue 'repetitions;
            }
            let sent = outcome.frames.accepted;
            search.record(sent.saturating_sub(outcome.frames.received));
        }
        unbounded += u32::from(!search.is_bounded());
        bursts.push(search.result());
    }
    let result = BackToBack::new(&bursts, rate, options.throughput);
    Ok(Bursts { bursts, unbounded, generator_limited, result, interrupted })
}
