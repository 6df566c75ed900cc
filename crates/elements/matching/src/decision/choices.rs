//! A short program, decided for sixteen packets at a time.
//!
//! From the last step to the first, each is a choice between the answers of the
//! steps it leads to. There is no branch on packet bytes, so a mix of packets costs
//! what packets of one kind cost, and the compiler turns the choices into vector
//! instructions.
//!
//! Steps on the first word are decided first: of the frames of a router, whose kinds of packets
//! differ in it, hardly any has a packet that needs another.

use linerate_memory::{BitWork, with_vectors};

use super::{
    matcher::NEVER,
    program::{Program, Step, To},
    words::{LANES, Words},
};

/// One step; offsets and cells by number.
#[derive(Debug, Clone, Copy)]
struct Choice {
    row: usize,
    /// The cell of its answers.
    cell: usize,
    /// As this machine reads them, like the words.
    mask: u32,
    value: u32,
    yes: usize,
    no: usize,
}

#[derive(Debug)]
pub(super) struct Choices {
    choices: Vec<Choice>,
    /// Answers of the steps, then the outputs themselves.
    cells: Vec<[u32; LANES]>,
}

/// The answer for packets that other words than those looked at must decide.
pub(super) const UNDECIDED: u32 = u32::MAX - 1;

impl Choices {
    /// Makes the choices of all steps of a program.
    pub(super) fn new(program: &Program, words: &Words) -> Choices {
        Choices::from_steps(program, words, |_| true)
    }

    /// Makes the choices of the first step's word alone, with [`UNDECIDED`] where others have to be
    /// looked at. `None` when all steps look at that word.
    pub(super) fn of_first_word(program: &Program, words: &Words) -> Option<Choices> {
        let first = program.steps.first()?.test.offset;
        let is_first = |step: &Step| step.test.offset == first;
        let has_others = !program.steps.iter().all(is_first);
        has_others.then(|| Choices::from_steps(program, words, is_first))
    }

    /// The row of the first step.
    pub(super) fn first_row(&self) -> usize {
        self.choices.first().map_or(0, |choice| choice.row)
    }

    fn from_steps(program: &Program, words: &Words, is_of: impl Fn(&Step) -> bool) -> Choices {
        let steps = program.steps.len();
        let mut cells = vec![[NEVER; LANES]; steps + 1];
        let mut choices = Vec::with_capacity(steps);
        for (at, step) in program.steps.iter().enumerate() {
            let Step { test, yes, no } = step;
            if !is_of(step) {
                cells[at] = [UNDECIDED; LANES];
                continue;
            }
            let mut cell = |to: &To| match *to {
                To::Step(at) => at,
                To::Never | To::Next => steps,
                To::Output(output) => {
                    cells.push([output as u32; LANES]);
                    cells.len() - 1
                }
            };
            choices.push(Choice {
                row: words.row(test.offset),
                cell: at,
                mask: test.mask.to_be(),
                value: test.value.to_be(),
                yes: cell(yes),
                no: cell(no),
            });
        }
        Choices { choices, cells }
    }

    /// Answers for packets from their words.
    #[inline(never)]
    pub(super) fn decide(&mut self, words: &Words, answers: &mut [[u32; LANES]]) {
        with_vectors(Decide { choices: self, words, answers });
    }
}

struct Decide<'a> {
    choices: &'a mut Choices,
    words: &'a Words,
    answers: &'a mut [[u32; LANES]],
}

impl BitWork for Decide<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Choices { choices, cells } = self.choices;
        for (answers, rows) in self.answers.iter_mut().zip(self.words.blocks()) {
            for choice in choices.iter().rev() {
                let (words, yes, no) = (&rows[choice.row], &cells[choice.yes], &cells[choice.no]);
                // A choice by bits: a choice by condition becomes a branch.
                let mut cell = [0; LANES];
                for lane in 0..LANES {
                    let matches = words[lane] & choice.mask == choice.value;
                    let bits = u32::from(matches).wrapping_neg();
                    cell[lane] = no[lane] ^ ((yes[lane] ^ no[lane]) & bits);
                }
                cells[choice.cell] = cell;
            }
            *answers = cells[0];
        }
    }
}
