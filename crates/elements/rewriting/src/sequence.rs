//! Sequence numbers of a TCP direction with payload made longer or shorter on the way.

use std::collections::VecDeque;

/// Changes remembered; sequence numbers before the oldest are taken for behind it.
const LIMIT: usize = 16;
/// Distance that a sequence number must be behind another to be taken for old.
const OLD: u32 = 1 << 30;

/// By how much the sequence numbers of one direction are changed, from where on.
#[derive(Debug, Default, Clone)]
pub(super) struct Shift {
    /// Before the first step.
    base: i32,
    /// From a sequence number on, and the change there; ascending.
    steps: VecDeque<(u32, i32)>,
}

fn at_or_behind(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

impl Shift {
    /// From `from` on, numbers are `by` more than they were before. Refused when a later place has
    /// been changed already: the segment is an old one sent again.
    pub(super) fn add(&mut self, from: u32, by: i32) -> bool {
        match self.steps.back() {
            Some((last, _)) if !at_or_behind(from, *last) => return false,
            // The same once more, answered otherwise.
            Some((last, _)) if *last == from => drop(self.steps.pop_back()),
            _ => {}
        }
        self.steps.push_back((from, self.now().wrapping_add(by)));
        while self.steps.len() > LIMIT {
            self.forget_first();
        }
        true
    }

    fn forget_first(&mut self) {
        if let Some((_, change)) = self.steps.pop_front() {
            self.base = change;
        }
    }

    /// The change at the newest numbers.
    pub(super) fn now(&self) -> i32 {
        self.steps.back().map_or(self.base, |(_, change)| *change)
    }

    /// Returns true if nothing is changed.
    pub(super) fn is_empty(&self) -> bool {
        self.base == 0 && self.steps.is_empty()
    }

    /// A sequence number as it is sent on.
    pub(super) fn sequence(&mut self, number: u32) -> u32 {
        while self.steps.front().is_some_and(|(from, _)| {
            let ahead = number.wrapping_sub(*from);
            (OLD..1 << 31).contains(&ahead)
        }) {
            self.forget_first();
        }
        let step = self.steps.iter().rev().find(|(from, _)| at_or_behind(number, *from));
        number.wrapping_add_signed(step.map_or(self.base, |(_, change)| *change))
    }

    /// The acknowledged number of the other end, in the numbers of the sender.
    pub(super) fn acknowledged(&self, number: u32) -> u32 {
        let original = |change: i32| number.wrapping_sub(change as u32);
        let mut steps = self.steps.iter().rev();
        let step = steps.find(|(from, change)| at_or_behind(original(*change), *from));
        original(step.map_or(self.base, |(_, change)| *change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_behind_a_change_are_changed() {
        let mut shift = Shift::default();
        assert!(shift.is_empty() && shift.add(1000, 3) && shift.add(2000, -5));
        for (number, sent) in [(999, 999), (1000, 1003), (1990, 1993), (2000, 1998), (3000, 2998)] {
            assert_eq!(shift.sequence(number), sent);
            assert_eq!(shift.acknowledged(sent), number);
        }
        assert_eq!(shift.now(), -2);
        assert!(!shift.add(1500, 1), "an old segment");
        assert!(shift.add(2000, 1), "the same segment once more, answered otherwise");
        assert_eq!(shift.now(), 4);
    }

    #[test]
    fn changes_hold_when_numbers_wrap_and_old_ones_are_forgotten() {
        let mut shift = Shift::default();
        shift.add(u32::MAX - 10, 7);
        assert_eq!(shift.sequence(u32::MAX - 11), u32::MAX - 11);
        assert_eq!(shift.sequence(5), 12);
        assert_eq!(shift.acknowledged(12), 5);
        assert_eq!(shift.sequence(OLD), OLD + 7);
        assert!(shift.steps.is_empty() && !shift.is_empty());
        for step in 0..100 {
            assert!(shift.add(OLD + step, 1));
        }
        assert_eq!((shift.steps.len(), shift.now()), (LIMIT, 107));
    }
}
