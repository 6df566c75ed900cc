//! Elements that look at the bytes of packets to choose an output.

use linerate_graph::Class;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[];
