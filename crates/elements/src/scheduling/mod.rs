//! Elements that choose when packets go: rates, delays, queue disciplines.

use linerate_graph::{
    Class, Context, HandlerError,
    lang::config::{shift_word, split},
};
use linerate_memory::Frame;

mod ahead;
pub(crate) mod average;
mod delay;
mod drr_sched;
mod held_queue;
mod link_unqueue;
mod merge;
mod meter;
mod prio_sched;
pub(crate) mod rate;
mod rated_source;
mod rated_splitter;
mod rated_unqueue;
mod red;
mod round_robin_sched;
mod shaper;
mod stride_sched;
#[cfg(test)]
mod tests;
mod time_sorted_sched;
mod timed;
mod timed_unqueue;

/// The family's classes.
pub(crate) const CLASSES: &[&Class] = &[
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
    &rated_source::CLASS,
    &rated_splitter::BANDWIDTH,
    &rated_splitter::PACKETS,
    &rated_unqueue::BANDWIDTH,
    &rated_unqueue::PACKETS,
    &red::CLASS,
    &round_robin_sched::CLASS,
    &round_robin_sched::SIMPLE,
    &shaper::BANDWIDTH,
    &shaper::PACKETS,
    &stride_sched::CLASS,
    &time_sorted_sched::CLASS,
    &timed::SINK,
    &timed::SOURCE,
    &timed_unqueue::BURSTER,
    &timed_unqueue::CLASS,
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

/// A positional argument has been changed by a handler: the configuration
/// string says so.
pub(crate) fn record_argument(cx: &mut Context, place: usize, keyword: &str, value: &str) {
    let mut arguments = split(cx.config());
    let named = arguments.iter().position(|argument| shift_word(argument).0 == keyword);
    match named {
        Some(at) => arguments[at] = format!("{keyword} {value}"),
        None if place < arguments.len() => arguments[place] = value.into(),
        None => arguments.push(format!("{keyword} {value}")),
    }
    cx.set_config(arguments.join(", "));
}

/// What an element says to a value that cannot be read.
fn wrong<T>(name: &str, error: impl std::fmt::Display) -> Result<T, HandlerError> {
    Err(HandlerError::refused(format!("{name}: {error}")))
}

/// What Click says when a queue first drops a packet.
#[cold]
pub(crate) fn overflow(cx: &Context) {
    let class = cx.plan().elements[cx.element()].class.name;
    cx.console().report(&format!("{} :: {class}: overflow\n", cx.name()));
}

/// Packets that may not go leave by output 1 when it is used, and are dropped
/// otherwise, counted under `reason`.
pub(crate) fn turn_away(cx: &mut Context, frame: &mut Frame, reason: usize) {
    if cx.out.count() > 1 {
        cx.out.emit_frame(1, frame);
    } else {
        cx.drop_frame(frame, reason);
    }
}
