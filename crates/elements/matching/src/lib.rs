//! Elements that classify packets by their bytes, and the decision diagrams they run.
//!
//! `classifying` has `Classifier` and its patterns of bytes, `filtering` has `IPClassifier`
//! and `IPFilter` and their language; both make a program that `decision` runs.
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod classifying;
mod decision;
mod filtering;
#[cfg(test)]
mod testing;

pub use filtering::Expression;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[classifying::CLASSES, filtering::CLASSES];
