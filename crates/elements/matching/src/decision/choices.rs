//! A short program, decided for sixteen packets at a time.
//!
//! From the last step to the first, each is a choice between the answers of the
//! steps it leads to. There is no branch on packet bytes, so a mix of packets costs
//! what packets of one kind cost, and the compiler turns the choices into vector
//! instructions.

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

impl Choices {
    pub(super) fn new(program: &Program, words: &Words) -> Choices {
        let steps = program.steps.len();
        let mut cells = vec![[NEVER; LANES]; steps + 1];
        let mut choices = Vec::with_capacity(steps);
        for Step { test, yes, no } in &program.steps {
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
            for (at, choice) in choices.iter().enumerate().rev() {
                let (words, yes, no) = (&rows[choice.row], &cells[choice.yes], &cells[choice.no]);
                // A choice by bits: a choice by condition becomes a branch.
                let mut cell = [0; LANES];
                for lane in 0..LANES {
                    let matches = words[lane] & choice.mask == choice.value;
                    let bits = u32::from(matches).wrapping_neg();
                    cell[lane] = no[lane] ^ ((yes[lane] ^ no[lane]) & bits);
                }
                cells[at] = cell;
            }
            *answers = cells[0];
        }
    }
}
