//! The switches of a graph, for elements and commands that control them.
//!
//! A `FlowSwitch` is known by its name from when it is made. When the configuration is replaced,
//! the one of the same name goes on with the switch of the one before it: so a controlling element
//! asks for it anew at each use, or keeps its reference, which is to the same one.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use linerate_graph::BuildContext;
use linerate_ofswitch::export::Exporter;
use linerate_ofswitch::switch::Switch;
use rustix::time::{ClockId, clock_gettime};

use crate::wakeup::Wakeup;

/// The switch of an element, shared by its replicas and its controlling threads.
#[derive(Debug)]
pub struct SwitchHandle {
    switch: Mutex<Arc<Switch>>,
    is_controlled: AtomicBool,
    is_restored: AtomicBool,
    /// Whether that of the configuration before is still to come.
    is_awaited: AtomicBool,
    wakeup: Mutex<Option<Arc<Wakeup>>>,
    exporter: Mutex<Option<Arc<Exporter>>>,
    /// Number of changes of switch or exporter.
    changes: AtomicU64,
    /// The offset of the graph's steady time from the system's monotonic clock.
    clock_offset: AtomicU64,
}

impl SwitchHandle {
    pub(crate) fn new(switch: Arc<Switch>) -> SwitchHandle {
        SwitchHandle {
            switch: Mutex::new(switch),
            is_controlled: AtomicBool::new(false),
            is_restored: AtomicBool::new(false),
            is_awaited: AtomicBool::new(false),
            wakeup: Mutex::default(),
            exporter: Mutex::default(),
            changes: AtomicU64::new(0),
            clock_offset: AtomicU64::new(0),
        }
    }

    /// Sets the time of the steady clock.
    pub(crate) fn set_time(&self, steady: u64) {
        self.clock_offset.store(steady.wrapping_sub(monotonic()), Ordering::Relaxed);
    }

    /// The time of the steady clock, for a thread that is no worker.
    pub(crate) fn now(&self) -> u64 {
        monotonic().wrapping_add(self.clock_offset.load(Ordering::Relaxed))
    }

    /// Sets the exporter for packets, or none; workers take it with their next packets.
    pub fn export(&self, exporter: Option<Arc<Exporter>>) {
        *self.exporter.lock().unwrap_or_else(PoisonError::into_inner) = exporter;
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of changes of switch or exporter.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns the exporter.
    pub(crate) fn exporter(&self) -> Option<Arc<Exporter>> {
        self.exporter.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The switch.
    #[must_use]
    pub fn switch(&self) -> Arc<Switch> {
        Arc::clone(&self.switch.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Announces the switch of the configuration before.
    pub(crate) fn await_predecessor(&self) {
        self.is_awaited.store(true, Ordering::Release);
    }

    /// Returns true while the switch of the configuration before is still to come.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Acquire)
    }

    /// Replaces the switch by that of the configuration before.
    pub(crate) fn adopt(&self, switch: &Arc<Switch>) {
        let mut own = self.switch.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&own, switch) {
            *own = Arc::clone(switch);
            self.changes.fetch_add(1, Ordering::Release);
        }
        drop(own);
        self.pass_wakeup();
    }

    /// Ends the wait for the switch of the configuration before.
    pub(crate) fn settle(&self) {
        self.is_awaited.store(false, Ordering::Release);
    }

    /// Sets the wakeup of a worker, for when a packet is injected.
    pub(crate) fn set_wakeup(&self, wakeup: &Arc<Wakeup>) {
        *self.wakeup.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(wakeup));
        self.pass_wakeup();
    }

    fn pass_wakeup(&self) {
        let wakeup = self.wakeup.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(wakeup) = wakeup {
            self.switch().call_on_injection(Arc::new(move || wakeup.wake()));
        }
    }

    /// Marks the switch as controlled: packets may be injected, so a worker looks for them. To be
    /// called while the graph is made.
    pub fn control(&self) {
        self.is_controlled.store(true, Ordering::Release);
    }

    /// Returns true if it is controlled.
    pub(crate) fn is_controlled(&self) -> bool {
        self.is_controlled.load(Ordering::Acquire)
    }

    /// Returns true if a state from before the start is to be restored.
    pub(crate) fn is_restored(&self) -> bool {
        self.is_restored.load(Ordering::Acquire)
    }
}

fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The switches of a graph, by the names of their elements.
#[derive(Debug, Default)]
struct Switches(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    handles: HashMap<String, Arc<SwitchHandle>>,
    /// Names of controlled switches, made or not yet.
    controlled: HashSet<String>,
    /// Names of switches with a state to be restored.
    restored: HashSet<String>,
}

/// The switch of the element of this name.
#[must_use]
pub fn find(world: &BuildContext, element: &str) -> Option<Arc<SwitchHandle>> {
    let all = world.common::<Switches>();
    let all = all.0.lock().unwrap_or_else(PoisonError::into_inner);
    all.handles.get(element).map(Arc::clone)
}

/// Marks the switch of this name as controlled, which may not have been made yet: as
/// [`SwitchHandle::control`].
pub fn control(world: &BuildContext, element: &str) {
    let all = world.common::<Switches>();
    let mut all = all.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = all.handles.get(element) {
        handle.control();
    }
    all.controlled.insert(element.to_owned());
}

/// Announces a state to be restored for the switch of this name. To be called while the graph is
/// made, also before the switch is.
pub(crate) fn restore(world: &BuildContext, element: &str) {
    let all = world.common::<Switches>();
    let mut all = all.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = all.handles.get(element) {
        handle.is_restored.store(true, Ordering::Release);
    }
    all.restored.insert(element.to_owned());
}

pub(crate) fn put(world: &BuildContext, element: &str, handle: &Arc<SwitchHandle>) {
    let all = world.common::<Switches>();
    let mut all = all.0.lock().unwrap_or_else(PoisonError::into_inner);
    if all.controlled.contains(element) {
        handle.control();
    }
    handle.is_restored.store(all.restored.contains(element), Ordering::Release);
    all.handles.insert(element.to_owned(), Arc::clone(handle));
}
