//! Consumers of a cluster: programs that get packets of another process without a copy.
//!
//! [`Consumer::attach`] takes a place that the server's configuration has a name for. Then it is a loop:
//! wait, receive a burst, look at its packets, send those that are to go on; the next
//! [`receive`](Consumer::receive) gives back the rest.
//!
//! ```no_run
//! use linerate_client::Consumer;
//!
//! # fn main() -> Result<(), linerate_client::ClientError> {
//! let mut consumer = Consumer::attach("/run/cluster.sock", "counter")?;
//! let mut bytes = 0;
//! while consumer.wait(None)? {
//!     while consumer.receive()? > 0 {
//!         bytes += consumer.packets().map(<[u8]>::len).sum::<usize>();
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A consumer that an `InlineConsumer` of the configuration asks about packets gives its verdict on
//! each by [`Consumer::answer`].
//!
//! When the server ends, in any way, each of these calls says so: attach anew to the next one.
#![forbid(unsafe_code)]

mod connection;
mod consumer;

use std::io;

pub use connection::Connection;
pub use consumer::{Consumer, Verdict};
pub use linerate_cluster::{
    figures::{FigureView, Figures, Share},
    wire::{Access, Reason},
};
use linerate_memory::shared::{AttachError, Broken};

/// The reason why a program is no consumer, or is none any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No socket can be called so.
    #[error("`{0}` is no UNIX socket: write a file's name, or @NAME, of at most 107 bytes")]
    Address(String),
    /// No server listens there, or this program may not connect.
    #[error("cannot connect to a cluster at {address}: {source}")]
    Connect {
        /// The address.
        address: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The server does not do it.
    #[error("the server refuses: {}: {text}", .reason.text())]
    Refused {
        /// The reason.
        reason: Reason,
        /// The server's words about it.
        text: String,
    },
    /// The server has ended this consumer.
    #[error("the server has ended this consumer: {}", .0.text())]
    Ended(Reason),
    /// The server is not there any more.
    #[error("the server has ended")]
    ServerGone,
    /// A message of the server makes no sense.
    #[error("the server does not speak as it should: {0}")]
    Protocol(&'static str),
    /// The server's memory cannot be had.
    #[error("cannot attach: {0}")]
    Attach(#[from] AttachError),
    /// A position on a ring makes no sense.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// The kernel refused something.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl ClientError {
    /// Returns true if the server is gone or has had this consumer go: to go on, attach anew.
    pub fn is_end(&self) -> bool {
        matches!(self, ClientError::ServerGone | ClientError::Ended(_))
    }
}
