//! Elements that are not about any protocol: sources, sinks, counters, switches, and elements that
//! change packets without a look at their contents.
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod information;
mod packets;
mod standard;
mod switching;
#[cfg(test)]
mod testing;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] =
    &[information::CLASSES, packets::CLASSES, standard::CLASSES, switching::CLASSES];
