//! Hierarchical timing wheel of deadlines that are re-checked when they come up.
//!
//! Six levels of 64 slots (Varghese and Lauck, "Hashed and hierarchical timing wheels", SOSP 1987,
//! scheme 7). A slot of the lowest level is a tick; one of the next, 64 ticks. Its items are small
//! numbers, the indices of entries in the caller's array, linked into the list of a slot through an
//! array of links of the wheel's own.
//!
//! **Putting off costs a store** (lazy rescheduling). The deadline itself is the caller's, beside the
//! entry. Moving it later, as every packet of a flow does, does not touch the wheel: when the wheel
//! comes to the entry at the deadline it was linked for, it asks for the present one and links the
//! entry anew. So a busy entry is touched by the wheel once per time-out and not once per packet.
//!
//! Scheduling and cancelling cost O(1); advancing, O(1) for each entry it comes to and for each
//! occupied slot, however much time has passed. The caller bounds the entries checked in one call.
//!
//! The length of a tick is the caller's choice; 2^36 ticks are 2 years of milliseconds. Deadlines
//! further ahead are checked at once in between.

use linerate_memory::{Backing, MemoryError, Reserved};

/// Slots in a level, as a power of two.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 6;
/// Lists: the slots, and one for entries that are due.
const DUE: u32 = (LEVELS * SLOTS) as u32;
const LISTS: usize = LEVELS * SLOTS + 1;
/// Link of an unscheduled entry.
const UNLINKED: u32 = u32::MAX;
const UNSCHEDULED: Link = Link { previous: UNLINKED, next: UNLINKED, deadline: 0 };
/// Entries [`Wheel::oldest`] tries.
const TRIES: usize = 16;

#[derive(Debug, Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
    /// The low half of the deadline it was linked for.
    deadline: u32,
}

/// The wheel.
#[derive(Debug)]
pub struct Wheel {
    /// All deadlines up to here have been checked at, or are in the list of those due.
    now: u64,
    /// The heads of the lists, then a link for each entry; the lists are circular.
    links: Reserved<Link>,
    /// The slots of each level that are not empty.
    occupied: [u64; LEVELS],
    scheduled: usize,
}

impl Wheel {
    /// An empty one for `entries` entries, at the time `now`, in ticks.
    ///
    /// # Errors
    ///
    /// When the machine has not the memory, or not the addresses for [`Backing::OnDemand`].
    pub fn new(now: u64, entries: usize, backing: Backing) -> Result<Wheel, MemoryError> {
        let mut links = Reserved::new(LISTS + entries, backing)?;
        for head in 0..LISTS as u32 {
            let _ = links.push(Link { previous: head, next: head, deadline: 0 });
        }
        Ok(Wheel { now, links, occupied: [0; LEVELS], scheduled: 0 })
    }

    /// The time it has advanced to.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Entries scheduled.
    pub fn len(&self) -> usize {
        self.scheduled
    }

    /// Returns true if nothing is scheduled.
    pub fn is_empty(&self) -> bool {
        self.scheduled == 0
    }

    /// Bytes of memory it occupies: twelve for each entry up to the largest that was scheduled.
    pub fn memory(&self) -> usize {
        self.links.memory()
    }

    /// Looks at an entry at `deadline`, or at once when that has passed; anew, if it is scheduled.
    ///
    /// # Panics
    ///
    /// When `entry` is not below the number of entries it was made for.
    pub fn schedule(&mut self, entry: u32, deadline: u64) {
        self.cancel(entry);
        let node = LISTS + entry as usize;
        while self.links.len() <= node {
            assert!(self.links.push(UNSCHEDULED).is_ok(), "entry {entry} is beyond the wheel's");
        }
        self.link(node as u32, deadline);
        self.scheduled += 1;
    }

    /// Forgets an entry, if it is scheduled.
    pub fn cancel(&mut self, entry: u32) {
        let node = LISTS as u32 + entry;
        if self.links.get(node as usize).is_some_and(|link| link.next != UNLINKED) {
            self.unlink(node);
            self.scheduled -= 1;
        }
    }

    /// Goes on to `now`, which may be long after the last time, and has the entries checked that have
    /// come up: `check` answers with the entry's deadline when that is later than the time it is
    /// given, and the entry is linked anew; else with nothing, and the entry is forgotten.
    ///
    /// At most `budget` entries are checked; the rest is left for the next call. Returns how many
    /// were.
    pub fn advance(
        &mut self,
        now: u64,
        budget: usize,
        mut check: impl FnMut(u32, u64) -> Option<u64>,
    ) -> usize {
        let now = now.max(self.now);
        let mut checked = 0;
        loop {
            while let Some(node) = self.head(DUE) {
                if checked == budget {
                    return checked;
                }
                checked += 1;
                self.unlink(node);
                match check(node - LISTS as u32, now) {
                    Some(deadline) => self.link(node, deadline),
                    None => self.scheduled -= 1,
                }
            }
            match self.next_list() {
                Some((list, time)) if time <= now => {
                    self.now = time;
                    self.move_to_due(list);
                }
                _ => {
                    self.now = now;
                    return checked;
                }
            }
        }
    }

