//! Elements that look routes up, and IPsec for routes into tunnels.
//!
//! `routing` has the tables of routes, also those that lead into tunnels; `ipsec` has
//! security associations and the elements that encrypt and authenticate.
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod ipsec;
mod routing;
#[cfg(test)]
mod testing;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[ipsec::CLASSES, routing::CLASSES];
