//! The cost model: cost of packet processing, and the throughput that follows.
//!
//! Pure arithmetic: nothing here reads a clock, a file or a packet.
//!
//! - [`units`]: quantities that cannot be mixed up, printed and read with SI
//!   prefixes.
//! - [`Plain`]: the published model `F = T * (C_IO + C_task + C_busy)`, and
//!   the CPU time a Gbit/s takes.
//! - [`Costs`] and [`Scenario`]: the extended model, which adds bursts, time
//!   that does not scale with the clock, memory, bytes and several workers;
//!   [`pipeline`] adds hand-overs, [`Loop`] latency against load,
//!   [`Power`] energy. [`Limits`] bound them all.
//! - [`fit`]: parameters from measurements, with intervals.
//! - [`Calibration`]: predictions with intervals, and their inversion: the
//!   clock, the workers or the cycles for a wanted rate.
//!
//! The equations, in seconds per packet:
//!
//! ```text
//! t = (a_rx + a_tx + (b_rx + b_tx) / B + sum(a_k + b_k / B) + W) / f
//!     + u + sum(S * l(WS) / m) + g * bytes
//! T = min(N / (t * (1 + s (N-1) + c N (N-1))), NIC, link / (8 (L + 20)), bus, sources)
//! ```
//!
//! Which clock does a task of 120 cycles need for 10 Gbit/s of small frames?
//!
//! ```
//! use linerate_model::{Calibration, Cost, Costs, Scenario};
//! use linerate_model::units::CyclesPerPacket;
//!
//! let costs = Costs { receive: Cost::new(78.0, 318.0), ..Costs::default() };
//! let task = Scenario { work: CyclesPerPacket::new(120.0), ..Scenario::default() };
//! let answer = Calibration::exact(costs).clock_for(&task, "14.88 Mpps".parse()?, 0.9)?;
//! assert_eq!(answer.needed.value.to_string(), "3.02 GHz");
//! assert_eq!(answer.limit.to_string(), "processor cycles");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod costs;
mod estimate;
pub mod fit;
mod growth;
mod latency;
mod limits;
mod memory;
pub mod pipeline;
mod plain;
mod plan;
mod power;
mod scaling;
pub mod units;

pub use costs::{Breakdown, Cost, Costs, Placement, Prediction, Scenario, Visit};
pub use estimate::{Estimate, quantile};
pub use growth::TableGrowth;
pub use latency::Loop;
pub use limits::{FRAME_OVERHEAD, Limit, Limits, line_rate};
pub use memory::{Access, LatencyCurve, Memory};
pub use plain::{Plain, cpu_per_gbit};
pub use plan::{Calibration, Requirement, Unreachable};
pub use power::{Power, sleeping_utilisation};
pub use scaling::Scaling;
