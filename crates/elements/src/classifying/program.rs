//! Decision programs: steps that compare four bytes of a packet and go on to
//! another step or to an output.
//!
//! Steps only lead forward. A program is written down as the patterns say and
//! then improved: on every way through it what earlier steps have shown is
//! known, and steps whose answer follows are skipped. What is known where ways
//! meet is what all of them know, so the work is bounded by the square of the
//! number of steps; a program can stay larger than the smallest possible one.
//! The idea of skipping is that of "BPF+" (Begel and others, SIGCOMM 1999).

use std::fmt;

use super::pattern::Pattern;

/// Four bytes at `offset`, as one number in network order, have `value` where
/// `mask` has ones. A packet that ends before the last byte of the mask fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) offset: usize,
    pub(super) mask: u32,
    pub(super) value: u32,
}

impl Test {
    /// Length a packet must have to succeed.
    pub(super) fn required(&self) -> usize {
        match self.mask {
            0 => 0,
            mask => self.offset.saturating_add(4 - mask.trailing_zeros() as usize / 8),
        }
    }

    /// Whether both can succeed, as far as bits both look at tell.
    fn agrees(&self, other: &Test) -> bool {
        (self.value ^ other.value) & self.mask & other.mask == 0
    }

    /// Whether each packet that succeeds here succeeds there.
    fn implies(&self, other: &Test) -> bool {
        other.mask == 0
            || self.offset == other.offset
                && self.mask & other.mask == other.mask
                && self.agrees(other)
    }
}

/// Where a step leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    Step(usize),
    Output(usize),
    /// No pattern matches.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) test: Test,
    pub(super) yes: To,
    pub(super) no: To,
}

impl Step {
    fn to(&self, answer: bool) -> To {
        if answer { self.yes } else { self.no }
    }

    fn to_mut(&mut self, answer: bool) -> &mut To {
        if answer { &mut self.yes } else { &mut self.no }
    }
}

/// A decision program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) start: To,
}

/// Answers remembered on a way through a program; older ones are forgotten.
const FACTS_LIMIT: usize = 256;

impl Program {
    /// The program that sends packets to the output of the first pattern that
    /// matches.
    pub(super) fn new(patterns: &[Pattern]) -> Program {
        let mut program = Program::literal(patterns);
        program.sort();
        program.skip_known();
        program.merge();
        program.prune();
        program
    }

    /// The patterns one after the other.
    fn literal(patterns: &[Pattern]) -> Program {
        let mut steps = Vec::new();
        for (output, pattern) in patterns.iter().enumerate() {
            let tests = pattern.clauses.iter().map(|clause| clause.tests.len()).sum::<usize>();
            let behind = steps.len() + tests.max(1);
            let fail = if output + 1 < patterns.len() { To::Step(behind) } else { To::Never };
            for clause in &pattern.clauses {
                let next = steps.len() + clause.tests.len();
                let success = if next < behind { To::Step(next) } else { To::Output(output) };
                let (matched, differs) =
                    if clause.negated { (fail, success) } else { (success, fail) };
                for &test in &clause.tests {
                    let more = steps.len() + 1 < next;
                    let yes = if more { To::Step(steps.len() + 1) } else { matched };
                    steps.push(Step { test, yes, no: differs });
                }
            }
            if tests == 0 {
                let test = Test { offset: 0, mask: 0, value: 0 };
                steps.push(Step { test, yes: To::Output(output), no: fail });
            }
        }
        Program { start: if steps.is_empty() { To::Never } else { To::Step(0) }, steps }
    }

    /// Puts tests that must all give the same answer in the order of their
    /// offsets, so that patterns begin alike where they can.
    fn sort(&mut self) {
        let mut entries = vec![0; self.steps.len()];
        for step in &self.steps {
            for to in [step.yes, step.no] {
                if let To::Step(to) = to {
                    entries[to] += 1;
                }
            }
        }
        let key = |test: &Test| (test.offset, test.mask, test.value);
        let mut at = 0;
        while at + 1 < self.steps.len() {
            let (first, second) = (self.steps[at], self.steps[at + 1]);
            let next = To::Step(at + 1);
            let chained = (first.yes == next && first.no == second.no)
                || (first.no == next && first.yes == second.yes);
            if chained && entries[at + 1] == 1 && key(&first.test) > key(&second.test) {
                self.steps[at].test = second.test;
                self.steps[at + 1].test = first.test;
                at = at.saturating_sub(1);
            } else {
                at += 1;
            }
        }
    }

