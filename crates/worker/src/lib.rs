//! What runs ports: pinned threads, idle strategies and cycle accounting.
//!
//! A worker owns its queues, its pool cache and its frames, and shares nothing
//! with other workers on the path of a packet. What it counts it publishes
//! with plain stores; who reads it never makes it wait.
#![forbid(unsafe_code)]

mod forward;
mod idle;
mod meter;
mod stop;

pub use forward::{Forwarder, OnFull, Path, Rewrite};
pub use idle::{Idle, Sleeper};
pub use meter::{Meter, Stage, Usage, UsageReader};
pub use stop::Stop;
