//! Bypass of elements that packets pass without stopping.
//!
//! Such an element costs nothing while it has no work to do: its neighbours are
//! wired to one another past it, and wired anew when it changes its mind.

use std::{collections::HashMap, sync::Arc};

use crate::{
    element::{Context, Processing},
    lang::PortRef,
    runtime::outputs::{InputId, NOWHERE, Span},
};

impl Context {
    /// Lets packets pass the element at work from now on: packets for its push input `i` go where
    /// its output `routes[i]` leads, and a task that pulls from its output `i` pulls from the
    /// source of its input `routes[i]`. Packets that are already on their way to it still arrive.
    /// Without routes everything stops again.
    #[cold]
    pub fn pass_through(&mut self, routes: &[usize]) {
        self.nodes[self.node].routes = routes.to_vec();
        let inputs: HashMap<(usize, usize), InputId> = (0..)
            .zip(&self.inputs)
            .map(|(id, at)| ((at.node as usize, at.port as usize), id))
            .collect();
        let plan = Arc::clone(&self.plan);
        for (at, element) in plan.elements.iter().enumerate() {
            let Span { first, count } = self.runtimes[at].outputs;
            for port in 0..count as usize {
                if element.outputs[port] == Processing::Push {
                    let to = self.follow(PortRef { element: at, port }, |element, port| {
                        plan.elements[element].targets.get(port)?.first().copied()
                    });
                    let to = to.and_then(|to| inputs.get(&(to.element, to.port)).copied());
                    let to = to.unwrap_or(NOWHERE);
                    self.out.redirect(first as usize + port, to);
                    if port == 0 {
                        self.runtimes[at].next = to;
                    }
                }
            }
            for port in 0..self.nodes[at].sources.len() {
                if element.inputs[port] == Processing::Pull {
                    let from = self.follow(PortRef { element: at, port }, |element, port| {
                        plan.elements[element].sources.get(port)?.first().copied()
                    });
                    self.nodes[at].sources[port] = from.map(|from| (from.element, from.port));
                }
            }
        }
    }

    /// The port connected to `port`, or the one behind all elements that let
    /// packets pass. Those may form a ring: it is gone round once.
    fn follow(
        &self,
        port: PortRef,
        connected: impl Fn(usize, usize) -> Option<PortRef>,
    ) -> Option<PortRef> {
        let mut at = connected(port.element, port.port)?;
        for _ in 0..self.nodes.len() {
            let Some(&route) = self.nodes[at.element].routes.get(at.port) else { break };
            at = connected(at.element, route)?;
        }
        Some(at)
    }
}
