//! Elements that choose when packets go: rates, delays, queue disciplines.

use linerate_graph::Class;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[];
