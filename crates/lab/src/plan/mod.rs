//! From a configuration and a calibration to a throughput.

mod visits;

pub use visits::{Part, Trial, TrialError, Visit, visits};
