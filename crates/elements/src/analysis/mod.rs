//! Elements that read, write and summarise captures.

use linerate_graph::Class;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[];