    /// When [`advance`](Self::advance) has something to check next, at the earliest.
    pub fn next(&self) -> Option<u64> {
        match self.head(DUE) {
            Some(_) => Some(self.now),
            None => self.next_list().map(|(_, time)| time),
        }
    }

    /// The entry with the earliest deadline, or nearly: the first, in the order the wheel comes to
    /// them and they were linked, whose deadline was not put off. Those that were are linked anew and
    /// so have another turn, as in the second-chance (clock) algorithm; after 16 of them the earliest
    /// of these is taken. It stays scheduled.
    pub fn oldest(&mut self, mut deadline: impl FnMut(u32) -> u64) -> Option<u32> {
        let mut earliest = None;
        for _ in 0..TRIES {
            let first = self.head(DUE);
            let node = first.or_else(|| self.head(self.next_list()?.0))?;
            let entry = node - LISTS as u32;
            let deadline = deadline(entry);
            if self.links[node as usize].deadline == deadline as u32 {
                return Some(entry);
            }
            self.unlink(node);
            self.link(node, deadline);
            if earliest.is_none_or(|(earliest, _)| deadline < earliest) {
                earliest = Some((deadline, entry));
            }
        }
        earliest.map(|(_, entry)| entry)
    }

    /// The list of a deadline as seen from now: the level is that of the highest digit, in base 64,
    /// in which the two differ.
    fn list_for(&self, deadline: u64) -> u32 {
        // Two slots short of a whole turn, so that a slot never means this turn and the next.
        let furthest = self.now.saturating_add((SLOTS as u64 - 2) << (BITS * (LEVELS as u32 - 1)));
        let deadline = deadline.min(furthest);
        if deadline <= self.now {
            return DUE;
        }
        let level = ((deadline ^ self.now).ilog2() / BITS).min(LEVELS as u32 - 1);
        let slot = deadline >> (BITS * level) & (SLOTS as u64 - 1);
        level * SLOTS as u32 + slot as u32
    }

    /// The first slot that is not empty, and the time it begins.
    fn next_list(&self) -> Option<(u32, u64)> {
        for level in 0..LEVELS as u32 {
            let occupied = self.occupied[level as usize];
            let turn = self.now >> (BITS * level);
            let at = turn as u32 & (SLOTS as u32 - 1);
            // Slots behind this one, in this turn; on the highest level those before it are of the
            // next turn.
            let ahead = match occupied & !(u64::MAX >> (SLOTS as u32 - 1 - at)) {
                0 if level + 1 < LEVELS as u32 || occupied == 0 => continue,
                0 => occupied.trailing_zeros() + SLOTS as u32,
                later => later.trailing_zeros(),
            };
            let time = (turn - u64::from(at) + u64::from(ahead)) << (BITS * level);
            return Some((level * SLOTS as u32 + ahead % SLOTS as u32, time));
        }
        None
    }

    fn head(&self, list: u32) -> Option<u32> {
        let first = self.links[list as usize].next;
        (first != list).then_some(first)
    }

    /// Behind the last of the deadline's list.
    fn link(&mut self, node: u32, deadline: u64) {
        let list = self.list_for(deadline);
        let last = self.links[list as usize].previous;
        let deadline = deadline as u32;
        self.links[node as usize] = Link { previous: last, next: list, deadline };
        self.links[last as usize].next = node;
        self.links[list as usize].previous = node;
        if list != DUE {
            self.occupied[list as usize / SLOTS] |= 1 << (list as usize % SLOTS);
        }
    }

    fn unlink(&mut self, node: u32) {
        let Link { previous, next, .. } = self.links[node as usize];
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
        self.links[node as usize] = UNSCHEDULED;
        // Both ends are the same head: it was the last.
        if previous == next && previous < DUE {
            self.vacate(previous);
        }
    }

    fn vacate(&mut self, list: u32) {
        self.occupied[list as usize / SLOTS] &= !(1 << (list as usize % SLOTS));
    }

