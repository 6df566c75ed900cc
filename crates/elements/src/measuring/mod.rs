//! Elements that show and measure packets, and those that burn cycles on purpose.

use linerate_graph::Class;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[];
