//! A decision program run over a frame.
//!
//! All words any step looks at are gathered first, in a column per word; then
//! each step is decided for sixteen packets at a time, from the last step to
//! the first, as a choice between the answers of the steps it leads to. There
//! is no branch on packet bytes, so a mix of packets costs what packets of one
//! kind cost, and the compiler turns the choices into vector instructions.
//! That does the work of all steps for all packets: programs with many steps,
//! short frames and packets too short for some step are walked through step by
//! step instead.

use linerate_memory::{Arena, Frame};

use super::program::{Program, Step, To};

/// Packets decided at a time.
const LANES: usize = 16;
/// Most steps that are decided for all packets.
const STEPS_LIMIT: usize = 24;
/// Frames shorter than this are walked.
const FRAME_LEAST: usize = 4;
/// Words gathered in one pass over a frame.
const WORDS_AT_ONCE: usize = 4;

/// The answer for packets no pattern matches.
pub(super) const NEVER: u32 = u32::MAX;

/// A program made ready to run over frames.
#[derive(Debug)]
pub(super) struct Matcher {
    program: Program,
    /// The distinct offsets of words.
    offsets: Vec<usize>,
    /// What packets have at each of them.
    columns: Vec<Vec<u32>>,
    /// Length from which on all words are inside the packet.
    whole: usize,
    choices: Vec<Choice>,
    /// Answers of the steps, then the outputs themselves.
    cells: Vec<[u32; LANES]>,
    answers: Vec<u32>,
}

/// One step; words, cells by number.
#[derive(Debug, Clone, Copy)]
struct Choice {
    column: usize,
    /// In the machine's byte order, like the columns.
    mask: u32,
    value: u32,
    yes: usize,
    no: usize,
}

impl Matcher {
    pub(super) fn new(program: Program, frame_limit: usize) -> Matcher {
        let mut offsets: Vec<usize> = program.steps.iter().map(|step| step.test.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let steps = program.steps.len();
        let mut cells = vec![[NEVER; LANES]; steps + 1];
        let mut choices = Vec::with_capacity(steps);
        for Step { test, yes, no } in &program.steps {
            let mut cell = |to: &To| match *to {
                To::Step(at) => at,
                To::Never => steps,
                To::Output(output) => {
                    cells.push([output as u32; LANES]);
                    cells.len() - 1
                }
            };
            choices.push(Choice {
                column: offsets.binary_search(&test.offset).unwrap_or(0),
                mask: test.mask.to_be(),
                value: test.value.to_be(),
                yes: cell(yes),
                no: cell(no),
            });
        }
        let room = frame_limit.next_multiple_of(LANES);
        Matcher {
            whole: offsets.last().map_or(0, |last| last.saturating_add(4)),
            columns: vec![vec![0; room]; offsets.len()],
            offsets,
            choices,
            cells,
            answers: vec![NEVER; room],
            program,
        }
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    /// The output of each packet, or [`NEVER`].
    #[inline]
    pub(super) fn run(&mut self, arena: &Arena, frame: &Frame) -> &[u32] {
        let count = frame.len().min(self.answers.len());
        match self.program.start {
            To::Output(output) => self.answers[..count].fill(output as u32),
            To::Never => self.answers[..count].fill(NEVER),
            To::Step(_) if self.choices.len() > STEPS_LIMIT || count < FRAME_LEAST => {
                self.walk(arena, frame, usize::MAX);
            }
            To::Step(_) => {
                let short = self.gather(arena, frame);
                self.decide(count);
                if short {
                    self.walk(arena, frame, self.whole);
                }
            }
        }
        &self.answers[..count]
    }

    /// Fills the columns; returns whether a packet ends before a word does.
    fn gather(&mut self, arena: &Arena, frame: &Frame) -> bool {
        let offsets = self.offsets.chunks(WORDS_AT_ONCE);
        let columns = self.columns.chunks_mut(WORDS_AT_ONCE);
        let mut short = false;
        for (offsets, columns) in offsets.zip(columns) {
            short |= gather_some::<4>(arena, frame, offsets, columns)
                .or_else(|| gather_some::<3>(arena, frame, offsets, columns))
                .or_else(|| gather_some::<2>(arena, frame, offsets, columns))
                .or_else(|| gather_some::<1>(arena, frame, offsets, columns))
                .unwrap_or(true);
        }
        short
    }

    /// Answers for the first `count` packets from the columns.
    fn decide(&mut self, count: usize) {
        let chunks = count.div_ceil(LANES);
        let (answers, _) = self.answers.as_chunks_mut::<LANES>();
        for (chunk, answers) in answers.iter_mut().take(chunks).enumerate() {
            for (at, choice) in self.choices.iter().enumerate().rev() {
                let (column, _) = self.columns[choice.column].as_chunks::<LANES>();
                let words = &column[chunk];
                let (yes, no) = (self.cells[choice.yes], self.cells[choice.no]);
                let cell = &mut self.cells[at];
                for lane in 0..LANES {
                    let matches = words[lane] & choice.mask == choice.value;
                    cell[lane] = if matches { yes[lane] } else { no[lane] };
                }
            }
            *answers = self.cells[0];
        }
    }

    /// Answers for the packets shorter than `below`, one after the other.
    fn walk(&mut self, arena: &Arena, frame: &Frame, below: usize) {
        let Matcher { program, answers, .. } = self;
        let mut answers = answers.iter_mut();
        arena.for_each(frame, |bytes| {
            let Some(answer) = answers.next() else { return };
            if bytes.len() < below {
                *answer = program.run(bytes).map_or(NEVER, |output| output as u32);
            }
        });
    }
}

/// Fills `WORDS` columns if there are so many.
#[inline]
fn gather_some<const WORDS: usize>(
    arena: &Arena,
    frame: &Frame,
    offsets: &[usize],
    columns: &mut [Vec<u32>],
) -> Option<bool> {
    let offsets = *offsets.first_chunk::<WORDS>()?;
    let columns = columns.first_chunk_mut::<WORDS>()?;
    let mut columns = columns.each_mut().map(|column| column.iter_mut());
    let last = offsets[WORDS - 1].saturating_add(4);
    let mut short = false;
    arena.for_each(frame, |bytes| {
        short |= bytes.len() < last;
        for (column, offset) in columns.iter_mut().zip(offsets) {
            let word = bytes.get(offset..).and_then(|rest| rest.first_chunk());
            if let Some(place) = column.next() {
                *place = word.map_or(0, |word| u32::from_ne_bytes(*word));
            }
        }
    });
    Some(short)
}
