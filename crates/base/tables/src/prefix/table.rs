//! Prefix table: the writer's side.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use linerate_memory::Generation;

use super::{
    Address, NextHop, Prefix, PrefixError, PrefixReader,
    lpm::{Lpm, NoRoom},
    next_hop::{SetUses, Sets},
    reader::{Fib, Side},
    rib::{Rib, Segments},
};

/// Memory for the parts that grow with the routes, unless the caller says otherwise.
const MEMORY: usize = if cfg!(miri) { 1 << 16 } else { 1 << 30 };
/// Changes beyond which it is quicker to write everything anew, if they are as
/// well a good part of the routes there are.
const MANY: usize = 1 << 14;

/// Routes of one family, changed by its owner while [`PrefixReader`]s look
/// addresses up.
/// A change is seen at once or not at all by each lookup: there is no moment
/// when an address has neither its old nor its new next hop. See
/// [`crate::prefix`] for the cost of changes.
pub struct PrefixTable<A: Address> {
    fib: Arc<Fib<A>>,
    /// Of the two sides.
    writers: [<A::Lpm as Lpm<A>>::Writer; 2],
    rib: Rib<A>,
    segments: Segments<A>,
    sets: SetUses,
}

impl<A: Address> PrefixTable<A> {
    /// Without routes. May grow to 1 GiB, while routes are loaded to twice that;
    /// memory is taken as it is needed.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Memory`] where so much cannot be mapped.
    pub fn new() -> Result<PrefixTable<A>, PrefixError<A>> {
        PrefixTable::with_memory(MEMORY)
    }

    /// Without routes. Parts that grow with them take at most about `memory` bytes, beside the list
    /// of routes itself (30 to 60 bytes each).
    ///
    /// # Errors
    ///
    /// As [`PrefixTable::new`].
    pub fn with_memory(memory: usize) -> Result<PrefixTable<A>, PrefixError<A>> {
        let side = || -> Result<_, PrefixError<A>> {
            let (lpm, writer) = A::Lpm::new(memory)?;
            let (default, others) = (AtomicU32::new(0), AtomicBool::new(false));
            Ok((Side { lpm, default, others }, writer))
        };
        let ((one, first), (two, second)) = (side()?, side()?);
        let (generation, sets) = (Generation::new(), Sets::new()?);
        let fib = Arc::new(Fib { sides: [one, two], generation, sets });
        let writers = [first, second];
        let (rib, segments, sets) = (Rib::default(), Segments::default(), SetUses::default());
        Ok(PrefixTable { fib, writers, rib, segments, sets })
    }

    /// Makes a reader, which looks addresses up.
    pub fn reader(&self) -> PrefixReader<A> {
        PrefixReader { fib: Arc::clone(&self.fib) }
    }

    /// Adds a route.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Exists`] where the prefix has one, [`PrefixError::Full`],
    /// and [`PrefixError::NoSuchSet`]. Nothing is changed then.
    pub fn add(&mut self, prefix: Prefix<A>, next_hop: NextHop) -> Result<(), PrefixError<A>> {
        let Entry::Vacant(place) = self.rib.routes.entry(prefix) else {
            return Err(PrefixError::Exists(prefix));
        };
        if !self.sets.knows(next_hop) {
            return Err(PrefixError::NoSuchSet);
        }
        place.insert(next_hop);
        self.changed(prefix, next_hop, None)
    }

    /// Adds a route or changes where it leads; returns where it led before.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Full`] and [`PrefixError::NoSuchSet`]. Nothing is changed
    /// then.
    pub fn set(
        &mut self,
        prefix: Prefix<A>,
        next_hop: NextHop,
    ) -> Result<Option<NextHop>, PrefixError<A>> {
        self.check(next_hop)?;
        let old = self.rib.routes.insert(prefix, next_hop);
        if old == Some(next_hop) {
            return Ok(old);
        }
        self.changed(prefix, next_hop, old)?;
        Ok(old)
    }

    /// Has lookups see a route that is new or leads elsewhere, or takes it back.
    fn changed(
        &mut self,
        prefix: Prefix<A>,
        next_hop: NextHop,
        old: Option<NextHop>,
    ) -> Result<(), PrefixError<A>> {
        if let Err(NoRoom) = self.update(prefix) {
            match old {
                Some(old) => self.rib.routes.insert(prefix, old),
                None => self.rib.routes.remove(&prefix),
            };
            return Err(PrefixError::Full);
        }
        self.sets.count(next_hop, true);
        old.into_iter().for_each(|old| self.sets.count(old, false));
        Ok(())
    }

