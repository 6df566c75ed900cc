//! Rules as one decision diagram over halves of words.
//!
//! The variables are the halves of words, 16 bits each, that the rules look at, in a fixed order.
//! Of the 65,536 values of a half, those no test tells apart are one class. A node has a way on for
//! each class of its half; nodes that lead to the same places are one ("A Graph-Based Algorithm for
//! Boolean Function Manipulation", Bryant, 1986, with classes in the place of bits). So a packet is
//! decided with one step per half, however many rules there are; the number of nodes grows instead,
//! and is limited.

use std::collections::{HashMap, HashSet};

use super::{
    formula::Formula,
    halves::{Half, classes, halves},
    program::To,
    test::Test,
};

/// Most halves of words.
const LEVELS_LIMIT: usize = 32;
/// Most ways on from all nodes together, those given up on included.
const EDGES_LIMIT: usize = 1 << 20;
/// Most pairs of nodes looked at.
const WORK_LIMIT: usize = 1 << 19;

/// A node, or from [`END`] on an answer.
pub(super) type Id = u32;

/// First number of an answer.
pub(super) const END: Id = 1 << 31;
/// No rule holds; a condition does not.
pub(super) const NO: Id = END;
/// A condition holds.
const YES: Id = END + 1;
/// The packet goes nowhere.
pub(super) const DROP: Id = END + 2;
/// The packet goes to output 0, and so on.
pub(super) const OUTPUT: Id = END + 3;

/// One variable of the diagram.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) half: Half,
    /// The class of each value.
    pub(super) classes: Vec<u8>,
    /// A value of each class.
    samples: Vec<u16>,
}

impl Level {
    /// Returns the number of classes.
    pub(super) fn count(&self) -> usize {
        self.samples.len()
    }
}

#[derive(Debug, Clone, Copy)]
struct Node {
    level: usize,
    first: usize,
}

#[derive(Debug)]
pub(super) struct Diagram {
    pub(super) levels: Vec<Level>,
    nodes: Vec<Node>,
    edges: Vec<Id>,
    /// Nodes by their level and the ways on.
    known: HashMap<(usize, Box<[Id]>), Id>,
    /// Results of [`Diagram::choose`].
    chosen: HashMap<(Id, Id, Id), Id>,
}

impl Diagram {
    /// The diagram of the first rule that holds, and its root; `None` when it
    /// gets too large.
    pub(super) fn new(rules: &[(Formula, To)]) -> Option<(Diagram, Id)> {
        let mut tests: HashMap<Half, Vec<(u16, u16)>> = HashMap::new();
        rules.iter().for_each(|(formula, _)| collect(formula, &mut tests));
        if tests.len() > LEVELS_LIMIT {
            return None;
        }
        let mut halves: Vec<_> = tests.into_iter().collect();
        halves.sort_unstable_by_key(|(half, _)| *half);
        let level = |(half, tests): (Half, Vec<_>)| {
            let (classes, samples) = classes(tests)?;
            Some(Level { half, classes, samples })
        };
        let levels = halves.into_iter().map(level).collect::<Option<_>>()?;
        let (known, chosen) = (HashMap::new(), HashMap::new());
        let mut diagram = Diagram { levels, nodes: Vec::new(), edges: Vec::new(), known, chosen };
        let mut root = NO;
        for (formula, to) in rules.iter().rev() {
            let to = match to {
                To::Output(output) => OUTPUT + *output as Id,
                _ => DROP,
            };
            root = match formula.tests() {
                0 => DROP,
                _ => {
                    let condition = diagram.condition(formula)?;
                    diagram.choose(condition, to, root)?
                }
            };
        }
        Some((diagram, root))
    }

