//! Decision programs: steps that compare four bytes of a packet and go on to
//! another step or to an output. Steps only lead forward.

use std::fmt;

use super::{formula::Formula, improve::TestOrder, test::Test};

/// Target of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum To {
    Step(usize),
    Output(usize),
    /// The packet goes nowhere.
    Never,
    /// The pattern does not match; the next one is not known yet.
    Next,
}

impl To {
    /// A number for it: Click's, which orders steps before all that ends.
    pub(super) fn number(self) -> i64 {
        match self {
            To::Step(at) => at as i64,
            To::Output(output) => -(output as i64),
            To::Next => 1 - i64::from(i32::MAX),
            To::Never => -i64::from(i32::MAX),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(super) test: Test,
    pub(super) yes: To,
    pub(super) no: To,
}

impl Step {
    pub(super) fn to(&self, answer: bool) -> To {
        if answer { self.yes } else { self.no }
    }

    pub(super) fn to_mut(&mut self, answer: bool) -> &mut To {
        if answer { &mut self.yes } else { &mut self.no }
    }
}

/// A decision program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) start: To,
}

/// From so many values on, those a word is compared with are sorted.
const SORTED_LEAST: usize = 7;

impl Program {
    /// Makes a program that decides by the first of the `rules` that holds, each of which has a
    /// test. They are put together all at once.
    pub(crate) fn first_of(rules: &[(Formula, To)]) -> Program {
        let mut steps = Vec::new();
        for (at, (formula, to)) in rules.iter().enumerate() {
            let behind = To::Step(steps.len() + formula.tests());
            let no = if at + 1 < rules.len() { behind } else { To::Never };
            formula.emit(&mut steps, *to, no);
        }
        let start = if steps.is_empty() { To::Never } else { To::Step(0) };
        let mut program = Program { steps, start };
        program.improve(|offset| offset);
        program
    }

    /// Makes a program that decides by the first of the `rules` that holds. A rule without any test
    /// decides for all packets left.
    ///
    /// Neighbours are put together and improved, then pairs of them, and so on, as Click does it:
    /// the outcome depends on it.
    pub(crate) fn first_rule(rules: &[(Formula, To)], place: TestOrder) -> Program {
        let single = |(formula, to): &(Formula, To)| {
            let mut steps = Vec::new();
            formula.emit(&mut steps, *to, To::Next);
            let start = if steps.is_empty() { To::Never } else { To::Step(0) };
            Program { steps, start }
        };
        let mut programs: Vec<Program> = rules.iter().map(single).collect();
        if let [only] = programs.as_mut_slice() {
            only.improve(place);
        }
        while programs.len() > 1 {
            let mut pairs = programs.into_iter();
            programs = Vec::new();
            while let Some(mut first) = pairs.next() {
                if let Some(second) = pairs.next() {
                    first.or(second);
                    first.improve(place);
                }
                programs.push(first);
            }
        }
        let empty = Program { steps: Vec::new(), start: To::Never };
        let mut program = programs.pop().unwrap_or(empty);
        program.next_is(To::Never);
        program.sort(place);
        program.group();
        program
    }

    /// Sets the next pattern's begin.
    fn next_is(&mut self, next: To) {
        let ends = self.steps.iter_mut().flat_map(|step| [&mut step.yes, &mut step.no]);
        for to in ends.chain([&mut self.start]).filter(|to| **to == To::Next) {
            *to = next;
        }
    }

    /// Has `other` decide packets that this one does not match.
    fn or(&mut self, other: Program) {
        if self.steps.is_empty() && self.start != To::Next {
            return;
        }
        let behind = self.steps.len();
        let moved = |to: To| match to {
            To::Step(at) => To::Step(behind + at),
            end => end,
        };
        self.next_is(moved(other.start));
        let step = |Step { test, yes, no }| Step { test, yes: moved(yes), no: moved(no) };
        self.steps.extend(other.steps.into_iter().map(step));
    }

    /// Brings comparisons of the same bits with one value after another together,
    /// and many of them into order.
    fn group(&mut self) {
        let mut entries = vec![0; self.steps.len()];
        for to in self.steps.iter().flat_map(|step| [step.yes, step.no]).chain([self.start]) {
            if let To::Step(to) = to {
                entries[to] += 1;
            }
        }
        let mut order = Vec::new();
        let mut taken = vec![false; self.steps.len()];
        for at in 0..self.steps.len() {
            if taken[at] {
                continue;
            }
            let first = self.steps[at];
            let mut members = vec![at];
            let mut last = first.no;
            while let To::Step(next) = last
                && entries[next] == 1
                && self.steps[next].yes == first.yes
                && (Test { value: first.test.value, ..self.steps[next].test }) == first.test
            {
                taken[next] = true;
                members.push(next);
                last = self.steps[next].no;
            }
            if members.len() >= SORTED_LEAST {
                let mut values: Vec<u32> =
                    members.iter().map(|at| self.steps[*at].test.value).collect();
                // Click compares them as this machine's numbers.
                values.sort_by_key(|value| value.swap_bytes());
                for (at, value) in members.iter().zip(values) {
                    self.steps[*at].test.value = value;
                }
            }
            order.extend(members);
        }
        self.keep(&order);
    }

    /// Length from which on no packet is too short for a test.
    pub(crate) fn safe_length(&self) -> usize {
        self.steps.iter().map(|step| step.test.required()).max().unwrap_or(0)
    }

    /// Returns true if any packet can get there.
    pub(crate) fn reaches(&self, to: To) -> bool {
        self.start == to || self.steps.iter().any(|step| step.yes == to || step.no == to)
    }

    /// Returns the output of a packet; `word` returns the four bytes at an offset and the number of
    /// bytes from there on.
    pub(crate) fn run(&self, word: impl Fn(usize) -> (u32, usize)) -> Option<usize> {
        let mut to = self.start;
        loop {
            match to {
                To::Output(output) => return Some(output),
                To::Never | To::Next => return None,
                To::Step(at) => {
                    let step = &self.steps[at];
                    let (word, available) = word(step.test.offset);
                    to = step.to(step.test.answer(word, available));
                }
            }
        }
    }
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            To::Step(at) => write!(f, "step {at}"),
            To::Output(output) => write!(f, "[{output}]"),
            To::Never => f.write_str("[X]"),
            To::Next => f.write_str("[-]"),
        }
    }
}

/// Prints the program as Click's handler `program` does.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Step { test, yes, no }) in self.steps.iter().enumerate() {
            let Test { offset, mask, value, short } = test;
            let short = if *short { "  short->yes" } else { "" };
            writeln!(f, "{at:2} {offset:3}/{value:08x}%{mask:08x}  yes->{yes}  no->{no}{short}")?;
        }
        match self.start {
            To::Step(_) => {}
            To::Never | To::Next => writeln!(f, "all->[{}]", i32::MAX)?,
            to => writeln!(f, "all->{to}")?,
        }
        writeln!(f, "safe length {}", self.safe_length())?;
        f.write_str("alignment offset 0")
    }
}
