//! Elements for IPv4, ICMP, TCP and UDP.
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod icmp;
mod ip;
mod tcpudp;
#[cfg(test)]
mod testing;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[icmp::CLASSES, ip::CLASSES, tcpudp::CLASSES];
