//! Elements of several families in one configuration.

mod aggregates;
mod control_socket;
mod devices;
mod dry;
mod order;
mod routes;
mod said;
mod surveys;
mod turns;

use linerate_elements_testing::{RunWith, TestLibrary};
use linerate_graph::Library;

/// A run with the whole library.
type Run = RunWith<Whole>;

struct Whole;

impl TestLibrary for Whole {
    fn library() -> Library {
        linerate_elements::library()
    }
}
