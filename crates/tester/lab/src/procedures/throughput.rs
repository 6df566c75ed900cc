//! Throughput: MLRsearch from its first trial to its last.

use serde::Serialize;

use super::{Observe, Report, TrialOptions, TrialStatus, unless_broken_off};
use crate::{
    search::{Goal, GoalResult, LoadTrials, Recorded, Search, Settings},
    trials::{Order, RunError, Runner},
};

/// Result of a search.
#[derive(Clone, Debug, Serialize)]
pub struct Throughput {
    /// For each goal, in their order.
    pub goals: Vec<GoalResult>,
    /// Whether the generator could not send at loads that were tried.
    pub generator_limited: bool,
    /// All loads and their trials.
    pub loads: Vec<LoadTrials>,
    /// Set if it was broken off: the goals have the bounds known by then.
    pub interrupted: bool,
}

/// Searches for the rates that meet the goals, within the settings; of these, the treatment of
/// unsent frames and the repetitions of void trials are the manner's. A search that is broken off
/// has the bounds found after its first trial.
///
/// # Errors
///
/// When goals or settings make no sense ([`SearchError`](crate::search::SearchError)), or when a
/// trial cannot be run.
pub fn throughput(
    runner: &mut dyn Runner,
    goals: Vec<Goal>,
    settings: Settings,
    trial_options: &TrialOptions,
    observe: Observe<'_>,
) -> Result<Throughput, RunError> {
    let settings =
        Settings { unsent: trial_options.unsent, retries: trial_options.retries, ..settings };
    let mut search = Search::new(goals, settings)?;
    let mut interrupted = false;
    while let Some(input) = search.next_trial() {
        let order = Order::steady(input.load, input.duration, trial_options.residual);
        let trial = unless_broken_off(runner.run(&order), !search.loads().is_empty())?;
        let Some(frames) = trial.map(|outcome| outcome.frames) else {
            interrupted = true;
            break;
        };
        let taken = match search.record(frames, None) {
            Recorded::Counted => TrialStatus::Counted,
            Recorded::Void => TrialStatus::Void,
            Recorded::GeneratorLimit => TrialStatus::GeneratorLimit,
        };
        observe(&Report {
            load: Some(input.load),
            duration: Some(input.duration),
            frames,
            loss_ratio: frames.loss_ratio(),
            taken,
        });
    }
    Ok(Throughput {
        goals: search.results(),
        generator_limited: search.generator_limited(),
        loads: search.loads().to_vec(),
        interrupted,
    })
}
