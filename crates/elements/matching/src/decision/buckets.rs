//! Many rules decided by short lists: each rule is filed under the value of one half of a word, and
//! a packet is compared with those filed under its own.
//!
//! Most rules of a large set name an address, and few of them the same one. A rule is one or more
//! conjunctions of tests of single halves; for up to three halves ("cuts") those conjunctions are
//! filed that say enough about it, the first half all that do, the next those left, and the rest is
//! decided by a table. A packet has one class of values for each cut, and the class a list of the
//! conjunctions that are not ruled out by it, most often one or two, whose other halves are
//! compared four at a time. The first of all that hold decides. So a packet takes as many
//! instructions for five hundred rules as for five thousand, and memory grows with the rules.
//!
//! Lists searched where a cut ends are those of "Packet Classification using Hierarchical
//! Intelligent Cuttings" (Gupta and McKeown, HOTI 1999); rules that leave a field open are kept
//! apart as in `EffiCuts` (Vamanan, Voskuilen and Vijaykumar, SIGCOMM 2010).

use std::collections::HashMap;

use linerate_memory::{BitWork, with_vectors};

use super::{
    column::Column,
    conjunctions::{Conjunction, Part, conjunctions},
    formula::Formula,
    halves::{Half, classes},
    matcher::NEVER,
    program::To,
    table::Table,
    test::Test,
    words::{LANES, Words},
};

/// Most cuts.
const CUTS_LIMIT: usize = 3;
/// Conjunctions of a class compared without asking how many there are.
const WIDTH: usize = 2;
/// Most conjunctions filed under one value, and the most a packet that some conjunction is about
/// may find in the mean.
const LIST_LIMIT: usize = 32;
const MEAN_LIMIT: usize = 4;
/// Bits a test must look at to be filed under: tries, the strictest last.
const SPECIFIC: [u32; 4] = [1, 6, 12, 16];
/// Conjunctions over so few halves are left for the table.
const TABLE_HALVES: usize = 3;
/// Halves that are compared together.
const TOGETHER: usize = 4;

#[derive(Debug)]
pub(super) struct Buckets {
    /// The halves compared, as many as fill numbers of four.
    halves: Vec<(Half, usize)>,
    cuts: Cuts,
    /// Conjunctions that are filed nowhere, with positions as outputs.
    rest: Option<Table>,
    /// Answers by position.
    answers: Vec<u32>,
}

/// Cuts, by the numbers of four halves that conjunctions need.
#[derive(Debug)]
enum Cuts {
    Two(Vec<Cut<2>>),
    Four(Vec<Cut<4>>),
}

/// Conjunctions filed under the values of one half.
#[derive(Debug)]
struct Cut<const NUMBERS: usize> {
    column: Column,
    /// Lists by class.
    lists: Vec<List<NUMBERS>>,
    /// Entries that do not fit there, the lists one behind the other.
    more: Vec<(Entry<NUMBERS>, u16)>,
}

/// The first conjunctions that a class does not rule out.
#[derive(Debug)]
struct List<const NUMBERS: usize> {
    entries: [Entry<NUMBERS>; WIDTH],
    positions: [u16; WIDTH],
    /// Begin of further ones, and their number.
    more: u16,
    count: u16,
}

/// Values of the halves for which a conjunction holds. Both as this machine reads them, like the
/// words.
#[derive(Debug, Clone, Copy)]
struct Entry<const NUMBERS: usize> {
    masks: [u64; NUMBERS],
    values: [u64; NUMBERS],
}