    /// Deletes a route; returns its next hop.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Absent`] where the prefix has none, and [`PrefixError::Full`]: the answers
    /// behind a route may be more varied than the route was. Nothing is changed then.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Result<NextHop, PrefixError<A>> {
        let old = self.rib.routes.remove(&prefix).ok_or(PrefixError::Absent(prefix))?;
        if let Err(NoRoom) = self.update(prefix) {
            self.rib.routes.insert(prefix, old);
            return Err(PrefixError::Full);
        }
        self.sets.count(old, false);
        Ok(old)
    }

    /// Adds, changes (`Some`) and deletes (`None`) routes, in order: all of it or nothing. Several
    /// changes of a prefix are seen as one: each address goes from its old answer to its new one in
    /// one step, though unless there are many changes not all addresses at the same moment. A route
    /// that is to be deleted need not exist.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Full`] and [`PrefixError::NoSuchSet`]. Nothing is changed
    /// then.
    pub fn apply(
        &mut self,
        changes: impl IntoIterator<Item = (Prefix<A>, Option<NextHop>)>,
    ) -> Result<(), PrefixError<A>> {
        let mut before = BTreeMap::new();
        let mut refused = None;
        for (prefix, to) in changes {
            if let Some(Err(error)) = to.map(|hop| self.check(hop)) {
                refused = Some(error);
                break;
            }
            let old = match to {
                Some(hop) => self.rib.routes.insert(prefix, hop),
                None => self.rib.routes.remove(&prefix),
            };
            before.entry(prefix).or_insert(old);
        }
        before.retain(|prefix, old| self.rib.routes.get(prefix) != old.as_ref());
        let done = refused.map_or_else(|| self.publish(&before), Err);
        if done.is_err() {
            self.restore(&before);
            return done;
        }
        for (prefix, old) in before {
            old.into_iter().for_each(|old| self.sets.count(old, false));
            let new = self.get(prefix);
            new.into_iter().for_each(|new| self.sets.count(new, true));
        }
        Ok(())
    }

    /// Publishes routes that have changed to lookups.
    fn publish(
        &mut self,
        changed: &BTreeMap<Prefix<A>, Option<NextHop>>,
    ) -> Result<(), PrefixError<A>> {
        let full = |NoRoom| PrefixError::Full;
        if changed.len() >= MANY && changed.len() >= self.len() / 8 {
            return self.rebuild().map_err(full);
        }
        for (at, prefix) in changed.keys().enumerate() {
            if self.update(*prefix).is_ok() {
                continue;
            }
            self.restore(changed);
            // As they were there was room for them.
            let back = changed.keys().take(at).try_for_each(|prefix| self.update(*prefix));
            return back.or_else(|NoRoom| self.rebuild()).and(Err(NoRoom)).map_err(full);
        }
        Ok(())
    }

    fn restore(&mut self, before: &BTreeMap<Prefix<A>, Option<NextHop>>) {
        for (prefix, old) in before {
            match old {
                Some(old) => self.rib.routes.insert(*prefix, *old),
                None => self.rib.routes.remove(prefix),
            };
        }
    }

    /// Replaces all routes by these, in any order. Readers go on meanwhile, and
    /// go over from all the old routes to all the new ones in one step.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Exists`] where a prefix comes twice, [`PrefixError::Full`],
    /// and [`PrefixError::NoSuchSet`]. Nothing is changed then.
    pub fn load(
        &mut self,
        routes: impl IntoIterator<Item = (Prefix<A>, NextHop)>,
    ) -> Result<(), PrefixError<A>> {
        let mut routes: Vec<_> = routes.into_iter().collect();
        routes.sort_unstable_by_key(|(prefix, _)| *prefix);
        if let Some(twice) = routes.windows(2).find(|two| two[0].0 == two[1].0) {
            return Err(PrefixError::Exists(twice[0].0));
        }
        routes.iter().try_for_each(|(_, hop)| self.check(*hop))?;
        // From sorted routes the tree is made without a search.
        let new = Rib { routes: BTreeMap::from_iter(routes) };
        let old = std::mem::replace(&mut self.rib, new);
        if let Err(NoRoom) = self.rebuild() {
            self.rib = old;
            return Err(PrefixError::Full);
        }
        self.sets.forget_routes();
        self.rib.routes.values().for_each(|hop| self.sets.count(*hop, true));
        Ok(())
    }

    /// Publishes the routes inside a prefix to lookups.
    fn update(&mut self, prefix: Prefix<A>) -> Result<(), NoRoom> {
        let Fib { sides, generation, .. } = &*self.fib;
        let at = generation.side();
        if prefix.length() == 0 {
            // Release: a reader that loads the number of a set finds its members.
            sides[at].default.store(self.default(), Ordering::Release);
            return Ok(());
        }
        let segments = self.rib.segments(prefix, &mut self.segments);
        sides[at].lpm.update(&mut self.writers[at], generation, prefix, segments)?;
        let (now, others) = (self.has_others(), &sides[at].others);
        // Readers share the line: it is written where that changes.
        if others.load(Ordering::Relaxed) != now {
            // Release: a reader that sees that there are others finds them.
            others.store(now, Ordering::Release);
        }
        Ok(())
    }

    /// Returns true if there are routes besides the default route.
    fn has_others(&self) -> bool {
        // With two there is another one, and no place in the tree is looked at.
        let routes = &self.rib.routes;
        routes.len() > 1 || routes.last_key_value().is_some_and(|(prefix, _)| prefix.length() > 0)
    }

    fn default(&self) -> u32 {
        self.rib.routes.get(&Prefix::ALL).map_or(0, |hop| hop.0)
    }

    /// Writes all routes into the side that is not read, which it is from then
    /// on.
    fn rebuild(&mut self) -> Result<(), NoRoom> {
        let Fib { sides, generation, .. } = &*self.fib;
        let (old, new) = (generation.side(), 1 - generation.side());
        // As many as routes, and not kept.
        let mut segments = Segments::default();
        let segments = self.rib.segments(Prefix::ALL, &mut segments);
        let side = &sides[new];
        let written = side.lpm.update(&mut self.writers[new], generation, Prefix::ALL, segments);
        if written.is_err() {
            side.lpm.clear(&mut self.writers[new]);
            return written;
        }
        side.default.store(self.default(), Ordering::Relaxed);
        side.others.store(self.has_others(), Ordering::Relaxed);
        side.lpm.prefault();
        generation.flip();
        sides[old].lpm.clear(&mut self.writers[old]);
        Ok(())
    }

    fn check(&self, next_hop: NextHop) -> Result<(), PrefixError<A>> {
        if self.sets.knows(next_hop) { Ok(()) } else { Err(PrefixError::NoSuchSet) }
    }

    /// The next hop of the route of exactly this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<NextHop> {
        self.rib.routes.get(&prefix).copied()
    }

    /// The longest route an address matches, with its prefix.
    pub fn longest(&self, address: A) -> Option<(Prefix<A>, NextHop)> {
        self.rib.covering(Prefix::from_parts(address, A::BITS))
    }

    /// All routes: by address, shorter before longer.
    pub fn routes(&self) -> impl ExactSizeIterator<Item = (Prefix<A>, NextHop)> {
        self.rib.routes.iter().map(|(prefix, hop)| (*prefix, *hop))
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.rib.routes.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.rib.routes.is_empty()
    }

    /// Bytes the lookup structure has taken, not counting the list of routes.
    pub fn bytes(&self) -> usize {
        let at = self.fib.generation.side();
        self.fib.sides[at].lpm.bytes(&self.writers[at])
    }

    /// A next hop for routes that stands for several: each gets a share of the
    /// flows in proportion to its weight, to the nearest 256th.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Members`] unless there are 1 to 256 members, all single
    /// next hops with a weight above zero; [`PrefixError::Full`] with 16,384
    /// sets.
    pub fn add_set(&mut self, members: &[(NextHop, u32)]) -> Result<NextHop, PrefixError<A>> {
        check_members(members)?;
        let set = self.sets.take().ok_or(PrefixError::Full)?;
        // The number may have been another set's, which a lookup still holds.
        self.fib.generation.advance();
        self.fib.sets.divide(set, members);
        Ok(set)
    }

    /// Gives a set other members or weights. No route is touched, and flows
    /// move only where their next hop lost its share.
    ///
    /// # Errors
    ///
    /// [`PrefixError::NoSuchSet`] and [`PrefixError::Members`].
    pub fn change_set(
        &mut self,
        set: NextHop,
        members: &[(NextHop, u32)],
    ) -> Result<(), PrefixError<A>> {
        check_members(members)?;
        self.sets.uses(set).ok_or(PrefixError::NoSuchSet)?;
        self.fib.sets.divide(set, members);
        Ok(())
    }

    /// Deletes a set to which no route leads.
    ///
    /// # Errors
    ///
    /// [`PrefixError::NoSuchSet`], and [`PrefixError::InUse`] while routes lead
    /// to it.
    pub fn remove_set(&mut self, set: NextHop) -> Result<(), PrefixError<A>> {
        match self.sets.uses(set) {
            None => Err(PrefixError::NoSuchSet),
            Some(0) => {
                self.sets.remove(set);
                Ok(())
            }
            Some(routes) => Err(PrefixError::InUse { routes }),
        }
    }
}

fn check_members<A: Address>(members: &[(NextHop, u32)]) -> Result<(), PrefixError<A>> {
    let good = |&(hop, weight): &(NextHop, u32)| !hop.is_set() && weight > 0;
    let possible = (1..=256).contains(&members.len()) && members.iter().all(good);
    if possible { Ok(()) } else { Err(PrefixError::Members) }
}

impl<A: Address> fmt::Debug for PrefixTable<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixTable").field("routes", &self.len()).finish_non_exhaustive()
    }
}
