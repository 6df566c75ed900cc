//! Elements of the flow switch: the switch, and its channels to controllers.
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod change;
mod connections;
mod dump;
mod flow_export;
mod flow_switch;
mod open_flow;
mod out;
pub mod switches;
#[cfg(test)]
mod testing;
mod trace;
mod wakeup;

const FAMILY: &str = "flow";

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[CLASSES];

const CLASSES: &[&Class] = &[&flow_switch::CLASS, &open_flow::CLASS, &flow_export::CLASS];
