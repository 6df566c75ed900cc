//! Table of routes, shared by all replicas of an element.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use linerate_tables::prefix::{NextHop, PrefixError, PrefixReader, PrefixTable};

use super::{
    change::Change,
    family::Family,
    hops::{HopNumbers, Hops, NO_OUTPUT},
    list::{List, Order},
    route::Route,
};

/// Routes that are as well added one by one where there are none: only the words they cover are
/// written then.
const FEW: usize = 4096;

/// Reason why a table was not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal<A> {
    /// There is a route already.
    Exists(Route<A>),
    /// There is no such route.
    Absent,
    /// There is no room.
    NoRoom,
    /// The mask is not that of a prefix, and the class takes only those.
    Mask,
}

/// The table of an element: read by replicas, changed by handlers.
pub(super) struct Table<A: Family> {
    reader: PrefixReader<A>,
    pub(super) hops: Hops,
    /// Number of changes of the routes, while or before some are not for a prefix; 0 while none is.
    /// Stored while `all` is held, and loaded by workers that hold older routes.
    noncontiguous_masks: AtomicU64,
    /// All routes in the order of the class, where there are such. Held for as
    /// long as it takes to take it or put another there.
    all: Mutex<Arc<[Route<A>]>>,
    numbers: Mutex<Routes<A>>,
}

/// State that changes write.
pub(super) struct Routes<A: Family> {
    pub(super) prefixes: PrefixTable<A>,
    pub(super) hops: HopNumbers<A>,
    pub(super) list: List<A>,
    /// Routes with masks that are not of prefixes, if the class takes them.
    noncontiguous_masks: Option<Vec<Route<A>>>,
    /// Routes that packets were last looked up in, so that no worker frees them.
    shown: Vec<Arc<[Route<A>]>>,
    /// Number of times that those were replaced.
    changes: u64,
}

/// The routes a worker looks packets up in while some are not for a prefix: taken
/// again only when there are others.
#[derive(Debug)]
pub(super) struct RouteSnapshot<A> {
    /// [`Table::noncontiguous_masks`] of them.
    change: u64,
    routes: Arc<[Route<A>]>,
}

impl<A> Default for RouteSnapshot<A> {
    fn default() -> RouteSnapshot<A> {
        RouteSnapshot { change: 0, routes: Arc::from([]) }
    }
}

impl<A: Family> Table<A> {
    /// Without routes. `noncontiguous_masks` says whether it takes masks that are not those of
    /// prefixes.
    pub(super) fn new(order: Order, noncontiguous_masks: bool) -> Result<Table<A>, PrefixError<A>> {
        let prefixes = PrefixTable::new()?;
        let reader = prefixes.reader();
        let (noncontiguous_masks, shown) = (noncontiguous_masks.then(Vec::new), Vec::new());
        let list = List::new(order);
        let routes = Routes {
            prefixes,
            hops: HopNumbers::new(),
            list,
            noncontiguous_masks,
            shown,
            changes: 0,
        };
        let (noncontiguous_masks, numbers) = (AtomicU64::new(0), Mutex::new(routes));
        let all = Mutex::new(Arc::from([]));
        Ok(Table { reader, hops: Hops::new::<A>()?, noncontiguous_masks, all, numbers })
    }

