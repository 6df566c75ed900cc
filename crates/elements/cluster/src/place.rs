//! The broker of a graph, shared by the element with its address and those that use it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, Weak},
};

use linerate_cluster::{Access, Broker, Hold};
use linerate_graph::{BuildContext, ElementBuilder};

/// State shared by all elements of a graph: the address of the broker, and grants.
#[derive(Debug, Default)]
pub(super) struct BrokerState(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    address: Option<String>,
    /// Kept by elements alone, so that it ends with them.
    broker: Weak<Broker>,
    /// Access that each element grants to programs, by its name and theirs. A new element of the
    /// name replaces it.
    granted: HashMap<String, Vec<(String, Access)>>,
    /// Elements that are not initialized yet, and the hold that keeps programs waiting for them.
    expected: usize,
    hold: Option<Hold>,
}

/// An element that is not initialized yet.
pub(super) struct Expected(Arc<BrokerState>);

impl Expected {
    pub(super) fn new(make: &ElementBuilder<'_>) -> Expected {
        let place = make.world.common::<BrokerState>();
        place.state().expected += 1;
        Expected(place)
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.expected -= 1;
        let hold = if state.expected == 0 { state.hold.take() } else { None };
        // Its broker may end with it, which takes a while.
        drop((state, hold));
    }
}

impl BrokerState {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while held")
    }

    /// Sets the access that an element grants to programs of these names.
    pub(super) fn grant(&self, element: &str, granted: Vec<(String, Access)>) {
        self.state().granted.insert(element.into(), granted);
    }

    /// Returns the access granted by all elements, which is known when they are initialized. So it
    /// does not matter which of them comes first, or ends last.
    pub(super) fn granted(&self, name: &str) -> Access {
        let state = self.state();
        let all = state.granted.values().flatten().filter(|(of, _)| of == name);
        all.map(|(_, access)| *access).reduce(Access::stricter).unwrap_or(Access::Isolated)
    }

    /// Sets the address to listen at: `false` when another element has set it.
    pub(super) fn set(&self, address: &str) -> bool {
        let mut state = self.state();
        let is_first = state.address.is_none();
        state.address.get_or_insert_with(|| address.into());
        is_first
    }
}

/// Returns the broker of a graph.
///
/// # Errors
///
/// When no element has its address, or it cannot listen there; for the user.
pub(super) fn broker(world: &BuildContext) -> Result<Arc<Broker>, String> {
    let place = world.common::<BrokerState>();
    let mut state = place.state();
    if let Some(broker) = state.broker.upgrade() {
        return Ok(broker);
    }
    let Some(address) = &state.address else {
        return Err("programs have nowhere to attach: say where by a ClusterSocket, or run it by \
                    `linerate cluster serve --socket`"
            .into());
    };
    let opened = Broker::open_held(address, world.arena());
    let (broker, hold) = opened.map_err(|error| world.failed(error))?;
    if state.expected > 0 {
        state.hold = Some(hold);
    }
    state.broker = Arc::downgrade(&broker);
    Ok(broker)
}
