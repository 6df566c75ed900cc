//! Order of packets that took different ways and meet again.
//!
//! Where ways part and meet again before a queue, packets are numbered when they part, and put back
//! into the order of their numbers where they meet. A number is kept by buffer and holds for one
//! round: for packets that a task pushes, and all made of them.
//!
//! Packets that come by one way keep the order they came in, even where an element on that way has
//! changed it: only how the ways are interleaved goes by numbers. A packet made on the way takes
//! the number of the one it was made for, or one right before it, and of several each has its own
//! between that one and the next. One that has none follows the packet before it, or the one that
//! the element was given when it made it.

use linerate_memory::{Arena, Frame, Slot};

use super::{outputs::Outputs, pending::PendingFrame};

/// A packet's number. Those given where ways part are [`STEP`] apart, and each owns the numbers
/// around it, for packets that are made for it: a number divisible by `2^n` and not by `2^(n + 1)`
/// those less than `2^n` away. Below it are those that go before it. Of those above, the lower half
/// is for several that are made of it, the upper for those that go behind.
pub(crate) type Number = u64;

const STEP: Number = 1 << 44;
/// The first number there is; smaller ones are none.
const START: Number = STEP + STEP / 2;

/// Count of the numbers a number owns on either side.
fn room(number: Number) -> Number {
    1 << number.trailing_zeros().min(STEP.trailing_zeros())
}

/// The number before that of a packet.
fn before(number: Number) -> Number {
    number - room(number) / 2
}

/// The one behind it.
fn behind(number: Number) -> Number {
    number + room(number) * 3 / 4
}

/// Returns the number of one of several packets made of one. There are some four thousand, of which
/// the first few own more: most packets are made into few, and these again.
fn part_of(number: Number, part: usize) -> Number {
    let room = room(number);
    let (part, parts, start, width) = match part {
        0..FEW => (part, FEW, 0, room / 4),
        FEW..SOME => (part - FEW, SOME - FEW, room / 4, room / 8),
        _ => (part - SOME, 1 << 12, room / 4 + room / 8, room / 8),
    };
    let apart = (width / parts as Number).max(1);
    number + start + (part as Number * apart + apart / 2).min(width.saturating_sub(1))
}

/// Parts that own the most.
const FEW: usize = 8;
/// Those and others that own more than the rest.
const SOME: usize = FEW + 64;

/// Those of a copy and of the packet behind it that it was made of. Each owns half of the numbers
/// that the parts of the packet would: the number that it had has been given up.
fn pair_of(number: Number) -> (Number, Number) {
    let room = room(number);
    (number + room / 8, number + room * 3 / 8)
}

/// Place of a packet among those of its round ([`Context::rank_of`](crate::Context::rank_of)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(pub(crate) Option<Number>);

impl Rank {
    pub(crate) fn before(self) -> Rank {
        Rank(self.0.map(before))
    }

    pub(crate) fn pair(self) -> (Rank, Rank) {
        let pair = self.0.map(pair_of);
        (Rank(pair.map(|(copy, _)| copy)), Rank(pair.map(|(_, packet)| packet)))
    }

    pub(crate) fn part(self, part: usize) -> Rank {
        Rank(self.0.map(|number| part_of(number, part)))
    }
}

/// Numbers begin again above this.
const LAST: Number = 1 << 63;

