//! Flow monitors: updates to controllers about changes of flows.
//!
//! The switch [records](crate::switch::Journal) changes while there is a monitor. The thread that
//! makes a change for a controller sends its updates before it goes on, so they come before the
//! answer to a barrier behind the change; updates for changes by workers and time-outs are sent by
//! the thread of events.
//!
//! As in Open vSwitch, a controller's own change is one update that names the message, unless the
//! monitor asks for full updates, and updates pause while a controller does not read them: then
//! only the changed flows are remembered, and sent when it has read all. A monitor's initial flows
//! are sent as fast as they are read, and changes wait for them in the same way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::outbox::Outbox;
use crate::key::{Key, Mask};
use crate::switch::{FlowChange, Initial, Journal, Origin, Records, Switch};
use crate::table::{Flow, Snapshot, sends_to_group, sends_to_port};
use crate::wire::multipart::{
    FlowEvent, FlowMonitor, FlowMonitorCommand, FlowMonitorFlags, FlowUpdate, FlowUpdated, Parts,
    Reply,
};
use crate::wire::{
    ALL_TABLES, ANY_GROUP, Fault, FlowRemovedReason, Message, NiciraMessage, PortNumber, Version,
};

/// Most monitors of a controller.
const MONITORS: usize = 256;

/// Updates pause when so many bytes of them wait, as in Open vSwitch.
const FULL: usize = 128 << 10;

/// Updates that are written at a time.
const PIECE: usize = 64;

/// The flows and changes that a monitor selects.
#[derive(Debug)]
struct Monitor {
    flags: FlowMonitorFlags,
    out_port: PortNumber,
    out_group: u32,
    table: u8,
    key: Key,
    mask: Mask,
}

impl Monitor {
    fn new(request: &FlowMonitor) -> Monitor {
        let (key, mask) = crate::key::of_match(&request.matching);
        let FlowMonitor { flags, out_port, out_group, table, .. } = *request;
        Monitor { flags, out_port, out_group, table, key, mask }
    }

    /// Returns true if it matches a flow, or its former version, which may have had other outputs.
    fn has(&self, flow: &Flow, before: Option<&Flow>) -> bool {
        let sends = |flow: &Flow| sends_to_port(flow, self.out_port);
        (self.table == ALL_TABLES || self.table == flow.table)
            && (self.out_port == PortNumber::ANY || sends(flow) || before.is_some_and(sends))
            && (self.out_group == ANY_GROUP || sends_to_group(flow, self.out_group))
            && flow.pattern.is_covered_by(&self.key, &self.mask)
    }
}

/// Changes that wait to be sent.
#[derive(Debug, Default)]
struct PausedUpdates {
    /// Flows that came or became others, by number, and whether the controller knows of one like
    /// it.
    changed: BTreeMap<u64, (Arc<Flow>, bool)>,
    /// Flows that went and the controller knows.
    removed: VecDeque<(Arc<Flow>, FlowRemovedReason)>,
    /// The number of the first flow that came, also of those no monitor is about: the controller
    /// knows none from it on.
    first_new: Option<u64>,
    /// Whether the controller was sent the pause of updates.
    is_told: bool,
    /// Whether a monitor's first flows are on their way.
    is_initial: bool,
}

/// Monitors of a controller, and its updates that wait.
#[derive(Debug)]
struct MonitorQueue {
    version: Version,
    outbox: Arc<Outbox>,
    monitors: BTreeMap<u32, Monitor>,
    paused: Option<PausedUpdates>,
}

#[derive(Debug, Default)]
struct All {
    journal: Option<Journal>,
    queues: BTreeMap<u64, MonitorQueue>,
}

/// All monitors of a switch.
#[derive(Debug, Default)]
pub(super) struct Monitors {
    /// Whether there are some, looked at without the lock.
    some: AtomicBool,
    all: Mutex<All>,
}