    fn routes(&self) -> MutexGuard<'_, Routes<A>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to change it.
    pub(super) fn change(&self) -> Change<'_, A> {
        Change::new(self, self.routes())
    }

    /// Adds a route, in place of one for the same prefix where `replace` says
    /// so; returns whether there was one.
    pub(super) fn add(&self, route: &Route<A>, replace: bool) -> Result<bool, Refusal<A>> {
        let mut change = self.change();
        let replaced = change.add(route, replace)?;
        change.finish().map(|()| replaced)
    }

    /// Removes a route. Where it leads must be as it is, unless the output is
    /// below zero.
    pub(super) fn remove(&self, route: &Route<A>) -> Result<(), Refusal<A>> {
        let mut change = self.change();
        change.remove(route)?;
        change.finish()
    }

    /// Replaces all routes, if there are any, by these in one step. Of those for the same prefix
    /// the first is kept, or the last if `replace` says so; returns how many
    /// there were more.
    pub(super) fn load(&self, all: &[Route<A>], replace: bool) -> Result<usize, Refusal<A>> {
        let mut routes = self.routes();
        let (mut kept, mut more) = (HashMap::with_capacity(all.len()), 0);
        let mut order = List::new(routes.list.order());
        for route in all {
            if route.prefix().is_none() && routes.noncontiguous_masks.is_none() {
                return Err(Refusal::Mask);
            }
            let known = kept.contains_key(&route.key());
            more += usize::from(known);
            if known && replace {
                order.change(route.key());
            } else if !known {
                order.add(route.key());
            }
            if !known || replace {
                kept.insert(route.key(), route);
            }
        }
        let Routes { prefixes, hops, list, noncontiguous_masks, .. } = &mut *routes;
        let mut taken = Vec::with_capacity(kept.len());
        let (mut odds, mut full) = (Vec::new(), false);
        for route in kept.into_values() {
            match route.prefix() {
                None => odds.push(route.clone()),
                Some(prefix) => match hops.acquire(&self.hops, prefixes, route) {
                    Some(hop) => taken.push((prefix, hop)),
                    None => full = true,
                },
            }
        }
        let before: Vec<NextHop> = prefixes.routes().map(|(_, hop)| hop).collect();
        let written = if full {
            Err(PrefixError::Full)
        } else if before.is_empty() && taken.len() <= FEW {
            prefixes.apply(taken.iter().map(|(prefix, hop)| (*prefix, Some(*hop))))
        } else {
            prefixes.load(taken.iter().copied())
        };
        if written.is_err() {
            taken.into_iter().for_each(|(_, hop)| hops.release(&self.hops, prefixes, hop));
            return Err(Refusal::NoRoom);
        }
        before.into_iter().for_each(|hop| hops.release(&self.hops, prefixes, hop));
        *list = order;
        noncontiguous_masks
            .iter_mut()
            .for_each(|noncontiguous_masks| *noncontiguous_masks = std::mem::take(&mut odds));
        self.publish_odd(&mut routes);
        Ok(more)
    }

    /// Has packets go by the masks that are not of prefixes, if there are any.
    pub(super) fn publish_odd(&self, routes: &mut Routes<A>) {
        let any = routes
            .noncontiguous_masks
            .as_ref()
            .is_some_and(|noncontiguous_masks| !noncontiguous_masks.is_empty());
        if !any && self.noncontiguous_masks.load(Relaxed) == 0 {
            return;
        }
        let mut all = Vec::new();
        if any {
            routes.for_each(&self.hops, |route| all.push(route));
        }
        let mut shown = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *shown, all.into());
        routes.changes += 1;
        self.noncontiguous_masks.store(if any { routes.changes } else { 0 }, Release);
        drop(shown);
        routes.shown.retain(|old| Arc::strong_count(old) > 1);
        routes.shown.push(old);
    }

    /// Calls `each` with every route, in the order of the class.
    pub(super) fn for_each(&self, each: impl FnMut(Route<A>)) {
        self.routes().for_each(&self.hops, each);
    }

    /// The gateway, zero for none, and output of one address;
    /// [`NO_OUTPUT`] when no route is for it.
    pub(super) fn lookup(&self, address: A) -> (A, u32) {
        if self.noncontiguous_masks.load(Relaxed) != 0 {
            let routes = Arc::clone(&self.all.lock().unwrap_or_else(PoisonError::into_inner));
            return linear(&routes, address);
        }
        self.hops.generation.read(|| self.hops.get(self.reader.lookup(address)))
    }

    /// The gateways and outputs of addresses, likewise. `hops` is scratch of the same length, and
    /// `shown` is for the worker to keep. Where a route leads to several, `flow_hash` of the place
    /// of the address chooses. When all have the same, it is returned, and not written for each.
    #[inline]
    pub(super) fn lookup_many(
        &self,
        addresses: &[A],
        shown: &mut RouteSnapshot<A>,
        hops: &mut [NextHop],
        gateways: &mut [A],
        outputs: &mut [u32],
        flow_hash: impl Fn(usize) -> u32,
    ) -> Option<(A, u32)> {
        if self.noncontiguous_masks.load(Relaxed) != 0 {
            self.linear_many(addresses, shown, gateways, outputs);
            return None;
        }
        self.hops.generation.read(|| {
            self.reader.lookup_flows(addresses, hops, &flow_hash);
            let first = *hops.first()?;
            if hops.iter().fold(0, |bits, hop| bits | (hop.index() ^ first.index())) == 0 {
                return Some(self.hops.get(first));
            }
            self.hops.get_many(hops, gateways, outputs);
            None
        })
    }

    #[cold]
    fn linear_many(
        &self,
        addresses: &[A],
        shown: &mut RouteSnapshot<A>,
        gateways: &mut [A],
        outputs: &mut [u32],
    ) {
        if shown.change != self.noncontiguous_masks.load(Acquire) {
            // The number is of these or of those before: then they are taken again.
            let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            *shown = RouteSnapshot {
                change: self.noncontiguous_masks.load(Relaxed),
                routes: Arc::clone(&all),
            };
        }
        let answers = gateways.iter_mut().zip(outputs.iter_mut());
        for (address, (gateway, output)) in addresses.iter().zip(answers) {
            (*gateway, *output) = linear(&shown.routes, *address);
        }
    }
}

