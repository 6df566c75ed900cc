//! From a configuration and a calibration to a throughput.

mod estimate;
mod visits;

pub use estimate::{
    EstimateError, Estimated, Line, NoDriver, Ports, Question, Unmeasured, estimate, unlike,
    unmeasured, with_arguments,
};
pub use visits::{Part, Reached, SampleError, SampleRun, Visit, reached, visits};