/// Counters of the counting sort per packet; with numbers farther apart, or between those
/// given where ways part, packets are compared.
const SPREAD: Number = 16;

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
    sort_keys: Vec<Number>,
    /// By packet that is put in order: the count of those that go before it.
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
            sort_keys: Vec::new(),
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

    /// Returns true if packets of the graph need numbers at all.
    #[inline(always)]
    pub(crate) fn is_used(&self) -> bool {
        !self.numbers.is_empty()
    }

    /// Returns true if packets of this round have numbers.
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

    /// A packet has a number it does not have by its buffer, or none.
    pub(crate) fn keep(&mut self, number: Option<Number>, slot: &Slot, arena: &Arena) {
        if let Some(kept) = self.numbers.get_mut(arena.index_of(slot)) {
            *kept = number.unwrap_or_default();
        }
    }

    /// Numbers the packets of a frame that have no numbers yet.
    pub(crate) fn number(&mut self, frame: &Frame, arena: &Arena) {
        let slots = frame.slots();
        if std::mem::replace(&mut self.numbered, true) {
            if self.are_numbered(slots, arena) {
                return;
            }
            let known = slots.iter().find_map(|slot| self.number_of(slot, arena));
            if let Some(known) = known {
                return self.number_others(known, frame, arena);
            }
        }
        for slot in slots {
            self.numbers[arena.index_of(slot)] = self.next;
            self.next = self.next.saturating_add(STEP);
        }
    }

    /// Returns true if all of them have numbers in this round, as they have wherever ways part
    /// behind the first such place. Without an early end, which would be a branch for each packet.
    fn are_numbered(&self, slots: &[Slot], arena: &Arena) -> bool {
        let numbers = self.numbers.as_slice();
        let number = |slot: &Slot| numbers.get(arena.index_of(slot)).copied().unwrap_or_default();
        slots.iter().map(number).fold(Number::MAX, Number::min) >= self.first
    }

    /// Numbers the other packets of a frame in which one has a number.
    fn number_others(&mut self, known: Number, frame: &Frame, arena: &Arena) {
        let (mut last, mut follows) = (known, None);
        for slot in frame.slots() {
            if let Some(number) = self.number_of(slot, arena) {
                (last, follows) = (number, None);
            } else {
                let number = *follows.get_or_insert_with(|| behind(last));
                self.numbers[arena.index_of(slot)] = number;
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
    pub(crate) fn span_of(&self, lot: &PendingFrame, arena: &Arena) -> (Number, Number) {
        let mut numbers = lot.frame.slots().iter().map(|slot| self.number_of(slot, arena));
        let first = numbers.next().flatten().unwrap_or(behind(lot.cause));
        (first, numbers.flatten().fold(first, Number::max))
    }

    /// Puts the packets of some lots into order, in lots for one input each.
    pub(crate) fn restore(
        &mut self,
        lots: &mut Vec<PendingFrame>,
        arena: &Arena,
        outputs: &mut Outputs,
    ) {
        // Few, and nearly in order: a sort that allocates nothing is quick enough.
        for at in 1..lots.len() {
            let place = lots[..at].partition_point(|lot| lot.way() <= lots[at].way());
            lots[place..=at].rotate_right(1);
        }
        let (least, greatest, whole) = self.find_effective(lots, arena);
        let total = self.sort_keys.len();
        self.sorted.clear();
        self.sorted.resize_with(total, || None);
        let (least, greatest) = (least / STEP, greatest / STEP);
        if whole && greatest - least <= SPREAD * total as Number {
            self.count(least, greatest);
        } else {
            self.compare();
        }
        let (mut at, mut frames) = (0, std::mem::take(&mut self.frames));
        for mut lot in lots.drain(..) {
            let count = lot.frame.len();
            lot.frame.drain_front(count, |slot| {
                // The next element where ways meet finds it in its place.
                self.numbers[arena.index_of(&slot)] = self.sort_keys[at];
                self.sorted[self.before[at] as usize] = Some((slot, lot.to));
                at += 1;
            });
            frames.push(lot.frame);
        }
        let mut lot: Option<PendingFrame> = None;
        for (slot, to) in self.sorted.drain(..).flatten() {
            if lot.as_ref().is_none_or(|lot| lot.to != to || lot.frame.room() == 0) {
                lots.extend(lot.take());
            }
            let lot = lot.get_or_insert_with(|| {
                let frame = frames.pop().unwrap_or_else(|| outputs.fresh());
                PendingFrame { to, step: 0, edge: 0, cause: 0, frame }
            });
            let pushed = lot.frame.push(slot);
            debug_assert!(pushed.is_ok(), "a full one has been put away");
        }
        lots.extend(lot);
        frames.drain(..).for_each(|frame| outputs.recycle(frame));
        self.frames = frames;
    }

    /// Finds the numbers that packets are ordered by: their own, but none goes before one that came
    /// before it by the same way. Returns the least and the greatest, and true if none is between
    /// those given where ways part.
    fn find_effective(&mut self, lots: &[PendingFrame], arena: &Arena) -> (Number, Number, bool) {
        let mut sort_keys = std::mem::take(&mut self.sort_keys);
        sort_keys.clear();
        let (mut least, mut greatest, mut between) = (Number::MAX, 0, 0);
        let mut way = None;
        let (mut last, mut follows) = (0, None);
        for lot in lots {
            if way.replace(lot.way()) != Some(lot.way()) {
                last = 0;
                follows = None;
            }
            for slot in lot.frame.slots() {
                last = match self.number_of(slot, arena) {
                    Some(number) => {
                        follows = None;
                        last.max(number)
                    }
                    // Those that follow one packet keep together, in any lot.
                    None if last > 0 => *follows.get_or_insert_with(|| behind(last)),
                    None => *follows.insert(behind(lot.cause)),
                };
                least = least.min(last);
                greatest = greatest.max(last);
                between |= last ^ START;
                sort_keys.push(last);
            }
        }
        self.sort_keys = sort_keys;
        (least, greatest, between.is_multiple_of(STEP))
    }

    /// Finds the places of packets by counting: a few cycles per packet. Leaves them in
    /// `before`. The least and the greatest number are in steps.
    fn count(&mut self, least: Number, greatest: Number) {
        let span = (greatest - least) as usize + 1;
        self.starts.clear();
        self.starts.resize(span + 1, 0);
        for number in &self.sort_keys {
            self.starts[(number / STEP - least) as usize + 1] += 1;
        }
        for at in 1..=span {
            self.starts[at] += self.starts[at - 1];
        }
        self.before.clear();
        for number in &self.sort_keys {
            let start = &mut self.starts[(number / STEP - least) as usize];
            self.before.push(*start);
            *start += 1;
        }
    }

    /// Finds them by comparing.
    fn compare(&mut self) {
        self.ranks.clear();
        self.ranks.extend(self.sort_keys.iter().copied().zip(0..));
        self.ranks.sort_unstable();
        self.before.clear();
        self.before.resize(self.ranks.len(), 0);
        for (place, (_, at)) in (0..).zip(&self.ranks) {
            self.before[*at as usize] = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers of packets made of one with a number, in order.
    fn made_of(number: Number) -> Vec<Number> {
        let mut made = vec![before(number)];
        made.extend([0, 1, FEW - 1, FEW, SOME - 1, SOME, 4000].map(|part| part_of(number, part)));
        made.push(behind(number));
        made
    }

    /// All numbers a number owns.
    fn owned(number: Number) -> std::ops::Range<Number> {
        number + 1 - room(number)..number + room(number)
    }

    fn assert_apart(numbers: &[Number], of: Number) {
        for pair in numbers.windows(2) {
            assert!(owned(pair[0]).end <= owned(pair[1]).start, "{pair:x?} of {of:x}");
        }
        for number in numbers {
            assert!(owned(of).start <= owned(*number).start, "{number:x} of {of:x}");
            assert!(owned(*number).end <= owned(of).end, "{number:x} of {of:x}");
        }
    }

    #[test]
    fn numbers_of_made_packets_are_between_those_of_neighbours() {
        let mut numbers = vec![START, START + STEP];
        for _ in 0..3 {
            numbers.iter().for_each(|number| assert_apart(&made_of(*number), *number));
            numbers =
                numbers.into_iter().flat_map(made_of).filter(|it| room(*it) > 1 << 20).collect();
        }
    }

    /// As far as a copy of a copy of a copy.
    #[test]
    fn a_copy_and_its_packet_share_the_place_it_had() {
        let mut numbers = vec![START];
        for _ in 0..8 {
            for number in &numbers {
                let (copy, packet) = pair_of(*number);
                assert_apart(&[before(*number), copy, packet, behind(*number)], *number);
                if room(*number) > 1 << 20 {
                    assert_apart(&made_of(copy), copy);
                    assert_apart(&made_of(packet), packet);
                }
            }
            numbers =
                numbers.into_iter().flat_map(|number| <[_; 2]>::from(pair_of(number))).collect();
        }
    }
}
