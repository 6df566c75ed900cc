//! Indices of flows for the control side: by time-out, by order of eviction, by cookie.
//!
//! All of it follows from the tables, and is brought up to date when a change of them is done.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::edit::Effect;
use super::event::{Event, Subscribers};
use super::journal::Origin;
use crate::table::{Flow, Snapshot, Table, learnt_with};
use crate::wire::{
    ALL_TABLES, Elapsed, FlowFlags, FlowRemoved, FlowRemovedReason, TableConfig, TableDesc,
    TableReason, TableStatus,
};

const SECOND: u64 = 1_000_000_000;

/// Orders flows, each with a number of its own.
type Order<K> = BTreeMap<(K, u64), Arc<Flow>>;

/// Flows by table and cookie, each by its number.
type Cookies = HashMap<(u8, u64), HashMap<u64, Arc<Flow>>>;

/// State of the control side.
#[derive(Debug, Default)]
pub(super) struct ControlState {
    /// Former snapshots that may still be referred to.
    pub(super) retired: Vec<Arc<Snapshot>>,
    /// The number of the last flow.
    pub(super) number: u64,
    /// The message that the change under way is made for.
    pub(super) origin: Option<Origin>,
    /// Configurations of ports to come, by name.
    pub(super) port_configs: HashMap<String, u32>,
    /// Flows with a time-out, by the time they are to be looked at.
    timers: Order<u64>,
    /// Number and time of the last request to workers, so that it is known which flows were used.
    pub(super) asked: Option<(u64, u64)>,
    /// Timer of each flow.
    due: HashMap<u64, u64>,
    /// Eviction orders of tables with eviction.
    evictable: HashMap<u8, Eviction>,
    /// The place of each flow in that.
    evictable_at: HashMap<u64, (u16, u64)>,
    /// Flows by table and cookie, filled on first use.
    cookies: Option<Cookies>,
    /// Number of flows that take learnt flows with them, by the table and the cookie of these.
    learners: HashMap<(u8, u64), usize>,
    /// Those of which the last is gone: the change under way removes the learnt flows.
    pub(super) orphans: Vec<(u8, u64)>,
    /// Tables with vacancy events, and whether they are full.
    vacancy: HashMap<u8, bool>,
}

/// Returns the time-out of a flow without further packets, and its reason.
fn end(flow: &Flow) -> Option<(u64, FlowRemovedReason)> {
    let after = |from: u64, seconds: u16| from.saturating_add(u64::from(seconds) * SECOND);
    let hard = (flow.hard_timeout != 0).then(|| {
        let from = flow.modified.max(flow.refreshed());
        (after(from, flow.hard_timeout), FlowRemovedReason::HardTimeout)
    });
    let idle = (flow.idle_timeout != 0).then(|| {
        let from = flow.counters.used().max(flow.refreshed()).max(flow.added);
        (after(from, flow.idle_timeout), FlowRemovedReason::IdleTimeout)
    });
    match (hard, idle) {
        (Some(hard), Some(idle)) => Some(if hard.0 <= idle.0 { hard } else { idle }),
        (hard, idle) => hard.or(idle),
    }
}

/// Eviction order: by importance, then by time-out.
pub(super) type Eviction = Order<(u16, u64)>;

/// A flow's place in that order, and its number.
pub(super) type EvictionPlace = ((u16, u64), u64);

/// The place of a flow in that order.
fn eviction_of(flow: &Flow) -> (u16, u64) {
    (flow.importance, end(flow).map_or(u64::MAX, |(time, _)| time))
}

/// The order of a table.
pub(super) fn eviction(table: &Table) -> Eviction {
    table.iter().map(|flow| ((eviction_of(flow), flow.number), Arc::clone(flow))).collect()
}

impl ControlState {
    /// Takes former snapshots without other references.
    pub(super) fn take_unused(&mut self) -> Vec<Arc<Snapshot>> {
        self.retired.extract_if(.., |snapshot| Arc::strong_count(snapshot) == 1).collect()
    }

