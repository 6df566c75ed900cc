//! The switch's state: what controllers change and ask for.
//!
//! A [`Switch`] has the tables, groups, meters and ports in a [`Snapshot`] that it publishes anew with
//! every change. Threads that control it change it under a mutex; workers take the newest snapshot
//! without ever waiting ([`Switch::refresh`]), and go on with the one they have while it is being made.

mod event;
mod injection;
mod options;
mod worker;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use event::{Event, Punted, Subscription};
pub use injection::Injection;
pub use options::SwitchOptions;
pub use worker::WorkerState;

use crate::key::Key;
use crate::pipeline::{Learning, Memory, Outside, Punt};
use crate::table::{Flow, PortCounters, Snapshot};
use crate::wire::multipart::{Reply, Request};
use crate::wire::{
    Fault, FlowMod, GroupMod, Message, MeterMod, Port, PortMod, PortNumber, PortState, TableMod,
    Version,
};

/// The state of a switch, shared by who controls it and by its workers.
#[derive(Debug)]
pub struct Switch {
    options: SwitchOptions,
    memory: Memory,
    injections: injection::Injections,
    published: Mutex<Arc<Snapshot>>,
    version: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Switch {
    /// A switch with empty tables.
    #[must_use]
    pub fn new(options: SwitchOptions) -> Arc<Switch> {
        let published = Mutex::new(Arc::new(Snapshot::default()));
        Arc::new(Switch {
            options,
            memory: Memory::default(),
            injections: injection::Injections::default(),
            published,
            version: AtomicU64::new(0),
        })
    }

    /// What it was made with.
    #[must_use]
    pub fn options(&self) -> &SwitchOptions {
        &self.options
    }

    /// The tables as they are now. It may wait some microseconds for a change that is being made.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.published))
    }

    /// The number of the newest snapshot: one load.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Takes the newest snapshot if there is a newer one and it can be had at once: for workers, which
    /// never wait here and never free what they had. Returns whether it is another.
    pub fn refresh(&self, snapshot: &mut Arc<Snapshot>) -> bool {
        if self.version() == snapshot.version() {
            return false;
        }
        let Ok(published) = self.published.try_lock() else { return false };
        *snapshot = Arc::clone(&published);
        true
    }

    /// Changes flows, at a time of the steady clock in nanoseconds. `version` is that of the message:
    /// OpenFlow 1.0 means some things otherwise.
    pub fn flow_mod(&self, _change: &FlowMod, _version: Version, _now: u64) -> Result<(), Fault> {
        Ok(())
    }

    /// Changes a group, or deletes all.
    pub fn group_mod(&self, _change: &GroupMod, _version: Version, _now: u64) -> Result<(), Fault> {
        Ok(())
    }

    /// Changes a meter, or deletes all.
    pub fn meter_mod(&self, _change: &MeterMod, _now: u64) -> Result<(), Fault> {
        Ok(())
    }

    /// Sets a table, or all.
    pub fn table_mod(&self, _change: &TableMod, _version: Version, _now: u64) -> Result<(), Fault> {
        Ok(())
    }

    /// Sets a port.
    pub fn port_mod(&self, _change: &PortMod, _now: u64) -> Result<(), Fault> {
        Ok(())
    }

    /// Does all of these changes, as one version, or none. A fault says which message was wrong, from 0
    /// on. Messages are changes of flows, groups and ports, others are [`Fault::BundleUnsupported`].
    pub fn bundle(
        &self,
        _messages: &[Message],
        _version: Version,
        _now: u64,
    ) -> Result<(), (usize, Fault)> {
        Ok(())
    }

    /// What is kept between packets, beside the tables.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whether packets that no flow matches go to controllers where the table does not say otherwise, as
    /// OpenFlow 1.0 wants it: for while a controller of 1.0 is there.
    pub fn set_misses_to_controllers(&self, _wanted: bool) {}

    /// Answers a multipart request. The codec divides the answer into messages.
    pub fn answer(&self, _request: &Request, _version: Version, _now: u64) -> Result<Reply, Fault> {
        Err(Fault::BadMultipart)
    }

    /// Adds a port. One with this number is replaced and keeps its counters.
    pub fn add_port(&self, _port: Port, _now: u64) -> Arc<PortCounters> {
        Arc::default()
    }

    /// Takes a port away.
    pub fn remove_port(&self, _number: PortNumber, _now: u64) -> bool {
        false
    }

    /// Says how a port is.
    pub fn set_port_state(&self, _number: PortNumber, _state: PortState, _now: u64) -> bool {
        false
    }

    /// What a port has counted.
    #[must_use]
    pub fn port_counters(&self, number: PortNumber) -> Option<Arc<PortCounters>> {
        self.snapshot().port(number).map(|port| Arc::clone(&port.counters))
    }

    /// Takes flows away whose time-outs have passed. To be called every 100 ms or so; costs what it
    /// finds, never a look at all flows. Returns when there is something to do next.
    pub fn expire(&self, _now: u64) -> Option<u64> {
        None
    }

    /// Who hears of what happens. At most [`SwitchOptions::events`] wait; what is more is counted as lost.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        Subscription::none()
    }

    /// A packet for controllers, from a worker: it never waits. At most [`SwitchOptions::punts`] of a
    /// port wait, the others are dropped and counted. Returns whether it is on its way.
    pub fn punt(&self, _punt: &Arc<Punt>, _key: &Key, _packet: &[u8]) -> bool {
        false
    }

    /// Hands a packet of a controller to a worker. At most 1,024 wait; one more is given back.
    pub fn inject(&self, injection: Injection) -> Result<(), Injection> {
        self.injections.add(injection)
    }

    /// A packet of a controller, for a worker to carry out what was decided for it: one load where there is
    /// none, and never a wait.
    #[must_use]
    pub fn next_injection(&self) -> Option<Injection> {
        self.injections.next()
    }

    /// A worker that counts by itself takes part in exact counters by this.
    #[must_use]
    pub fn worker(&self) -> Arc<WorkerState> {
        Arc::default()
    }

    /// Has workers add what they have counted, and waits for it 5 ms at most.
    pub fn flush_counters(&self) {}
}

impl Outside for Switch {
    fn learn(&self, _flow: FlowMod, _limit: u32, _now: u64) -> Learning {
        Learning::Made
    }

    fn host_changed(&self, _vlan: u16, _address: u64) {}

    fn shorten(&self, _flow: &Arc<Flow>, _idle: u16, _hard: u16, _now: u64) {}
}
