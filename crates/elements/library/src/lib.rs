//! The element library: the elements of all families.
//!
//! One crate per group of families, one module per family, one file per element or
//! group of elements that are one thing in variations. Each has a [`Class`] constant,
//! which is all the rest of the program knows of it, and is listed in its crate's
//! `FAMILIES`.
#![forbid(unsafe_code)]

use linerate_graph::{Class, Library};

/// All elements there are.
pub fn library() -> Library {
    let families: &[&[&[&'static Class]]] = &[
        linerate_elements_basic::FAMILIES,
        linerate_elements_capture::FAMILIES,
        linerate_elements_control::FAMILIES,
        linerate_elements_devices::FAMILIES,
        linerate_elements_ethernet::FAMILIES,
        linerate_elements_ip::FAMILIES,
        linerate_elements_ip6::FAMILIES,
        linerate_elements_matching::FAMILIES,
        linerate_elements_measuring::FAMILIES,
        linerate_elements_queueing::FAMILIES,
        linerate_elements_rewriting::FAMILIES,
        linerate_elements_routing::FAMILIES,
        linerate_elements_selftest::FAMILIES,
    ];
    Library::new(families.iter().copied().flatten().copied().flatten().copied())
}
