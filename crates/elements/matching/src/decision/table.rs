//! Rules decided by tables: one from a half of a word to the class of its value, and one from the
//! state so far and the class to the next state.
//!
//! Sixteen packets go through a table together, so that others compute while one waits for memory;
//! there is no branch on packet bytes.

use std::collections::HashMap;

use super::{
    diagram::{DROP, Diagram, END, Id, NO, OUTPUT},
    formula::Formula,
    matcher::NEVER,
    program::To,
    words::{LANES, Words},
};

/// Most entries of one step's table.
const ENTRIES_LIMIT: usize = 1 << 16;
/// Most tables; rules that need more are walked through.
const TABLES_LIMIT: usize = 64;

/// The answer where no rule of a table holds.
const NEXT: u32 = u32::MAX - 1;

/// Rules cut into parts that each fit in a table.
#[derive(Debug)]
pub(super) struct Tables(Vec<Table>);

/// Rules that fit in one table.
#[derive(Debug)]
pub(super) struct Table {
    steps: Vec<Step>,
    /// Answers of the last states.
    ends: Vec<u32>,
}

#[derive(Debug)]
struct Step {
    offset: usize,
    second: bool,
    /// Place of the words.
    row: usize,
    /// Begin of the classes by the second byte, by the first byte.
    pages: Box<[u16; 256]>,
    classes: Vec<u8>,
    /// Next state, by state and class.
    next: Vec<u16>,
}

impl Tables {
    /// Rules that fit in one table.
    pub(super) fn one(rules: &[(Formula, To)]) -> Option<Tables> {
        Some(Tables(vec![Table::new(rules)?]))
    }

    /// `None` when a rule alone is too large.
    pub(super) fn new(rules: &[(Formula, To)]) -> Option<Tables> {
        let mut tables = Vec::new();
        // Parts still to be done, the first last.
        let mut parts = vec![rules];
        while let Some(part) = parts.pop() {
            match Table::new(part) {
                Some(table) if tables.len() < TABLES_LIMIT => tables.push(table),
                None if part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                _ => return None,
            }
        }
        Some(Tables(tables))
    }

    /// Offsets of the words looked at.
    pub(super) fn offsets(&self) -> Vec<usize> {
        self.0.iter().flat_map(Table::offsets).collect()
    }

    /// Sets the place of the words.
    pub(super) fn look_in(&mut self, words: &Words) {
        self.0.iter_mut().for_each(|table| table.look_in(words));
    }

    /// Answers for packets from their words.
    #[inline(never)]
    pub(super) fn decide(&self, words: &Words, answers: &mut [[u32; LANES]]) {
        for (answers, rows) in answers.iter_mut().zip(words.blocks()) {
            *answers = [NEXT; LANES];
            for table in &self.0 {
                let found = table.decide(rows);
                for (answer, found) in answers.iter_mut().zip(found) {
                    *answer = if *answer == NEXT { found } else { *answer };
                }
                if !answers.contains(&NEXT) {
                    break;
                }
            }
            for answer in answers {
                *answer = if *answer == NEXT { NEVER } else { *answer };
            }
        }
    }
}

impl Table {
    /// `None` when they are too many, or too unlike.
    pub(super) fn new(rules: &[(Formula, To)]) -> Option<Table> {
        let (diagram, root) = Diagram::new(rules)?;
        let mut steps = Vec::new();
        let mut states = vec![root];
        let used = diagram.levels_under(root);
        for (turn, at) in used.iter().copied().enumerate() {
            let level = &diagram.levels[at];
            let width = level.count();
            let width_then = used.get(turn + 1).map_or(1, |at| diagram.levels[*at].count());
            if states.len() * width > ENTRIES_LIMIT {
                return None;
            }
            let mut places: HashMap<Id, u16> = HashMap::new();
            let mut then = Vec::new();
            let mut next = Vec::with_capacity(states.len() * width);
            for state in states {
                for way in diagram.ways(state, at) {
                    let place = match places.get(&way) {
                        Some(place) => *place,
                        None => {
                            let place = u16::try_from(then.len() * width_then).ok()?;
                            then.push(way);
                            places.insert(way, place);
                            place
                        }
                    };
                    next.push(place);
                }
            }
            let (pages, classes) = paged(&level.classes);
            let (offset, second) = (level.half.offset, level.half.second);
            steps.push(Step { offset, second, row: 0, pages, classes, next });
            states = then;
        }
        let end = |state: &Id| match *state {
            NO => NEXT,
            DROP => NEVER,
            OUTPUT.. => *state - OUTPUT,
            END.. | ..END => NEVER,
        };
        Some(Table { steps, ends: states.iter().map(end).collect() })
    }

    /// Offsets of the words looked at.
    pub(super) fn offsets(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().map(|step| step.offset)
    }

    /// Sets the place of the words.
    pub(super) fn look_in(&mut self, words: &Words) {
        self.steps.iter_mut().for_each(|step| step.row = words.row(step.offset));
    }

    /// Answers for packets from their words, [`NEXT`] where no rule holds.
    #[inline]
    pub(super) fn decide(&self, rows: &[[u32; LANES]]) -> [u32; LANES] {
        let mut states = [0u16; LANES];
        for step in &self.steps {
            let words = &rows[step.row];
            if step.second {
                step.advance(&mut states, words, |[_, _, first, second]| (first, second));
            } else {
                step.advance(&mut states, words, |[first, second, ..]| (first, second));
            }
        }
        let mut found = [NEXT; LANES];
        for (found, state) in found.iter_mut().zip(states) {
            *found = self.ends[usize::from(state)];
        }
        found
    }
}

impl Step {
    #[inline(always)]
    fn advance(
        &self,
        states: &mut [u16; LANES],
        words: &[u32; LANES],
        half: impl Fn([u8; 4]) -> (u8, u8),
    ) {
        let (classes, next) = (self.classes.as_slice(), self.next.as_slice());
        for (state, word) in states.iter_mut().zip(words) {
            let (first, second) = half(word.to_ne_bytes());
            let page = usize::from(self.pages[usize::from(first)]);
            let class = classes[page + usize::from(second)];
            *state = next[usize::from(*state) + usize::from(class)];
        }
    }
}

/// Classes of values in pages of 256, each kept once.
fn paged(classes: &[u8]) -> (Box<[u16; 256]>, Vec<u8>) {
    let mut places = HashMap::new();
    let mut pages = Box::new([0; 256]);
    let mut kept = Vec::new();
    for (page, classes) in pages.iter_mut().zip(classes.chunks_exact(256)) {
        *page = *places.entry(classes).or_insert_with(|| {
            let place = kept.len() as u16;
            kept.extend_from_slice(classes);
            place
        });
    }
    (pages, kept)
}
