//! Pacing of tasks that must not run ahead of others.
//!
//! A task takes many turns at once unless results depend on its turns. They do where a queue can
//! overflow: a reader that empties the queue in one go makes room that single packets would not have
//! found, and a burst finds less room if another task has filled the queue before its turn. So a reader
//! of a queue that can overflow takes only the turns that come before the next turn of the tasks that
//! fill the queue, and so does a task that fills it beside another one that sends bursts. The only task
//! that fills a queue is bound by the room in it; it yields only to readers that move whole bursts from
//! there to the next queue.
//!
//! Results also depend on turns where an element observes the length of a queue: tasks that fill or
//! empty such a queue take one turn at a time.
//!
//! A reader that finds no packet, and that no queue wakes, polls again after all tasks have run. Where
//! results depend on its turns, it polls again right behind the next turn that can bring it a packet:
//! otherwise packets of many turns would overflow a queue that the reader would have emptied in between.

use std::collections::HashSet;

use crate::{
    element::{Context, Plan, Processing},
    runtime::{
        node::{Limit, Node},
        pacing::{PacingPeer, PacingRole, Search},
        tasks::Turn,
    },
};

/// Connects each task with the tasks that it must not run ahead of. `pulled` has, by task, the queues
/// that it takes packets out of.
pub(super) fn connect_pacing_peers(plan: &Plan, pulled: &[Vec<usize>], nodes: &mut [Node]) {
    let mut found = Vec::new();
    for (reader, stores) in pulled.iter().enumerate() {
        let sends_on = nodes[reader].limits.iter().any(|limit| limit.store);
        for &store in stores {
            for &filler in nodes[store].pushers.iter().filter(|filler| **filler != reader) {
                let is_woken = nodes[store].feeders.here.contains(&filler);
                let role = if may_overrun(plan, &nodes[filler], filler, store) {
                    PacingRole::Overruns { is_woken }
                } else {
                    PacingRole::Fills { is_woken }
                };
                found.push((reader, PacingPeer { task: filler, store, role }));
                if sends_on {
                    found.push((
                        filler,
                        PacingPeer { task: reader, store, role: PacingRole::Empties },
                    ));
                }
            }
        }
    }
    for (store, node) in nodes.iter().enumerate() {
        let pushers = &node.pushers;
        for &filler in pushers.iter().filter(|filler| plan.is_given(**filler, "BURST")) {
            let role = PacingRole::Fills { is_woken: false };
            let others = pushers.iter().filter(|other| **other != filler);
            found.extend(others.map(|other| (*other, PacingPeer { task: filler, store, role })));
        }
    }
    found.into_iter().for_each(|(task, peer)| nodes[task].pacing_peers.push(peer));
}

/// Returns true if packets of a task may find no room in a queue. They always find room if the task
/// stops while the queue is full, has no other queue to fill, and sends no copies there.
fn may_overrun(plan: &Plan, filler: &Node, at: usize, store: usize) -> bool {
    let copied = |limit: &Limit| limit.element == store && limit.copies > 1;
    !plan.elements[at].class.stops || filler.fulls != [store] || filler.limits.iter().any(copied)
}

/// The elements that an element pulls packets through, up to where they wait.
fn pulled_through(plan: &Plan, element: usize) -> HashSet<usize> {
    let (mut found, mut open) = (HashSet::new(), vec![element]);
    while let Some(at) = open.pop() {
        let element = &plan.elements[at];
        let pulls = element.sources.iter().zip(&element.inputs);
        let pulls = pulls.filter(|(_, input)| **input == Processing::Pull);
        for from in pulls.flat_map(|(sources, _)| sources).map(|source| source.element) {
            if !plan.elements[from].inputs.contains(&Processing::Push) && found.insert(from) {
                open.push(from);
            }
        }
    }
    found
}

/// Returns true if an element pulls packets through others that may drop some of them, or send them
/// elsewhere.
pub(super) fn may_lose_pulled(plan: &Plan, element: usize) -> bool {
    pulled_through(plan, element).into_iter().any(|at| {
        let pulled = &plan.elements[at];
        pulled.may_drop() || pulled.outputs.contains(&Processing::Push)
    })
}

