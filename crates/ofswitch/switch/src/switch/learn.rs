//! Deferred changes: a worker makes them at once if no other thread changes the tables, else leaves
//! them to it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::state::ControlState;
use super::{SMALL, Switch, lock};
use crate::pipeline::{Environment, Learning};
use crate::table::{Change, Flow};
use crate::wire::{Fault, FlowMod, PortNumber, PortState, Version};

/// Changes that may wait. Further ones are dropped; flows are learnt again when others of their
/// table come or go.
const ROOM: usize = 4096;

/// A change that may be deferred.
#[derive(Debug)]
pub(super) enum DeferredChange {
    Learn(Box<FlowMod>, u32),
    Host(u16, u64),
    Shorten(Arc<Flow>, u16, u16),
    /// A port's link state, which is never dropped.
    PortState(PortNumber, PortState),
    /// Hosts that `NORMAL` has aged out; never dropped, like the next two.
    Forgotten(Vec<(u16, u64)>),
    /// Whether packets without a match go to controllers.
    Misses(bool),
    /// Whether the switch forwards without flows (fail-standalone).
    StandsAlone(bool),
}

impl DeferredChange {
    /// Returns true if its cause recurs, so that it may be dropped.
    fn comes_again(&self) -> bool {
        matches!(
            self,
            DeferredChange::Learn(..) | DeferredChange::Host(..) | DeferredChange::Shorten(..)
        )
    }
}

/// Changes that could not be made at once, as another thread was making one.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// Whether there are some: looked at without the lock.
    some: AtomicBool,
    changes: Mutex<VecDeque<(DeferredChange, u64)>>,
}

impl Switch {
    /// Makes a change now if no other thread makes one, else soon. Returns the result, if it is
    /// known.
    pub(super) fn change_or_defer(
        &self,
        change: DeferredChange,
        now: u64,
    ) -> Option<Result<(), Fault>> {
        if let Ok(mut state) = self.state.try_lock() {
            self.do_deferred(&mut state);
            return Some(self.make(&mut state, change, now));
        }
        let mut changes = lock(&self.deferred.changes);
        if changes.len() >= ROOM && change.comes_again() {
            return Some(Err(Fault::TableFull));
        }
        changes.push_back((change, now));
        self.deferred.some.store(true, Ordering::Release);
        None
    }

    /// Makes the deferred changes. Every change of the tables begins with that, and the timer does
    /// it.
    pub(super) fn do_deferred(&self, state: &mut ControlState) {
        if !self.deferred.some.load(Ordering::Acquire) {
            return;
        }
        let changes = {
            let mut changes = lock(&self.deferred.changes);
            self.deferred.some.store(false, Ordering::Release);
            std::mem::take(&mut *changes)
        };
        for (change, now) in changes {
            // A change that finds no room comes again.
            let _done = self.make(state, change, now);
        }
    }

    fn make(
        &self,
        state: &mut ControlState,
        change: DeferredChange,
        now: u64,
    ) -> Result<(), Fault> {
        match change {
            DeferredChange::Learn(flow, limit) => {
                let tables = self.snapshot();
                let (key, mask) = crate::key::of_match(&flow.matching);
                let known = tables.flow_strict(flow.table, flow.priority, &key, &mask).is_some();
                if limit != 0 && !known {
                    let cookie = flow.cookie.unwrap_or(0);
                    if state.count_with_cookie(flow.table, cookie, &tables) >= limit as usize {
                        return Err(Fault::TableFull);
                    }
                }
                drop(tables);
                self.flow_mod_with(state, &flow, Version::V10, now)
            }
            DeferredChange::Host(vlan, address) => self.change(state, false, now, |edit| {
                edit.changes.push(Change::Host { vlan, address });
                Ok(())
            }),
            DeferredChange::PortState(number, port) => self.change(state, false, now, |edit| {
                edit.set_port_state(number, port);
                Ok(())
            }),
            DeferredChange::Forgotten(hosts) => self.change(state, false, now, |edit| {
                if hosts.len() > SMALL {
                    edit.changes.push(Change::All);
                } else {
                    let gone = hosts.iter().map(|&(vlan, address)| Change::Host { vlan, address });
                    edit.changes.extend(gone);
                }
                Ok(())
            }),
            DeferredChange::Misses(wanted) => self.change(state, false, now, |edit| {
                if edit.tables.misses_to_controllers() != wanted {
                    edit.tables.set_misses_to_controllers(wanted);
                    edit.changes.push(Change::All);
                }
                Ok(())
            }),
            DeferredChange::StandsAlone(alone) => self.change(state, false, now, |edit| {
                if edit.tables.stands_alone() != alone {
                    edit.tables.set_stands_alone(alone);
                    edit.changes.push(Change::All);
                }
                Ok(())
            }),
            DeferredChange::Shorten(flow, idle, hard) => self.change(state, false, now, |edit| {
                edit.shorten(&flow, idle, hard);
                Ok(())
            }),
        }
    }
}

impl Environment for Switch {
    fn learn(&self, flow: FlowMod, limit: u32, now: u64) -> Learning {
        match self.change_or_defer(DeferredChange::Learn(Box::new(flow), limit), now) {
            Some(Ok(())) => Learning::Made,
            Some(Err(_)) => Learning::Full,
            None => Learning::Pending,
        }
    }

    fn host_changed(&self, vlan: u16, address: u64) {
        self.change_or_defer(DeferredChange::Host(vlan, address), 0);
    }

    fn shorten(&self, flow: &Arc<Flow>, idle: u16, hard: u16, now: u64) {
        self.change_or_defer(DeferredChange::Shorten(Arc::clone(flow), idle, hard), now);
    }
}
