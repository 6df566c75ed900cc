//! Routes, shared by all replicas of an element.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use linerate_lookup::prefix::{NextHop, Prefix, PrefixError, PrefixReader, PrefixTable};

use super::{
    family::Family,
    hops::{Book, Hops, NO_OUTPUT},
    list::{List, Order},
};

/// Routes that are as well added one by one: only what they cover is written
/// then.
const FEW: usize = 4096;

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route<A> {
    /// No bits are set that are not in the mask.
    pub(super) address: A,
    pub(super) mask: A,
    /// Zero for none.
    pub(super) gateway: A,
    /// Below zero where only the prefix matters.
    pub(super) output: i32,
}

impl<A: Family> Route<A> {
    /// `None` when the mask is not that of a prefix.
    fn prefix(&self) -> Option<Prefix<A>> {
        let length = A::mask(A::BITS).common(self.mask);
        let prefix = Prefix::new(self.address, length as u8).ok()?;
        (A::mask(length) == self.mask).then_some(prefix)
    }

    fn key(&self) -> (A, A) {
        (self.address, self.mask)
    }

    fn contains(&self, address: A) -> bool {
        address.and(self.mask) == self.address
    }
}

/// Why a table was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// The table of an element: what replicas read, and what handlers change.
pub(super) struct Table<A: Family> {
    reader: PrefixReader<A>,
    hops: Hops,
    /// Whether there are routes that are not for a prefix.
    odd: AtomicBool,
    book: Mutex<Routes<A>>,
}

/// What is changed.
struct Routes<A: Family> {
    prefixes: PrefixTable<A>,
    hops: Book<A>,
    list: List<A>,
    /// Those whose masks are not of prefixes, if the class takes them.
    odd: Option<Vec<Route<A>>>,
}

impl<A: Family> Table<A> {
    /// Without routes. `odd` says whether it takes masks that are not those of
    /// prefixes.
    pub(super) fn new(order: Order, odd: bool) -> Result<Table<A>, PrefixError<A>> {
        let prefixes = PrefixTable::new()?;
        let reader = prefixes.reader();
        let odd = odd.then(Vec::new);
        let routes = Routes { prefixes, hops: Book::new(), list: List::new(order), odd };
        let (odd, book) = (AtomicBool::new(false), Mutex::new(routes));
        Ok(Table { reader, hops: Hops::new::<A>()?, odd, book })
    }

    fn routes(&self) -> MutexGuard<'_, Routes<A>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a route, in place of one for the same prefix where `replace` says
    /// so, which is returned.
    pub(super) fn add(
        &self,
        route: Route<A>,
        replace: bool,
    ) -> Result<Option<Route<A>>, Refusal<A>> {
        let mut routes = self.routes();
        let old = routes.find(&self.hops, &route);
        if let Some(old) = old.filter(|_| !replace) {
            return Err(Refusal::Exists(old));
        }
        routes.put(&self.hops, route)?;
        match old {
            Some(_) => routes.list.change(route.key()),
            None => routes.list.add(route.key()),
        }
        self.note_odd(&routes);
        Ok(old)
    }

