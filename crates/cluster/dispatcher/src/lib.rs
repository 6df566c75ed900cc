//! Several processes on one set of packets.
//!
//! A [`Broker`] listens at a UNIX socket. Programs attach to it as consumers that the configuration
//! has a name for, and get the arena's packets by [`linerate_memory::shared`]: a ring each, without
//! a copy. The [`Dispatcher`] decides on the recipients of packets, behind a lock that is taken
//! once per burst; a thread of the broker's attaches programs, and takes back the buffers of those
//! that have died.
//!
//! Not here: anything that knows of a graph (its elements are in `elements/cluster`), and
//! the consumer's side (`client`). Messages, descriptors, and the checks of each side:
//! `docs/cluster.md`.
//!
//! # Where things are
//!
//! [`wire`] and [`transport`] are the messages, [`figures`] the statistics in shared memory,
//! [`balance`] the choice of a consumer per flow, [`dispatcher`] the part that workers call per
//! burst, [`broker`] the socket and its thread, `limits` the limits of its connections, `handles` the uses
//! of elements.
#![forbid(unsafe_code)]

pub mod balance;
pub mod broker;
pub mod dispatcher;
pub mod figures;
mod handles;
mod limits;
pub mod transport;
pub mod wire;

pub use broker::{Broker, BrokerError, Hold};
pub use dispatcher::{Dispatcher, DrainResult, DropCounts, Granted, InlineConfig, Recipients};
pub use handles::{BalancerHandle, ConsumerHandle, InlineHandle};
pub use wire::Access;
