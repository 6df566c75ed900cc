//! Elements that change packets: their bytes and what is known about them.

use linerate_graph::Class;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[];
