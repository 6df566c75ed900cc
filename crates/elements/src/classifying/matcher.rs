//! A decision program run over a frame.
//!
//! All words any step looks at are gathered first, those of sixteen packets side
//! by side; then each step is decided for sixteen packets at a time, from the last
//! step to the first, as a choice between the answers of the steps it leads to. There
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
    /// What packets have there: for each sixteen packets a row per offset.
    words: Vec<[u32; LANES]>,
    /// Length from which on all words are inside the packet.
    whole: usize,
    choices: Vec<Choice>,
    /// Answers of the steps, then the outputs themselves.
    cells: Vec<[u32; LANES]>,
    answers: Vec<u32>,
}

/// One step; offsets, cells by number.
#[derive(Debug, Clone, Copy)]
struct Choice {
    row: usize,
    /// In the machine's byte order, like the words.
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
                row: offsets.binary_search(&test.offset).unwrap_or(0),
                mask: test.mask.to_be(),
                value: test.value.to_be(),
                yes: cell(yes),
                no: cell(no),
            });
        }
        let room = frame_limit.next_multiple_of(LANES);
        Matcher {
            whole: offsets.last().map_or(0, |last| last.saturating_add(4)),
            words: vec![[0; LANES]; offsets.len() * room / LANES],
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

    /// Fills in the words; returns whether a packet ends before a word does.
    #[inline]
    fn gather(&mut self, arena: &Arena, frame: &Frame) -> bool {
        let mut short = false;
        for first in (0..self.offsets.len()).step_by(WORDS_AT_ONCE) {
            short |= match self.offsets.len() - first {
                1 => self.gather_some::<1>(arena, frame, first),
                2 => self.gather_some::<2>(arena, frame, first),
                3 => self.gather_some::<3>(arena, frame, first),
                _ => self.gather_some::<WORDS_AT_ONCE>(arena, frame, first),
            };
        }
        short
    }

    /// The same for `WORDS` offsets from `first` on.
    #[inline(never)]
    fn gather_some<const WORDS: usize>(
        &mut self,
        arena: &Arena,
        frame: &Frame,
        first: usize,
    ) -> bool {
        let rows = self.offsets.len();
        let Some(offsets) = self.offsets[first..].first_chunk::<WORDS>() else { return true };
        let offsets = *offsets;
        let words = self.words.as_mut_slice();
        let mut short = false;
        let mut at = 0;
        arena.for_each(frame, |bytes| {
            let row = at / LANES * rows + first;
            if let Some(rows) =
                words.get_mut(row..).and_then(|rows| rows.first_chunk_mut::<WORDS>())
            {
                for (row, offset) in rows.iter_mut().zip(offsets) {
                    let word = bytes.get(offset..).and_then(|rest| rest.first_chunk());
                    short |= word.is_none();
                    row[at % LANES] = word.map_or(0, |word| u32::from_ne_bytes(*word));
                }
            }
            at += 1;
        });
        short
    }

    /// Answers for the first `count` packets from the words.
    #[inline(never)]
    fn decide(&mut self, count: usize) {
        let (answers, _) = self.answers.as_chunks_mut::<LANES>();
        let chunks = self.words.chunks_exact(self.offsets.len());
        for (answers, rows) in answers.iter_mut().zip(chunks).take(count.div_ceil(LANES)) {
            for (at, choice) in self.choices.iter().enumerate().rev() {
                let (words, yes) = (&rows[choice.row], &self.cells[choice.yes]);
                let no = &self.cells[choice.no];
                // A choice by bits: a choice by condition becomes a branch.
                let cell = std::array::from_fn(|lane| {
                    let matches = words[lane] & choice.mask == choice.value;
                    let bits = u32::from(matches).wrapping_neg();
                    no[lane] ^ ((yes[lane] ^ no[lane]) & bits)
                });
                self.cells[at] = cell;
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
