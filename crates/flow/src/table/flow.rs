//! A flow of a table.

use std::sync::Arc;

use super::Counters;
use crate::key::{Key, Mask};
use crate::wire::{FlowFlags, Instruction, Match};

/// A flow of a table. It never changes: one that is modified is another, with the same number and
/// counters.
#[derive(Debug)]
pub struct Flow {
    /// A number no other flow of the switch ever has.
    pub number: u64,
    /// The table it is in.
    pub table: u8,
    /// The greater is asked first.
    pub priority: u16,
    /// What it matches, as the controller said it.
    pub matching: Match,
    /// The same in words.
    pub key: Key,
    /// Which bits count.
    pub mask: Mask,
    /// What it does.
    pub instructions: Vec<Instruction>,
    /// What the controller calls it.
    pub cookie: u64,
    /// Without packets it goes after so many seconds; 0 never.
    pub idle_timeout: u16,
    /// It goes after so many seconds; 0 never.
    pub hard_timeout: u16,
    /// What else it has.
    pub flags: FlowFlags,
    /// Flows of less go first where a table is full.
    pub importance: u16,
    /// When it was added, in nanoseconds of the steady clock.
    pub added: u64,
    /// What it has had.
    pub counters: Arc<Counters>,
}
