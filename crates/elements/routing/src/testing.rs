//! Runs of configurations for the tests of this crate.

use linerate_elements_testing::{RunWith, TestLibrary, from_families};
use linerate_graph::Library;

/// A run with the elements of this crate, and those that its tests put around them.
pub(crate) type Run = RunWith<Tested>;

#[derive(Debug)]
pub(crate) struct Tested;

impl TestLibrary for Tested {
    fn library() -> Library {
        from_families([
            crate::FAMILIES,
            linerate_elements_basic::FAMILIES,
            linerate_elements_ip::FAMILIES,
        ])
    }
}
