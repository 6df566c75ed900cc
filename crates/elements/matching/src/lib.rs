//! Elements that choose packets by what is in them, and the decision diagrams they run.
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod classifying;
mod decision;
mod filtering;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[classifying::CLASSES, filtering::CLASSES];
