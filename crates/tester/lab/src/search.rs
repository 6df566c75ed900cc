//! Searches, as pure logic: results of trials in, the next trial out.
//!
//! Nothing here sends a frame or waits; the runner of trials asks a search for the next one and
//! tells it the result.
//!
//! - [`Search`]: MLRsearch (RFC 9971), which finds throughput for several
//!   [`Goal`]s at once: RFC 2544's, and the rates with no and with little loss
//!   (NDR, PDR).
//! - [`LossCurve`], [`BurstSearch`] and [`BackToBack`], [`recovery_time`] and
//!   [`reset_time`]: the other procedures of RFC 2544, with the corrections of
//!   RFC 9004 and RFC 6201.
//! - [`Stability`]: whether the platform is steady enough for any of them.
//! - [`permit`]: RFC 6815's guard against test traffic in other networks.

mod bound;
mod burst;
mod goal;
mod guard;
mod loss;
mod mlr;
mod recovery;
mod stability;
mod target;
mod trial;

pub use bound::{Bound, LoadTrials};
pub use burst::{BackToBack, BurstSearch};
pub use goal::{Goal, GoalError};
pub use guard::{HIGH_RATE, OutsideTestNetworks, is_test_address, permit};
pub use loss::LossCurve;
pub use mlr::{Ended, GoalResult, Recorded, Search, SearchError, Settings};
pub use recovery::{recovery_loads, recovery_time, reset_time};
pub use stability::{PlatformLimits, Stability};
pub use trial::{Frames, Input, Trial, Unsent};