    /// Adds the first routes of all. Of those for the same prefix the first is
    /// kept, or the last if `replace` says so; returns how many there were more.
    pub(super) fn load(&self, all: &[Route<A>], replace: bool) -> Result<usize, Refusal<A>> {
        if all.len() > FEW {
            return self.load_many(all, replace);
        }
        let mut more = 0;
        for route in all {
            match self.add(*route, replace) {
                Ok(old) => more += usize::from(old.is_some()),
                Err(Refusal::Exists(_)) => more += 1,
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(more)
    }

    /// The same, writing everything once.
    fn load_many(&self, all: &[Route<A>], replace: bool) -> Result<usize, Refusal<A>> {
        let mut routes = self.routes();
        let mut prefixes = HashMap::new();
        let mut more = 0;
        for route in all {
            let Some(prefix) = route.prefix() else {
                let exists = routes.find(&self.hops, route).is_some();
                more += usize::from(exists);
                if !exists {
                    routes.put(&self.hops, *route)?;
                    routes.list.add(route.key());
                }
                continue;
            };
            let known = prefixes.contains_key(&prefix);
            more += usize::from(known);
            if !known || replace {
                let hop = routes.hop(&self.hops, route)?;
                if let Some(old) = prefixes.insert(prefix, hop) {
                    routes.hops.leave(&self.hops, old);
                    routes.list.remove(route.key());
                }
                routes.list.add(route.key());
            }
        }
        routes.prefixes.load(prefixes).map_err(|_| Refusal::NoRoom)?;
        self.note_odd(&routes);
        Ok(more)
    }

    /// Removes a route and returns it. Gateway and output must be its own,
    /// unless the output is below zero.
    pub(super) fn remove(&self, route: Route<A>) -> Result<Route<A>, Refusal<A>> {
        let mut routes = self.routes();
        let old = routes.find(&self.hops, &route);
        let matches = |old: &Route<A>| route.output < 0 || *old == route;
        let old = old.filter(matches).ok_or(Refusal::Absent)?;
        match old.prefix() {
            Some(prefix) => {
                let hop = routes.prefixes.remove(prefix).map_err(|_| Refusal::NoRoom)?;
                routes.hops.leave(&self.hops, hop);
            }
            None => {
                let key = old.key();
                routes.odd.iter_mut().for_each(|odd| odd.retain(|route| route.key() != key));
            }
        }
        routes.list.remove(old.key());
        self.note_odd(&routes);
        Ok(old)
    }

    /// Removes all routes.
    pub(super) fn flush(&self) -> Result<(), Refusal<A>> {
        let mut routes = self.routes();
        let hops: Vec<NextHop> = routes.prefixes.routes().map(|(_, hop)| hop).collect();
        routes.prefixes.load([]).map_err(|_| Refusal::NoRoom)?;
        hops.into_iter().for_each(|hop| routes.hops.leave(&self.hops, hop));
        routes.odd.iter_mut().for_each(Vec::clear);
        routes.list.clear();
        self.note_odd(&routes);
        Ok(())
    }

    fn note_odd(&self, routes: &Routes<A>) {
        self.odd.store(routes.odd.as_ref().is_some_and(|odd| !odd.is_empty()), Relaxed);
    }

    /// Calls `each` with every route, in the order of the class.
    pub(super) fn for_each(&self, mut each: impl FnMut(Route<A>)) {
        let mut routes = self.routes();
        let Routes { prefixes, list, odd, .. } = &mut *routes;
        if !list.is_kept() {
            for (prefix, hop) in prefixes.routes() {
                let (gateway, output) = self.hops.get(hop);
                let mask = A::mask(prefix.length().into());
                each(Route { address: prefix.first(), mask, gateway, output: output as i32 });
            }
            return;
        }
        for (address, mask) in list.iter() {
            let key = Route { address, mask, gateway: A::default(), output: -1 };
            if let Some(route) = find(prefixes, odd.as_deref(), &self.hops, &key) {
                each(route);
            }
        }
    }

    /// The gateway, zero for none, and output of one address;
    /// [`NO_OUTPUT`] when no route is for it.
    pub(super) fn lookup(&self, address: A) -> (A, u32) {
        if self.odd.load(Relaxed) {
            return self.linear(&mut self.routes(), address);
        }
        self.hops.generation.read(|| self.hops.get(self.reader.lookup(address)))
    }

    /// The gateways and outputs of addresses, likewise. `hops` is scratch of
    /// the same length. When all have the same, it is returned, and not written
    /// for each.
    #[inline]
    pub(super) fn lookup_many(
        &self,
        addresses: &[A],
        hops: &mut [NextHop],
        gateways: &mut [A],
        outputs: &mut [u32],
    ) -> Option<(A, u32)> {
        if self.odd.load(Relaxed) {
            self.linear_many(addresses, gateways, outputs);
            return None;
        }
        self.hops.generation.read(|| {
            self.reader.lookup_many(addresses, hops);
            let first = *hops.first()?;
            if hops.iter().fold(0, |bits, hop| bits | (hop.index() ^ first.index())) == 0 {
                return Some(self.hops.get(first));
            }
            let answers = gateways.iter_mut().zip(outputs.iter_mut());
            for (hop, (gateway, output)) in hops.iter().zip(answers) {
                (*gateway, *output) = self.hops.get(*hop);
            }
            None
        })
    }

    #[cold]
    fn linear_many(&self, addresses: &[A], gateways: &mut [A], outputs: &mut [u32]) {
        let mut routes = self.routes();
        let answers = gateways.iter_mut().zip(outputs.iter_mut());
        for (address, (gateway, output)) in addresses.iter().zip(answers) {
            (*gateway, *output) = self.linear(&mut routes, *address);
        }
    }

    /// Masks that are not of prefixes have no longest match: the first route
    /// counts, or a later one whose mask has all bits of the one before.
    fn linear(&self, routes: &mut Routes<A>, address: A) -> (A, u32) {
        let Routes { prefixes, list, odd, .. } = routes;
        let mut found: Option<Route<A>> = None;
        for (of, mask) in list.iter() {
            let route = Route { address: of, mask, gateway: A::default(), output: -1 };
            let narrower = |found: Route<A>| mask.and(found.mask) == found.mask;
            if route.contains(address) && found.is_none_or(narrower) {
                found = Some(route);
            }
        }
        let found = found.and_then(|key| find(prefixes, odd.as_deref(), &self.hops, &key));
        found.map_or((A::default(), NO_OUTPUT), |route| (route.gateway, route.output as u32))
    }
}

fn find<A: Family>(
    prefixes: &PrefixTable<A>,
    odd: Option<&[Route<A>]>,
    hops: &Hops,
    key: &Route<A>,
) -> Option<Route<A>> {
    let Some(prefix) = key.prefix() else {
        return odd?.iter().find(|route| route.key() == key.key()).copied();
    };
    let (gateway, output) = hops.get(prefixes.get(prefix)?);
    Some(Route { gateway, output: output as i32, ..*key })
}

impl<A: Family> Routes<A> {
    /// The route for the same prefix.
    fn find(&self, hops: &Hops, key: &Route<A>) -> Option<Route<A>> {
        find(&self.prefixes, self.odd.as_deref(), hops, key)
    }

    fn hop(&mut self, hops: &Hops, route: &Route<A>) -> Result<NextHop, Refusal<A>> {
        self.hops.take(hops, route.gateway, route.output as u32).ok_or(Refusal::NoRoom)
    }

    /// Adds a route or changes where it leads.
    fn put(&mut self, hops: &Hops, route: Route<A>) -> Result<(), Refusal<A>> {
        let Some(prefix) = route.prefix() else {
            let odd = self.odd.as_mut().ok_or(Refusal::Mask)?;
            match odd.iter_mut().find(|old| old.key() == route.key()) {
                Some(old) => *old = route,
                None => odd.push(route),
            }
            return Ok(());
        };
        let hop = self.hop(hops, &route)?;
        match self.prefixes.set(prefix, hop) {
            Ok(old) => {
                old.into_iter().for_each(|old| self.hops.leave(hops, old));
                Ok(())
            }
            Err(_) => {
                self.hops.leave(hops, hop);
                Err(Refusal::NoRoom)
            }
        }
    }
}

impl<A: Family> fmt::Debug for Table<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}
