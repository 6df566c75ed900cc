//! The order packets had before they took different ways.
//!
//! Where ways part and meet again before a queue, packets are numbered when they
//! part, and put back into the order of their numbers where they meet. A number is
//! kept by buffer and holds for one round: what a task pushes, and all that comes
//! of it.
//!
//! What comes by one way keeps the order it came in, even where an element on that
//! way has changed it: only how the ways are interleaved goes by numbers. A packet
//! that an element made on the way has none, and follows the packet before it, or
//! the one that the element was given when it made it.

use linerate_memory::{Arena, Frame, Slot};

use super::{outputs::Outputs, pending::Lot};

/// A packet's number. Those given where ways part are [`STEP`] apart: right before and
/// behind each there is one for packets made for it.
pub(crate) type Number = u32;

const STEP: Number = 4;
/// The first number there is.
const START: Number = STEP / 2;

/// The number before that of a packet.
pub(crate) fn before(number: Number) -> Number {
    number / STEP * STEP + 1
}

/// The one behind it.
fn behind(number: Number) -> Number {
    number | 1
}

/// Where a packet belongs among those of its round ([`Context::rank_of`](super::Context)).
#[derive(Debug, Clone, Copy, Default)]
pub struct Rank(pub(crate) Option<Number>);

/// Numbers begin again above this.
const LAST: Number = 1 << 31;

/// Counters of the counting sort per packet; with numbers farther apart, packets are
/// compared.
const SPREAD: usize = 4 * STEP as usize;

/// Numbers of the packets on one worker.
pub(crate) struct Order {
    /// By buffer; empty when no packets of the graph need any.
    numbers: Vec<Number>,
    /// The next to give.
    next: Number,
    /// The first of this round. Smaller ones are of rounds before.
    first: Number,
    /// Whether there are any in this round.
    numbered: bool,
    /// By packet that is put in order: the number it goes by.
    effective: Vec<Number>,
    /// Likewise: how many go before it.
    before: Vec<u32>,
    /// By number: how many packets have smaller ones.
    starts: Vec<u32>,
    sorted: Vec<Option<(Slot, u32)>>,
    ranks: Vec<(Number, u32)>,
    frames: Vec<Frame>,
}