impl Buckets {
    /// Files the rules; `None` where they are too much alike to be told apart by few values.
    pub(super) fn new(rules: &[(Formula, To)]) -> Option<Buckets> {
        let all = conjunctions(rules)?;
        let mut left: Vec<usize> = (0..all.len()).collect();
        let mut filed = Vec::new();
        while filed.len() < CUTS_LIMIT && halves_of(&all, &left).len() > TABLE_HALVES {
            let Some((half, some)) = choose(&all, &left) else { break };
            left.retain(|position| some.binary_search(position).is_err());
            filed.push((half, some));
        }
        let everywhere: Vec<usize> = filed.iter().flat_map(|(_, some)| some).copied().collect();
        let halves = halves_of(&all, &everywhere);
        let cuts = match halves.len().div_ceil(TOGETHER) {
            0 => return None,
            1..=2 => Cuts::Two(Cut::all(&all, &filed, &halves)?),
            3..=4 => Cuts::Four(Cut::all(&all, &filed, &halves)?),
            _ => return None,
        };
        let rest: Vec<_> = left.iter().map(|at| (formula(&all[*at].0), To::Output(*at))).collect();
        let rest = if rest.is_empty() { None } else { Some(Table::new(&rest)?) };
        let answers = all.iter().map(|(_, answer)| *answer).collect();
        let halves = halves.into_iter().map(|half| (half, 0)).collect();
        Some(Buckets { halves, cuts, rest, answers })
    }

    /// Offsets of the words looked at.
    pub(super) fn offsets(&self) -> Vec<usize> {
        let compared = self.halves.iter().map(|(half, _)| half.offset);
        compared.chain(self.rest.iter().flat_map(Table::offsets)).collect()
    }

    /// Sets the place of the words.
    pub(super) fn look_in(&mut self, words: &Words) {
        self.halves.iter_mut().for_each(|(half, row)| *row = words.row(half.offset));
        match &mut self.cuts {
            Cuts::Two(cuts) => cuts.iter_mut().for_each(|cut| cut.column.look_in(words)),
            Cuts::Four(cuts) => cuts.iter_mut().for_each(|cut| cut.column.look_in(words)),
        }
        self.rest.iter_mut().for_each(|table| table.look_in(words));
    }

    /// Answers for packets from their words.
    #[inline(never)]
    pub(super) fn decide(&self, words: &Words, answers: &mut [[u32; LANES]]) {
        match &self.cuts {
            Cuts::Two(cuts) => with_vectors(Decide { buckets: self, cuts, words, answers }),
            Cuts::Four(cuts) => with_vectors(Decide { buckets: self, cuts, words, answers }),
        }
    }

    /// The halves compared of sixteen packets, four in a number.
    #[inline(always)]
    fn numbers<const NUMBERS: usize>(&self, rows: &[[u32; LANES]]) -> [[u64; LANES]; NUMBERS] {
        let mut numbers = [[0; LANES]; NUMBERS];
        for (numbers, halves) in numbers.iter_mut().zip(self.halves.chunks(TOGETHER)) {
            for (at, (half, row)) in halves.iter().enumerate() {
                let mut values = [0; LANES];
                half.take(&rows[*row], &mut values);
                for (number, value) in numbers.iter_mut().zip(values) {
                    *number |= u64::from(value) << (16 * at);
                }
            }
        }
        numbers
    }
}

/// The half to file conjunctions under, and which of those left: as many as may be, so that lists
/// stay short.
fn choose(all: &[(Conjunction, u32)], left: &[usize]) -> Option<(Half, Vec<usize>)> {
    let halves = halves_of(all, left);
    let tries = halves.iter().flat_map(|half| SPECIFIC.map(|bits| (*half, bits)));
    let found = tries.filter_map(|(half, bits)| {
        let filed: Vec<usize> =
            left.iter().copied().filter(|at| may_file(&all[*at].0, half, bits)).collect();
        let (longest, sum) = lengths(all, &filed, half);
        let fits = longest <= LIST_LIMIT && sum <= filed.len() * MEAN_LIMIT;
        (fits && !filed.is_empty()).then_some((half, filed))
    });
    found.max_by_key(|(_, filed)| filed.len())
}

/// The halves that some conjunctions look at, in order.
fn halves_of(all: &[(Conjunction, u32)], some: &[usize]) -> Vec<Half> {
    let parts = some.iter().flat_map(|at| &all[*at].0);
    let mut halves: Vec<Half> = parts.map(|part| part.half).collect();
    halves.sort_unstable();
    halves.dedup();
    halves
}

