//! The element library.
//!
//! One module per family, one file per element or group of elements that are
//! one thing in variations. Each has a [`Class`] constant, which is all the
//! rest of the program knows of it, and is listed in its family's `CLASSES`.
#![forbid(unsafe_code)]

use linerate_graph::{Class, Library};

mod address6;
mod analysis;
mod annotation_byte;
mod annotations;
mod classifying;
mod control;
mod decision;
mod devices;
mod ethernet;
mod filtering;
mod general;
mod icmp;
mod icmp_names;
mod information;
mod ip;
mod ip6;
mod ipsec;
mod measuring;
mod neighbours;
mod packets;
mod random;
mod rewriting;
mod routing;
mod scheduling;
mod selftest;
mod standard;
mod switching;
mod tcpudp;
mod template;
#[cfg(test)]
mod testing;
mod tickets;
mod written;

pub use measuring::Burner;

/// All elements there are.
pub fn library() -> Library {
    let families: &[&[&'static Class]] = &[
        analysis::CLASSES,
        classifying::CLASSES,
        control::CLASSES,
        devices::CLASSES,
        ethernet::CLASSES,
        filtering::CLASSES,
        icmp::CLASSES,
        information::CLASSES,
        ip::CLASSES,
        ip6::CLASSES,
        ipsec::CLASSES,
        measuring::CLASSES,
        packets::CLASSES,
        rewriting::CLASSES,
        routing::CLASSES,
        scheduling::CLASSES,
        selftest::CLASSES,
        standard::CLASSES,
        switching::CLASSES,
        tcpudp::CLASSES,
    ];
    Library::new(families.iter().copied().flatten().copied())
}
