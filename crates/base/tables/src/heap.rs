//! Deadline heap: the entry with the earliest deadline.
//!
//! A binary heap, for a caller that must know the earliest of all; [`wheel`](crate::wheel) is for
//! one that is to be told when deadlines have come, and costs less. Its items are small numbers,
//! the indices of entries in the caller's array; among equal deadlines the one scheduled first is
//! earlier.
//!
//! As with the wheel, putting off costs a store: the deadline itself is the caller's. The heap knows
//! one that is not later, asks for the real one when it comes to an entry, and moves it back.

use std::cmp::Ordering;

use linerate_memory::{Backing, MemoryError, Reserved};

/// Position of an entry that is not in the heap.
const ABSENT: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Node {
    deadline: u64,
    /// The how many-th it was, which wraps around.
    order: u32,
    entry: u32,
}

impl Node {
    fn is_before(&self, other: &Node) -> bool {
        match self.deadline.cmp(&other.deadline) {
            Ordering::Less => true,
            Ordering::Equal => self.order.wrapping_sub(other.order).cast_signed() < 0,
            Ordering::Greater => false,
        }
    }
}

/// The heap.
#[derive(Debug)]
pub struct Heap {
    nodes: Reserved<Node>,
    /// By entry: where it is in `nodes`.
    places: Reserved<u32>,
    scheduled: u32,
}

impl Heap {
    /// An empty one for `entries` entries.
    ///
    /// # Errors
    ///
    /// When the machine has not the memory, or not the addresses for [`Backing::OnDemand`].
    pub fn new(entries: usize, backing: Backing) -> Result<Heap, MemoryError> {
        let nodes = Reserved::new(entries, backing)?;
        Ok(Heap { nodes, places: Reserved::new(entries, backing)?, scheduled: 0 })
    }

    /// Entries scheduled.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns true if nothing is scheduled.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Puts an entry in its place by `deadline`; anew, if it is scheduled.
    ///
    /// # Panics
    ///
    /// When `entry` is not below the number of entries it was made for.
    pub fn schedule(&mut self, entry: u32, deadline: u64) {
        self.cancel(entry);
        while self.places.len() <= entry as usize {
            assert!(self.places.push(ABSENT).is_ok(), "entry {entry} is beyond the heap's");
        }
        self.scheduled = self.scheduled.wrapping_add(1);
        let node = Node { deadline, order: self.scheduled, entry };
        let pushed = self.nodes.push(node);
        debug_assert!(pushed.is_ok(), "every entry is there once");
        self.rise(self.nodes.len() - 1, node);
    }

    /// Forgets an entry, if it is scheduled.
    pub fn cancel(&mut self, entry: u32) {
        let Some(&place) = self.places.get(entry as usize).filter(|place| **place != ABSENT) else {
            return;
        };
        self.places[entry as usize] = ABSENT;
        let Some(last) = self.nodes.pop() else { return };
        if last.entry != entry {
            self.sink(place as usize, last);
            self.rise(self.places[last.entry as usize] as usize, last);
        }
    }

    /// The entry with the earliest deadline, by `deadline`. It stays scheduled. At most `budget`
    /// entries that were put off are checked; when there are more, the earliest of these.
    pub fn earliest(&mut self, budget: usize, mut deadline: impl FnMut(u32) -> u64) -> Option<u32> {
        let mut earliest: Option<Node> = None;
        for _ in 0..budget {
            let mut first = *self.nodes.first()?;
            let now = deadline(first.entry);
            if now <= first.deadline {
                return Some(first.entry);
            }
            first.deadline = now;
            if earliest.is_none_or(|earliest| first.is_before(&earliest)) {
                earliest = Some(first);
            }
            self.sink(0, first);
        }
        earliest.map(|node| node.entry)
    }

    /// Has the entries checked whose deadlines have come at `now`: `check` answers with the entry's
    /// deadline when that is later than the time it is given; else with nothing, and the entry is
    /// forgotten.
    ///
    /// At most `budget` entries are checked; the rest is left for the next call. Returns how many
    /// were.
    pub fn advance(
        &mut self,
        now: u64,
        budget: usize,
        mut check: impl FnMut(u32, u64) -> Option<u64>,
    ) -> usize {
        for checked in 0..budget {
            let Some(first) = self.nodes.first().copied().filter(|node| node.deadline <= now)
            else {
                return checked;
            };
            match check(first.entry, now) {
                Some(deadline) => self.sink(0, Node { deadline, ..first }),
                None => self.cancel(first.entry),
            }
        }
        budget
    }

