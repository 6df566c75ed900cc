//! Frames on their way to an element.
//!
//! With frames of several packets the waiting input with the smallest number
//! is served first. Numbers follow the graph, so the branches behind a
//! splitting element have all done their work before an element where they
//! meet again begins, and that one gets one large frame instead of several
//! small ones. With frames of one packet a packet goes all the way before the
//! next one starts, as in Click.

use std::{cmp::Reverse, collections::BinaryHeap};

use linerate_memory::Frame;

use super::outputs::{InputId, Outputs};

pub(crate) struct Pending {
    /// Depth first: one packet all the way before the next.
    exact: bool,
    stack: Vec<(InputId, Frame)>,
    /// Inputs that have frames waiting, each once.
    order: BinaryHeap<Reverse<InputId>>,
    /// Frames waiting at each input, oldest first.
    waiting: Vec<Vec<Frame>>,
}

impl Pending {
    pub(crate) fn new(exact: bool, inputs: usize) -> Pending {
        Pending {
            exact,
            stack: Vec::new(),
            order: BinaryHeap::new(),
            waiting: (0..inputs).map(|_| Vec::new()).collect(),
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.stack.is_empty()
    }

    /// Whether a frame for `to` may go on at once: nothing that waits comes
    /// before it.
    #[inline(always)]
    pub(crate) fn is_next(&self, to: InputId) -> bool {
        match self.order.peek() {
            Some(Reverse(first)) => to < *first,
            None => true,
        }
    }

    /// Puts a frame in its place. In exact mode frames of one element are
    /// added last first.
    #[inline]
    pub(crate) fn add(&mut self, to: InputId, mut frame: Frame, outputs: &mut Outputs) {
        if self.exact {
            self.stack.push((to, frame));
            return;
        }
        let waiting = &mut self.waiting[to as usize];
        match waiting.last_mut() {
            None => self.order.push(Reverse(to)),
            Some(last) => {
                last.append(&mut frame, usize::MAX);
                if frame.is_empty() {
                    outputs.recycle(frame);
                    return;
                }
            }
        }
        waiting.push(frame);
    }

    /// Where the stack of exact mode is now, for [`Pending::reverse_from`].
    #[inline(always)]
    pub(crate) fn mark(&self) -> usize {
        self.stack.len()
    }

    /// Turns what was added since `mark` round, so that the first is served
    /// first.
    #[inline(always)]
    pub(crate) fn reverse_from(&mut self, mark: usize) {
        self.stack[mark..].reverse();
    }

    /// The frame to go on with.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(InputId, Frame)> {
        if self.exact {
            return self.stack.pop();
        }
        let Reverse(to) = *self.order.peek()?;
        let waiting = &mut self.waiting[to as usize];
        let frame = waiting.remove(0);
        if waiting.is_empty() {
            self.order.pop();
        }
        Some((to, frame))
    }
}
