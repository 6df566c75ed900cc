//! A flow table, and the lookup of a packet's flow.
//!
//! Tuples, one for each mask, stand by descending greatest priority; the search ends when the flow
//! found has at least that of the next one (tuple space search: Srinivasan, Suri and Varghese,
//! SIGCOMM 1999). Of flows with the same priority that both match, which the specification leaves
//! open, the one whose tuple has the greater priority, else is the older, is found.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::prefixes::Prefixes;
use super::tuple::{PrefixResults, Tuple, hash_of};
use super::{Flow, Minimatch};
use crate::counters::Counters;
use crate::key::{HEADERS, Key, Mask};
use crate::wire::{Action, Field, TableConfig, TableProperties};

/// A table at one moment.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Its name, set by a controller.
    pub name: Option<Arc<str>>,
    /// Its configuration.
    pub config: TableConfig,
    /// Its properties: eviction and vacancy events.
    pub properties: TableProperties,
    /// Packets that were looked up.
    pub lookups: Arc<Counters>,
    /// Packets that matched.
    pub matches: Arc<Counters>,
    /// By descending rank.
    tuples: Vec<Tuple>,
    prefixes: Prefixes,
    flows: usize,
}

impl Table {
    /// Returns the number of flows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flows
    }

    /// Returns true if it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flows == 0
    }

    /// Returns the number of different masks of its flows: the cost of a lookup at most.
    #[must_use]
    pub fn masks(&self) -> usize {
        self.tuples.len()
    }

    /// Returns all flows, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Flow>> {
        self.tuples.iter().flat_map(Tuple::iter)
    }

    /// The flow a key goes by; see [`Snapshot::lookup`](super::Snapshot::lookup).
    #[must_use]
    pub fn lookup(&self, key: &Key, mask: &mut Mask) -> Option<&Arc<Flow>> {
        let mut parts = Vec::new();
        let found = self.search(key, mask, Some(&mut parts));
        if parts.is_empty() {
            return found;
        }
        self.join(key, mask, found, parts)
    }

    /// The flow a key goes by that decides alone. Those of greater priority that are part of a
    /// match in several dimensions are added to `parts`.
    fn search<'a>(
        &'a self,
        key: &Key,
        mask: &mut Mask,
        mut parts: Option<&mut Vec<&'a Arc<Flow>>>,
    ) -> Option<&'a Arc<Flow>> {
        let mut found: Option<&Arc<Flow>> = None;
        let mut results: PrefixResults = Default::default();
        let is_ethernet = key.get(Field::PacketType) == 0;
        for tuple in &self.tuples {
            if found.is_some_and(|flow| flow.priority >= tuple.rank) {
                break;
            }
            if !is_ethernet && is_for_ethernet(tuple.mask()) {
                continue;
            }
            let best = found;
            let greater = |flow: &&Arc<Flow>| best.is_none_or(|best| flow.priority > best.priority);
            let flows = tuple.lookup(key, mask, &self.prefixes, &mut results);
            for flow in flows.iter().take_while(greater) {
                if !flow.conjunctive {
                    found = Some(flow);
                    break;
                }
                if let Some(parts) = &mut parts {
                    parts.push(flow);
                }
            }
        }
        found
    }

    /// Joins the parts of a match in several dimensions: returns the flow that matches its number,
    /// else the one found before. The rules are Open vSwitch's (ovs-fields(7), "Conjunctive Match
    /// Fields").
    fn join<'a>(
        &'a self,
        key: &Key,
        mask: &mut Mask,
        found: Option<&'a Arc<Flow>>,
        mut parts: Vec<&'a Arc<Flow>>,
    ) -> Option<&'a Arc<Flow>> {
        parts.retain(|part| found.is_none_or(|flow| part.priority > flow.priority));
        parts.sort_by_key(|part| std::cmp::Reverse(part.priority));
        for same in parts.chunk_by(|one, other| one.priority == other.priority) {
            for id in whole(same) {
                let mut key = *key;
                key.set(Field::ConjunctionId, id.into());
                let flow = self.search(&key, mask, None);
                if flow.is_some() {
                    return flow;
                }
            }
        }
        found
    }

    /// The flow with this very match and priority.
    #[must_use]
    pub fn get(&self, priority: u16, key: &Key, mask: &Mask) -> Option<&Arc<Flow>> {
        let tuple = &self.tuples[self.position(mask)?];
        tuple.find(key).iter().find(|flow| flow.priority == priority)
    }

    fn position(&self, mask: &Mask) -> Option<usize> {
        let hash = hash_of(mask);
        self.tuples.iter().position(|tuple| tuple.hash == hash && tuple.mask() == mask)
    }

    /// Calls `each` with flows that a match covers: theirs are as specific, or more.
    pub(crate) fn covered<'a>(
        &'a self,
        key: &Key,
        mask: &Mask,
        each: &mut dyn FnMut(&'a Arc<Flow>),
    ) {
        let tuples = self.tuples.iter().filter(|tuple| tuple.mask().covers(mask));
        tuples.for_each(|tuple| tuple.each_agreeing(key, mask, each));
    }

    /// Returns true if there is another flow of a priority that packets of this match may match,
    /// too.
    pub(crate) fn overlaps(&self, priority: u16, key: &Key, mask: &Mask) -> bool {
        let mut found = false;
        let pattern = Minimatch::new(key, mask);
        for tuple in &self.tuples {
            if found || tuple.rank < priority {
                break;
            }
            tuple.each_agreeing(key, mask, &mut |flow| {
                let same = flow.pattern == pattern;
                found |= flow.priority == priority && !same;
            });
        }
        found
    }

    /// Adds a flow, and returns the one it takes the place of.
    pub(crate) fn insert(&mut self, flow: Arc<Flow>) -> Option<Arc<Flow>> {
        let mask = flow.pattern.mask();
        let at = self.position(&mask).unwrap_or_else(|| {
            self.tuples.push(Tuple::new(&mask));
            self.tuples.len() - 1
        });
        let replaced = self.tuples[at].insert(flow, &mut self.prefixes);
        self.flows += usize::from(replaced.is_none());
        self.settle(at);
        replaced
    }

    /// Takes all flows away.
    pub(crate) fn clear(&mut self) {
        (self.tuples, self.prefixes, self.flows) = (Vec::new(), Prefixes::default(), 0);
    }

    /// Takes a flow away.
    pub(crate) fn remove(&mut self, priority: u16, key: &Key, mask: &Mask) -> Option<Arc<Flow>> {
        let at = self.position(mask)?;
        let removed = self.tuples[at].remove(key, priority, &mut self.prefixes);
        if removed.is_some() {
            self.flows -= 1;
            if self.tuples[at].is_empty() {
                self.tuples.remove(at);
            } else {
                self.settle(at);
            }
        }
        removed
    }

    /// Moves a tuple whose rank has changed to its place.
    fn settle(&mut self, at: usize) {
        let rank = self.tuples[at].rank;
        if at > 0 && self.tuples[at - 1].rank < rank {
            let to = self.tuples[..at].partition_point(|tuple| tuple.rank >= rank);
            self.tuples[to..=at].rotate_right(1);
        } else {
            let behind = self.tuples[at + 1..].partition_point(|tuple| tuple.rank > rank);
            self.tuples[at..=at + behind].rotate_left(1);
        }
    }
}

/// Returns true if flows with this mask are for packets that begin with a header of Ethernet alone:
/// they match headers and no packet type.
fn is_for_ethernet(mask: &Mask) -> bool {
    mask.get(Field::PacketType) == 0 && mask.words()[HEADERS].iter().any(|word| *word != 0)
}

/// The numbers of matches of which all dimensions are among these flows, the smallest first.
fn whole(flows: &[&Arc<Flow>]) -> impl Iterator<Item = u32> {
    let mut clauses: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let actions = flows.iter().flat_map(|flow| flow.actions());
    for action in actions {
        if let Action::Conjunction { id, clause, clauses: all } = *action {
            let entry = clauses.entry(id).or_default();
            entry.0 |= 1u64.checked_shl(clause.into()).unwrap_or(0);
            entry.1 = u64::MAX.checked_shr(64 - u32::from(all)).unwrap_or(0);
        }
    }
    clauses.into_iter().filter(|(_, (has, all))| has & all == *all && *all != 0).map(|(id, _)| id)
}
