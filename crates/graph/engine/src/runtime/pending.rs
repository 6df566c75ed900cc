//! Pending frames: those on their way to an element.
//!
//! The waiting input with the smallest number is served first. Numbers follow the
//! graph, so the branches behind a splitting element have all done their work
//! before an element where they meet again begins, and that one gets one large
//! frame instead of several small ones.
//!
//! Inputs of one element, and of elements whose results depend on one another
//! (`ordering_domains`), have numbers next to each other and are served
//! as one: their packets are put into the order they had ([`Order`]), and each input
//! gets as many at a time as come for it one behind the other.
//!
//! Packets that must go all the way one by one do so on a stack.

use std::{cmp::Reverse, collections::BinaryHeap};

use linerate_memory::{Arena, Frame};

use super::{
    order::{Number, Order},
    outputs::{InputId, Outputs},
};

/// Service of an input: alone, with others, or one packet at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputService {
    /// The first input of those that are served as one with it.
    pub(crate) first: InputId,
    /// Whether those are inputs of several elements.
    pub(crate) joint: bool,
    /// Whether it gets its packets one at a time, because packets it sends go on to another of
    /// these elements.
    pub(crate) single: bool,
}

pub(crate) struct Pending {
    /// Depth first: one packet all the way before the next.
    exact: bool,
    stack: Vec<(InputId, Frame)>,
    /// Those [`InputService::first`] of which something waits.
    order: BinaryHeap<Reverse<InputId>>,
    /// By [`InputService::first`].
    waiting: Vec<Waiting>,
    places: Vec<InputService>,
    any_single: bool,
    keeps_frames: bool,
    /// Numbers calls of elements that sent something which waits: that is in order.
    step: u32,
    /// The number of the first packet that the element at work was given.
    pub(crate) cause: Number,
}

/// Frames waiting to be served as one.
#[derive(Default)]
struct Waiting {
    /// Oldest first.
    lots: Vec<PendingFrame>,
    /// Whether they are to be put in order.
    mixed: bool,
}

/// A frame for an input, and where it came from.
pub(crate) struct PendingFrame {
    pub(crate) to: InputId,
    /// The call that sent it.
    pub(crate) step: u32,
    /// The edge it came by.
    pub(crate) edge: u32,
    /// The value of [`Pending::cause`] then.
    pub(crate) cause: Number,
    pub(crate) frame: Frame,
}

impl PendingFrame {
    /// Packets that came by one way are in order.
    pub(crate) fn way(&self) -> (u32, u32) {
        (self.step, self.edge)
    }
}

impl Pending {
    pub(crate) fn new(exact: bool, places: Vec<InputService>) -> Pending {
        let any_single = places.iter().any(|place| place.single);
        Pending {
            exact,
            stack: Vec::new(),
            order: BinaryHeap::new(),
            waiting: places.iter().map(|_| Waiting::default()).collect(),
            any_single,
            keeps_frames: !exact && !any_single,
            places,
            step: 0,
            cause: 0,
        }
    }

    /// Begins another call: frames that wait from now on were sent in it.
    #[inline(always)]
    pub(crate) fn next_call(&mut self) {
        self.step = self.step.wrapping_add(1);
    }

    /// From now on packets go one by one, or not. Nothing is on the way.
    pub(crate) fn set_exact(&mut self, exact: bool) {
        debug_assert!(self.is_empty());
        self.exact = exact;
        self.keeps_frames = !exact && !self.any_single;
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.stack.is_empty()
    }

    /// Returns true if a frame for `to` may go on at once: nothing that waits comes before it or
    /// with it.
    #[inline(always)]
    pub(crate) fn is_next(&self, to: InputId) -> bool {
        match self.order.peek() {
            Some(Reverse(first)) => to < *first,
            None => true,
        }
    }

    /// Returns true if all frames go on as they are: packets go neither one by one nor to an input
    /// that gets them so.
    #[inline(always)]
    pub(crate) fn keeps_frames(&self) -> bool {
        self.keeps_frames
    }

