//! The broker of a graph, from the element that says where it listens to those that use it.

use std::sync::{Arc, Mutex};

use linerate_cluster::Broker;
use linerate_graph::World;

/// What all elements of a graph share: where its broker listens.
#[derive(Debug, Default)]
pub(super) struct Place(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    address: Option<String>,
    /// Kept by elements alone, so that it ends with them.
    broker: std::sync::Weak<Broker>,
}

impl Place {
    /// It is to listen there: `false` when another element has said where.
    pub(super) fn set(&self, address: &str) -> bool {
        let mut state = self.0.lock().expect("no panic while held");
        let is_first = state.address.is_none();
        state.address.get_or_insert_with(|| address.into());
        is_first
    }
}

/// The broker of a graph.
///
/// # Errors
///
/// When no element says where it listens, or it cannot; for the user.
pub(super) fn broker(world: &World) -> Result<Arc<Broker>, String> {
    let place = world.common::<Place>();
    let mut state = place.0.lock().expect("no panic while held");
    if let Some(broker) = state.broker.upgrade() {
        return Ok(broker);
    }
    let Some(address) = &state.address else {
        return Err("programs have nowhere to attach: say where by a ClusterSocket, or run it by \
                    `linerate cluster serve --socket`"
            .into());
    };
    let broker = Broker::open(address, world.arena()).map_err(|error| world.failed(error))?;
    state.broker = Arc::downgrade(&broker);
    Ok(broker)
}