/// The test a conjunction is filed by under a half.
fn filing(conjunction: &Conjunction, half: Half) -> Option<(u16, u16)> {
    let tests = conjunction.iter().filter(|part| part.half == half && part.is_equal());
    tests.map(Part::test).max_by_key(|(mask, _)| mask.count_ones())
}

/// Returns true if it has such a test of so many bits, and its tests of other halves can be
/// compared.
fn may_file(conjunction: &Conjunction, half: Half, bits: u32) -> bool {
    let comparable = conjunction.iter().all(|part| part.half == half || part.is_equal());
    comparable && filing(conjunction, half).is_some_and(|(mask, _)| mask.count_ones() >= bits)
}

/// Returns the lengths of the lists that each of these is filed in: the longest, and the sum.
fn lengths(all: &[(Conjunction, u32)], filed: &[usize], half: Half) -> (usize, usize) {
    let mut counts: HashMap<(u16, u16), usize> = HashMap::new();
    let tests = || filed.iter().filter_map(|at| filing(&all[*at].0, half));
    tests().for_each(|test| *counts.entry(test).or_default() += 1);
    let mut masks: Vec<u16> = counts.keys().map(|(mask, _)| *mask).collect();
    masks.sort_unstable();
    masks.dedup();
    let length = |(mask, value): (u16, u16)| -> usize {
        let wider = masks.iter().filter(|wider| **wider & mask == **wider);
        wider.map(|wider| counts.get(&(*wider, value & wider)).copied().unwrap_or(0)).sum()
    };
    tests().map(length).fold((0, 0), |(longest, sum), length| (longest.max(length), sum + length))
}

/// The conjunction as a formula: one without a test would count for nothing.
fn formula(conjunction: &Conjunction) -> Formula {
    let always = conjunction.is_empty().then_some(Formula::Test(Test::ALWAYS));
    Formula::All(conjunction.iter().map(Part::formula).chain(always).collect())
}

impl<const NUMBERS: usize> Cut<NUMBERS> {
    fn all(
        all: &[(Conjunction, u32)],
        filed: &[(Half, Vec<usize>)],
        halves: &[Half],
    ) -> Option<Vec<Cut<NUMBERS>>> {
        filed.iter().map(|(half, filed)| Cut::new(*half, all, filed, halves)).collect()
    }

    fn new(
        half: Half,
        all: &[(Conjunction, u32)],
        filed: &[usize],
        halves: &[Half],
    ) -> Option<Cut<NUMBERS>> {
        let tests = filed.iter().flat_map(|at| &all[*at].0).filter(|part| part.half == half);
        let (of_values, samples) = classes::<u16>(tests.map(Part::test).collect())?;
        let (mut lists, mut more) = (Vec::with_capacity(samples.len()), Vec::new());
        for value in samples {
            let own = |at: &&usize| {
                let mut own = all[**at].0.iter().filter(|part| part.half == half);
                own.all(|part| part.holds(value))
            };
            let mut found = filed.iter().filter(own);
            let mut list = List {
                entries: [Entry::NOTHING; WIDTH],
                positions: [u16::MAX; WIDTH],
                more: u16::try_from(more.len()).ok()?,
                count: 0,
            };
            let places = list.entries.iter_mut().zip(&mut list.positions);
            for ((entry, position), at) in places.zip(found.by_ref()) {
                (*entry, *position) = (Entry::new(&all[*at].0, half, halves), *at as u16);
            }
            more.extend(found.map(|at| (Entry::new(&all[*at].0, half, halves), *at as u16)));
            list.count = (more.len() - usize::from(list.more)) as u16;
            lists.push(list);
        }
        Some(Cut { column: Column::new(half, &of_values)?, lists, more })
    }

