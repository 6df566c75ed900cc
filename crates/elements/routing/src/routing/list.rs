//! Listing order of routes, the only trace of the data structures Click's classes are called after.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
};

use super::family::Family;

/// Listing order of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// New routes take the first free place.
    FirstFree,
    /// As [`Order::FirstFree`], and a route that takes another's place is new.
    LowestFree,
    /// New routes take the place that was left last; a route that takes
    /// another's place is new.
    LastFreed,
    /// Routes behind those inside them, else as they came.
    Nested,
    /// By address, shorter prefixes first. Nothing need be kept for it.
    ByAddress,
}

/// Address and mask.
pub(super) type Key<A> = (A, A);

/// Routes in order, by their addresses and masks.
#[derive(Debug)]
pub(super) struct List<A> {
    order: Order,
    places: Vec<Option<Key<A>>>,
    /// Their places; not kept for [`Order::Nested`], which moves them.
    index: HashMap<Key<A>, usize>,
    first_free: BTreeSet<usize>,
    last_freed: Vec<usize>,
    sorted: bool,
}

impl<A: Family> List<A> {
    pub(super) fn new(order: Order) -> List<A> {
        List {
            order,
            places: Vec::new(),
            index: HashMap::new(),
            first_free: BTreeSet::new(),
            last_freed: Vec::new(),
            sorted: true,
        }
    }

    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// Returns true if it keeps routes at all.
    pub(super) fn is_kept(&self) -> bool {
        self.order != Order::ByAddress
    }

    /// A route there was none of.
    pub(super) fn add(&mut self, key: Key<A>) {
        let free = match self.order {
            Order::ByAddress => return,
            Order::FirstFree | Order::LowestFree => self.first_free.pop_first(),
            Order::LastFreed => self.last_freed.pop(),
            Order::Nested => {
                self.places.push(Some(key));
                self.sorted = false;
                return;
            }
        };
        let at = free.unwrap_or(self.places.len());
        if at == self.places.len() {
            self.places.push(None);
        }
        self.places[at] = Some(key);
        self.index.insert(key, at);
    }

    /// A route that leads elsewhere than before.
    pub(super) fn change(&mut self, key: Key<A>) {
        match self.order {
            Order::LowestFree => {
                self.remove(key);
                self.add(key);
            }
            Order::LastFreed => {
                let old = self.index.get(&key).copied();
                self.add(key);
                if let Some(old) = old {
                    self.places[old] = None;
                    self.last_freed.push(old);
                }
            }
            Order::FirstFree | Order::Nested | Order::ByAddress => {}
        }
    }

    pub(super) fn remove(&mut self, key: Key<A>) {
        match self.order {
            Order::ByAddress => {}
            Order::Nested => {
                // A route that is left without others inside it stays where it had come to be; one
                // that has lost its last inner route comes behind the one that is its last now.
                self.sort();
                self.places.retain(|place| *place != Some(key));
                self.sorted = false;
            }
            Order::FirstFree | Order::LowestFree | Order::LastFreed => {
                let Some(at) = self.index.remove(&key) else { return };
                self.places[at] = None;
                match self.order {
                    Order::LastFreed => self.last_freed.push(at),
                    _ => drop(self.first_free.insert(at)),
                }
            }
        }
    }

    /// In order, as it was when they were last sorted.
    pub(super) fn iter(&self) -> impl Iterator<Item = Key<A>> + '_ {
        self.places.iter().filter_map(|place| *place)
    }

    /// Puts every route directly behind the last of those inside it.
    pub(super) fn sort(&mut self) {
        if mem::replace(&mut self.sorted, true) {
            return;
        }
        let keys: Vec<Key<A>> = mem::take(&mut self.places).into_iter().flatten().collect();
        // In the order of addresses, and shorter masks first, the routes around a route are on a
        // stack.
        let mut by_address: Vec<usize> = (0..keys.len()).collect();
        by_address.sort_by_key(|at| keys[*at]);
        let (mut around, mut parents) = (Vec::<usize>::new(), vec![None; keys.len()]);
        let mut inside = vec![0usize; keys.len()];
        for at in by_address {
            let (address, mask) = keys[at];
            let contains = |outer: usize| {
                let (of, with) = keys[outer];
                address.and(with) == of && mask.and(with) == with
            };
            while around.last().is_some_and(|outer| !contains(*outer)) {
                around.pop();
            }
            if let Some(outer) = around.last() {
                parents[at] = Some(*outer);
                inside[*outer] += 1;
            }
            around.push(at);
        }
        let innermost: Vec<usize> = (0..keys.len()).filter(|at| inside[*at] == 0).collect();
        for at in innermost {
            let mut next = Some(at);
            while let Some(at) = next {
                self.places.push(Some(keys[at]));
                next = parents[at].filter(|outer| {
                    inside[*outer] -= 1;
                    inside[*outer] == 0
                });
            }
        }
    }
}
