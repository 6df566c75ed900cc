//! Elements that Linerate does not have.
#![forbid(unsafe_code)]

mod drop_duplicates;
mod failover;
mod ttl_security;

use linerate_graph::Class;

/// All of them.
pub const CLASSES: &[&Class] = &[&drop_duplicates::CLASS, &failover::CLASS, &ttl_security::CLASS];

#[cfg(test)]
mod tests {
    #[test]
    fn all_are_documented() {
        linerate_elements_testing::assert_documented(crate::CLASSES);
    }
}
