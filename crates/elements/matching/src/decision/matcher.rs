//! A decision run over frames.
//!
//! All words any step looks at are gathered first, those of sixteen packets side
//! by side. Then the packets are decided together, without a branch on their bytes:
//! by all steps of the program where it is short ([`choices`](super::choices)), by one
//! table for each half of a word ([`table`](super::table)), whose cost does not depend on
//! how many rules there are, or where these would be too large, by short lists of the rules
//! that one value leaves ([`buckets`](super::buckets)), or where many rules are alike, by vectors
//! with a bit for each ([`bits`](super::bits)). Rules that fit none of these, short frames, and
//! packets too short for some step, are walked through the program step by step.

use linerate_graph::{Context, DropReason};
use linerate_memory::{Arena, Frame, HeaderCache};

use super::{
    bits::Bits,
    buckets::Buckets,
    choices::{Choices, UNDECIDED},
    formula::Formula,
    program::{Program, To},
    table::Tables,
    words::{Headers, LANES, Words},
};

/// Most steps that are decided for all packets.
const STEPS_LIMIT: usize = 24;
/// Frames shorter than this are walked.
const FRAME_LEAST: usize = 4;

/// The answer for packets that go nowhere.
pub(crate) const NEVER: u32 = u32::MAX;

/// Method by which frames are decided.
#[derive(Debug)]
enum MatchMethod {
    /// All packets get this answer.
    Constant(u32),
    Choices(Box<Steps>),
    Buckets(Buckets),
    Bits(Bits),
    Tables(Tables),
    Walk,
}

/// All steps, and those on the first word.
#[derive(Debug)]
struct Steps {
    all: Choices,
    first: Option<Choices>,
    /// Frames for which the first word is not tested alone.
    skipped: u32,
}

/// Frames for which the first word is not tested alone after one that it has not decided.
const SKIPPED: u32 = 15;

impl Steps {
    fn new(program: &Program, words: &Words) -> Steps {
        let first = Choices::of_first_word(program, words);
        Steps { all: Choices::new(program, words), first, skipped: 0 }
    }

    /// Decides all packets; returns whether all have the words for that.
    #[inline]
    fn decide(
        &mut self,
        words: &mut Words,
        (arena, frame, header_cache): (&Arena, &mut Frame, &mut HeaderCache),
        answers: &mut [[u32; LANES]],
    ) -> bool {
        match &mut self.first {
            Some(first) if self.skipped == 0 => {
                if words.gather_row(arena, frame, header_cache, first.first_row()) {
                    first.decide(words, answers);
                    let answers = &answers.as_flattened()[..frame.len()];
                    if !answers.iter().fold(false, |any, answer| any | (*answer == UNDECIDED)) {
                        return true;
                    }
                }
                self.skipped = SKIPPED;
            }
            _ => self.skipped = self.skipped.saturating_sub(1),
        }
        let whole = words.gather(arena, frame, header_cache);
        self.all.decide(words, answers);
        whole
    }
}

/// A decision made ready to run over frames.
#[derive(Debug)]
pub(crate) struct Matcher {
    program: Program,
    headers: Headers,
    words: Words,
    way: MatchMethod,
    answers: Vec<[u32; LANES]>,
    /// Packets that go nowhere, on their way back.
    dropped: Frame,
    /// Whether there are packets that go nowhere.
    partial: bool,
}

impl Matcher {
    /// Prepares `program`, which decides by the first of the `rules` that holds.
    pub(crate) fn new(
        program: Program,
        rules: &[(Formula, To)],
        headers: Headers,
        frame_limit: usize,
    ) -> Matcher {
        let offsets = program.steps.iter().map(|step| step.test.offset).collect();
        let mut words = Words::new(headers, offsets, frame_limit);
        let way = match program.start {
            To::Output(output) => MatchMethod::Constant(output as u32),
            To::Never | To::Next => MatchMethod::Constant(NEVER),
            To::Step(_) if program.steps.len() <= STEPS_LIMIT => {
                MatchMethod::Choices(Box::new(Steps::new(&program, &words)))
            }
            To::Step(_) => {
                let (of_words, way) = by_tables(Tables::one(rules), headers, frame_limit)
                    .or_else(|| by_buckets(rules, headers, frame_limit))
                    .or_else(|| by_bits(rules, headers, frame_limit))
                    .or_else(|| by_tables(Tables::new(rules), headers, frame_limit))
                    .unwrap_or((words, MatchMethod::Walk));
                words = of_words;
                way
            }
        };
        let answers = vec![[NEVER; LANES]; frame_limit.div_ceil(LANES)];
        let partial = program.reaches(To::Never);
        Matcher { program, headers, words, way, answers, dropped: Frame::new(frame_limit), partial }
    }