    /// Returns the next node of each class of `level`: a node of a later level leads to itself.
    pub(super) fn ways(&self, id: Id, level: usize) -> impl Iterator<Item = Id> + '_ {
        let node = self.node(id).filter(|node| node.level == level);
        let edge = move |class| node.map_or(id, |node| self.edges[node.first + class]);
        (0..self.levels[level].count()).map(edge)
    }

    /// The levels of the nodes that can be reached from one, in order.
    pub(super) fn levels_under(&self, root: Id) -> Vec<usize> {
        let mut seen = HashSet::from([root]);
        let mut waiting = vec![root];
        let mut used = vec![false; self.levels.len()];
        while let Some(id) = waiting.pop() {
            let level = self.level_of(id);
            if let Some(used) = used.get_mut(level) {
                *used = true;
                waiting.extend(self.ways(id, level).filter(|way| seen.insert(*way)));
            }
        }
        (0..used.len()).filter(|level| used[*level]).collect()
    }

    fn node(&self, id: Id) -> Option<Node> {
        self.nodes.get(id as usize).copied()
    }

    fn level_of(&self, id: Id) -> usize {
        self.node(id).map_or(usize::MAX, |node| node.level)
    }

    /// The node that leads there, which is one of those places if it leads
    /// nowhere else.
    fn make(&mut self, level: usize, ways: Vec<Id>) -> Option<Id> {
        if ways.windows(2).all(|pair| pair[0] == pair[1]) {
            return ways.first().copied();
        }
        let key = (level, ways.into_boxed_slice());
        if let Some(id) = self.known.get(&key) {
            return Some(*id);
        }
        if self.edges.len() + key.1.len() > EDGES_LIMIT {
            return None;
        }
        let id = self.nodes.len() as Id;
        self.nodes.push(Node { level, first: self.edges.len() });
        self.edges.extend_from_slice(&key.1);
        self.known.insert(key, id);
        Some(id)
    }

    /// The diagram of a formula, for packets that are long enough.
    fn condition(&mut self, formula: &Formula) -> Option<Id> {
        match formula {
            Formula::Test(test) => self.test(test),
            Formula::Not(of) | Formula::NotIfWhole(of) => {
                let of = self.condition(of)?;
                self.choose(of, NO, YES)
            }
            Formula::All(parts) => {
                parts.iter().filter(|part| part.tests() > 0).try_fold(YES, |all, part| {
                    let part = self.condition(part)?;
                    self.choose(all, part, NO)
                })
            }
            Formula::Any(parts) => {
                parts.iter().filter(|part| part.tests() > 0).try_fold(NO, |any, part| {
                    let part = self.condition(part)?;
                    self.choose(any, YES, part)
                })
            }
            Formula::Choose(parts) => {
                let parts: Vec<_> = parts.iter().filter(|part| part.tests() > 0).collect();
                let (pairs, rest) = parts.as_chunks::<2>();
                let mut otherwise = match rest {
                    [rest] => self.condition(rest)?,
                    _ => NO,
                };
                for [condition, then] in pairs.iter().rev() {
                    let condition = self.condition(condition)?;
                    let then = self.condition(then)?;
                    otherwise = self.choose(condition, then, otherwise)?;
                }
                Some(otherwise)
            }
        }
    }

    fn test(&mut self, test: &Test) -> Option<Id> {
        let mut then = YES;
        let mut parts: Vec<_> = halves(test).collect();
        parts.sort_unstable();
        for (half, mask, value) in parts.into_iter().rev() {
            let level = self.levels.binary_search_by_key(&half, |level| level.half).ok()?;
            let way = |sample: &u16| if sample & mask == value { then } else { NO };
            let ways = self.levels[level].samples.iter().map(way).collect();
            then = self.make(level, ways)?;
        }
        Some(then)
    }

    /// `yes` where the condition holds, else `no`.
    fn choose(&mut self, condition: Id, yes: Id, no: Id) -> Option<Id> {
        match (condition, yes, no) {
            (YES, ..) => return Some(yes),
            (NO, ..) => return Some(no),
            (_, YES, NO) => return Some(condition),
            _ if yes == no => return Some(yes),
            _ => {}
        }
        let key = (condition, yes, no);
        if let Some(id) = self.chosen.get(&key) {
            return Some(*id);
        }
        if self.chosen.len() >= WORK_LIMIT {
            return None;
        }
        let level = self.level_of(condition).min(self.level_of(yes)).min(self.level_of(no));
        let way = |diagram: &Diagram, id: Id, class: usize| match diagram.node(id) {
            Some(node) if node.level == level => diagram.edges[node.first + class],
            _ => id,
        };
        let mut ways = Vec::with_capacity(self.levels[level].count());
        for class in 0..self.levels[level].count() {
            let condition = way(self, condition, class);
            let (yes, no) = (way(self, yes, class), way(self, no, class));
            ways.push(self.choose(condition, yes, no)?);
        }
        let id = self.make(level, ways)?;
        self.chosen.insert(key, id);
        Some(id)
    }
}

/// The tests of each half.
fn collect(formula: &Formula, tests: &mut HashMap<Half, Vec<(u16, u16)>>) {
    match formula {
        Formula::Test(test) => {
            for (half, mask, value) in halves(test) {
                tests.entry(half).or_default().push((mask, value));
            }
        }
        Formula::Not(of) | Formula::NotIfWhole(of) => collect(of, tests),
        Formula::All(parts) | Formula::Any(parts) | Formula::Choose(parts) => {
            parts.iter().for_each(|part| collect(part, tests));
        }
    }
}
