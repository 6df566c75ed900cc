//! Engine: runs a graph, with one [`Context`](crate::Context) per worker.
//!
//! It implements the methods of the context that call elements, on the mechanisms of
//! [`runtime`](crate::runtime).
//!
//! - *The loop of a worker*: [`worker`]; which task is next, [`tasks`](crate::runtime::tasks).
//! - *Packets*: [`dispatch`] takes frames from element to element, [`pull`] asks for them;
//!   [`bypass`] is about elements they pass without stopping.
//! - *Order*: [`ordering_domains`] says which elements see it, [`source_interleave`] keeps that of
//!   sources, [`pacing`] that of tasks at a queue.
//! - *Waiting*: [`waiting`] sleeps on file descriptors, timers, and the worker's eventfd in the
//!   [`hub`](crate::runtime::hub).
//! - *Handlers*: [`handler_lookup`] finds them by name, [`handlers`] reads and writes them,
//!   [`off_worker`] without a worker; [`reconfigure`] gives an element another configuration.
//! - *Wiring*: [`wiring`] places elements on workers and connects them; [`change`] goes
//!   over to another graph, [`hotconfig`] has one made of a text.

mod bypass;
pub(crate) mod change;
mod dispatch;
mod handler_lookup;
pub(crate) mod handlers;
mod hotconfig;
mod off_worker;
mod ordering_domains;
mod pacing;
mod pull;
mod reconfigure;
mod source_interleave;
mod waiting;
pub(crate) mod wiring;
mod worker;

pub use hotconfig::{ConfigReader, Replacement};
pub use off_worker::Answer;
pub(crate) use off_worker::OffWorkerHandler;
