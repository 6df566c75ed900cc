//! Elements that schedule packets: rates, delays, queue disciplines.
#![forbid(unsafe_code)]

use linerate_graph::{Class, Context, HandlerError};

mod adaptive_red;
mod ahead;
mod codel;
mod delay;
mod drr_sched;
mod followed;
mod held_queue;
mod link_unqueue;
mod merge;
mod meter;
mod prio_sched;
mod queue;
mod queue_yank_test;
mod rated_source;
mod rated_splitter;
mod rated_unqueue;
mod red;
mod round_robin_sched;
mod round_robin_unqueue;
mod shaper;
mod stride_sched;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod time_sorted_sched;
mod timed;
mod timed_unqueue;
mod unqueue2;

/// The classes of its families.
pub const FAMILIES: &[&[&Class]] = &[CLASSES];

const CLASSES: &[&Class] = &[
    &adaptive_red::CLASS,
    &codel::CLASS,
    &delay::SHAPER,
    &delay::UNQUEUE,
    &drr_sched::CLASS,
    &held_queue::FRONT_DROP,
    &held_queue::MIXED,
    &link_unqueue::CLASS,
    &meter::BANDWIDTH,
    &meter::PACKETS,
    &prio_sched::CLASS,
    &prio_sched::SIMPLE,
    &queue::FULL_NOTE_QUEUE,
    &queue::NOTIFIER_QUEUE,
    &queue::QUEUE,
    &queue::QUICK_NOTE_QUEUE,
    &queue::SIMPLE_QUEUE,
    &queue::THREAD_SAFE_QUEUE,
    &queue_yank_test::CLASS,
    &rated_source::CLASS,
    &rated_splitter::BANDWIDTH,
    &rated_splitter::PACKETS,
    &rated_unqueue::BANDWIDTH,
    &rated_unqueue::PACKETS,
    &red::CLASS,
    &round_robin_sched::CLASS,
    &round_robin_sched::SIMPLE,
    &round_robin_unqueue::CLASS,
    &shaper::BANDWIDTH,
    &shaper::PACKETS,
    &stride_sched::CLASS,
    &time_sorted_sched::CLASS,
    &timed::SINK,
    &timed::SOURCE,
    &timed_unqueue::BURSTER,
    &timed_unqueue::CLASS,
    &unqueue2::CLASS,
];

/// The name of the family in the reference.
const FAMILY: &str = "scheduling";

/// The timer of an element that has one.
const TIMER: u32 = 0;

/// Sets the timer to `at`, when there is such a time and it is not set to it.
fn wake_at(cx: &mut Context, at: Option<u64>) {
    if let Some(at) = at
        && cx.timer(TIMER) != Some(at)
    {
        cx.set_timer(TIMER, at);
    }
}

/// Returns the error of an element for an unreadable value.
fn wrong<T>(name: &str, error: impl std::fmt::Display) -> Result<T, HandlerError> {
    Err(HandlerError::refused(format!("{name}: {error}")))
}