    /// Switches to vectors of bits, however few rules there are, if that is possible.
    #[cfg(test)]
    pub(crate) fn by_bits(
        mut self,
        rules: &[(Formula, To)],
        frame_limit: usize,
    ) -> Option<Matcher> {
        (self.words, self.way) = by_bits(rules, self.headers, frame_limit)?;
        Some(self)
    }

    /// Switches to short lists in the same way.
    #[cfg(test)]
    pub(crate) fn by_buckets(
        mut self,
        rules: &[(Formula, To)],
        frame_limit: usize,
    ) -> Option<Matcher> {
        (self.words, self.way) = by_buckets(rules, self.headers, frame_limit)?;
        Some(self)
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Sends each packet by its output; those that go nowhere are dropped for
    /// `reason`.
    #[inline]
    pub(crate) fn send<R: DropReason>(&mut self, cx: &mut Context, frame: &mut Frame, reason: R) {
        let partial = self.partial;
        let answers = self.run(cx.pool.arena(), frame, &mut cx.header_cache);
        if !(partial && answers.contains(&NEVER)) {
            return cx.out.distribute(frame, answers);
        }
        // Which packets are dropped no processor foresees: those that stay, and their answers, move
        // together without a branch.
        let (count, mut stayed) = (frame.len(), 0);
        let answers = self.answers.as_flattened_mut();
        frame.partition(|at| answers[at] == NEVER, &mut self.dropped);
        for at in 0..count {
            let answer = answers[at];
            answers[stayed] = answer;
            stayed += usize::from(answer != NEVER);
        }
        cx.count_drops(reason, self.dropped.len());
        cx.pool.give(&mut self.dropped);
        cx.out.distribute(frame, &answers[..stayed]);
    }

    /// The output of each packet, or [`NEVER`]. The frame is as it was
    /// afterwards.
    #[inline]
    pub(crate) fn run(
        &mut self,
        arena: &Arena,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
    ) -> &[u32] {
        let Matcher { words, way, answers, .. } = self;
        let count = frame.len().min(answers.len() * LANES);
        let blocks = &mut answers[..count.div_ceil(LANES)];
        let walked = match way {
            MatchMethod::Constant(answer) => {
                blocks.fill([*answer; LANES]);
                false
            }
            MatchMethod::Choices(steps) if count >= FRAME_LEAST => {
                !steps.decide(words, (arena, frame, header_cache), blocks)
            }
            MatchMethod::Buckets(buckets) if count >= FRAME_LEAST => {
                let whole = words.gather(arena, frame, header_cache);
                buckets.decide(words, blocks);
                !whole
            }
            MatchMethod::Bits(bits) if count >= FRAME_LEAST => {
                let whole = words.gather(arena, frame, header_cache);
                bits.decide(words, blocks);
                !whole
            }
            MatchMethod::Tables(tables) if count >= FRAME_LEAST => {
                let whole = words.gather(arena, frame, header_cache);
                tables.decide(words, blocks);
                !whole
            }
            _ => {
                self.walk(arena, frame, false);
                false
            }
        };
        if walked {
            self.walk(arena, frame, true);
        }
        &self.answers.as_flattened()[..count]
    }

    /// Answers for packets one after the other: those that are not whole, or all.
    #[inline(never)]
    fn walk(&mut self, arena: &Arena, frame: &mut Frame, skip_whole: bool) {
        let answers = self.answers.as_flattened_mut().iter_mut();
        for ((slot, answer), whole) in
            frame.slots_mut().iter_mut().zip(answers).zip(self.words.whole())
        {
            if !(skip_whole && *whole) {
                let output = self.headers.read(arena, slot, |word| self.program.run(word));
                *answer = output.map_or(NEVER, |output| output as u32);
            }
        }
    }
}

/// The words that tables look at, and tables that know where they are.
fn by_tables(
    tables: Option<Tables>,
    headers: Headers,
    frame_limit: usize,
) -> Option<(Words, MatchMethod)> {
    let mut tables = tables?;
    let words = Words::new(headers, tables.offsets(), frame_limit);
    tables.look_in(&words);
    Some((words, MatchMethod::Tables(tables)))
}

/// Likewise for lists.
fn by_buckets(
    rules: &[(Formula, To)],
    headers: Headers,
    frame_limit: usize,
) -> Option<(Words, MatchMethod)> {
    let mut buckets = Buckets::new(rules)?;
    let words = Words::new(headers, buckets.offsets(), frame_limit);
    buckets.look_in(&words);
    Some((words, MatchMethod::Buckets(buckets)))
}

/// Likewise for vectors.
fn by_bits(
    rules: &[(Formula, To)],
    headers: Headers,
    frame_limit: usize,
) -> Option<(Words, MatchMethod)> {
    let mut bits = Bits::new(rules)?;
    let words = Words::new(headers, bits.offsets(), frame_limit);
    bits.look_in(&words);
    Some((words, MatchMethod::Bits(bits)))
}
