//! From a configuration and a calibration to a throughput.

mod estimate;
mod visits;

pub use estimate::{
    EstimateError, Estimated, Line, NoDriver, Question, Unmeasured, estimate, unmeasured,
};
pub use visits::{Part, Trial, TrialError, Visit, visits};
