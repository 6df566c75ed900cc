//! Elements that look at the bytes of packets to choose an output.

use linerate_graph::Class;

mod classifier;
mod pattern;
#[cfg(test)]
mod tests;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[&classifier::CLASS];

/// The name of the family in the reference.
const FAMILY: &str = "classifying";
