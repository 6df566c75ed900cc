//! Frames on their way to an element.
//!
//! With frames of several packets the waiting input with the smallest number
//! is served first. Numbers follow the graph, so the branches behind a
//! splitting element have all done their work before an element where they
//! meet again begins, and that one gets one large frame instead of several
//! small ones. With frames of one packet a packet goes all the way before the
//! next one starts, as in Click.
//!
//! Packets that took different branches and meet again are put back into the
//! order they had: an element whose outputs meet again later has its packets
//! numbered before it sees them ([`Order`]).

use std::{cmp::Reverse, collections::BinaryHeap};

use linerate_memory::{Arena, FRAME_LIMIT, Frame, Slot};

use super::outputs::{InputId, Outputs};

pub(crate) struct Pending {
    /// Depth first: one packet all the way before the next.
    exact: bool,
    stack: Vec<(InputId, Frame)>,
    /// Inputs that have frames waiting, each once.
    order: BinaryHeap<Reverse<InputId>>,
    waiting: Vec<Waiting>,
}

/// Frames waiting at one input.
#[derive(Default)]
struct Waiting {
    /// Oldest first.
    frames: Vec<Frame>,
    /// Whether they came by several ways and are to be put in order.
    mixed: bool,
}

impl Pending {
    pub(crate) fn new(exact: bool, inputs: usize) -> Pending {
        Pending {
            exact,
            stack: Vec::new(),
            order: BinaryHeap::new(),
            waiting: (0..inputs).map(|_| Waiting::default()).collect(),
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.stack.is_empty()
    }

    /// Whether a frame for `to` may go on at once: nothing that waits comes
    /// before it or with it.
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
    pub(crate) fn add(
        &mut self,
        to: InputId,
        mut frame: Frame,
        numbered: bool,
        outputs: &mut Outputs,
    ) {
        if self.exact {
            self.stack.push((to, frame));
            return;
        }
        let waiting = &mut self.waiting[to as usize];
        match waiting.frames.last_mut() {
            None => self.order.push(Reverse(to)),
            Some(last) => {
                waiting.mixed |= numbered;
                last.append(&mut frame, usize::MAX);
                if frame.is_empty() {
                    outputs.recycle(frame);
                    return;
                }
            }
        }
        waiting.frames.push(frame);
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
    pub(crate) fn take(&mut self, order: &mut Order, arena: &Arena) -> Option<(InputId, Frame)> {
        if self.exact {
            return self.stack.pop();
        }
        let Reverse(to) = *self.order.peek()?;
        let waiting = &mut self.waiting[to as usize];
        if std::mem::take(&mut waiting.mixed) {
            order.restore(&mut waiting.frames, arena);
        }
        let frame = waiting.frames.remove(0);
        if waiting.frames.is_empty() {
            self.order.pop();
        }
        Some((to, frame))
    }
}

/// Bits of a number that say which packet of its frame it was.
const PLACE_BITS: u32 = FRAME_LIMIT.ilog2();

/// The order packets had before they took different branches.
///
/// The number of a packet is kept by buffer, beside the generation it was
/// given in: a packet that is made on the way has none of this generation, and
/// goes behind the one it was found behind.
pub(crate) struct Order {
    /// By buffer; empty when no branches of the graph meet again.
    numbers: Vec<u32>,
    generation: u32,
    /// Whether the packets on the way have numbers.
    numbered: bool,
    /// Packets before each place, while they are being put in order.
    before: Vec<u32>,
    sorted: Vec<Option<Slot>>,
}

impl Order {
    /// For a graph in which branches meet again, or not.
    pub(crate) fn new(needed: bool, arena: &Arena) -> Order {
        Order {
            numbers: if needed { vec![0; arena.count()] } else { Vec::new() },
            generation: 0,
            numbered: false,
            before: Vec::new(),
            sorted: Vec::new(),
        }
    }

    /// New packets set out.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        self.numbered = false;
    }

    #[inline(always)]
    pub(crate) fn is_numbered(&self) -> bool {
        self.numbered
    }

    /// Numbers the packets of a frame. Those that have numbers keep them: they
    /// have been split before.
    pub(crate) fn number(&mut self, frame: &Frame, arena: &Arena) {
        if std::mem::replace(&mut self.numbered, true) {
            return;
        }
        self.generation = self.generation.wrapping_add(1);
        for (number, slot) in (self.generation << PLACE_BITS..).zip(frame.slots()) {
            self.numbers[arena.index_of(slot)] = number;
        }
    }

    /// Puts the packets of some frames into the order of their numbers.
    /// A counting sort: a few cycles per packet.
    fn restore(&mut self, frames: &mut [Frame], arena: &Arena) {
        self.before.clear();
        self.before.resize(FRAME_LIMIT + 1, 0);
        let mut place = 0;
        let mut total = 0;
        for slot in frames.iter().flat_map(Frame::slots) {
            place = self.place_of(slot, place, arena);
            self.before[place + 1] += 1;
            total += 1;
        }
        for at in 1..=FRAME_LIMIT {
            self.before[at] += self.before[at - 1];
        }
        self.sorted.clear();
        self.sorted.resize_with(total, || None);
        place = 0;
        for frame in frames.iter_mut() {
            let count = frame.len();
            frame.drain_front(count, |slot| {
                place = self.place_of(&slot, place, arena);
                let next = &mut self.before[place];
                self.sorted[*next as usize] = Some(slot);
                *next += 1;
            });
        }
        let mut sorted = self.sorted.drain(..).flatten();
        for frame in frames {
            for slot in sorted.by_ref().take(frame.limit()) {
                let pushed = frame.push(slot);
                debug_assert!(pushed.is_ok(), "at most as many as there is room for");
            }
        }
    }

    /// The place of a packet in the frame it set out in; that of the packet
    /// before it for one that has no number of this generation.
    fn place_of(&self, slot: &Slot, before: usize, arena: &Arena) -> usize {
        let generation = self.generation << PLACE_BITS >> PLACE_BITS;
        let number = self.numbers[arena.index_of(slot)];
        let known = number >> PLACE_BITS == generation;
        if known { (number & ((1 << PLACE_BITS) - 1)) as usize } else { before }
    }
}

#[cfg(test)]
mod tests {
    use linerate_memory::ArenaOptions;

    use super::*;

    #[test]
    fn packets_made_on_the_way_stay_behind_the_one_before_them() {
        let options = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let arena = options.create().unwrap();
        let mut pool = arena.cache(16);
        let mut order = Order::new(true, &arena);
        let [mut frame, mut branch, mut other] = [(); 3].map(|()| Frame::new(8));
        // Lengths name the packets.
        for length in 0..6 {
            frame.push(pool.take_one(length).unwrap()).unwrap();
        }
        order.number(&frame, &arena);
        frame.drain_front(6, |slot| {
            let to = if slot.len() % 2 == 0 { &mut branch } else { &mut other };
            to.push(slot).unwrap();
        });
        let mut with_new = Frame::new(8);
        with_new.push(pool.take_one(100).unwrap()).unwrap();
        branch.drain_front(3, |slot| {
            let made = pool.take_one(100 + slot.len()).unwrap();
            with_new.push(slot).unwrap();
            with_new.push(made).unwrap();
        });
        let mut frames = [other, with_new];
        order.restore(&mut frames, &arena);
        let lengths: Vec<usize> = frames.iter().flat_map(Frame::slots).map(Slot::len).collect();
        // The first new one was found behind the last of the other branch.
        assert_eq!(lengths, [0, 100, 1, 2, 102, 3, 4, 104, 5, 100]);
        frames.iter_mut().for_each(|frame| pool.give(frame));
    }
}
