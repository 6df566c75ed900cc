//! The switches of a graph, for elements and commands that control them.
//!
//! A `FlowSwitch` is known by its name from when it is made. When the configuration is replaced, the one
//! of the same name goes on with the switch of the one before it: so who controls it asks for it anew
//! at each use, or holds on to the one it has, which is the same.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use linerate_flow::export::Exporter;
use linerate_flow::switch::Switch;
use linerate_graph::World;

/// The switch of an element, shared by its replicas and those who control it.
#[derive(Debug)]
pub struct Home {
    switch: Mutex<Arc<Switch>>,
    is_controlled: AtomicBool,
    exporter: Mutex<Option<Arc<Exporter>>>,
    /// How often that has become another.
    exports: AtomicU64,
}

impl Home {
    pub(crate) fn new(switch: Arc<Switch>) -> Home {
        Home {
            switch: Mutex::new(switch),
            is_controlled: AtomicBool::new(false),
            exporter: Mutex::default(),
            exports: AtomicU64::new(0),
        }
    }

    /// Packets are told of by an exporter from now on, or by none; workers take it with their next
    /// packets.
    pub fn export(&self, exporter: Option<Arc<Exporter>>) {
        *self.exporter.lock().unwrap_or_else(PoisonError::into_inner) = exporter;
        self.exports.fetch_add(1, Ordering::Release);
    }

    /// How often that was said.
    pub(crate) fn exports(&self) -> u64 {
        self.exports.load(Ordering::Acquire)
    }

    /// Who tells of packets.
    pub(crate) fn exporter(&self) -> Option<Arc<Exporter>> {
        self.exporter.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The switch.
    #[must_use]
    pub fn switch(&self) -> Arc<Switch> {
        Arc::clone(&self.switch.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// It is that of another element from now on.
    pub(crate) fn adopt(&self, switch: Arc<Switch>) {
        *self.switch.lock().unwrap_or_else(PoisonError::into_inner) = switch;
    }

    /// Somebody controls it who may send packets, so a worker has to look for these: to be said while the
    /// graph is made.
    pub fn control(&self) {
        self.is_controlled.store(true, Ordering::Release);
    }

    /// Whether somebody has said so.
    pub(crate) fn is_controlled(&self) -> bool {
        self.is_controlled.load(Ordering::Acquire)
    }
}

/// The switches of a graph, by the names of their elements.
#[derive(Debug, Default)]
struct Switches(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    homes: HashMap<String, Arc<Home>>,
    /// Those that are controlled, made or not yet.
    controlled: HashSet<String>,
}

/// The switch of the element of this name.
#[must_use]
pub fn find(world: &World, element: &str) -> Option<Arc<Home>> {
    let all = world.common::<Switches>();
    let all = all.0.lock().unwrap_or_else(PoisonError::into_inner);
    all.homes.get(element).map(Arc::clone)
}

/// Somebody will control the switch of this name, which may not have been made yet: as [`Home::control`].
pub fn control(world: &World, element: &str) {
    let all = world.common::<Switches>();
    let mut all = all.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(home) = all.homes.get(element) {
        home.control();
    }
    all.controlled.insert(element.to_owned());
}

pub(crate) fn put(world: &World, element: &str, home: &Arc<Home>) {
    let all = world.common::<Switches>();
    let mut all = all.0.lock().unwrap_or_else(PoisonError::into_inner);
    if all.controlled.contains(element) {
        home.control();
    }
    all.homes.insert(element.to_owned(), Arc::clone(home));
}
