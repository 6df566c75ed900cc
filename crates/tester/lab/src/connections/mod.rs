//! TCP connections under load: thousands of clients that ask, and a server that answers.
//!
//! An [`Endpoint`] opens the connections of its [`Group`]s, or answers those that come for a
//! [`Service`]; it is pure (frames and the time in, frames out) and keeps its connections in a
//! table that is as large from the start as it will ever be. A [`ConnectionWorker`] runs one over a
//! port. The [`ConnectionReport`] counts the connections and their ends.
//!
//! The extent of TCP here is described in `connection`. A client's first bytes name the answer it
//! wants (`payload`), so that a server needs no configuration; with bytes of its own it speaks to
//! any server.

mod connection;
mod endpoint;
mod group;
mod neighbour;
mod payload;
mod report;
mod segment;
#[cfg(test)]
mod tests;
mod worker;

pub use connection::Failure;
pub use endpoint::{Endpoint, EndpointError, Outgoing, Service};
pub use group::{Group, Hosts, NextHop, REQUEST_MIN, Timeouts};
pub use report::{ConnectionCounts, ConnectionReport};
pub use worker::{ConnectionReader, ConnectionWorker};

use linerate_packet::build::Tagging;

/// Nanoseconds of a tick.
const TICK: u64 = 1_000_000;

/// Ticks at a time in nanoseconds.
fn tick(time: u64) -> u64 {
    time / TICK
}

/// The largest TCP segment, in bytes of data, whose frame with these tags has at most `frame`
/// bytes, without FCS.
pub fn largest_segment(frame: usize, ipv6: bool, tags: Tagging) -> usize {
    segment::mss_within(frame, ipv6, tags)
}
