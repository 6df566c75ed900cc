//! Elements that are not about any protocol: sources, sinks, queues, counters,
//! switches, schedulers.

use linerate_graph::Class;

mod counter;
mod discard;
mod infinite_source;
mod null;
pub(crate) mod queue;
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
    &queue::FULL_NOTE_QUEUE,
    &queue::NOTIFIER_QUEUE,
    &queue::QUEUE,
    &queue::QUICK_NOTE_QUEUE,
    &queue::SIMPLE_QUEUE,
    &queue::THREAD_SAFE_QUEUE,
    &tee::PULL_TEE,
    &tee::TEE,
    &unqueue::CLASS,
];

/// The name of the family in the reference.
const FAMILY: &str = "standard";
