//! Elements that share packets with other processes: those of a cluster's server.
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod access;
mod from_consumer;
mod inline;
mod isolated;
mod place;
mod sharing;
mod socket;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod weights;

pub use isolated::isolated_programs;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[CLASSES];

const CLASSES: &[&Class] = &[
    &from_consumer::CLASS,
    &inline::CLASS,
    &sharing::BALANCER,
    &sharing::FAN_OUT,
    &sharing::TO_CONSUMER,
    &socket::CLASS,
];

/// The name of the family in the reference.
const FAMILY: &str = "cluster";