    /// Lets every way skip the steps whose answer is known on it.
    fn skip_known(&mut self) {
        let mut known: Vec<Option<Facts>> = vec![None; self.steps.len()];
        self.start = self.lead(self.start, Facts::default(), &mut known);
        for at in 0..self.steps.len() {
            let Some(facts) = known[at].take() else { continue };
            for answer in [true, false] {
                let mut facts = facts.clone();
                facts.learn(self.steps[at].test, answer);
                *self.steps[at].to_mut(answer) =
                    self.lead(self.steps[at].to(answer), facts, &mut known);
            }
        }
    }

    /// Where `to` leads when `facts` are known, which are then known there.
    fn lead(&self, mut to: To, facts: Facts, known: &mut [Option<Facts>]) -> To {
        while let To::Step(at) = to {
            match facts.answer(&self.steps[at].test) {
                Some(answer) => to = self.steps[at].to(answer),
                None => {
                    known[at] = Some(match known[at].take() {
                        None => facts,
                        Some(other) => other.common(&facts),
                    });
                    break;
                }
            }
        }
        to
    }

    /// Makes one of two tests of the same word where one does.
    fn merge(&mut self) {
        for at in (0..self.steps.len()).rev() {
            loop {
                let step = self.steps[at];
                if let To::Step(next) = step.no
                    && let Some(test) = either(&step, &self.steps[next])
                {
                    self.steps[at].test = test;
                    self.steps[at].no = self.steps[next].no;
                } else if let To::Step(next) = step.yes
                    && let Some(test) = both(&step, &self.steps[next])
                {
                    self.steps[at].test = test;
                    self.steps[at].yes = self.steps[next].yes;
                } else {
                    break;
                }
            }
        }
    }

    /// Removes steps that decide nothing and those no way leads to.
    fn prune(&mut self) {
        let count = self.steps.len();
        let mut instead: Vec<To> = (0..count).map(To::Step).collect();
        for at in (0..count).rev() {
            for answer in [true, false] {
                if let To::Step(to) = self.steps[at].to(answer) {
                    *self.steps[at].to_mut(answer) = instead[to];
                }
            }
            if self.steps[at].yes == self.steps[at].no {
                instead[at] = self.steps[at].yes;
            }
        }
        if let To::Step(to) = self.start {
            self.start = instead[to];
        }
        let mut reached = vec![false; count];
        let mut places = vec![0; count];
        let mut kept = Vec::new();
        if let To::Step(to) = self.start {
            reached[to] = true;
        }
        for at in 0..count {
            if reached[at] {
                places[at] = kept.len();
                kept.push(self.steps[at]);
                for to in [self.steps[at].yes, self.steps[at].no] {
                    if let To::Step(to) = to {
                        reached[to] = true;
                    }
                }
            }
        }
        let place = |to: &mut To| {
            if let To::Step(at) = to {
                *at = places[*at];
            }
        };
        for step in &mut kept {
            place(&mut step.yes);
            place(&mut step.no);
        }
        place(&mut self.start);
        self.steps = kept;
    }

    /// Length from which on no packet is too short for a test.
    pub(super) fn safe_length(&self) -> usize {
        self.steps.iter().map(|step| step.test.required()).max().unwrap_or(0)
    }

    /// Whether any packet can get there.
    pub(super) fn reaches(&self, to: To) -> bool {
        self.start == to || self.steps.iter().any(|step| step.yes == to || step.no == to)
    }

    /// Where a packet goes.
    pub(super) fn run(&self, bytes: &[u8]) -> Option<usize> {
        let mut to = self.start;
        loop {
            match to {
                To::Output(output) => return Some(output),
                To::Never => return None,
                To::Step(at) => {
                    let Step { test, .. } = &self.steps[at];
                    let fits = bytes.len() >= test.required();
                    to = self.steps[at]
                        .to(fits && word(bytes, test.offset) & test.mask == test.value);
                }
            }
        }
    }
}

/// Four bytes in network order, zeros where the packet ends before.
fn word(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    let rest = bytes.get(offset..).unwrap_or(&[]);
    let count = rest.len().min(4);
    word[..count].copy_from_slice(&rest[..count]);
    u32::from_be_bytes(word)
}

/// One test for "this or the next", when they differ in a single bit.
fn either(this: &Step, next: &Step) -> Option<Test> {
    let bit = this.test.value ^ next.test.value;
    let merged = Test { mask: this.test.mask & !bit, value: this.test.value & !bit, ..this.test };
    let fits = this.test.offset == next.test.offset
        && this.test.mask == next.test.mask
        && this.yes == next.yes
        && bit.is_power_of_two()
        && merged.required() == this.test.required();
    fits.then_some(merged)
}

