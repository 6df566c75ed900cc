//! Optimization of a program, by several methods in turn.

use super::{
    jumps,
    program::{Program, Step, To},
};

/// The order tests of a conjunction are put in: by this number of their offset.
pub(crate) type TestOrder = fn(usize) -> usize;

/// Programs with more steps are run as they were written.
const STEPS_LIMIT: usize = 1 << 14;

impl Program {
    /// Sorts tests, skips those whose answer is known, merges two into one where that does, and
    /// removes unreachable ones.
    pub(super) fn improve(&mut self, place: TestOrder) {
        if self.steps.len() <= STEPS_LIMIT {
            self.sort(place);
            jumps::shorten(&mut self.steps);
            self.merge();
        }
        self.prune();
    }

    /// Puts tests that must all give the same answer in the order of their
    /// places, so that patterns begin alike where they can. The first step stays
    /// where it is.
    pub(super) fn sort(&mut self, place: TestOrder) {
        let entries = self.single_entries();
        let mut at = 0;
        // Each exchange brings two tests into order, so this ends; but in time
        // that grows with the square of a program's length.
        while at < self.steps.len() {
            at =
                if self.exchange(at, &entries, place) { entries[at].unwrap_or(at) } else { at + 1 };
        }
    }

    /// The only step that leads to each, where there is only one and it is not
    /// the first.
    fn single_entries(&self) -> Vec<Option<usize>> {
        let mut entries = vec![(0, 0); self.steps.len()];
        for (from, step) in self.steps.iter().enumerate() {
            for to in [step.no, step.yes] {
                if let To::Step(to) = to {
                    entries[to] = (entries[to].0 + 1, from);
                }
            }
        }
        let only = |(count, from): (usize, usize)| (count == 1 && from > 0).then_some(from);
        entries.into_iter().map(only).collect()
    }

    /// Exchanges a step's test with that of the next one, if that is in order.
    fn exchange(&mut self, at: usize, entries: &[Option<usize>], place: TestOrder) -> bool {
        for yes in [false, true] {
            let To::Step(next) = self.steps[at].to(yes) else { continue };
            let (this, then) = (self.steps[at], self.steps[next]);
            if entries[next].is_none() || this.to(!yes) != then.to(!yes) {
                continue;
            }
            let key = |step: &Step| (place(step.test.offset), step.test.mask);
            let later = key(&this) > key(&then)
                || key(&this) == key(&then) && this.test.value > then.test.value;
            if later {
                self.steps[at].test = then.test;
                self.steps[next].test = this.test;
                return true;
            }
        }
        false
    }

    /// Makes one of two tests of the same word where one does.
    fn merge(&mut self) {
        for at in (0..self.steps.len()).rev() {
            while self.merge_at(at) {}
        }
    }

    /// Makes one of a step and the one behind it; returns whether it did.
    fn merge_at(&mut self, at: usize) -> bool {
        let step = self.steps[at];
        if let To::Step(next) = step.no {
            let then = self.steps[next];
            if then.test.may_follow(&step.test)
                && let Some(test) = step.test.negated()
            {
                self.steps[at] = Step { test, yes: step.no, no: step.yes };
            } else if step.yes == then.yes
                && let Some(test) = step.test.either(&then.test)
            {
                self.steps[at] = Step { test, no: then.no, ..step };
                return true;
            }
        }
        let step = self.steps[at];
        let To::Step(next) = step.yes else { return false };
        let mut then = self.steps[next];
        if step.no == then.yes
            && let Some(test) = then.test.negated()
        {
            then = Step { test, yes: then.no, no: then.yes };
            self.steps[next] = then;
        }
        if step.no == then.no
            && let Some(test) = step.test.both(&then.test)
        {
            self.steps[at] = Step { test, yes: then.yes, ..step };
            return true;
        }
        false
    }

    /// Removes steps that decide nothing and those no way leads to.
    pub(super) fn prune(&mut self) {
        let count = self.steps.len();
        let mut instead: Vec<To> = (0..count).map(To::Step).collect();
        for at in (0..count).rev() {
            for answer in [true, false] {
                if let To::Step(to) = self.steps[at].to(answer) {
                    *self.steps[at].to_mut(answer) = instead[to];
                }
            }
            let Step { test, yes, no } = self.steps[at];
            if yes == no || test.mask == 0 {
                instead[at] = yes;
            }
        }
        if let To::Step(to) = self.start {
            self.start = instead[to];
        }
        let mut reached = vec![false; count];
        if let To::Step(to) = self.start {
            reached[to] = true;
        }
        let mut kept = Vec::new();
        for at in 0..count {
            if reached[at] {
                kept.push(at);
                for to in [self.steps[at].yes, self.steps[at].no] {
                    if let To::Step(to) = to {
                        reached[to] = true;
                    }
                }
            }
        }
        self.keep(&kept);
    }

    /// Keeps these steps, in this order; they lead only to each other.
    pub(super) fn keep(&mut self, kept: &[usize]) {
        let mut places = vec![0; self.steps.len()];
        for (place, at) in kept.iter().enumerate() {
            places[*at] = place;
        }
        let moved = |to: To| match to {
            To::Step(at) => To::Step(places[at]),
            end => end,
        };
        let step = |at: &usize| {
            let Step { test, yes, no } = self.steps[*at];
            Step { test, yes: moved(yes), no: moved(no) }
        };
        let steps = kept.iter().map(step).collect();
        self.start = moved(self.start);
        self.steps = steps;
    }
}
