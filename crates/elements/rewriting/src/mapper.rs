//! Mappers: elements that choose among patterns for rewriters.

use std::sync::Arc;

use linerate_graph::Class;

use super::{
    mapping::Ends,
    pattern::{Pattern, PortAllocator},
    ring::Ring,
};

/// The class of mappers that take patterns in turn.
pub(super) const ROUND_ROBIN: &str = "RoundRobinIPMapper";
/// The class of mappers that choose by the source address.
pub(super) const SOURCE_HASH: &str = "SourceIPHashMapper";

/// A pattern of a mapper and the outputs of its flows.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) pattern: Arc<Pattern>,
    pub(super) forward: u32,
    pub(super) reply: u32,
}

/// A mapper's patterns and how it chooses.
#[derive(Debug, Default)]
pub(super) struct Mapper {
    /// Its name and class, for errors about it.
    pub(super) declaration: String,
    pub(super) choices: Vec<Choice>,
    pub(super) rule: Rule,
}

/// Rule by which a mapper chooses.
#[derive(Debug)]
pub(super) enum Rule {
    /// In turn, the next being this one.
    Turn(usize),
    /// By the source address.
    Source(Ring),
}

impl Default for Rule {
    fn default() -> Rule {
        Rule::Turn(0)
    }
}

impl Mapper {
    /// Returns true if elements of a class are mappers.
    pub(super) fn is_one(class: &Class) -> bool {
        [ROUND_ROBIN, SOURCE_HASH].contains(&class.name)
    }

    /// Returns a new flow's rewritten ends and outputs, forward and reply; `None` when nothing is
    /// free.
    pub(super) fn choose(
        &mut self,
        flow: Ends,
        taken: &mut impl PortAllocator,
    ) -> Option<(Ends, u32, u32)> {
        let Mapper { choices, rule, .. } = self;
        let mut by = |at: usize| {
            let Choice { pattern, forward, reply } = choices.get(at)?;
            Some((pattern.apply(flow, taken)?, *forward, *reply))
        };
        match rule {
            Rule::Turn(next) => (0..choices.len()).find_map(|_| {
                let at = *next;
                *next = if at + 1 < choices.len() { at + 1 } else { 0 };
                by(at)
            }),
            Rule::Source(ring) => by(ring.place(flow.src)),
        }
    }

    /// Returns its errors for a rewriter with so many outputs: a line for each pattern.
    pub(super) fn check(&self, outputs: usize) -> Vec<String> {
        let declaration = &self.declaration;
        let wrong = |choice: &Choice| choice.forward.max(choice.reply) as usize >= outputs;
        let all = self.choices.iter().enumerate().filter(|(_, choice)| wrong(choice));
        all.map(|(at, _)| format!("output port out of range in {declaration} pattern {at}"))
            .collect()
    }
}
