//! Transaction: changes to a table, carried out together or not at all.

use std::collections::HashMap;
use std::sync::MutexGuard;

use linerate_tables::prefix::{NextHop, Prefix};

use super::{
    family::Family,
    route::Route,
    table::{Refusal, Routes, Table},
};

/// Changes under way. No other thread changes the table meanwhile, and lookups see none of them
/// until [`Change::finish`]; without that, nothing has happened.
pub(super) struct Change<'t, A: Family> {
    table: &'t Table<A>,
    routes: MutexGuard<'t, Routes<A>>,
    /// New next hops of prefixes; `None` for removed routes.
    pending: HashMap<Prefix<A>, Option<NextHop>>,
    /// Next hops that were taken for a route and are not needed.
    left: Vec<NextHop>,
    /// The other way round, the last first.
    undo: Vec<Undo<A>>,
}

/// Step that undoes another in the list and among masks that are not of prefixes.
enum Undo<A> {
    Add(Route<A>),
    Set(Route<A>),
    Remove(Route<A>),
}

impl<'t, A: Family> Change<'t, A> {
    pub(super) fn new(table: &'t Table<A>, routes: MutexGuard<'t, Routes<A>>) -> Change<'t, A> {
        Change { table, routes, pending: HashMap::new(), left: Vec::new(), undo: Vec::new() }
    }

    /// The route for the same prefix.
    pub(super) fn find(&self, key: &Route<A>) -> Option<Route<A>> {
        let changed = key.prefix().and_then(|prefix| self.pending.get(&prefix));
        match changed {
            Some(hop) => Some(self.routes.hops.route(&self.table.hops, key, (*hop)?)),
            None => self.routes.find(&self.table.hops, key),
        }
    }

    /// Adds a route, in place of one for the same prefix where `replace` says
    /// so; returns whether there was one.
    pub(super) fn add(&mut self, route: &Route<A>, replace: bool) -> Result<bool, Refusal<A>> {
        let old = self.find(route);
        if let Some(old) = old.as_ref().filter(|_| !replace) {
            return Err(Refusal::Exists(old.clone()));
        }
        match route.prefix() {
            Some(prefix) => {
                let Routes { hops, prefixes, .. } = &mut *self.routes;
                let hop = hops.acquire(&self.table.hops, prefixes, route).ok_or(Refusal::NoRoom)?;
                self.point(prefix, Some(hop));
            }
            None => self.routes.put_odd(route)?,
        }
        let replaced = old.is_some();
        match old {
            Some(old) => {
                self.routes.list.change(route.key());
                self.undo.push(Undo::Set(old));
            }
            None => {
                self.routes.list.add(route.key());
                self.undo.push(Undo::Remove(route.clone()));
            }
        }
        Ok(replaced)
    }

    /// Removes a route. Where it leads must be as it is, unless the output is
    /// below zero.
    pub(super) fn remove(&mut self, route: &Route<A>) -> Result<(), Refusal<A>> {
        let matches = |old: &Route<A>| route.output < 0 || old == route;
        let old = self.find(route).filter(matches).ok_or(Refusal::Absent)?;
        match old.prefix() {
            Some(prefix) => self.point(prefix, None),
            None => self.routes.remove_odd(&old),
        }
        self.routes.list.remove(old.key());
        self.undo.push(Undo::Add(old));
        Ok(())
    }

    fn point(&mut self, prefix: Prefix<A>, to: Option<NextHop>) {
        self.left.extend(self.pending.insert(prefix, to).flatten());
    }

    /// Has lookups see the changes.
    pub(super) fn finish(mut self) -> Result<(), Refusal<A>> {
        let pending = std::mem::take(&mut self.pending);
        let routes = &mut *self.routes;
        let before: Vec<_> = pending.keys().map(|prefix| routes.prefixes.get(*prefix)).collect();
        if routes.prefixes.apply(pending.iter().map(|(prefix, to)| (*prefix, *to))).is_err() {
            self.pending = pending;
            return Err(Refusal::NoRoom);
        }
        self.undo.clear();
        self.left.extend(before.into_iter().flatten());
        self.table.publish_odd(&mut self.routes);
        Ok(())
    }
}

impl<A: Family> Drop for Change<'_, A> {
    fn drop(&mut self) {
        let Routes { prefixes, hops, list, .. } = &mut *self.routes;
        for undo in self.undo.iter().rev() {
            match undo {
                Undo::Add(route) => list.add(route.key()),
                Undo::Set(route) => list.change(route.key()),
                Undo::Remove(route) => list.remove(route.key()),
            }
        }
        let unused = self.pending.drain().filter_map(|(_, to)| to);
        for hop in self.left.drain(..).chain(unused) {
            hops.release(&self.table.hops, prefixes, hop);
        }
        for undo in self.undo.drain(..).rev() {
            match undo {
                Undo::Add(route) | Undo::Set(route) if route.prefix().is_none() => {
                    // They are taken: one was there.
                    let _ = self.routes.put_odd(&route);
                }
                Undo::Remove(route) if route.prefix().is_none() => self.routes.remove_odd(&route),
                _ => {}
            }
        }
    }
}
