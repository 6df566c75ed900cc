//! Elements that choose where packets go, and the paint they go by.

use linerate_graph::Class;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[];
