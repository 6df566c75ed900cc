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

#[cfg(test)]
mod tests {
    use linerate_memory::ArenaOptions;

    use super::super::pattern::{Clause, Pattern, parse};
    use super::*;

    /// What a pattern means, byte by byte.
    fn matches(pattern: &Pattern, bytes: &[u8]) -> bool {
        let holds = |clause: &Clause| {
            let mut bytes_of = clause.tests.iter().flat_map(|test| {
                let (mask, value) = (test.mask.to_be_bytes(), test.value.to_be_bytes());
                (0..4).map(move |at| (test.offset + at, mask[at], value[at]))
            });
            bytes_of.all(|(at, mask, value)| {
                mask == 0 || bytes.get(at).is_some_and(|byte| byte & mask == value)
            }) != clause.negated
        };
        pattern.clauses.iter().all(holds)
    }

    fn random_patterns(random: &mut fastrand::Rng) -> Vec<Pattern> {
        let count = random.usize(1..8);
        let mut errors = Vec::new();
        let patterns = (0..count).map(|at| {
            let mut text = String::new();
            for _ in 0..random.usize(0..5) {
                let negated = if random.u8(..4) == 0 { "!" } else { "" };
                let offset = random.usize(..20);
                text += &format!(" {negated}{offset}/");
                for _ in 0..random.usize(1..7) {
                    text += ["00", "01", "02", "03", "?1", "??"][random.usize(..6)];
                }
            }
            parse(at, &text, &mut errors)
        });
        let patterns = patterns.collect();
        assert_eq!(errors, Vec::<String>::new());
        patterns
    }

    #[test]
    fn any_program_means_what_its_patterns_mean() {
        let arena = ArenaOptions { size: 4 << 20, huge: false, ..Default::default() };
        let arena = arena.create().unwrap();
        let mut pool = arena.cache(256);
        for seed in 0..2000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let patterns = random_patterns(&mut random);
            let mut matcher = Matcher::new(Program::new(&patterns), 64);
            let mut frame = Frame::new(64);
            let count = random.usize(1..65);
            assert_eq!(pool.take(&mut frame, count, 26), count);
            arena.for_each_mut(&mut frame, |bytes| bytes.fill_with(|| random.u8(..4)));
            if random.bool() {
                let slots = frame.slots_mut().iter_mut();
                slots.for_each(|slot| slot.truncate(random.usize(..30)));
            }
            let answers = matcher.run(&arena, &frame).to_vec();
            for (answer, bytes) in answers.iter().zip(arena.packets(&frame)) {
                let expected = patterns.iter().position(|pattern| matches(pattern, bytes));
                let expected = expected.map_or(NEVER, |output| output as u32);
                assert_eq!(*answer, expected, "seed {seed}: {bytes:02x?} {}", matcher.program());
            }
            pool.give(&mut frame);
        }
    }
}
