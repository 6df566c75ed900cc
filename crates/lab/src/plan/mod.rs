//! From a configuration and a calibration to a throughput.
//!
//! A [`Trial`] is a configuration whose ports are replaced by sample packets. It is run in
//! simulated time ([`Trial::sample`]) to count the packets through its elements; the elements'
//! costs are found in the calibration, or measured ([`Trial::measure`]), and summed
//! ([`estimate()`]). [`Trial::reached`] measures its real throughput beside the estimate.

mod alone;
mod cold;
mod draws;
mod estimate;
mod measure;
mod reached;
pub(crate) mod stand_in;
mod trial;
mod visits;
mod ways;

pub use draws::Basis;
pub use estimate::{
    EstimateError, Estimated, Line, NoDriver, Ports, Question, Unmeasured, estimate, unlike,
    unmeasured, with_arguments,
};
pub use reached::Reached;
pub use trial::{SampleError, SampleRun, Trial};
pub use visits::{Part, Sampled, Visit};
