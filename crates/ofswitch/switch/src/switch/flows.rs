//! Changes of flows, by command.
//!
//! Sources: OpenFlow 1.0.2 section 4.6, 1.3.5 section 6.4, 1.4.1 sections 6.4 and 6.5, and Open
//! vSwitch where they leave it open.

use std::sync::Arc;

use super::edit::{Edit, check_goto, check_instructions};
use super::state::ControlState;
use crate::counters::Counters;
use crate::table::{Flow, Snapshot, sends_to_group, sends_to_port};
use crate::wire::{
    ALL_TABLES, ANY_GROUP, Fault, FlowFlags, FlowMod, FlowModCommand, FlowRemovedReason,
    PortNumber, Version,
};

/// Planned change, for the tables as they are.
#[derive(Debug)]
pub(super) enum Plan {
    /// A flow is added.
    Add,
    /// These flows become others.
    Modify(Vec<Arc<Flow>>),
    /// These flows go.
    Delete(Vec<Arc<Flow>>),
}

impl Plan {
    /// Returns the number of flows to be changed.
    pub(super) fn len(&self) -> usize {
        match self {
            Plan::Add => 1,
            Plan::Modify(flows) | Plan::Delete(flows) => flows.len(),
        }
    }
}

/// The flows a change or a request is about.
#[derive(Debug)]
pub(super) struct FlowFilter<'a> {
    pub(super) change: &'a FlowMod,
    /// Whether the filter by output port and group applies.
    pub(super) outputs: bool,
}

impl FlowFilter<'_> {
    fn has(&self, flow: &Flow) -> bool {
        let FlowMod { filter, out_port, out_group, .. } = self.change;
        let cookie = (flow.cookie ^ filter.value) & filter.mask == 0;
        let outputs = !self.outputs
            || (*out_port == PortNumber::ANY || sends_to_port(flow, *out_port))
                && (*out_group == ANY_GROUP || sends_to_group(flow, *out_group));
        cookie && outputs
    }

    /// The flows with this match, and priority where the command is strict.
    pub(super) fn find(
        &self,
        tables: &Snapshot,
        state: Option<&mut ControlState>,
    ) -> Vec<Arc<Flow>> {
        let change = self.change;
        let (key, mask) = crate::key::of_match(&change.matching);
        let strict =
            matches!(change.command, FlowModCommand::ModifyStrict | FlowModCommand::DeleteStrict);
        let of_table = |table: u8| change.table == ALL_TABLES || change.table == table;
        let mut found = Vec::new();
        match state {
            // By the cookie alone, when the filter has nothing else.
            Some(state) if change.filter.mask == u64::MAX && mask.is_empty() && !strict => {
                let flows = state.with_cookie(change.table, change.filter.value, tables);
                found.extend(flows.into_iter().filter(|flow| self.has(flow)));
                return found;
            }
            _ => {}
        }
        for number in (0..tables.tables()).filter(|&table| of_table(table)) {
            let Some(table) = tables.table(number) else { continue };
            if strict {
                let flow = table.get(change.priority, &key, &mask).filter(|flow| self.has(flow));
                found.extend(flow.map(Arc::clone));
            } else {
                table.covered(&key, &mask, &mut |flow| {
                    if self.has(flow) {
                        found.push(Arc::clone(flow));
                    }
                });
            }
        }
        found
    }
}

/// Plans a change. It is valid then, except that there may be no room.
pub(super) fn plan(
    tables: &Snapshot,
    state: Option<&mut ControlState>,
    change: &FlowMod,
    version: Version,
) -> Result<Plan, Fault> {
    if change.table != ALL_TABLES && change.table >= tables.tables() {
        let old = version == Version::V10;
        return Err(if old { Fault::BadTableId } else { Fault::FlowModBadTableId });
    }
    if change.command.deletes() {
        let chosen = FlowFilter { change, outputs: true };
        return Ok(Plan::Delete(chosen.find(tables, state)));
    }
    // No packets wait here.
    if change.buffer.is_some() {
        return Err(Fault::BufferUnknown);
    }
    if version != Version::V10 {
        change.check()?;
    }
    let adds = change.command == FlowModCommand::Add;
    let table = if change.table == ALL_TABLES { 0 } else { change.table };
    if adds {
        check_instructions(tables, table, &change.instructions)?;
        return Ok(Plan::Add);
    }
    check_goto(tables, table, &change.instructions)?;
    // As in Open vSwitch, groups and meters have to be there only when there is a flow to refer to
    // them.
    let found = FlowFilter { change, outputs: false }.find(tables, state);
    for flow in &found {
        check_instructions(tables, flow.table, &change.instructions)?;
    }
    // OpenFlow 1.0 adds a flow where there is none to modify, unless the command selects by cookie,
    // or leaves the cookie as it is.
    let may_add = change.filter.mask == 0 && change.cookie.is_some_and(|cookie| cookie != u64::MAX);
    if found.is_empty() && version == Version::V10 && may_add {
        check_instructions(tables, 0, &change.instructions)?;
        return Ok(Plan::Add);
    }
    Ok(Plan::Modify(found))
}

