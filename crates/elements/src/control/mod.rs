//! Elements that call handlers: scripts, sockets, drivers.

use linerate_graph::Class;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[];