    /// Returns true if an input gets its packets one at a time.
    pub(crate) fn is_single(&self, to: InputId) -> bool {
        self.places[to as usize].single
    }

    /// Puts a frame in its place. In exact mode frames of one element are
    /// added last first.
    #[inline]
    pub(crate) fn add(
        &mut self,
        (to, edge): (InputId, u32),
        mut frame: Frame,
        order: &mut Order,
        arena: &Arena,
        outputs: &mut Outputs,
    ) {
        if self.exact {
            self.stack.push((to, frame));
            return;
        }
        let place = self.places[to as usize];
        if place.joint {
            order.number(&frame, arena);
        }
        let waiting = &mut self.waiting[place.first as usize];
        if waiting.lots.is_empty() {
            self.order.push(Reverse(place.first));
        } else if let Some(last) = waiting.lots.last_mut()
            && last.to == to
            && (!order.is_numbered() || continues(last, self.step, edge, &frame, order, arena))
        {
            last.frame.append(&mut frame, usize::MAX);
            if frame.is_empty() {
                outputs.recycle(frame);
                return;
            }
        }
        let lot = PendingFrame { to, step: self.step, edge, cause: self.cause, frame };
        if place.joint && !waiting.mixed {
            waiting.insert(lot, order, arena);
        } else {
            waiting.mixed |= order.is_numbered() && !waiting.lots.is_empty();
            waiting.lots.push(lot);
        }
    }

    /// Height of the stack of exact mode, for [`Pending::reverse_from`].
    #[inline(always)]
    pub(crate) fn mark(&self) -> usize {
        self.stack.len()
    }

    /// Reverses the frames added since `mark`, so that the first is served first.
    #[inline(always)]
    pub(crate) fn reverse_from(&mut self, mark: usize) {
        self.stack[mark..].reverse();
    }

    /// The frame to go on with.
    #[inline]
    pub(crate) fn take(
        &mut self,
        order: &mut Order,
        arena: &Arena,
        outputs: &mut Outputs,
    ) -> Option<(InputId, Frame)> {
        if self.exact {
            return self.stack.pop();
        }
        let Reverse(first) = *self.order.peek()?;
        let waiting = &mut self.waiting[first as usize];
        if std::mem::take(&mut waiting.mixed) {
            order.restore(&mut waiting.lots, arena, outputs);
        }
        let next = &mut waiting.lots[0];
        let to = next.to;
        if next.frame.len() > 1 && self.places[to as usize].single {
            let mut one = outputs.fresh();
            one.append(&mut next.frame, 1);
            return Some((to, one));
        }
        let frame = waiting.lots.remove(0).frame;
        if waiting.lots.is_empty() {
            self.order.pop();
        }
        Some((to, frame))
    }
}

/// Returns true if a frame goes on where the last lot ends: it was sent by the same call, or by a
/// later one whose packets all come behind.
fn continues(
    last: &PendingFrame,
    step: u32,
    edge: u32,
    frame: &Frame,
    order: &Order,
    arena: &Arena,
) -> bool {
    if last.edge != edge {
        return false;
    }
    let ends = [last.frame.slots().last(), frame.slots().first()];
    let [end, start] = ends.map(|slot| slot.and_then(|slot| order.number_of(slot, arena)));
    last.step == step || end.is_some_and(|end| start.is_some_and(|start| end <= start))
}

impl Waiting {
    /// Puts a lot where it belongs when it comes before all others or behind; else
    /// they are to be put in order.
    fn insert(&mut self, lot: PendingFrame, order: &Order, arena: &Arena) {
        let span = |lot: &PendingFrame| order.span_of(lot, arena);
        let (least, greatest) = span(&lot);
        match (self.lots.first(), self.lots.last()) {
            (Some(first), _) if greatest < span(first).0 => self.lots.insert(0, lot),
            (_, Some(last)) => {
                self.mixed = least < span(last).1;
                self.lots.push(lot);
            }
            _ => self.lots.push(lot),
        }
    }
}
