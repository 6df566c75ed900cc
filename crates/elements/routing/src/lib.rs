//! Elements that look up where packets go, and IPsec, which looks up how they get there.
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod ipsec;
mod routing;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[ipsec::CLASSES, routing::CLASSES];