impl Edit<'_> {
    /// Carries out a plan.
    pub(super) fn carry_out(
        &mut self,
        plan: Plan,
        change: &FlowMod,
        version: Version,
    ) -> Result<(), Fault> {
        match plan {
            Plan::Add => self.add(change, version)?,
            Plan::Modify(flows) => flows.iter().for_each(|flow| self.modify(flow, change)),
            Plan::Delete(flows) => self.remove_all(&flows, FlowRemovedReason::Delete),
        }
        Ok(())
    }

    fn add(&mut self, change: &FlowMod, version: Version) -> Result<(), Fault> {
        let mut flow = Flow::new(0, change, self.now);
        if flow.table == ALL_TABLES {
            flow.table = 0;
        }
        if change.cookie == Some(u64::MAX) && change.command != FlowModCommand::Add {
            flow.cookie = 0;
        }
        let limit = self.options.flows as usize;
        let table = self.tables.table(flow.table).ok_or(Fault::BadTableId)?;
        let (key, mask) = (flow.pattern.key(), flow.pattern.mask());
        let before = table.get(flow.priority, &key, &mask).map(Arc::clone);
        match &before {
            Some(before) => {
                // It is another flow, but for its counts (1.3.5, section 6.4). In 1.0 these begin
                // anew, too.
                let resets =
                    version == Version::V10 || flow.flags.contains(FlowFlags::RESET_COUNTS);
                if !resets {
                    flow.counters = Arc::clone(&before.counters);
                }
            }
            None => {
                let checks = flow.flags.contains(FlowFlags::CHECK_OVERLAP);
                if checks && table.overlaps(flow.priority, &key, &mask) {
                    return Err(Fault::Overlap);
                }
                if table.len() >= limit {
                    self.evict(flow.table, flow.importance)?;
                }
            }
        }
        flow.number = self.next_number();
        self.put(Arc::new(flow), true);
        Ok(())
    }

    fn modify(&mut self, before: &Arc<Flow>, change: &FlowMod) {
        let same = before.instructions == change.instructions;
        let mut flow = Flow::clone(before);
        if !same {
            flow.set_instructions(change.instructions.clone());
            flow.modified = self.now;
        }
        // OpenFlow 1.0 changes the cookie, too.
        if let Some(cookie) = change.cookie.filter(|cookie| *cookie != u64::MAX) {
            flow.cookie = cookie;
        }
        // Others, as a bundle that fails leaves those of before as they are.
        let resets = change.flags.contains(FlowFlags::RESET_COUNTS);
        if resets {
            flow.counters = Arc::new(Counters::new(before.counters.used()));
        }
        if !same || resets || flow.cookie != before.cookie {
            self.put(Arc::new(flow), true);
        }
    }

    /// Shortens time-outs of a flow to these, where they are longer or none; 0 leaves one.
    pub(super) fn shorten(&mut self, flow: &Flow, idle: u16, hard: u16) {
        let found = self.tables.same_flow(flow);
        let Some(before) = found.filter(|found| found.number == flow.number) else { return };
        let shorter = |now: u16, wanted: u16| match (now, wanted) {
            (now, 0) => now,
            (0, wanted) => wanted,
            (now, wanted) => now.min(wanted),
        };
        let mut flow = Flow::clone(before);
        flow.idle_timeout = shorter(flow.idle_timeout, idle);
        flow.hard_timeout = shorter(flow.hard_timeout, hard);
        flow.refreshed.get_or_insert_default();
        let same =
            (before.idle_timeout, before.hard_timeout) == (flow.idle_timeout, flow.hard_timeout);
        if !same {
            self.put(Arc::new(flow), false);
        }
    }
}