    /// All of a slot at once, in order.
    fn move_to_due(&mut self, list: u32) {
        let Link { previous: last, next: first, .. } = self.links[list as usize];
        let before = self.links[DUE as usize].previous;
        self.links[before as usize].next = first;
        self.links[first as usize].previous = before;
        self.links[last as usize].next = DUE;
        self.links[DUE as usize].previous = last;
        (self.links[list as usize].previous, self.links[list as usize].next) = (list, list);
        self.vacate(list);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn wheel(now: u64) -> Wheel {
        Wheel::new(now, 100, Backing::OnDemand).expect("memory")
    }

    #[derive(Debug, Clone)]
    enum Step {
        Schedule(u32, u64),
        PutOff(u32, u64),
        Cancel(u32),
        Advance(u64, usize),
    }

    /// From a tick to years: every level and beyond the highest.
    fn span() -> impl Strategy<Value = u64> {
        (0..40u32, any::<u64>()).prop_map(|(bits, value)| value & ((1 << bits) - 1))
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..20u32, span()).prop_map(|(entry, span)| Step::Schedule(entry, span)),
            2 => (0..20u32, span()).prop_map(|(entry, span)| Step::PutOff(entry, span)),
            1 => (0..20u32).prop_map(Step::Cancel),
            4 => (span(), prop_oneof![0..4usize, Just(1000)])
                .prop_map(|(span, budget)| Step::Advance(span, budget)),
        ];
        proptest::collection::vec(step, 1..if cfg!(miri) { 50 } else { 200 })
    }

    proptest! {
        /// Against a map that is searched as a whole.
        #[test]
        fn entries_come_up_when_their_deadline_has_come(
            start in prop_oneof![span(), Just((1 << 36) - 5), Just(u64::MAX >> 20)],
            steps in steps(),
        ) {
            let mut wheel = wheel(start);
            let mut deadlines = BTreeMap::<u32, u64>::new();
            let mut now = start;
            for step in steps {
                match step {
                    Step::Schedule(entry, span) => {
                        deadlines.insert(entry, now + span);
                        wheel.schedule(entry, now + span);
                    }
                    Step::PutOff(entry, span) => {
                        if let Some(deadline) = deadlines.get_mut(&entry) {
                            *deadline += span;
                        }
                    }
                    Step::Cancel(entry) => {
                        deadlines.remove(&entry);
                        wheel.cancel(entry);
                    }
                    Step::Advance(span, budget) => {
                        now += span;
                        let before = deadlines.clone();
                        let checked = wheel.advance(now, budget, |entry, at| {
                            assert_eq!(at, now);
                            let deadline = deadlines[&entry];
                            if deadline > now {
                                return Some(deadline);
                            }
                            deadlines.remove(&entry);
                            None
                        });
                        prop_assert!(checked <= budget);
                        let due = |map: &BTreeMap<u32, u64>| {
                            map.values().filter(|&&deadline| deadline <= now).count()
                        };
                        prop_assert_eq!(before.len() - deadlines.len(), due(&before) - due(&deadlines));
                        if checked < budget {
                            prop_assert_eq!(due(&deadlines), 0, "all that was due came up");
                            prop_assert_eq!(wheel.now(), now);
                        }
                    }
                }
                prop_assert_eq!(wheel.len(), deadlines.len());
                prop_assert_eq!(wheel.next().is_some(), !deadlines.is_empty());
                let first = deadlines.values().min().copied().unwrap_or(u64::MAX);
                prop_assert!(wheel.next().is_none_or(|next| next <= first.max(wheel.now())));
            }
        }

        #[test]
        fn the_oldest_is_the_earliest_of_its_slot(spans in proptest::collection::vec(1..5000u64, 1..60)) {
            let mut wheel = wheel(1_000_000);
            for (entry, span) in (0..).zip(&spans) {
                wheel.schedule(entry, 1_000_000 + span);
            }
            let oldest = wheel.oldest(|entry| 1_000_000 + spans[entry as usize]).expect("one");
            let earliest = spans.iter().min().expect("one");
            // Below 64 ticks ahead slots are ticks, below 4,096 they are 64.
            let slot = if *earliest < 64 { 64 } else { 4096 };
            prop_assert!(spans[oldest as usize] - earliest < slot);
            prop_assert_eq!(wheel.len(), spans.len());
        }
    }

    #[test]
    fn a_postponed_entry_is_not_the_oldest() {
        let mut wheel = wheel(0);
        (0..50).for_each(|entry| wheel.schedule(entry, 10 + u64::from(entry)));
        let deadline = |entry: u32| 10 + u64::from(entry) + if entry < 5 { 20 } else { 0 };
        assert_eq!(wheel.oldest(deadline), Some(5));
        let all_busy = |entry: u32| 1000 - u64::from(entry);
        assert_eq!(wheel.oldest(all_busy), Some(20), "the earliest of the sixteen checked at");
        assert_eq!(self::wheel(0).oldest(|_| 0), None);
    }

    #[test]
    fn a_busy_entry_is_checked_once_per_time_out() {
        let mut wheel = wheel(0);
        let (mut deadline, mut checked) = (300, 0);
        wheel.schedule(7, deadline);
        for now in 1..=3000 {
            // A packet every tick.
            deadline = now + 300;
            wheel.advance(now, 10, |_, _| {
                checked += 1;
                Some(deadline)
            });
        }
        assert!((10..=40).contains(&checked), "{checked}");
    }

    #[test]
    fn entries_beyond_the_budget_come_first_the_next_time() {
        let mut wheel = wheel(0);
        (0..100).for_each(|entry| wheel.schedule(entry, 5));
        let mut seen = Vec::new();
        let mut check = |entry: u32, _: u64| {
            seen.push(entry);
            None
        };
        assert_eq!(wheel.advance(5, 30, &mut check), 30);
        assert_eq!(wheel.next(), Some(5));
        assert_eq!(wheel.advance(1_000_000, 1000, &mut check), 70);
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
    }

    #[test]
    #[should_panic(expected = "beyond the wheel")]
    fn an_entry_it_was_not_made_for_is_refused() {
        wheel(0).schedule(100, 1);
    }
}