    /// Replaces positions found so far by those of conjunctions that hold here, where these are
    /// lower.
    #[inline(always)]
    fn decide(
        &self,
        rows: &[[u32; LANES]],
        numbers: &[[u64; LANES]; NUMBERS],
        found: &mut [u32; LANES],
    ) {
        let mut classes = [0; LANES];
        self.column.find(rows, |lane, class| classes[lane] = class);
        // First the differences of all packets, and then the positions: a condition here would be a
        // branch, mispredicted for every other packet.
        let (mut differ, mut positions) = ([[0; LANES]; WIDTH], [[0; LANES]; WIDTH]);
        for lane in 0..LANES {
            let Some(list) = self.lists.get(classes[lane]) else { continue };
            for (at, entry) in list.entries.iter().enumerate() {
                differ[at][lane] = entry.differs(numbers, lane);
                positions[at][lane] = u32::from(list.positions[at]);
            }
            if list.count > 0 {
                self.compare_more(list, numbers, lane, &mut found[lane]);
            }
        }
        for (differ, positions) in differ.iter().zip(&positions) {
            for ((found, differ), position) in found.iter_mut().zip(differ).zip(positions) {
                let none = u32::from(*differ != 0).wrapping_neg();
                *found = (*found).min(position | none);
            }
        }
    }

    /// Likewise for entries that did not fit.
    #[cold]
    #[inline(never)]
    fn compare_more(
        &self,
        list: &List<NUMBERS>,
        numbers: &[[u64; LANES]; NUMBERS],
        lane: usize,
        found: &mut u32,
    ) {
        let more = &self.more[usize::from(list.more)..][..usize::from(list.count)];
        let first = more.iter().find(|(entry, _)| entry.differs(numbers, lane) == 0);
        *found = first.map_or(*found, |(_, position)| u32::from(*position).min(*found));
    }
}

impl<const NUMBERS: usize> Entry<NUMBERS> {
    /// Differs from all packets: not even the bits that are looked at can be those.
    const NOTHING: Entry<NUMBERS> = Entry { masks: [0; NUMBERS], values: [1; NUMBERS] };

    /// Makes the entry of a conjunction, without the half it is filed under.
    fn new(conjunction: &Conjunction, under: Half, halves: &[Half]) -> Entry<NUMBERS> {
        let mut entry = Entry { masks: [0; NUMBERS], values: [0; NUMBERS] };
        for part in conjunction.iter().filter(|part| part.half != under) {
            let Ok(at) = halves.binary_search(&part.half) else { continue };
            let (number, shift) = (at / TOGETHER, 16 * (at % TOGETHER));
            let (mask, value) = part.test();
            let (mask, value) =
                (u64::from(mask.to_be()) << shift, u64::from(value.to_be()) << shift);
            // Two tests of a half that contradict each other: no packet has this value there.
            if (entry.values[number] ^ value) & entry.masks[number] & mask != 0 {
                return Entry::NOTHING;
            }
            entry.masks[number] |= mask;
            entry.values[number] |= value;
        }
        entry
    }

    /// Returns the bits in which a packet differs.
    #[inline(always)]
    fn differs(&self, numbers: &[[u64; LANES]; NUMBERS], lane: usize) -> u64 {
        let mut differ = 0;
        for ((numbers, mask), value) in numbers.iter().zip(&self.masks).zip(&self.values) {
            differ |= numbers[lane % LANES] & mask ^ value;
        }
        differ
    }
}

struct Decide<'a, const NUMBERS: usize> {
    buckets: &'a Buckets,
    cuts: &'a [Cut<NUMBERS>],
    words: &'a Words,
    answers: &'a mut [[u32; LANES]],
}

impl<const NUMBERS: usize> BitWork for Decide<'_, NUMBERS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Decide { buckets, cuts, words, answers } = self;
        for (answers, rows) in answers.iter_mut().zip(words.blocks()) {
            let mut found = match &buckets.rest {
                Some(table) => table.decide(rows),
                None => [NEVER; LANES],
            };
            let numbers = buckets.numbers(rows);
            for cut in cuts {
                cut.decide(rows, &numbers, &mut found);
            }
            for (answer, position) in answers.iter_mut().zip(found) {
                *answer = buckets.answers.get(position as usize).copied().unwrap_or(NEVER);
            }
        }
    }
}
