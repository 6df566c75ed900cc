//! Registry of a configuration's rewriters: the flow sets they share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, RwLock},
};

use linerate_graph::{
    Plan, PlanElement,
    lang::config::{shift_word, split},
};

use super::{flow_set::FlowSet, locks::locked, mapper::Mapper, names::gives_turns};

/// A table and the number of a rewriter in it.
#[derive(Debug, Clone)]
pub(super) struct RewriterHandle {
    pub(super) set: Arc<RwLock<FlowSet>>,
    pub(super) rewriter: u16,
}

/// One for all elements of a graph.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Rewriters, by element: their capacities.
    rewriters: HashMap<usize, CapacitySpec>,
    /// Tables, by the element whose capacity holds.
    sets: HashMap<usize, Arc<RwLock<FlowSet>>>,
}

/// Capacity of a rewriter, in flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CapacitySpec {
    Flows(usize),
    /// As many as another, together with it.
    SharedWith(usize),
}

impl Registry {
    /// Declares the capacity of a rewriter; the first declaration holds.
    pub(super) fn declare(&self, element: usize, wanted: CapacitySpec) {
        locked(&self.0).rewriters.entry(element).or_insert(wanted);
    }

    /// The table of a rewriter and its number there. Asked when all have been declared.
    ///
    /// # Errors
    ///
    /// When the machine has not the memory.
    pub(super) fn place(
        &self,
        plan: &Plan,
        element: usize,
        now: u64,
    ) -> Result<RewriterHandle, String> {
        let inner = &mut *locked(&self.0);
        let root = inner.root(element);
        let mut names: Vec<&str> = inner
            .rewriters
            .keys()
            .filter(|at| inner.root(**at) == root)
            .map(|at| plan.elements[*at].name.as_str())
            .collect();
        names.sort_unstable();
        let name = plan.elements[element].name.as_str();
        let rewriter = names.iter().position(|known| *known == name).unwrap_or(0);
        let rewriter =
            u16::try_from(rewriter).map_err(|_| "too many rewriters share a capacity")?;
        let set = match inner.sets.get(&root) {
            Some(set) => Arc::clone(set),
            None => {
                let capacity = match inner.rewriters.get(&root) {
                    Some(CapacitySpec::Flows(flows)) => *flows,
                    _ => FlowSet::DEFAULT_CAPACITY,
                };
                let names = names.into_iter().map(str::to_owned).collect();
                let set = FlowSet::new(names, capacity, now).map_err(|error| error.to_string())?;
                let set = Arc::new(RwLock::new(set));
                inner.sets.insert(root, Arc::clone(&set));
                set
            }
        };
        Ok(RewriterHandle { set, rewriter })
    }
}

/// The elements with state that decides on a new flow of a rewriter, besides its own: patterns in
/// which rewriters take turns, mappers, and rewriters it shares a capacity with.
pub(super) fn looked_at(plan: &Plan, rewriter: usize) -> Vec<usize> {
    let PlanElement { name, config, .. } = &plan.elements[rewriter];
    let mut found = plan.elements_named(rewriter, &["CAPACITY", "MAPPING_CAPACITY"]);
    for argument in split(config) {
        match shift_word(&argument) {
            ("pattern" | "xpattern", rest) => {
                let pattern = shift_word(rest).0;
                let all = 0..plan.elements.len();
                found.extend(all.filter(|at| gives_turns(&plan.elements[*at], pattern)));
            }
            (mapper, "") => {
                let mapper = plan.resolve(mapper, name);
                found.extend(mapper.filter(|at| Mapper::is_one(plan.elements[*at].class)));
            }
            _ => {}
        }
    }
    found
}

impl Inner {
    /// The rewriter whose capacity holds for another.
    fn root(&self, element: usize) -> usize {
        let mut at = element;
        for _ in 0..self.rewriters.len() {
            match self.rewriters.get(&at) {
                Some(CapacitySpec::SharedWith(other)) => at = *other,
                _ => return at,
            }
        }
        // They share with each other in a circle.
        let mut least = at;
        let mut next = at;
        for _ in 0..self.rewriters.len() {
            if let Some(CapacitySpec::SharedWith(other)) = self.rewriters.get(&next) {
                next = *other;
                least = least.min(next);
            }
        }
        least
    }
}