    /// Returns the time of the next timer.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.timers.first_key_value().map(|(&(time, _), _)| time)
    }

    /// Returns the flows whose time-outs have passed, with the reasons, among the next `most`
    /// timers. Timers of flows that were used since are set anew.
    pub(super) fn expired(&mut self, now: u64, most: usize) -> Vec<(Arc<Flow>, FlowRemovedReason)> {
        let mut expired = Vec::new();
        for _ in 0..most {
            let Some(entry) = self.timers.first_entry() else { break };
            if entry.key().0 > now {
                break;
            }
            let flow = entry.remove();
            match end(&flow) {
                Some((time, _)) if time > now => self.schedule(flow, time),
                Some((_, reason)) => expired.push((flow, reason)),
                None => {}
            }
        }
        expired
    }

    fn schedule(&mut self, flow: Arc<Flow>, time: u64) {
        self.due.insert(flow.number, time);
        self.timers.insert((time, flow.number), flow);
    }

    /// Returns the order in which flows of a table are evicted; `None` where they were not before
    /// this change.
    pub(super) fn eviction(&self, table: u8) -> Option<&Eviction> {
        self.evictable.get(&table)
    }

    fn cookies(&mut self, tables: &Snapshot) -> &Cookies {
        self.cookies.get_or_insert_with(|| {
            let mut cookies = Cookies::new();
            for flow in (0..tables.tables()).flat_map(|table| tables.flows(table)) {
                let flows = cookies.entry((flow.table, flow.cookie)).or_default();
                flows.insert(flow.number, Arc::clone(flow));
            }
            cookies
        })
    }

    /// Flows of a table, or of all, with a cookie.
    pub(super) fn with_cookie(
        &mut self,
        table: u8,
        cookie: u64,
        tables: &Snapshot,
    ) -> Vec<Arc<Flow>> {
        let wanted = if table == ALL_TABLES { 0..tables.tables() } else { table..table + 1 };
        let cookies = self.cookies(tables);
        let flows = wanted.filter_map(|table| cookies.get(&(table, cookie)));
        flows.flat_map(|flows| flows.values().cloned()).collect()
    }

    /// Returns the number of flows of a table with a cookie.
    pub(super) fn count_with_cookie(&mut self, table: u8, cookie: u64, tables: &Snapshot) -> usize {
        self.cookies(tables).get(&(table, cookie)).map_or(0, HashMap::len)
    }

    fn arrive(&mut self, flow: &Arc<Flow>) {
        if let Some((time, _)) = end(flow) {
            self.schedule(Arc::clone(flow), time);
        }
        if let Some(order) = self.evictable.get_mut(&flow.table) {
            let at = eviction_of(flow);
            self.evictable_at.insert(flow.number, at);
            order.insert((at, flow.number), Arc::clone(flow));
        }
        if let Some(cookies) = &mut self.cookies {
            let flows = cookies.entry((flow.table, flow.cookie)).or_default();
            flows.insert(flow.number, Arc::clone(flow));
        }
        learnt_with(flow, &mut |table, cookie| {
            *self.learners.entry((table, cookie)).or_default() += 1;
        });
    }

    fn leave(&mut self, flow: &Flow) {
        if let Some(time) = self.due.remove(&flow.number) {
            self.timers.remove(&(time, flow.number));
        }
        if let Some(at) = self.evictable_at.remove(&flow.number)
            && let Some(order) = self.evictable.get_mut(&flow.table)
        {
            order.remove(&(at, flow.number));
        }
        if let Some(cookies) = &mut self.cookies
            && let Some(flows) = cookies.get_mut(&(flow.table, flow.cookie))
        {
            flows.remove(&flow.number);
            if flows.is_empty() {
                cookies.remove(&(flow.table, flow.cookie));
            }
        }
        learnt_with(flow, &mut |table, cookie| {
            if let Some(count) = self.learners.get_mut(&(table, cookie)) {
                *count -= 1;
                if *count == 0 {
                    self.learners.remove(&(table, cookie));
                    self.orphans.push((table, cookie));
                }
            }
        });
    }

    /// Updates the indices by the effects of a change, and sends its events.
    pub(super) fn settle(
        &mut self,
        effects: Vec<Effect>,
        tables: &Snapshot,
        limit: u32,
        subscribers: &Subscribers,
        now: u64,
    ) {
        let mut touched = [false; 256];
        for effect in effects {
            match effect {
                Effect::Added { flow, before } => {
                    if let Some(before) = before {
                        self.leave(&before);
                    }
                    self.arrive(&flow);
                    touched[usize::from(flow.table)] = true;
                }
                Effect::Removed { flow, reason } => {
                    self.leave(&flow);
                    touched[usize::from(flow.table)] = true;
                    let wanted = flow.flags.contains(FlowFlags::SEND_FLOW_REMOVED);
                    if let Some(reason) = reason.filter(|_| wanted) {
                        let told = flow_removed(&flow, reason, now);
                        subscribers.publish(&Event::FlowRemoved(Arc::new(told)));
                    }
                }
                Effect::Port(status) => subscribers.publish(&Event::PortStatus(Arc::new(status))),
                Effect::Table(table) => self.set_table(table, tables, limit),
                Effect::Group(..) | Effect::Meter(..) | Effect::Fragments => {}
            }
        }
        self.orphans.retain(|learnt| !self.learners.contains_key(learnt));
        if !self.vacancy.is_empty() {
            let touched = (0..=255).filter(|table| touched[usize::from(*table)]);
            touched.for_each(|table| self.send_table_status(table, tables, limit, subscribers));
        }
    }

    fn set_table(&mut self, number: u8, tables: &Snapshot, limit: u32) {
        let Some(table) = tables.table(number) else { return };
        if !table.config.contains(TableConfig::EVICTION) {
            if let Some(order) = self.evictable.remove(&number) {
                for flow in order.values() {
                    self.evictable_at.remove(&flow.number);
                }
            }
        } else if let Entry::Vacant(vacant) = self.evictable.entry(number) {
            let order = vacant.insert(eviction(table));
            self.evictable_at.extend(order.keys().map(|(at, number)| (*number, *at)));
        }
        match table.properties.vacancy {
            Some(vacancy) if table.config.contains(TableConfig::VACANCY_EVENTS) => {
                let room = room(table.len(), limit);
                self.vacancy.insert(number, room < vacancy.down);
            }
            _ => {
                self.vacancy.remove(&number);
            }
        }
    }

    /// Tells that a table fills or empties, each time it goes over the other bound.
    fn send_table_status(
        &mut self,
        number: u8,
        tables: &Snapshot,
        limit: u32,
        subscribers: &Subscribers,
    ) {
        let Some(full) = self.vacancy.get_mut(&number) else { return };
        let Some(table) = tables.table(number) else { return };
        let Some(vacancy) = table.properties.vacancy else { return };
        let room = room(table.len(), limit);
        let reason = if !*full && room < vacancy.down {
            TableReason::VacancyDown
        } else if *full && room > vacancy.up {
            TableReason::VacancyUp
        } else {
            return;
        };
        *full = !*full;
        let table = table_desc(number, tables, limit);
        subscribers.publish(&Event::TableStatus(Arc::new(TableStatus { reason, table })));
    }
}

