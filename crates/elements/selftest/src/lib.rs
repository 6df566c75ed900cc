//! Elements for tests of the program itself: those that Click's own suite names.
//!
//! Some check what other elements are built on, on the machine of whoever asks;
//! others show what a graph looks like from inside. None has a place in a
//! configuration that is in use.
#![forbid(unsafe_code)]

use linerate_graph::Class;

mod checks;
mod neighborhood_test;
mod notifier_debug;
mod random_seed;
#[cfg(test)]
mod testing;
mod timer_test;

/// The family's name.
const FAMILY: &str = "selftest";

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[CLASSES];

const CLASSES: &[&Class] = &[
    &checks::BIGINT,
    &checks::BITVECTOR,
    &checks::CONF_PARSE,
    &checks::CRYPTO,
    &checks::DEQUE,
    &checks::ERROR,
    &checks::FUNCTION,
    &checks::HASH_TABLE,
    &checks::HEAP,
    &checks::LIST,
    &checks::NOTIFIER,
    &checks::SORT,
    &checks::TOKEN_BUCKET,
    &checks::VECTOR,
    &neighborhood_test::CLASS,
    &notifier_debug::CLASS,
    &random_seed::CLASS,
    &timer_test::CLASS,
];
