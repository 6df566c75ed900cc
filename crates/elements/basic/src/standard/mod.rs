//! Elements that are not about any protocol: sources, sinks, queues, counters,
//! switches, schedulers.

use linerate_graph::Class;

mod counter;
mod discard;
mod infinite_source;
mod null;
mod rate;
mod tee;
#[cfg(test)]
mod turns_tests;
mod unqueue;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[
    &counter::CLASS,
    &discard::CLASS,
    &discard::IDLE,
    &infinite_source::CLASS,
    &infinite_source::RANDOM,
    &null::ENSURE_DPDK_BUFFER,
    &null::NULL,
    &null::PATH_SPINLOCK,
    &null::PIPELINER,
    &null::PULL_NULL,
    &null::PUSH_NULL,
    &tee::PULL_TEE,
    &tee::TEE,
    &unqueue::CLASS,
];

/// The name of the family in the reference.
const FAMILY: &str = "standard";
