//! Elements that call handlers: scripts, sockets, drivers.

use linerate_graph::Class;

mod script;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[&script::DRIVER_MANAGER, &script::SCRIPT];

/// The name of the family in the reference.
const FAMILY: &str = "control";
