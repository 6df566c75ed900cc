//! Engine: runs a graph, with one [`Context`] per worker.
//!
//! - *The loop of a worker*: [`worker`]; which task is next, [`tasks`]; when a run ends,
//!   [`driver`].
//! - *Packets*: [`dispatch`] takes frames from element to element, [`node_runtime`] is the data of
//!   a call; [`outputs`] is where elements put packets, [`pending`] where these wait for
//!   the input they are for; [`bypass`] is about elements they pass without stopping.
//! - *Order*: [`order`] numbers packets and puts them back in order, [`ordering_domains`] says
//!   which elements see it, [`source_interleave`] and [`arrival_times`] keep that of sources and
//!   queues.
//! - *Waiting*: [`waiting`] sleeps on file descriptors, [`timers`] on times of a
//!   [`clock`]; [`hub`] wakes a worker and hands it the jobs of others.
//! - *Wiring*: [`wiring`] places elements on workers and connects them; [`change`] goes
//!   over to another graph.
//! - *Figures*: [`account`] charges cycles and counts packets and drops.
//! - [`context`] is the interface of elements to all that.

pub(crate) mod account;
mod arrival_times;
mod bypass;
pub(crate) mod change;
pub(crate) mod clock;
pub(crate) mod context;
mod dispatch;
pub(crate) mod driver;
pub(crate) mod hub;
pub(crate) mod node_runtime;
pub(crate) mod order;
mod ordering_domains;
pub(crate) mod outputs;
pub(crate) mod pacing;
pub(crate) mod pending;
mod source_interleave;
pub(crate) mod tasks;
pub(crate) mod timers;
pub(crate) mod waiting;
pub(crate) mod wiring;
pub(crate) mod worker;

pub use account::{ElementUsage, Usage, WorkerStats};
pub use clock::{Clock, TimeSpeed};
pub use context::Context;
pub use driver::Driver;
pub use order::Rank;
pub use outputs::Outputs;
pub use tasks::{TICKETS_DEFAULT, TICKETS_LIMIT};
