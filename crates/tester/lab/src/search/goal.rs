//! Goals of a search.

use linerate_model::units::Seconds;
use serde::{Deserialize, Serialize};

/// A goal of MLRsearch (RFC 9971): how much loss, in what share of trials of
/// what length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Trials this long or longer count in full.
    pub final_trial: Seconds,
    /// Total duration of the trials after which a load is certainly decided.
    pub duration_sum: Seconds,
    /// A trial that loses more than this share of its frames is a bad one.
    pub loss_ratio: f64,
    /// The share of bad trials, by duration, that a load may have.
    pub exceed_ratio: f64,
    /// Trials while the search is still coarse; at most `final_trial`.
    pub initial_trial: Seconds,
    /// The search ends when the bounds are this close, as a share of the
    /// upper one.
    pub width: f64,
}

/// A goal that cannot be searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoalError {
    /// A duration is not above zero, or the initial trial is the longer one.
    #[error("trials must last for more than no time, and the first no longer than the last")]
    Duration,
    /// The share of loss is not from 0 to below 1.
    #[error("the loss ratio must be from 0 to below 1")]
    Loss,
    /// The share of bad trials is not from 0 to below 1.
    #[error("the exceed ratio must be from 0 to below 1")]
    Exceed,
    /// The width is not between 0 and 1.
    #[error("the width must be above 0 and below 1")]
    Width,
}

impl Goal {
    /// RFC 2544's throughput: trials of 60 s, none of which loses a frame.
    /// Unconditionally compliant with its section 24.
    pub const fn rfc2544() -> Self {
        Goal {
            final_trial: Seconds::new(60.0),
            duration_sum: Seconds::new(60.0),
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            initial_trial: Seconds::new(1.0),
            width: 0.005,
        }
    }

    /// The no-drop rate: most of 21 trials of 1 s lose nothing.
    pub const fn ndr() -> Self {
        Goal {
            final_trial: Seconds::new(1.0),
            duration_sum: Seconds::new(21.0),
            loss_ratio: 0.0,
            exceed_ratio: 0.5,
            initial_trial: Seconds::new(1.0),
            width: 0.005,
        }
    }

    /// The partial-drop rate: most of 21 trials of 1 s lose no more than
    /// 0.5 % of their frames.
    pub const fn pdr() -> Self {
        Goal { loss_ratio: 0.005, ..Goal::ndr() }
    }

    /// Binary search with loss verification (ETSI GS NFV-TST 009): one of two
    /// trials of 60 s loses nothing.
    pub const fn tst009() -> Self {
        Goal { duration_sum: Seconds::new(120.0), exceed_ratio: 0.5, ..Goal::rfc2544() }
    }

    /// Checks RFC 9971's conditions on a goal.
    ///
    /// # Errors
    ///
    /// Says which value is out of range.
    pub fn check(&self) -> Result<(), GoalError> {
        let positive = |time: Seconds| time.get() > 0.0 && time.get().is_finite();
        let durations = [self.final_trial, self.duration_sum, self.initial_trial];
        if !durations.into_iter().all(positive) || self.initial_trial > self.final_trial {
            return Err(GoalError::Duration);
        }
        if !(0.0..1.0).contains(&self.loss_ratio) {
            return Err(GoalError::Loss);
        }
        if !(0.0..1.0).contains(&self.exceed_ratio) {
            return Err(GoalError::Exceed);
        }
        if self.width <= 0.0 || self.width >= 1.0 || self.width.is_nan() {
            return Err(GoalError::Width);
        }
        Ok(())
    }
}
