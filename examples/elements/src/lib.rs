//! Elements that Linerate does not have.
#![forbid(unsafe_code)]

mod drop_duplicates;
mod failover;
mod min_ttl;
mod ttl_security;

use linerate_graph::Class;

/// All of them.
pub const CLASSES: &[&Class] =
    &[&drop_duplicates::CLASS, &failover::CLASS, &min_ttl::CLASS, &ttl_security::CLASS];
