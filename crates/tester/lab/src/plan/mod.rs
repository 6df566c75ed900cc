//! From a configuration and a calibration to a throughput.
//!
//! A [`Trial`] is a configuration whose ports are replaced by sample packets. It is run in
//! simulated time ([`Trial::sample`]) to count the packets through its elements; the elements'
//! costs are found in the calibration, or measured ([`Trial::measure`]), and summed
//! ([`estimate()`]). [`Trial::measured_rate`] measures its real throughput beside the estimate.

mod branches;
mod cache_pressure;
mod estimate;
mod measure;
mod measured_rate;
mod microbench;
mod monte_carlo;
mod packet_counts;
mod trial;

pub use estimate::{
    ConfigEstimate, ElementCost, EstimateError, EstimateInputs, NoDriver, Ports, Unmeasured,
    estimate, measured_otherwise, unmeasured, with_arguments,
};
pub use measured_rate::MeasuredRate;
pub use monte_carlo::Basis;
pub use packet_counts::{Sampled, Visit};
pub use trial::{SampleError, SampleRun, Trial};

pub use crate::stand_in::PathRole;
