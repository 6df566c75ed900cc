//! Elements that read, write and summarise captures.

use linerate_graph::Class;

pub(crate) mod call;
mod encap;
mod from_dump;
mod from_ip_summary_dump;
mod lines;
mod output;
mod sample;
#[cfg(test)]
mod scratch;
mod span;
mod stamp;
mod summary;
mod to_dump;
mod to_ip_summary_dump;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] =
    &[&from_dump::CLASS, &from_ip_summary_dump::CLASS, &to_dump::CLASS, &to_ip_summary_dump::CLASS];

/// The name of the family in the reference.
const FAMILY: &str = "analysis";
