//! Workers that run ports: pinned threads, idle strategies and cycle accounting.
//!
//! A worker owns its queues, its pool cache and its frames, and shares nothing with other workers
//! on the path of a packet. It publishes its counters with plain stores; readers never make it
//! wait.
//!
//! `forward` is the loop between two ports, `idle` decides when a worker sleeps, `meter` accounts
//! cycles and `cycle_counters` has their sums for readers, `budget` is a packet count that several
//! paths share, `stop` ends it. The loop of a worker that runs a graph is in `linerate_graph`
//! (`engine/worker.rs`).
#![forbid(unsafe_code)]

mod budget;
mod cycle_counters;
mod forward;
mod idle;
mod meter;
mod stop;

pub use budget::Budget;
pub use cycle_counters::{CycleCounters, WorkerState};
pub use forward::{Forwarder, OnFull, Path, Rewrite};
pub use idle::{Idle, Sleeper};
pub use meter::{Meter, Stage, Usage, UsageReader};
pub use stop::Stop;
