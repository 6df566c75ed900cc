//! Elements that bring packets in and out of the graph.

use linerate_graph::Class;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[];
