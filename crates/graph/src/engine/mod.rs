//! Engine: runs a graph, with one [`Context`] per worker.
//!
//! - *The loop of a worker*: [`worker`]; which task is next, [`tasks`]; when a run ends,
//!   [`driver`].
//! - *Packets*: [`flow`] takes frames from element to element, [`station`] is the data of a
//!   call; [`outputs`] is where elements put packets, [`pending`] where these wait for
//!   the input they are for; [`passing`] is about elements they pass without stopping.
//! - *Order*: [`order`] numbers packets and puts them back in order, [`groups`] says which
//!   elements see it, [`companions`] and [`pace`] keep that of sources and queues.
//! - *Waiting*: [`waiting`] sleeps on file descriptors, [`timers`] on times of a
//!   [`clock`]; [`hub`] wakes a worker and hands it the jobs of others.
//! - *Wiring*: [`wiring`] places elements on workers and connects them; [`change`] goes
//!   over to another graph.
//! - *Figures*: [`account`] charges cycles and counts packets and drops.
//! - [`context`] is the interface of elements to all that.

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
pub(crate) mod step;
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