    /// Sifts a node up, which belongs at `place` or nearer to the root.
    fn rise(&mut self, mut place: usize, node: Node) {
        while place > 0 {
            let above = self.nodes[(place - 1) / 2];
            if !node.is_before(&above) {
                break;
            }
            self.put(place, above);
            place = (place - 1) / 2;
        }
        self.put(place, node);
    }

    /// Sifts a node down, which belongs at `place` or further from the root.
    fn sink(&mut self, mut place: usize, node: Node) {
        loop {
            let mut below = 2 * place + 1;
            let Some(&left) = self.nodes.get(below) else { break };
            let mut next = left;
            if let Some(&right) = self.nodes.get(below + 1)
                && right.is_before(&left)
            {
                (below, next) = (below + 1, right);
            }
            if !next.is_before(&node) {
                break;
            }
            self.put(place, next);
            place = below;
        }
        self.put(place, node);
    }

    fn put(&mut self, place: usize, node: Node) {
        self.nodes[place] = node;
        self.places[node.entry as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Schedule(u32, u64),
        PutOff(u32, u64),
        Cancel(u32),
        Advance(u64, usize),
        Earliest,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..20u32, 0..500u64).prop_map(|(entry, span)| Step::Schedule(entry, span)),
            2 => (0..20u32, 0..500u64).prop_map(|(entry, span)| Step::PutOff(entry, span)),
            1 => (0..20u32).prop_map(Step::Cancel),
            2 => (0..200u64, prop_oneof![0..4usize, Just(1000)])
                .prop_map(|(span, budget)| Step::Advance(span, budget)),
            2 => Just(Step::Earliest),
        ];
        proptest::collection::vec(step, 1..if cfg!(miri) { 50 } else { 200 })
    }

    proptest! {
        /// Against a map that is searched as a whole.
        #[test]
        fn the_earliest_deadline_is_first(steps in steps()) {
            let mut heap = Heap::new(20, Backing::OnDemand).expect("memory");
            let (mut deadlines, mut now) = (BTreeMap::<u32, u64>::new(), 1000);
            for step in steps {
                match step {
                    Step::Schedule(entry, span) => {
                        deadlines.insert(entry, now + span);
                        heap.schedule(entry, now + span);
                    }
                    Step::PutOff(entry, span) => {
                        if let Some(deadline) = deadlines.get_mut(&entry) {
                            *deadline += span;
                        }
                    }
                    Step::Cancel(entry) => {
                        deadlines.remove(&entry);
                        heap.cancel(entry);
                    }
                    Step::Advance(span, budget) => {
                        now += span;
                        let before = deadlines.clone();
                        let checked = heap.advance(now, budget, |entry, at| {
                            assert_eq!(at, now);
                            if before[&entry] > now {
                                return Some(before[&entry]);
                            }
                            deadlines.remove(&entry);
                            None
                        });
                        prop_assert!(checked <= budget);
                        prop_assert!(checked == budget || deadlines.values().all(|it| *it > now));
                    }
                    Step::Earliest => {
                        let first = heap.earliest(20, |entry| deadlines[&entry]);
                        let deadline = first.map(|entry| deadlines[&entry]);
                        prop_assert_eq!(deadline, deadlines.values().min().copied());
                    }
                }
                prop_assert_eq!(heap.len(), deadlines.len());
            }
        }
    }

    #[test]
    fn of_equals_the_first_scheduled_is_earlier() {
        let mut heap = Heap::new(10, Backing::OnDemand).expect("memory");
        [3, 1, 4, 0, 5, 9, 2, 6].into_iter().for_each(|entry| heap.schedule(entry, 7));
        let mut order = Vec::new();
        heap.advance(7, 10, |entry, _| {
            order.push(entry);
            None
        });
        assert_eq!(order, [3, 1, 4, 0, 5, 9, 2, 6]);
        assert!(heap.is_empty());
    }
}