impl Monitors {
    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes monitors of a controller: all that are requested, or on a fault none. Returns the
    /// flows of the initial update; after their last [`Monitors::told_initial`] is called.
    pub(super) fn change(
        &self,
        switch: &Switch,
        (controller, version, outbox): (u64, Version, &Arc<Outbox>),
        requests: &[FlowMonitor],
    ) -> Result<Vec<Initial>, Fault> {
        let mut all = self.lock();
        let all = &mut *all;
        let known = all.queues.get(&controller).map(|queue| &queue.monitors);
        check(known, requests, switch.options().tables)?;
        // Changes up to now are of the monitors up to now.
        let saved = match &all.journal {
            Some(journal) => {
                let (records, saved) = switch.cut_journal(journal);
                spread(&mut all.queues, &records);
                saved
            }
            None => {
                let (journal, saved) = switch.begin_journal(Arc::new(|| {}));
                all.journal = Some(journal);
                saved
            }
        };
        self.some.store(true, Ordering::Release);
        let queue = all.queues.entry(controller).or_insert_with(|| MonitorQueue {
            version,
            outbox: Arc::clone(outbox),
            monitors: BTreeMap::new(),
            paused: None,
        });
        let mut new = Vec::new();
        for request in requests {
            queue.monitors.remove(&request.id);
            if request.command != FlowMonitorCommand::Delete {
                queue.monitors.insert(request.id, Monitor::new(request));
                new.push(request.id);
            }
        }
        let new = new.iter().filter_map(|id| queue.monitors.get(id));
        let flows = initial(&new.collect::<Vec<_>>(), saved.tables());
        if !flows.is_empty() {
            queue.paused.get_or_insert_default().is_initial = true;
        }
        self.tidy(all);
        Ok(flows)
    }

    /// Ends a monitor.
    pub(super) fn cancel(&self, controller: u64, id: u32) -> Result<(), Fault> {
        let mut all = self.lock();
        let queue = all.queues.get_mut(&controller).ok_or(Fault::UnknownMonitor)?;
        queue.monitors.remove(&id).ok_or(Fault::UnknownMonitor)?;
        self.tidy(&mut all);
        Ok(())
    }

    /// Ends all monitors of a controller that is gone.
    pub(super) fn forget(&self, controller: u64) {
        if self.some.load(Ordering::Acquire) {
            let mut all = self.lock();
            all.queues.remove(&controller);
            self.tidy(&mut all);
        }
    }

    /// Ends the journal when no controller has a monitor.
    fn tidy(&self, all: &mut All) {
        all.queues.retain(|_, queue| !queue.monitors.is_empty() || queue.paused.is_some());
        if all.queues.is_empty() {
            all.journal = None;
            self.some.store(false, Ordering::Release);
        }
    }

    /// Sends the recorded changes to the monitors.
    pub(super) fn send_updates(&self) {
        if !self.some.load(Ordering::Acquire) {
            return;
        }
        let mut all = self.lock();
        all.send_updates();
    }

    /// Notes that a controller was sent its monitors' initial flows.
    pub(super) fn told_initial(&self, controller: u64) {
        let mut all = self.lock();
        let queue = all.queues.get_mut(&controller);
        if let Some(paused) = queue.and_then(|queue| queue.paused.as_mut()) {
            paused.is_initial = false;
        }
    }

    /// Sends a controller the updates held back for it, once it has read the rest. Its own thread
    /// calls this now and then.
    pub(super) fn go_on(&self, controller: u64) {
        if !self.some.load(Ordering::Acquire) {
            return;
        }
        let mut all = self.lock();
        let is_held = all.queues.get(&controller).is_some_and(|queue| queue.paused.is_some());
        if is_held {
            all.send_updates();
            if let Some(queue) = all.queues.get_mut(&controller) {
                queue.release();
            }
            self.tidy(&mut all);
        }
    }
}

impl All {
    fn send_updates(&mut self) {
        if let Some(journal) = &self.journal {
            let records = journal.take();
            spread(&mut self.queues, &records);
        }
    }
}

/// Checks that all changes of monitors can be made.
fn check(
    known: Option<&BTreeMap<u32, Monitor>>,
    requests: &[FlowMonitor],
    tables: u8,
) -> Result<(), Fault> {
    let mut there: BTreeSet<u32> = known.into_iter().flat_map(BTreeMap::keys).copied().collect();
    for request in requests {
        let FlowMonitor { id, command, table, .. } = *request;
        match command {
            FlowMonitorCommand::Add if there.contains(&id) => return Err(Fault::MonitorExists),
            FlowMonitorCommand::Modify | FlowMonitorCommand::Delete if !there.contains(&id) => {
                return Err(Fault::UnknownMonitor);
            }
            FlowMonitorCommand::Delete => {
                there.remove(&id);
                continue;
            }
            FlowMonitorCommand::Add if there.len() >= MONITORS => {
                return Err(Fault::InvalidMonitor);
            }
            FlowMonitorCommand::Add | FlowMonitorCommand::Modify => {}
        }
        if table != ALL_TABLES && table >= tables {
            return Err(Fault::BadTableId);
        }
        there.insert(id);
    }
    Ok(())
}