/// One test for "this and the next".
fn both(this: &Step, next: &Step) -> Option<Test> {
    let fits =
        this.test.offset == next.test.offset && this.no == next.no && this.test.agrees(&next.test);
    fits.then_some(Test {
        offset: this.test.offset,
        mask: this.test.mask | next.test.mask,
        value: this.test.value | next.test.value,
    })
}

/// Answers known on a way through a program.
#[derive(Debug, Clone, Default)]
struct Facts(Vec<(Test, bool)>);

impl Facts {
    fn learn(&mut self, test: Test, answer: bool) {
        if self.0.len() >= FACTS_LIMIT {
            self.0.remove(0);
        }
        self.0.push((test, answer));
    }

    /// What follows for a test.
    fn answer(&self, test: &Test) -> Option<bool> {
        if test.mask == 0 {
            return Some(true);
        }
        let long = |(known, yes): &(Test, bool)| *yes && known.required() >= test.required();
        self.0.iter().find_map(|(known, yes)| {
            let same_word = known.offset == test.offset;
            if *yes && known.implies(test) {
                Some(true)
            } else if (*yes && same_word && !known.agrees(test)) || (!*yes && test.implies(known)) {
                Some(false)
            } else if !*yes
                && same_word
                && known.mask == test.mask
                && known.mask.is_power_of_two()
                && self.0.iter().any(long)
            {
                // The only bit is there and is not the one: it is the other.
                Some(true)
            } else {
                None
            }
        })
    }

    fn common(mut self, other: &Facts) -> Facts {
        self.0.retain(|fact| other.0.contains(fact));
        self
    }
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            To::Step(at) => write!(f, "step {at}"),
            To::Output(output) => write!(f, "[{output}]"),
            To::Never => f.write_str("[X]"),
        }
    }
}

/// As Click's handler `program` shows it.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Step { test, yes, no }) in self.steps.iter().enumerate() {
            let Test { offset, mask, value } = test;
            writeln!(f, "{at:2} {offset:3}/{value:08x}%{mask:08x}  yes->{yes}  no->{no}")?;
        }
        match self.start {
            To::Step(_) => {}
            To::Never => writeln!(f, "all->[{}]", i32::MAX)?,
            to => writeln!(f, "all->{to}")?,
        }
        writeln!(f, "safe length {}", self.safe_length())?;
        f.write_str("alignment offset 0")
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::parse;
    use super::*;

    fn program(patterns: &str) -> Program {
        let mut errors = Vec::new();
        let patterns = patterns.split(',').map(str::trim).enumerate();
        let patterns: Vec<Pattern> =
            patterns.map(|(at, text)| parse(at, text, &mut errors)).collect();
        assert_eq!(errors, Vec::<String>::new());
        Program::new(&patterns)
    }

    /// Texts are those of Click 2.1.
    #[test]
    fn programs_are_shown_as_click_shows_them() {
        let cases = [
            (
                "12/0806 20/0001, 12/0806 20/0002, 12/0800, -",
                " 0  12/08060000%ffff0000  yes->step 1  no->step 3\n \
                 1  20/00010000%ffff0000  yes->[0]  no->step 2\n \
                 2  20/00020000%ffff0000  yes->[1]  no->[3]\n \
                 3  12/08000000%ffff0000  yes->[2]  no->[3]\n\
                 safe length 22\nalignment offset 0",
            ),
            ("-", "all->[0]\nsafe length 0\nalignment offset 0"),
            ("12/????", "all->[0]\nsafe length 0\nalignment offset 0"),
            (
                "!12/0800",
                " 0  12/08000000%ffff0000  yes->[X]  no->[0]\n\
                 safe length 14\nalignment offset 0",
            ),
            (
                "12/0800 ! 23/06, 12/0800 14/4? , 9/11 33/0011",
                " 0  12/08000000%ffff0000  yes->step 1  no->step 2\n \
                 1  20/00000006%000000ff  yes->step 2  no->[0]\n \
                 2  12/08004000%fffff000  yes->[1]  no->step 3\n \
                 3   8/00110000%00ff0000  yes->step 4  no->[X]\n \
                 4  32/00001100%00ffff00  yes->[2]  no->[X]\n\
                 safe length 35\nalignment offset 0",
            ),
            (
                "12/8100 16/0800, 12/0800, 12/0800",
                " 0  12/81000000%ffff0000  yes->step 1  no->step 2\n \
                 1  16/08000000%ffff0000  yes->[0]  no->[X]\n \
                 2  12/08000000%ffff0000  yes->[1]  no->[X]\n\
                 safe length 18\nalignment offset 0",
            ),
            ("12/0800 12/0806", "all->[2147483647]\nsafe length 0\nalignment offset 0"),
        ];
        for (patterns, expected) in cases {
            assert_eq!(program(patterns).to_string(), expected, "{patterns}");
        }
    }
}
