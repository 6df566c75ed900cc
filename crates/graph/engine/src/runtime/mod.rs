//! Runtime: the mechanisms of a worker, which know no element.
//!
//! - *Packets*: [`outputs`] is where elements put packets, [`pending`] where these wait for the input
//!   they are for; [`order`] numbers packets and puts them back in order.
//! - *Tasks*: which is next, [`tasks`]; what each waits for, [`timers`] and [`waiting`]; how far one
//!   may run ahead, [`pacing`] and [`arrival_times`]; when a run ends, [`driver`].
//! - *Workers*: [`hub`] wakes a worker and hands it the jobs of others; [`placement`] says which
//!   elements it has, and [`node`] how one is wired.
//! - *Time and figures*: [`clock`]; [`account`] charges cycles and counts packets and drops.

pub(crate) mod account;
pub(crate) mod arrival_times;
pub(crate) mod clock;
pub(crate) mod driver;
pub(crate) mod hub;
pub(crate) mod node;
pub(crate) mod order;
pub(crate) mod outputs;
pub(crate) mod pacing;
pub(crate) mod pending;
pub(crate) mod placement;
pub(crate) mod tasks;
pub(crate) mod timers;
pub(crate) mod waiting;

pub use account::{ElementUsage, Role, Usage, WorkerStats};
pub use clock::{Clock, TimeSpeed};
pub use driver::Driver;
pub use order::Rank;
pub use outputs::Outputs;
pub use placement::Replica;
