//! Rules as conjunctions of tests of halves of words: the first that holds decides.

use super::{
    formula::Formula,
    halves::{Half, halves},
    matcher::NEVER,
    program::To,
    test::Test,
};

/// Conjunctions at most. Rules that need more differ from those written by hand or for a firewall:
/// ranges of several fields, one excluded from the other.
const LIMIT: usize = 1 << 13;

/// A half has, where the mask has ones, this value, or has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) half: Half,
    pub(super) mask: u16,
    value: u16,
    is: bool,
}

impl Part {
    /// Returns true if a half of this value fulfils it.
    pub(super) fn holds(&self, half: u16) -> bool {
        (half & self.mask == self.value) == self.is
    }

    /// The mask and the value of its test.
    pub(super) fn test(&self) -> (u16, u16) {
        (self.mask, self.value)
    }

    /// Returns true if it tests that the half has the value, not that it has another.
    pub(super) fn is_equal(&self) -> bool {
        self.is
    }

    /// The test as one of a word.
    pub(super) fn formula(&self) -> Formula {
        let shift = if self.half.second { 0 } else { 16 };
        let (mask, value) = (u32::from(self.mask) << shift, u32::from(self.value) << shift);
        let test = Formula::Test(Test::new(self.half.offset, mask, value));
        if self.is { test } else { Formula::Not(Box::new(test)) }
    }

    /// Returns true if no packet has both.
    fn excludes(&self, other: &Part) -> bool {
        let differ = (self.value ^ other.value) & self.mask & other.mask != 0;
        self.half == other.half && self.is && other.is && differ
    }
}

/// All of these hold.
pub(super) type Conjunction = Vec<Part>;

/// The rules, the first one first, each as one or more conjunctions with its answer; `None` when
/// these are too many.
pub(super) fn conjunctions(rules: &[(Formula, To)]) -> Option<Vec<(Conjunction, u32)>> {
    let mut all = Vec::new();
    for (formula, to) in rules {
        let answer = match to {
            To::Output(output) => *output as u32,
            _ => NEVER,
        };
        if formula.tests() == 0 {
            all.push((Vec::new(), NEVER));
            break;
        }
        all.extend(expand(formula, true)?.into_iter().map(|conjunction| (conjunction, answer)));
        if all.len() > LIMIT {
            return None;
        }
    }
    Some(all)
}

/// Returns the conjunctions for which a formula holds, or does not, on packets that are long
/// enough.
fn expand(formula: &Formula, holds: bool) -> Option<Vec<Conjunction>> {
    let parts = |parts: &'_ [Formula]| -> Vec<Formula> {
        parts.iter().filter(|part| part.tests() > 0).cloned().collect()
    };
    match formula {
        Formula::Test(test) => Some(expand_test(test, holds)),
        Formula::Not(of) | Formula::NotIfWhole(of) => expand(of, !holds),
        Formula::All(all) => combine(&parts(all), holds, holds),
        Formula::Any(any) => combine(&parts(any), holds, !holds),
        Formula::Choose(choices) => choose(&parts(choices), holds),
    }
}

fn expand_test(test: &Test, holds: bool) -> Vec<Conjunction> {
    let parts = halves(test).map(|(half, mask, value)| Part { half, mask, value, is: holds });
    if holds { vec![parts.collect()] } else { parts.map(|part| vec![part]).collect() }
}

/// Returns the conjunctions of parts that hold, or do not: `all` of them at once, or one of them.
fn combine(parts: &[Formula], holds: bool, all: bool) -> Option<Vec<Conjunction>> {
    let mut found = if all { vec![Vec::new()] } else { Vec::new() };
    for part in parts {
        let part = expand(part, holds)?;
        if all {
            found = both(&found, &part)?;
        } else {
            found.extend(part);
        }
        if found.len() > LIMIT {
            return None;
        }
    }
    Some(found)
}

/// Returns those of a condition, a part for packets that fulfil it, another condition, and so on;
/// the last part is for the rest.
fn choose(parts: &[Formula], holds: bool) -> Option<Vec<Conjunction>> {
    match parts {
        [] if holds => Some(Vec::new()),
        [] => Some(vec![Vec::new()]),
        [otherwise] => expand(otherwise, holds),
        [condition, then, rest @ ..] => {
            let mut found = both(&expand(condition, true)?, &expand(then, holds)?)?;
            found.extend(both(&expand(condition, false)?, &choose(rest, holds)?)?);
            (found.len() <= LIMIT).then_some(found)
        }
    }
}

/// Returns the conjunctions of one of the first with one of the others.
fn both(some: &[Conjunction], others: &[Conjunction]) -> Option<Vec<Conjunction>> {
    let mut found = Vec::new();
    for one in some {
        for other in others {
            let never = one.iter().any(|part| other.iter().any(|then| part.excludes(then)));
            if !never {
                let mut conjunction = one.clone();
                conjunction.extend(other.iter().filter(|part| !one.contains(part)));
                found.push(conjunction);
            }
        }
        if found.len() > LIMIT {
            return None;
        }
    }
    Some(found)
}
