//! Elements for ICMP.

use linerate_graph::Class;

pub(crate) mod error_rules;
mod icmp_error;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[&icmp_error::CLASS];

/// The name of the family in the reference.
const FAMILY: &str = "icmp";