/// Returns the free part of a table, in percent.
fn room(flows: usize, limit: u32) -> u8 {
    let left = u64::from(limit).saturating_sub(flows as u64);
    (left * 100 / u64::from(limit.max(1))) as u8
}

/// Returns the description of a table as of OpenFlow 1.4.
pub(super) fn table_desc(number: u8, tables: &Snapshot, limit: u32) -> TableDesc {
    let mut desc =
        TableDesc { table: number, config: TableConfig::default(), properties: Default::default() };
    if let Some(table) = tables.table(number) {
        desc.config = table.config;
        desc.properties = table.properties;
        if let Some(vacancy) = &mut desc.properties.vacancy {
            vacancy.now = room(table.len(), limit);
        }
    }
    desc
}

/// A time of the steady clock as time that has passed since.
pub(super) fn elapsed(since: u64, now: u64) -> Elapsed {
    std::time::Duration::from_nanos(now.saturating_sub(since)).into()
}

fn flow_removed(flow: &Flow, reason: FlowRemovedReason, now: u64) -> FlowRemoved {
    FlowRemoved {
        cookie: flow.cookie,
        priority: flow.priority,
        reason,
        table: flow.table,
        duration: elapsed(flow.added, now),
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        packets: flow.counters.packets(),
        bytes: flow.counters.bytes(),
        matching: flow.matching.unpack(),
    }
}
