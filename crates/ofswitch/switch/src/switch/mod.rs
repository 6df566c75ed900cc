//! The switch's state, as controllers change and read it.
//!
//! A [`Switch`] has the tables, groups, meters and ports in a [`Snapshot`] that it publishes anew
//! with every change. Threads that control it change it under a mutex; workers take the newest
//! snapshot without ever waiting ([`Switch::refresh`]), and go on with the one they have while it
//! is being made.
//!
//! There are two mutexes. One serialises changes, and is held for as long as a change takes. The
//! other protects the published snapshot: it is held while a small change is made in it, some
//! microseconds, where it has no other reference; else a copy is changed, which shares all
//! unchanged parts. A change of many flows is always made in a copy, so that no reader waits for
//! it.
//!
//! Former snapshots are kept until nothing else refers to them. The thread that serves controllers
//! frees them ([`Switch::free_unused`]), or, if there are many, the next change: a worker that
//! takes a newer snapshot never frees tables.

mod answer;
#[cfg(test)]
mod busy;
mod edit;
mod event;
mod features;
mod flows;
mod groups;
mod injection;
mod journal;
mod learn;
mod options;
mod ports;
mod saved;
mod state;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

pub use answer::{Answer, Initial};
pub use event::{Event, Punted, Subscription};
pub use injection::{Injection, WakeupFn};
pub use journal::{FlowChange, Journal, Origin, Records};
pub use options::SwitchOptions;
pub use saved::{RestoreError, SaveError, Saved};
pub use worker::WorkerState;

use edit::{Edit, Effect, check_packet_out};
use event::Subscribers;
use learn::DeferredChange;
use state::ControlState;

use crate::key::Key;
use crate::mac_learning::Hosts;
use crate::pipeline::{Punt, SharedState};
use crate::table::{Change, PortCounters, Snapshot, SwitchPort};
use crate::wire::{
    ConfigFlags, CookieFilter, Fault, Field, FlowMod, FlowModCommand, GroupMod, Match, Message,
    MeterMod, PacketOut, Port, PortConfig, PortMod, PortNumber, PortState, TableMod, Version,
};

/// Changes of more flows than this are made in a copy of the tables.
pub(crate) const SMALL: usize = 64;

/// Former snapshots that are kept before a change frees unused ones.
const RETIRED: usize = 1024;

/// Packets of a port that wait for controllers.
#[derive(Debug, Default)]
struct Waiting {
    count: Arc<AtomicU32>,
}

/// The state of a switch, shared by its controlling threads and its workers.
#[derive(Debug)]
pub struct Switch {
    options: SwitchOptions,
    shared_state: SharedState,
    injections: injection::Injections,
    published: Mutex<Arc<Snapshot>>,
    /// Version of `published`, written under its lock.
    version: AtomicU64,
    state: Mutex<ControlState>,
    subscribers: Subscribers,
    workers: worker::Workers,
    deferred: learn::Deferred,
    journals: journal::Journals,
    /// Packets that wait for controllers, by port.
    punted: RwLock<HashMap<u32, Waiting>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock that no other thread has at the moment.
fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Switch {
    /// A switch with empty tables.
    #[must_use]
    pub fn new(options: SwitchOptions) -> Arc<Switch> {
        let options = SwitchOptions { tables: options.tables.clamp(1, 254), ..options };
        Arc::new(Switch {
            shared_state: SharedState::default(),
            injections: injection::Injections::default(),
            published: Mutex::new(Arc::new(Snapshot::new(options.tables))),
            version: AtomicU64::new(0),
            state: Mutex::default(),
            subscribers: Subscribers::default(),
            workers: worker::Workers::default(),
            deferred: learn::Deferred::default(),
            journals: journal::Journals::default(),
            punted: RwLock::default(),
            options,
        })
    }

    /// Returns the options of the switch.
    #[must_use]
    pub fn options(&self) -> &SwitchOptions {
        &self.options
    }

    /// Returns the present tables. It may wait some microseconds for a change that is being made.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.published))
    }

    /// The number of the newest snapshot: one load.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Takes the newest snapshot if there is a newer one and the lock is free: for workers, which
    /// never wait here and never free a snapshot. Returns true if it is another.
    pub fn refresh(&self, snapshot: &mut Arc<Snapshot>) -> bool {
        if self.version() == snapshot.version() {
            return false;
        }
        let Some(published) = try_lock(&self.published) else { return false };
        if published.version() == snapshot.version() {
            return false;
        }
        *snapshot = Arc::clone(&published);
        true
    }

