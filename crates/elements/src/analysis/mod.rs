//! Elements that read, write and summarise captures.

use linerate_graph::Class;

pub(crate) mod call;
mod encap;
mod from_dump;
mod output;
mod sample;
#[cfg(test)]
mod scratch;
mod span;
mod stamp;
mod to_dump;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[&from_dump::CLASS, &to_dump::CLASS];

/// The name of the family in the reference.
const FAMILY: &str = "analysis";