impl Order {
    /// For a graph in which packets need numbers, or not.
    pub(crate) fn new(needed: bool, arena: &Arena) -> Order {
        Order {
            numbers: if needed { vec![0; arena.count()] } else { Vec::new() },
            next: START,
            first: before(START),
            numbered: false,
            effective: Vec::new(),
            before: Vec::new(),
            starts: Vec::new(),
            sorted: Vec::new(),
            ranks: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// A round begins. Returns whether packets of the last one had numbers.
    #[inline(always)]
    pub(crate) fn begin(&mut self) -> bool {
        let numbered = self.numbered;
        if numbered {
            self.numbered = false;
            self.first = before(self.next);
            if self.next > LAST {
                self.numbers.fill(0);
                (self.next, self.first) = (START, before(START));
            }
        }
        numbered
    }

    /// Whether packets of this round have numbers.
    #[inline(always)]
    pub(crate) fn is_numbered(&self) -> bool {
        self.numbered
    }

    /// The number of a packet, in this round.
    #[inline(always)]
    pub(crate) fn number_of(&self, slot: &Slot, arena: &Arena) -> Option<Number> {
        let number = self.numbers.get(arena.index_of(slot)).copied()?;
        (self.numbered && number >= self.first).then_some(number)
    }

    /// A packet has the number it had in another buffer.
    pub(crate) fn keep(&mut self, number: Option<Number>, slot: &Slot, arena: &Arena) {
        if let Some(number) = number {
            self.numbers[arena.index_of(slot)] = number;
        }
    }

    /// Numbers the packets of a frame that have no numbers yet.
    pub(crate) fn number(&mut self, frame: &Frame, arena: &Arena) {
        let slots = frame.slots();
        if !std::mem::replace(&mut self.numbered, true) {
            for (number, slot) in (self.next..).step_by(STEP as usize).zip(slots) {
                self.numbers[arena.index_of(slot)] = number;
            }
            self.next += STEP * slots.len() as Number;
            return;
        }
        let known = slots.iter().find_map(|slot| self.number_of(slot, arena));
        let Some(mut last) = known else {
            for slot in slots {
                self.numbers[arena.index_of(slot)] = self.next;
                self.next += STEP;
            }
            return;
        };
        for slot in slots {
            match self.number_of(slot, arena) {
                Some(number) => last = number,
                None => self.numbers[arena.index_of(slot)] = behind(last),
            }
        }
    }

    /// Numbers the packets of the `at`-th of `count` tasks that take turns, one packet in
    /// each.
    pub(crate) fn number_turns(
        &mut self,
        frame: &Frame,
        (at, count): (usize, usize),
        arena: &Arena,
    ) {
        self.numbered = true;
        let numbers = (self.next + STEP * at as Number..).step_by(STEP as usize * count);
        for (number, slot) in numbers.zip(frame.slots()) {
            self.numbers[arena.index_of(slot)] = number;
        }
    }

    /// So many turns have been taken.
    pub(crate) fn turns_taken(&mut self, turns: usize) {
        self.next += STEP * turns as Number;
    }

    /// The least and greatest numbers that packets of a lot go by.
    pub(crate) fn span_of(&self, lot: &Lot, arena: &Arena) -> (Number, Number) {
        let mut numbers = lot.frame.slots().iter().map(|slot| self.number_of(slot, arena));
        let first = numbers.next().flatten().unwrap_or(behind(lot.cause));
        (first, numbers.flatten().fold(first, Number::max))
    }

    /// Puts the packets of some lots into order, in lots for one input each.
    pub(crate) fn restore(&mut self, lots: &mut Vec<Lot>, arena: &Arena, outputs: &mut Outputs) {
        // Few, and nearly in order: a sort that allocates nothing is quick enough.
        for at in 1..lots.len() {
            let place = lots[..at].partition_point(|lot| lot.way() <= lots[at].way());
            lots[place..=at].rotate_right(1);
        }
        let (least, greatest) = self.find_effective(lots, arena);
        let total = self.effective.len();
        self.sorted.clear();
        self.sorted.resize_with(total, || None);
        if (greatest - least) as usize <= SPREAD * total {
            self.count(least, greatest);
        } else {
            self.compare();
        }
        let (mut at, mut frames) = (0, std::mem::take(&mut self.frames));
        for mut lot in lots.drain(..) {
            let count = lot.frame.len();
            lot.frame.drain_front(count, |slot| {
                // Whoever meets it next finds it in its place.
                self.numbers[arena.index_of(&slot)] = self.effective[at];
                self.sorted[self.before[at] as usize] = Some((slot, lot.to));
                at += 1;
            });
            frames.push(lot.frame);
        }
        let mut lot: Option<Lot> = None;
        for (slot, to) in self.sorted.drain(..).flatten() {
            if lot.as_ref().is_none_or(|lot| lot.to != to || lot.frame.room() == 0) {
                lots.extend(lot.take());
            }
            let lot = lot.get_or_insert_with(|| {
                let frame = frames.pop().unwrap_or_else(|| outputs.fresh());
                Lot { to, step: 0, edge: 0, cause: 0, frame }
            });
            let pushed = lot.frame.push(slot);
            debug_assert!(pushed.is_ok(), "a full one has been put away");
        }
        lots.extend(lot);
        frames.drain(..).for_each(|frame| outputs.recycle(frame));
        self.frames = frames;
    }

    /// What packets go by: their numbers, but none goes before one that came before it
    /// by the same way. Returns the least and the greatest.
    fn find_effective(&mut self, lots: &[Lot], arena: &Arena) -> (Number, Number) {
        let mut effective = std::mem::take(&mut self.effective);
        effective.clear();
        let (mut least, mut greatest) = (Number::MAX, 0);
        let mut way = None;
        let mut last = 0;
        for lot in lots {
            if way.replace(lot.way()) != Some(lot.way()) {
                last = 0;
            }
            for slot in lot.frame.slots() {
                last = match self.number_of(slot, arena) {
                    Some(number) => last.max(number),
                    None if last > 0 => behind(last),
                    None => behind(lot.cause),
                };
                least = least.min(last);
                greatest = greatest.max(last);
                effective.push(last);
            }
        }
        self.effective = effective;
        (least, greatest)
    }

    /// Finds the places of packets by counting: a few cycles per packet. Leaves them in
    /// `before`.
    fn count(&mut self, least: Number, greatest: Number) {
        let span = (greatest - least) as usize + 1;
        self.starts.clear();
        self.starts.resize(span + 1, 0);
        for number in &self.effective {
            self.starts[(number - least) as usize + 1] += 1;
        }
        for at in 1..=span {
            self.starts[at] += self.starts[at - 1];
        }
        self.before.clear();
        for number in &self.effective {
            let start = &mut self.starts[(number - least) as usize];
            self.before.push(*start);
            *start += 1;
        }
    }

    /// Finds them by comparing.
    fn compare(&mut self) {
        self.ranks.clear();
        self.ranks.extend(self.effective.iter().copied().zip(0..));
        self.ranks.sort_unstable();
        self.before.clear();
        self.before.resize(self.ranks.len(), 0);
        for (place, (_, at)) in (0..).zip(&self.ranks) {
            self.before[*at as usize] = place;
        }
    }
}