    /// Makes a change: all of it, or on a fault nothing. One that is not in a copy (`copied`) has
    /// to leave all as it was where it fails.
    fn change<R, E>(
        &self,
        state: &mut ControlState,
        copied: bool,
        now: u64,
        make: impl FnOnce(&mut Edit<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        if state.retired.len() >= RETIRED {
            drop(state.take_unused());
        }
        let (result, effects) = if copied {
            let mut tables = Snapshot::clone(&self.snapshot());
            let (result, changes, effects, number) = self.edit(&mut tables, state, now, make)?;
            state.number = number;
            if changes.is_empty() && effects.is_empty() {
                return Ok(result);
            }
            tables.advance(changes.into_iter());
            let version = tables.version();
            let mut published = lock(&self.published);
            let before = std::mem::replace(&mut *published, Arc::new(tables));
            self.version.store(version, Ordering::Release);
            drop(published);
            state.retired.push(before);
            (result, effects)
        } else {
            let mut published = lock(&self.published);
            if Arc::get_mut(&mut published).is_none() {
                let copy = Arc::new(Snapshot::clone(&published));
                state.retired.push(std::mem::replace(&mut *published, copy));
            }
            // There is no other reference, and none can be taken before the lock is released.
            let tables = Arc::make_mut(&mut published);
            let (result, changes, effects, number) = self.edit(tables, state, now, make)?;
            state.number = number;
            if changes.is_empty() && effects.is_empty() {
                return Ok(result);
            }
            tables.advance(changes.into_iter());
            self.version.store(tables.version(), Ordering::Release);
            (result, effects)
        };
        let tables = self.snapshot();
        self.journals.record(&effects, &tables, state.origin);
        state.settle(effects, &tables, self.options.flows, &self.subscribers, now);
        drop(tables);
        while let Some((table, cookie)) = state.orphans.pop() {
            self.forget_learnt(state, table, cookie, now);
        }
        Ok(result)
    }

    /// Takes learnt flows away, when the flows that have learnt them are gone.
    fn forget_learnt(&self, state: &mut ControlState, table: u8, cookie: u64, now: u64) {
        let delete = FlowMod {
            command: FlowModCommand::Delete,
            filter: CookieFilter { value: cookie, mask: u64::MAX },
            ..FlowMod::add(table, 0, Match::new(), Vec::new())
        };
        // Where there is no such table there are no flows.
        let _gone = self.flow_mod_with(state, &delete, Version::V13, now);
    }

    #[allow(clippy::type_complexity)]
    fn edit<R, E>(
        &self,
        tables: &mut Snapshot,
        state: &ControlState,
        now: u64,
        make: impl FnOnce(&mut Edit<'_>) -> Result<R, E>,
    ) -> Result<(R, Vec<Change>, Vec<Effect>, u64), E> {
        let mut edit = Edit {
            tables,
            options: &self.options,
            state,
            number: state.number,
            now,
            changes: Vec::new(),
            effects: Vec::new(),
            evictions: HashMap::new(),
            evicted: HashMap::new(),
        };
        let result = make(&mut edit)?;
        Ok((result, edit.changes, edit.effects, edit.number))
    }

    /// Locks the state for a change; changes deferred by workers are made first.
    fn control(&self) -> MutexGuard<'_, ControlState> {
        let mut state = lock(&self.state);
        self.do_deferred(&mut state);
        state
    }

    /// A change that is made where the tables are.
    fn change_small<R>(
        &self,
        now: u64,
        make: impl FnOnce(&mut Edit<'_>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let mut state = self.control();
        self.change(&mut state, false, now, make)
    }

    /// Changes flows, at a time of the steady clock in nanoseconds. `version` is that of the
    /// message: OpenFlow 1.0 means some things otherwise.
    ///
    /// With [`ALL_TABLES`](crate::wire::ALL_TABLES) flows are changed in all tables, and added to
    /// the first. It costs some microseconds for each flow that is changed.
    pub fn flow_mod(&self, change: &FlowMod, version: Version, now: u64) -> Result<(), Fault> {
        self.flow_mod_with(&mut self.control(), change, version, now)
    }

    fn flow_mod_with(
        &self,
        state: &mut ControlState,
        change: &FlowMod,
        version: Version,
        now: u64,
    ) -> Result<(), Fault> {
        let plan = {
            let tables = self.snapshot();
            flows::plan(&tables, Some(&mut *state), change, version)?
        };
        if plan.len() == 0 {
            return Ok(());
        }
        let many = plan.len() > SMALL;
        self.change(state, many, now, |edit| edit.carry_out(plan, change, version))
    }

    /// Changes a group, or deletes all, with the flows that send to it.
    pub fn group_mod(&self, change: &GroupMod, version: Version, now: u64) -> Result<(), Fault> {
        self.change(&mut self.control(), true, now, |edit| edit.group_mod(change, version))
    }

    /// Changes a meter, or deletes all, with the flows it decides for.
    pub fn meter_mod(&self, change: &MeterMod, now: u64) -> Result<(), Fault> {
        self.change(&mut self.control(), true, now, |edit| edit.meter_mod(change))
    }

    /// Sets a table, or all.
    pub fn table_mod(&self, change: &TableMod, version: Version, now: u64) -> Result<(), Fault> {
        self.change_small(now, |edit| edit.table_mod(change, version))
    }

    /// Sets a port.
    pub fn port_mod(&self, change: &PortMod, now: u64) -> Result<(), Fault> {
        self.change_small(now, |edit| edit.port_mod(change))
    }

    /// Makes the change of a controller's message.
    pub fn change_for(
        &self,
        origin: Origin,
        message: &Message,
        version: Version,
        now: u64,
    ) -> Result<(), Fault> {
        self.for_origin(origin, |state| match message {
            Message::FlowMod(flow) => self.flow_mod_with(state, flow, version, now),
            Message::GroupMod(group) => {
                self.change(state, true, now, |edit| edit.group_mod(group, version))
            }
            Message::MeterMod(meter) => self.change(state, true, now, |edit| edit.meter_mod(meter)),
            Message::TableMod(table) => {
                self.change(state, false, now, |edit| edit.table_mod(table, version))
            }
            Message::PortMod(port) => self.change(state, false, now, |edit| edit.port_mod(port)),
            _ => Err(Fault::BadType),
        })
    }

    fn for_origin<R>(&self, origin: Origin, change: impl FnOnce(&mut ControlState) -> R) -> R {
        let mut state = self.control();
        state.origin = Some(origin);
        let changed = change(&mut state);
        state.origin = None;
        changed
    }

    /// Does all of these changes, as one version, or none. An error has the number of the wrong
    /// message, from 0 on. Messages are changes of flows, groups, meters, ports and tables, and
    /// packet-outs, which are only checked; others are [`Fault::BundleUnsupported`].
    pub fn bundle(
        &self,
        messages: impl IntoIterator<Item = Result<Message, Fault>>,
        version: Version,
        now: u64,
    ) -> Result<(), (usize, Fault)> {
        self.bundle_with(&mut self.control(), messages, version, now)
    }

    /// Does [`Switch::bundle`] for a message of a controller.
    pub fn bundle_for(
        &self,
        origin: Origin,
        messages: impl IntoIterator<Item = Result<Message, Fault>>,
        version: Version,
        now: u64,
    ) -> Result<(), (usize, Fault)> {
        self.for_origin(origin, |state| self.bundle_with(state, messages, version, now))
    }

    fn bundle_with(
        &self,
        state: &mut ControlState,
        messages: impl IntoIterator<Item = Result<Message, Fault>>,
        version: Version,
        now: u64,
    ) -> Result<(), (usize, Fault)> {
        self.change(state, true, now, |edit| {
            for (nth, message) in messages.into_iter().enumerate() {
                let done = message.and_then(|message| match &message {
                    Message::FlowMod(change) => {
                        let plan = flows::plan(edit.tables, None, change, version)?;
                        edit.carry_out(plan, change, version)
                    }
                    Message::GroupMod(change) => edit.group_mod(change, version),
                    Message::MeterMod(change) => edit.meter_mod(change),
                    Message::PortMod(change) => edit.port_mod(change),
                    Message::TableMod(change) => edit.table_mod(change, version),
                    Message::PacketOut(out) => check_packet_out(edit.tables, out),
                    _ => Err(Fault::BundleUnsupported),
                });
                done.map_err(|fault| (nth, fault))?;
            }
            Ok(())
        })
    }

    /// Checks a controller's packet, and the references of its actions.
    pub fn check_packet_out(&self, out: &PacketOut) -> Result<(), Fault> {
        check_packet_out(&self.snapshot(), out)
    }

    /// Returns the state kept between packets, beside the tables.
    #[must_use]
    pub fn shared_state(&self) -> &SharedState {
        &self.shared_state
    }

    /// Sets whether packets that no flow matches go to controllers where the table does not say
    /// otherwise, as OpenFlow 1.0 requires it: for while a controller of 1.0 is connected. The call
    /// does not wait for a change that is being made.
    pub fn set_misses_to_controllers(&self, wanted: bool) {
        let _done = self.change_or_defer(DeferredChange::Misses(wanted), 0);
    }

    /// Sets whether arriving packets are forwarded by `NORMAL` in place of flows (fail-standalone).
    /// Flows stay as they are, and controllers may change them. It may be deferred.
    pub fn set_stands_alone(&self, alone: bool) {
        let _done = self.change_or_defer(DeferredChange::StandsAlone(alone), 0);
    }

    /// Sets the treatment of fragments: 0 treats them as other packets, where later ones have no
    /// ports; [`ConfigFlags::DROP_FRAGMENTS`] drops them; 3 is as 0, with Nicira's field to tell
    /// them apart. They are not reassembled: [`Fault::ConfigBadFlags`].
    pub fn set_fragments(&self, fragments: ConfigFlags) -> Result<(), Fault> {
        let drops = match fragments.0 {
            0 | 3 => false,
            1 => true,
            _ => return Err(Fault::ConfigBadFlags),
        };
        self.change_small(0, |edit| {
            if edit.tables.drops_fragments() != drops {
                edit.tables.set_drops_fragments(drops);
                edit.changes.push(Change::All);
                edit.effects.push(Effect::Fragments);
            }
            Ok(())
        })
    }

    /// Adds a port. One with this number is replaced and keeps its counters, and, if it has the
    /// same name and `port` has no configuration, its configuration. A restored configuration of
    /// its name is applied.
    pub fn add_port(&self, mut port: Port, now: u64) -> Arc<PortCounters> {
        if let Some(config) = lock(&self.state).port_configs.remove(&port.name) {
            port.config = PortConfig(config);
        }
        let added = self.change_small(now, |edit| {
            let same = |before: &&Arc<SwitchPort>| before.port.name == port.name;
            let before = edit.tables.port(port.number).filter(same);
            if let Some(before) = before.filter(|_| port.config == PortConfig::default()) {
                port.config = before.port.config;
            }
            Ok(edit.add_port(port))
        });
        added.unwrap_or_default()
    }

    /// Removes a port. Returns true if it was there. `NORMAL` forgets the hosts behind it.
    pub fn remove_port(&self, number: PortNumber, now: u64) -> bool {
        let was_there = self.change_small(now, |edit| Ok(edit.remove_port(number)));
        self.forget_hosts(|hosts| hosts.forget_port(number.0), now);
        was_there.unwrap_or_default()
    }

    /// Sets the state of a port: now or, while another thread makes a change, right after it, since
    /// a worker calls this. When the link is down, `NORMAL` forgets the hosts behind it, and learns
    /// none there.
    pub fn set_port_state(&self, number: PortNumber, state: PortState, now: u64) {
        let _done = self.change_or_defer(DeferredChange::PortState(number, state), now);
        if state.contains(PortState::LINK_DOWN) {
            self.forget_hosts(|hosts| hosts.forget_port(number.0), now);
        }
    }

    /// `NORMAL` forgets addresses it has not seen for 300 seconds. To be called every 100 ms or so:
    /// each looks at a sixteenth of them.
    pub fn expire_hosts(&self, now: u64) {
        self.forget_hosts(|hosts| hosts.expire(now), now);
    }

    fn forget_hosts(&self, forget: impl FnOnce(&Hosts) -> Vec<(u16, u64)>, now: u64) {
        let gone = forget(&self.shared_state.hosts);
        if !gone.is_empty() {
            let _done = self.change_or_defer(DeferredChange::Forgotten(gone), now);
        }
    }

    /// Returns the counters of a port.
    #[must_use]
    pub fn port_counters(&self, number: PortNumber) -> Option<Arc<PortCounters>> {
        self.snapshot().port(number).map(|port| Arc::clone(&port.counters))
    }

    /// Removes flows whose time-outs have passed. To be called every 100 ms or so; the cost is that
    /// of the flows found, never a look at all flows, and at most `most` are removed. Returns the
    /// time of the next call: a time that has come while workers have yet to report their counters,
    /// while another thread makes a change, or when more flows have expired than it may remove. A
    /// worker calls this, so it never waits.
    pub fn expire(&self, now: u64, most: usize) -> Option<u64> {
        let Some(mut state) = try_lock(&self.state) else { return Some(now) };
        self.do_deferred(&mut state);
        match state.next_due() {
            Some(time) if time <= now => {}
            next => return next,
        }
        // Whether a flow was used up to a time is known when they have been asked after it.
        let (wanted, asked) = *state.asked.get_or_insert_with(|| (self.workers.want(), now));
        if !self.workers.have_done(wanted) {
            return Some(now);
        }
        let expired = state.expired(asked, most);
        if state.next_due().is_none_or(|next| next > asked) {
            state.asked = None;
        }
        if !expired.is_empty() {
            let many = expired.len() > SMALL;
            let done: Result<(), Fault> = self.change(&mut state, many, now, |edit| {
                expired.iter().for_each(|(flow, reason)| edit.remove(flow, Some(*reason)));
                Ok(())
            });
            debug_assert!(done.is_ok(), "flows can always go");
        }
        state.next_due()
    }

    /// Frees former tables that nothing refers to, which may take as long as changing them did. A
    /// thread that is no worker calls it every 100 ms or so.
    pub fn free_unused(&self) {
        let unused = try_lock(&self.state).map(|mut state| state.take_unused());
        // After the lock is released.
        drop(unused);
    }

    /// Subscribes to events. At most [`SwitchOptions::events`] wait; further ones are counted as
    /// lost.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        self.subscribers.add(self.options.events)
    }

    /// Sends a packet to controllers, from a worker: it never waits. At most
    /// [`SwitchOptions::punts`] of a port wait. Returns true if it is on its way; the worker counts
    /// one that is not.
    pub fn punt(&self, punt: &Arc<Punt>, key: &Key, packet: &[u8]) -> bool {
        self.try_punt(key.get(Field::InPort) as u32, punt, key, punt.shown(packet))
    }

    fn try_punt(&self, port: u32, punt: &Arc<Punt>, key: &Key, packet: &[u8]) -> bool {
        let waiting = {
            let known = self
                .punted
                .try_read()
                .ok()
                .and_then(|punted| punted.get(&port).map(|waiting| Arc::clone(&waiting.count)));
            match known {
                Some(count) => count,
                // The first of its port.
                None => match self.punted.try_write() {
                    Ok(mut punted) => Arc::clone(&punted.entry(port).or_default().count),
                    Err(_) => return false,
                },
            }
        };
        if waiting.fetch_add(1, Ordering::Relaxed) >= self.options.punts {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let wanted = match punt.max_len {
            0xffff => packet.len(),
            length => packet.len().min(usize::from(length)),
        };
        let punted = Punted {
            punt: Arc::clone(punt),
            key: *key,
            packet: packet[..wanted].to_vec(),
            length: packet.len(),
            waiting,
        };
        self.subscribers.try_tell(&Event::PacketIn(Arc::new(punted)))
    }

    /// Hands a packet of a controller to a worker. At most 1,024 wait; one more is given back.
    pub fn inject(&self, injection: Box<Injection>) -> Result<(), Box<Injection>> {
        self.injections.add(injection)
    }

    /// Sets a function that the injecting thread calls when a packet waits for a worker that may be
    /// asleep.
    pub fn call_on_injection(&self, wake: Arc<WakeupFn>) {
        self.injections.call(wake);
    }

    /// Returns a controller's packet with its decision, for a worker to carry out: one load where
    /// there is none, and never a wait.
    #[must_use]
    pub fn next_injection(&self) -> Option<Box<Injection>> {
        self.injections.next()
    }

    /// A worker that counts by itself takes part in exact counters by this.
    #[must_use]
    pub fn worker(&self) -> Arc<WorkerState> {
        self.workers.add()
    }

    /// Has workers take the newest tables and add their counts, and waits for those at work: for
    /// one that is not run a second at most.
    pub fn flush_counters(&self) {
        self.workers.flush();
    }
}
