//! The element library: the elements of all families.
//!
//! One crate per group of families, one module per family, one file per element or
//! group of elements that are one thing in variations. Each has a [`Class`] constant,
//! which is all the rest of the program knows of it, and is listed in its crate's
//! `FAMILIES`.
#![forbid(unsafe_code)]

use linerate_graph::{Class, Library};

pub use linerate_elements_cluster::isolated_programs;

/// The crates that elements are in, by their names, with the classes of their families.
pub const CRATES: &[(&str, &[&[&Class]])] = &[
    ("linerate-elements-basic", linerate_elements_basic::FAMILIES),
    ("linerate-elements-capture", linerate_elements_capture::FAMILIES),
    ("linerate-elements-cluster", linerate_elements_cluster::FAMILIES),
    ("linerate-elements-control", linerate_elements_control::FAMILIES),
    ("linerate-elements-devices", linerate_elements_devices::FAMILIES),
    ("linerate-elements-ethernet", linerate_elements_ethernet::FAMILIES),
    ("linerate-elements-flow", linerate_elements_flow::FAMILIES),
    ("linerate-elements-ip", linerate_elements_ip::FAMILIES),
    ("linerate-elements-ip6", linerate_elements_ip6::FAMILIES),
    ("linerate-elements-matching", linerate_elements_matching::FAMILIES),
    ("linerate-elements-measuring", linerate_elements_measuring::FAMILIES),
    ("linerate-elements-queueing", linerate_elements_queueing::FAMILIES),
    ("linerate-elements-rewriting", linerate_elements_rewriting::FAMILIES),
    ("linerate-elements-routing", linerate_elements_routing::FAMILIES),
    ("linerate-elements-selftest", linerate_elements_selftest::FAMILIES),
];

/// Returns the library of all elements.
pub fn library() -> Library {
    Library::new(CRATES.iter().flat_map(|(_, families)| *families).copied().flatten().copied())
}
