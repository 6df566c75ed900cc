//! A change of the switch's tables while it is being made.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use super::options::SwitchOptions;
use super::state::{ControlState, Eviction, EvictionPlace, eviction};
use crate::meter::Meter;
use crate::table::{Change, Flow, Group, Reference, Snapshot, of_actions, of_instructions};
use crate::wire::{
    Action, Fault, FlowRemovedReason, Instruction, PacketOut, PortStatus, TableConfig,
};

/// Effect of a change outside of the tables, when it is done.
#[derive(Debug)]
pub(super) enum Effect {
    /// A flow came, perhaps in the place of another, or became another.
    Added { flow: Arc<Flow>, before: Option<Arc<Flow>> },
    /// A flow went; with a reason, subscribers are informed if the flow asks for it.
    Removed { flow: Arc<Flow>, reason: Option<FlowRemovedReason> },
    /// A port came, went or changed.
    Port(PortStatus),
    /// A table is set otherwise.
    Table(u8),
    /// A group came or became another, or went.
    Group(u32, Option<Arc<Group>>),
    /// A meter came or became another, or went.
    Meter(u32, Option<Arc<Meter>>),
    /// Fragments are treated otherwise.
    Fragments,
}

/// Tables of which this is the only reference, and their changes.
#[derive(Debug)]
pub(super) struct Edit<'a> {
    pub(super) tables: &'a mut Snapshot,
    pub(super) options: &'a SwitchOptions,
    pub(super) state: &'a ControlState,
    /// The number of the next flow.
    pub(super) number: u64,
    pub(super) now: u64,
    pub(super) changes: Vec<Change>,
    pub(super) effects: Vec<Effect>,
    /// Eviction order of tables for which this change turns eviction on.
    pub(super) evictions: HashMap<u8, Eviction>,
    /// The position that each table's eviction order has been scanned to.
    pub(super) evicted: HashMap<u8, EvictionPlace>,
}

impl Edit<'_> {
    /// The number of a new flow.
    pub(super) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Adds a flow, in the place of one with its match and priority if there is one. `different` is
    /// set if its effect on packets is another.
    pub(super) fn put(&mut self, flow: Arc<Flow>, different: bool) {
        let before = self.tables.insert_flow(&flow);
        if different {
            self.changes.push(Change::Flow(Arc::clone(&flow)));
        }
        self.effects.push(Effect::Added { flow, before });
    }

    /// Takes a flow away.
    pub(super) fn remove(&mut self, flow: &Flow, reason: Option<FlowRemovedReason>) {
        if let Some(flow) = self.tables.remove_flow(flow) {
            self.changes.push(Change::Flow(Arc::clone(&flow)));
            self.effects.push(Effect::Removed { flow, reason });
        }
    }

    /// Takes flows away that are there. Where these are all of a table, it is not taken apart flow
    /// by flow.
    pub(super) fn remove_all(&mut self, flows: &[Arc<Flow>], reason: FlowRemovedReason) {
        let mut left = [0usize; 256];
        flows.iter().for_each(|flow| left[usize::from(flow.table)] += 1);
        let tables = 0..self.tables.tables();
        let is_whole = |number: &u8| {
            let table = self.tables.table(*number);
            table.is_some_and(|table| left[usize::from(*number)] == table.len())
        };
        let emptied: Vec<u8> = tables.filter(is_whole).collect();
        emptied.iter().for_each(|table| self.tables.empty_table(*table));
        for flow in flows {
            if emptied.contains(&flow.table) {
                self.tables.forget_user(flow);
                self.changes.push(Change::Flow(Arc::clone(flow)));
                let (flow, reason) = (Arc::clone(flow), Some(reason));
                self.effects.push(Effect::Removed { flow, reason });
            } else {
                self.remove(flow, Some(reason));
            }
        }
    }

    /// Makes room for a flow in a full table, where that may be.
    pub(super) fn evict(&mut self, table: u8, importance: u16) -> Result<(), Fault> {
        let tables = &*self.tables;
        let evicts = |config: TableConfig| config.contains(TableConfig::EVICTION);
        let Some(full) = tables.table(table).filter(|table| evicts(table.config)) else {
            return Err(Fault::TableFull);
        };
        let order = match self.state.eviction(table) {
            Some(order) => order,
            None => self.evictions.entry(table).or_insert_with(|| eviction(full)),
        };
        let is_there =
            |flow: &Flow| tables.same_flow(flow).is_some_and(|found| found.number == flow.number);
        // Flows before the first that is there were evicted by this change, and do not come back.
        let from = self.evicted.get(&table).map_or(Bound::Unbounded, |&at| Bound::Excluded(at));
        let mut victim = None;
        for (&at, flow) in order.range((from, Bound::Unbounded)) {
            if is_there(flow) {
                victim = Some(Arc::clone(flow));
                break;
            }
            self.evicted.insert(table, at);
        }
        match victim {
            Some(victim) if victim.importance <= importance => {
                self.remove(&victim, Some(FlowRemovedReason::Eviction));
                Ok(())
            }
            _ => Err(Fault::TableFull),
        }
    }
}

/// The shortest packet: a header of Ethernet.
const SHORTEST: usize = 14;

/// Checks a controller's packet, and the references of its actions. There are no packet buffers.
pub(super) fn check_packet_out(tables: &Snapshot, out: &PacketOut) -> Result<(), Fault> {
    if out.buffer.is_some() {
        return Err(Fault::BufferUnknown);
    }
    if out.data.len() < SHORTEST {
        return Err(Fault::BadPacket);
    }
    check_actions(tables, &out.actions)
}

/// Checks that groups and meters of actions exist.
fn check_actions(tables: &Snapshot, actions: &[Action]) -> Result<(), Fault> {
    let mut found = Ok(());
    of_actions(actions, &mut |reference| {
        if found.is_ok() {
            found = check_reference(tables, reference);
        }
    });
    found
}

/// Checks that the meters that actions refer to exist.
pub(super) fn check_meters(tables: &Snapshot, actions: &[Action]) -> Result<(), Fault> {
    let mut found = Ok(());
    of_actions(actions, &mut |reference| {
        if found.is_ok() && matches!(reference, Reference::Meter(_)) {
            found = check_reference(tables, reference);
        }
    });
    found
}

/// Checks that tables, groups and meters of a flow's instructions exist.
pub(super) fn check_instructions(
    tables: &Snapshot,
    table: u8,
    instructions: &[Instruction],
) -> Result<(), Fault> {
    check_goto(tables, table, instructions)?;
    let mut found = Ok(());
    of_instructions(instructions, &mut |reference| {
        if found.is_ok() {
            found = check_reference(tables, reference);
        }
    });
    found
}

/// Checks that instructions of a flow in a table go on in a later one that exists.
pub(super) fn check_goto(
    tables: &Snapshot,
    table: u8,
    instructions: &[Instruction],
) -> Result<(), Fault> {
    let wrong = |instruction: &Instruction| match instruction {
        Instruction::GotoTable(to) => *to <= table || *to >= tables.tables(),
        _ => false,
    };
    if instructions.iter().any(wrong) { Err(Fault::InstructionBadTableId) } else { Ok(()) }
}

/// Checks that a group or meter exists.
fn check_reference(tables: &Snapshot, reference: Reference) -> Result<(), Fault> {
    match reference {
        Reference::Group(number) if tables.group(number).is_none() => Err(Fault::BadOutGroup),
        // As in Open vSwitch: the specification has no fault of its own before 1.5.
        Reference::Meter(number) if tables.meter(number).is_none() => Err(Fault::InvalidMeter),
        _ => Ok(()),
    }
}