/// Returns the initial flows of monitors, each once, in the order of an answer.
fn initial(monitors: &[&Monitor], tables: &Snapshot) -> Vec<Initial> {
    let mut found = BTreeMap::new();
    for monitor in
        monitors.iter().filter(|monitor| monitor.flags.contains(FlowMonitorFlags::INITIAL))
    {
        let of_table = |table: &u8| monitor.table == ALL_TABLES || monitor.table == *table;
        for number in (0..tables.tables()).filter(of_table) {
            let Some(table) = tables.table(number) else { continue };
            table.covered(&monitor.key, &monitor.mask, &mut |flow| {
                if monitor.has(flow, None) {
                    let place = (flow.table, std::cmp::Reverse(flow.priority), flow.number);
                    let entry = found.entry(place).or_insert_with(|| (Arc::clone(flow), false));
                    entry.1 |= monitor.flags.contains(FlowMonitorFlags::INSTRUCTIONS);
                }
            });
        }
    }
    found.into_values().collect()
}

/// Sends changes to each controller whose monitors match them.
fn spread(queues: &mut BTreeMap<u64, MonitorQueue>, records: &Records) {
    if records.is_incomplete() {
        // Too many changes: the controllers connect again and ask for all flows.
        queues.values().for_each(|queue| queue.outbox.give_up());
        return;
    }
    for (controller, queue) in queues {
        for (origin, changes) in records.flows() {
            let own = origin.filter(|origin| origin.controller == *controller);
            queue.add_changes(own, changes);
        }
    }
}

impl MonitorQueue {
    /// The flags of all monitors that are about such a change.
    fn flags(
        &self,
        wanted: FlowMonitorFlags,
        flow: &Flow,
        before: Option<&Flow>,
    ) -> FlowMonitorFlags {
        let about =
            |monitor: &&Monitor| monitor.flags.contains(wanted) && monitor.has(flow, before);
        let flags = self.monitors.values().filter(about).map(|monitor| monitor.flags);
        flags.fold(FlowMonitorFlags::default(), FlowMonitorFlags::with)
    }