/// Returns true if a task pulls packets through an element with several inputs that may lose some it
/// pulls: when a packet is lost, that element goes on with another input, not with the next packet of the
/// same one.
pub(super) fn misses_turns(plan: &Plan, task: usize) -> bool {
    let has_several = |at: &usize| {
        let inputs = &plan.elements[*at].inputs;
        inputs.iter().filter(|input| **input == Processing::Pull).count() > 1
    };
    let mut all = pulled_through(plan, task).into_iter().chain([task]).filter(has_several);
    all.any(|at| may_lose_pulled(plan, at))
}

/// Marks the tasks that fill or empty queues whose length an element observes.
pub(super) fn mark_observed(plan: &Plan, nodes: &mut [Node]) {
    let elements = plan.elements.iter().enumerate();
    let mut observed: Vec<usize> =
        elements.flat_map(|(at, element)| (element.class.observes)(plan, at)).collect();
    observed.sort_unstable();
    observed.dedup();
    for store in observed {
        let pushers = std::mem::take(&mut nodes[store].pushers);
        pushers.iter().for_each(|task| nodes[*task].is_observed = true);
        nodes[store].pushers = pushers;
        // An observed element may be a task that holds packets itself.
        nodes[store].is_observed = true;
        let pullers = std::mem::take(&mut nodes[store].pullers.here);
        pullers.iter().for_each(|task| nodes[*task].is_observed = true);
        nodes[store].pullers.here = pullers;
    }
}

impl Context {
    /// Returns the number of turns a task may take before the turn of another that it must not run
    /// ahead of.
    #[inline(never)]
    pub(super) fn turns_in_step(&self, task: usize) -> usize {
        if self.nodes[task].is_observed {
            return 1;
        }
        let mut turns = usize::MAX;
        let pacing_peers =
            self.nodes[task].pacing_peers.iter().filter(|peer| self.affects_results(peer));
        for &PacingPeer { task: other, store, role } in pacing_peers {
            if self.tasks.is_ready(other) {
                turns = turns.min(self.tasks.turns_before(task, other));
                continue;
            }
            let is_woken = match role {
                PacingRole::Overruns { is_woken } | PacingRole::Fills { is_woken } => {
                    is_woken && self.nodes[store].full
                }
                PacingRole::Empties => {
                    let store = self.runtimes[store].element.as_deref();
                    store.is_some_and(|store| store.ready() == Some(0))
                }
            };
            if is_woken {
                return 1;
            }
        }
        turns
    }

    /// Returns true if results depend on the turns of a peer.
    fn affects_results(&self, peer: &PacingPeer) -> bool {
        matches!(peer.role, PacingRole::Overruns { .. }) || self.runtimes[peer.task].counted
    }

    /// Returns the first turn of another task that can bring packets to a task that has found none, if
    /// results depend on when it takes them. Feeders that sleep count by the tasks that feed them.
    #[inline(never)]
    pub(super) fn turn_of_feeders(&mut self, task: usize) -> Option<Turn> {
        let Node { pacing_peers, is_observed, .. } = &self.nodes[task];
        if !is_observed && !pacing_peers.iter().any(|peer| self.affects_results(peer)) {
            return None;
        }
        let Context { nodes, tasks, search: Search { number, open }, .. } = self;
        *number += 1;
        nodes[task].searched = *number;
        open.push(task);
        let mut first: Option<Turn> = None;
        while let Some(at) = open.pop() {
            for peer in 0..nodes[at].pacing_peers.len() {
                let PacingPeer { task: feeder, role, .. } = nodes[at].pacing_peers[peer];
                if role == PacingRole::Empties || nodes[feeder].searched == *number {
                    continue;
                }
                nodes[feeder].searched = *number;
                if tasks.is_ready(feeder) {
                    let turn = tasks.turn(feeder);
                    first = Some(first.map_or(turn, |first| first.min(turn)));
                } else {
                    open.push(feeder);
                }
            }
        }
        first
    }
}