/// Masks that are not of prefixes have no longest match: the first route
/// counts, or a later one whose mask has all bits of the one before. Of several
/// next hops it is the first.
fn linear<A: Family>(routes: &[Route<A>], address: A) -> (A, u32) {
    let mut found: Option<&Route<A>> = None;
    for route in routes {
        let narrower = |found: &Route<A>| route.mask.and(found.mask) == found.mask;
        if route.contains(address) && found.is_none_or(narrower) {
            found = Some(route);
        }
    }
    found.map_or((A::default(), NO_OUTPUT), |route| (route.gateway, route.output as u32))
}

impl<A: Family> Routes<A> {
    /// The route for the same prefix.
    pub(super) fn find(&self, hops: &Hops, key: &Route<A>) -> Option<Route<A>> {
        let Some(prefix) = key.prefix() else {
            return self
                .noncontiguous_masks
                .as_ref()?
                .iter()
                .find(|route| route.key() == key.key())
                .cloned();
        };
        Some(self.hops.route(hops, key, self.prefixes.get(prefix)?))
    }

    fn for_each(&mut self, hops: &Hops, mut each: impl FnMut(Route<A>)) {
        if !self.list.is_kept() {
            for (prefix, hop) in self.prefixes.routes() {
                let mask = A::mask(prefix.length().into());
                each(self.hops.route(hops, &Route::key_of(prefix.first(), mask), hop));
            }
            return;
        }
        self.list.sort();
        for (address, mask) in self.list.iter() {
            if let Some(route) = self.find(hops, &Route::key_of(address, mask)) {
                each(route);
            }
        }
    }

    /// Adds a route with a mask that is not of a prefix, or changes its next hop.
    pub(super) fn put_odd(&mut self, route: &Route<A>) -> Result<(), Refusal<A>> {
        let noncontiguous_masks = self.noncontiguous_masks.as_mut().ok_or(Refusal::Mask)?;
        match noncontiguous_masks.iter_mut().find(|old| old.key() == route.key()) {
            Some(old) => *old = route.clone(),
            None => noncontiguous_masks.push(route.clone()),
        }
        Ok(())
    }

    pub(super) fn remove_odd(&mut self, route: &Route<A>) {
        self.noncontiguous_masks.iter_mut().for_each(|noncontiguous_masks| {
            noncontiguous_masks.retain(|old| old.key() != route.key());
        });
    }
}

impl<A: Family> fmt::Debug for Table<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}
