//! Runtime data of an element that every call touches, side by side.

use std::sync::Arc;

use super::Element;
use crate::runtime::{
    account::ElementStats,
    node::SendLimit,
    outputs::{InputId, Span},
};

/// One element on one worker, in a cache line of its own.
#[repr(align(64))]
pub(crate) struct NodeRuntime {
    /// `None` when the element is not on this worker or at work right now.
    pub(crate) element: Option<Box<dyn Element>>,
    /// Its figures.
    pub(crate) stats: Arc<ElementStats>,
    /// Its edges in [`Outputs`](crate::Outputs).
    pub(crate) outputs: Span,
    /// The input output 0 leads to.
    pub(crate) next: InputId,
    /// Whether packets that leave by different outputs meet again.
    pub(crate) meets_again: bool,
    /// Whether packets pulled from it have been pushed to it before.
    pub(crate) stores: bool,
    /// Whether packets its task pulls and pushes go all the way one by one.
    pub(crate) one_by_one: bool,
    /// Whether its configuration sets the packets of a turn of its task ([`Element::burst`]).
    pub(crate) counted: bool,
    /// Whether its task takes its turns with others
    /// (`source_interleave`).
    pub(crate) has_companions: bool,
    /// Whether its task keeps pace with others (`arrival_times`).
    pub(crate) keeps_pace: bool,
    /// Whether there are tasks that make room for its packets, and run before its own where
    /// there is not enough for a whole frame.
    pub(crate) asks_for_room: bool,
    /// Whether it pulls through elements that may keep packets back. The first that is kept back
    /// ends a burst: so packets of one are pulled and sent one by one.
    pub(crate) sifts: bool,
    /// Whether others' turns or a look at a queue limit how many turns its task takes at a time
    /// (`pacing`).
    pub(crate) keeps_step: bool,
    /// Whether its task runs without a look at others: none of the flags for that has an effect.
    pub(crate) is_independent: bool,
    /// Limit of how many packets its task may send at a time.
    pub(crate) bound: SendLimit,
}

const _: () = assert!(size_of::<NodeRuntime>() == 64);

impl NodeRuntime {
    /// Puts an element in its place which is new, or may be configured otherwise than
    /// when it was taken.
    pub(crate) fn install(&mut self, element: Box<dyn Element>) {
        self.counted = element.burst().is_some();
        // Turns of others limit a task that takes several, and elements end the bursts of one that
        // has some.
        let limited = if self.counted { self.sifts } else { self.keeps_step };
        let follows = self.has_companions || self.asks_for_room || self.keeps_pace;
        self.is_independent = !(limited || follows);
        self.put(element);
    }

    /// Takes the element to work with it.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<Box<dyn Element>> {
        self.element.take()
    }

    /// Puts an element in its place, from where it has been taken.
    #[inline(always)]
    pub(crate) fn put(&mut self, element: Box<dyn Element>) {
        let before = self.element.replace(element);
        debug_assert!(before.is_none(), "the place of an element at work is empty");
        // There is nothing to drop, and so nothing to look whether there is.
        std::mem::forget(before);
    }
}