    /// A change was made.
    fn add_changes<'a>(
        &mut self,
        own: Option<Origin>,
        changes: impl Iterator<Item = FlowChange<'a>>,
    ) {
        let mut updates = Vec::new();
        let mut is_abbreviated = false;
        for change in changes {
            let (event, flow, before) = match change {
                FlowChange::Added(flow, before) => (FlowEvent::Added, flow, before),
                FlowChange::Modified(flow, before) => {
                    let is_same =
                        flow.instructions == before.instructions && flow.cookie == before.cookie;
                    if is_same {
                        continue;
                    }
                    (FlowEvent::Modified, flow, Some(before))
                }
                FlowChange::Removed(flow, reason) => (FlowEvent::Removed(reason), flow, None),
            };
            let flags = self.flags(flag(event), flow, before.map(|before| &**before));
            if let Some(paused) = &mut self.paused {
                paused.note(event, flow, before, flags);
                continue;
            }
            if flags == FlowMonitorFlags::default() {
                continue;
            }
            let is_full = flags.contains(FlowMonitorFlags::OWN)
                || flags.contains(FlowMonitorFlags::NO_ABBREV);
            match own {
                Some(Origin { xid, .. }) if !is_full => {
                    if !std::mem::replace(&mut is_abbreviated, true) {
                        updates.push(FlowUpdate::Abbreviated { xid });
                    }
                }
                _ => {
                    let tells = flags.contains(FlowMonitorFlags::INSTRUCTIONS);
                    updates.push(updated(event, flow, tells));
                }
            }
            if updates.len() >= PIECE {
                self.send(&std::mem::take(&mut updates));
            }
        }
        if !updates.is_empty() {
            self.send(&updates);
        }
    }

    /// Sends updates, and pauses where too many wait.
    fn send(&mut self, updates: &[FlowUpdate]) {
        self.write(updates);
        if self.paused.is_none() && self.outbox.updates() > FULL {
            self.write_pause(FlowUpdate::Paused, NiciraMessage::FlowMonitorPaused);
            self.paused = Some(PausedUpdates { is_told: true, ..PausedUpdates::default() });
        }
    }

    fn write(&self, updates: &[FlowUpdate]) {
        let reply = Reply::FlowMonitor(updates.to_vec());
        // A flow that the version cannot encode is left out, as in other answers.
        let Ok(mut parts) = Parts::new(&reply, self.version, 0) else { return };
        let Ok(messages) = parts.add(&reply) else { return };
        messages.into_iter().for_each(|message| self.outbox.update(message));
        self.outbox.update(parts.finish());
    }

    fn write_pause(&self, update: FlowUpdate, message: NiciraMessage) {
        if self.version >= Version::V14 {
            self.write(&[update]);
        } else if let Ok(bytes) = Message::Nicira(message).encode(self.version, 0) {
            self.outbox.update(bytes);
        }
    }

    /// Sends the updates held back, as far as there is room.
    fn release(&mut self) {
        let mut paused = match &mut self.paused {
            Some(paused) if !paused.is_initial && self.outbox.updates() == 0 => {
                std::mem::take(paused)
            }
            _ => return,
        };
        while self.outbox.updates() < FULL {
            let removed = paused.removed.len().min(PIECE);
            let mut updates: Vec<_> = paused
                .removed
                .drain(..removed)
                .map(|(flow, reason)| updated(FlowEvent::Removed(reason), &flow, false))
                .collect();
            while updates.len() < PIECE
                && let Some((_, (flow, is_known))) = paused.changed.pop_first()
            {
                let event = if is_known { FlowEvent::Modified } else { FlowEvent::Added };
                let wanted = FlowMonitorFlags::ADD.0 | FlowMonitorFlags::MODIFY.0;
                let flags = self.flags(flag(event), &flow, None);
                if flags.0 & wanted != 0 {
                    let tells = flags.contains(FlowMonitorFlags::INSTRUCTIONS);
                    updates.push(updated(event, &flow, tells));
                }
            }
            if !updates.is_empty() {
                self.write(&updates);
            } else if paused.changed.is_empty() && paused.removed.is_empty() {
                if paused.is_told {
                    self.write_pause(FlowUpdate::Resumed, NiciraMessage::FlowMonitorResumed);
                }
                self.paused = None;
                return;
            }
        }
        self.paused = Some(paused);
    }
}

impl PausedUpdates {
    /// Remembers a change. There are never more entries than flows that are there now or were when
    /// it began.
    fn note(
        &mut self,
        event: FlowEvent,
        flow: &Arc<Flow>,
        before: Option<&Arc<Flow>>,
        flags: FlowMonitorFlags,
    ) {
        if event == FlowEvent::Added {
            self.first_new.get_or_insert(flow.number);
        }
        let is_new = |flow: &Flow| self.first_new.is_some_and(|first| first <= flow.number);
        let noted = before.and_then(|before| self.changed.remove(&before.number));
        match event {
            FlowEvent::Removed(reason) => {
                let is_known = match self.changed.remove(&flow.number) {
                    Some((_, known)) => known,
                    None => !is_new(flow),
                };
                if is_known && flags.contains(FlowMonitorFlags::REMOVED) {
                    self.removed.push_back((Arc::clone(flow), reason));
                }
            }
            _ if flags != FlowMonitorFlags::default() || noted.is_some() => {
                let is_known = match noted {
                    Some((_, known)) => known,
                    None => before.is_some_and(|before| !is_new(before)),
                };
                self.changed.insert(flow.number, (Arc::clone(flow), is_known));
            }
            _ => {}
        }
    }
}

/// Returns the flag of monitors for such an event.
fn flag(event: FlowEvent) -> FlowMonitorFlags {
    match event {
        FlowEvent::Initial => FlowMonitorFlags::INITIAL,
        FlowEvent::Added => FlowMonitorFlags::ADD,
        FlowEvent::Removed(_) => FlowMonitorFlags::REMOVED,
        FlowEvent::Modified => FlowMonitorFlags::MODIFY,
    }
}

fn updated(event: FlowEvent, flow: &Flow, tells: bool) -> FlowUpdate {
    let tells = tells && !matches!(event, FlowEvent::Removed(_));
    FlowUpdate::Flow(FlowUpdated {
        event,
        table: flow.table,
        priority: flow.priority,
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        cookie: flow.cookie,
        matching: flow.matching.unpack(),
        instructions: if tells { flow.instructions.clone() } else { Vec::new() },
    })
}
