//! What runs a graph.

pub(crate) mod account;
pub(crate) mod change;
pub(crate) mod clock;
mod companions;
pub(crate) mod context;
pub(crate) mod driver;
mod flow;
mod groups;
pub(crate) mod hub;
pub(crate) mod order;
pub(crate) mod outputs;
mod pace;
mod passing;
pub(crate) mod pending;
pub(crate) mod station;
pub(crate) mod tasks;
pub(crate) mod timers;
pub(crate) mod waiting;
pub(crate) mod wiring;
pub(crate) mod worker;

pub use account::{ElementUsage, Usage, WorkerStats};
pub use clock::{Clock, Pace};
pub use context::Context;
pub use driver::Driver;
pub use order::Rank;
pub use outputs::Outputs;
pub use tasks::{TICKETS_DEFAULT, TICKETS_LIMIT};
