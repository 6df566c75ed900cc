//! A flow of a table.

use std::sync::Arc;

use super::{Minimatch, PackedMatch};
use crate::counters::Counters;
use crate::wire::{Action, FlowFlags, FlowMod, Instruction};

/// A flow of a table. It never changes: one that is modified is another, with the same number and
/// counters, unless those are to begin anew.
#[derive(Debug, Clone)]
pub struct Flow {
    /// A number no other flow of the switch ever has; the older flow has the smaller.
    pub number: u64,
    /// The table it is in.
    pub table: u8,
    /// The greater is looked up first.
    pub priority: u16,
    /// Its match, as sent by the controller.
    pub matching: PackedMatch,
    /// The match in words.
    pub pattern: Minimatch,
    /// Its instructions.
    pub instructions: Vec<Instruction>,
    /// Whether it is a part of a match in several dimensions, and decides nothing alone.
    pub conjunctive: bool,
    /// The controller's cookie.
    pub cookie: u64,
    /// Seconds without packets until it is removed; 0 never.
    pub idle_timeout: u16,
    /// Seconds until it is removed; 0 never.
    pub hard_timeout: u16,
    /// Its flags.
    pub flags: FlowFlags,
    /// Flows of less go first where a table is full.
    pub importance: u16,
    /// When it was added, in nanoseconds of the steady clock.
    pub added: u64,
    /// Time of its last change.
    pub modified: u64,
    /// Packets and bytes that matched.
    pub counters: Arc<Counters>,
    /// When it was learnt again, as its last use: its hard time-out is counted from there. Only a
    /// flow that has time-outs, or may get some by its actions, has it.
    pub refreshed: Option<Arc<Counters>>,
}

// A switch has hundreds of thousands of them.
const _: () = assert!(size_of::<Flow>() <= 160);

impl Flow {
    /// The flow that a change adds, at a time of the steady clock in nanoseconds.
    #[must_use]
    pub fn new(number: u64, change: &FlowMod, now: u64) -> Flow {
        let (key, mask) = crate::key::of_match(&change.matching);
        let ends =
            change.idle_timeout != 0 || change.hard_timeout != 0 || shortens(&change.instructions);
        Flow {
            number,
            table: change.table,
            priority: change.priority,
            matching: PackedMatch::new(&change.matching),
            pattern: Minimatch::new(&key, &mask),
            conjunctive: is_conjunctive(&change.instructions),
            instructions: change.instructions.clone(),
            cookie: change.cookie.unwrap_or(0),
            idle_timeout: change.idle_timeout,
            hard_timeout: change.hard_timeout,
            flags: change.flags,
            importance: change.importance,
            added: now,
            modified: now,
            counters: Arc::new(Counters::new(now)),
            refreshed: ends.then(|| Arc::new(Counters::new(now))),
        }
    }

    /// Returns the time it was learnt again, or else 0.
    pub(crate) fn refreshed(&self) -> u64 {
        self.refreshed.as_ref().map_or(0, |refreshed| refreshed.used())
    }

    /// Replaces its instructions.
    pub(crate) fn set_instructions(&mut self, instructions: Vec<Instruction>) {
        self.conjunctive = is_conjunctive(&instructions);
        if self.refreshed.is_none() && shortens(&instructions) {
            self.refreshed = Some(Arc::default());
        }
        self.instructions = instructions;
    }

    /// Returns all its actions, those done at once before those done at the end.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        actions(&self.instructions)
    }
}

pub(crate) fn actions(instructions: &[Instruction]) -> impl Iterator<Item = &Action> {
    let of = |end: bool| {
        instructions.iter().filter_map(move |instruction| match instruction {
            Instruction::ApplyActions(actions) if !end => Some(actions),
            Instruction::WriteActions(actions) if end => Some(actions),
            _ => None,
        })
    };
    of(false).chain(of(true)).flatten()
}

/// Returns true if there is an action that gives the flow time-outs.
fn shortens(instructions: &[Instruction]) -> bool {
    actions(instructions).any(|action| matches!(action, Action::FinTimeout { .. }))
}

pub(crate) fn is_conjunctive(instructions: &[Instruction]) -> bool {
    actions(instructions).any(|action| matches!(action, Action::Conjunction { .. }))
}
