//! Elements that call handlers: scripts, sockets, drivers.
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod aggregate;
mod chatter_socket;
mod poke;
mod proxy;
mod script;
mod socket;
#[cfg(test)]
mod testing;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[CLASSES];

const CLASSES: &[&Class] = &[
    &aggregate::CLASS,
    &chatter_socket::CLASS,
    &poke::CLASS,
    &proxy::CLASS,
    &script::DRIVER_MANAGER,
    &script::SCRIPT,
    &socket::CLASS,
];

/// The name of the family in the reference.
const FAMILY: &str = "control";
