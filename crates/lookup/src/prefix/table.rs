//! The table: the writer's side, and readers of it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    Address, NextHop, Prefix, PrefixError,
    engine::{Engine, NoRoom},
    next_hop::{SetBook, Sets},
    rib::Rib,
};

/// Memory for what grows with the routes, unless the caller says otherwise.
const MEMORY: usize = 1 << 30;
/// Addresses looked up inside one check for reuse.
const BURST: usize = 256;

struct Shared<A: Address> {
    engine: A::Engine,
    sets: Sets,
}

impl<A: Address> Shared<A> {
    /// One burst. `hash` is asked only for addresses whose route has several
    /// next hops.
    #[inline]
    fn burst(&self, addresses: &[A], hops: &mut [NextHop], hash: impl Fn(usize) -> u32) {
        self.engine.generation().read(|| {
            self.engine.lookup(addresses, hops);
            if hops.iter().fold(0, |all, hop| all | hop.0) & 1 != 0 {
                for (i, hop) in hops.iter_mut().enumerate().filter(|(_, hop)| hop.is_set()) {
                    *hop = self.sets.member(*hop, hash(i));
                }
            }
        });
    }

    #[inline]
    fn lookup(&self, addresses: &[A], hops: &mut [NextHop], hash: impl Fn(usize) -> u32) {
        assert_eq!(addresses.len(), hops.len(), "one next hop for each address");
        let bursts = addresses.chunks(BURST).zip(hops.chunks_mut(BURST)).enumerate();
        for (burst, (addresses, hops)) in bursts {
            self.burst(addresses, hops, |i| hash(burst * BURST + i));
        }
    }
}

/// Looks addresses up in a [`PrefixTable`] while that is changed. Cheap to
/// clone; every worker may have one, or share one.
pub struct PrefixReader<A: Address> {
    shared: Arc<Shared<A>>,
}

impl<A: Address> PrefixReader<A> {
    /// The next hop of each address's longest match, [`NextHop::NONE`] where
    /// none matches. Of several next hops the address's own hash chooses.
    ///
    /// Never waits for a writer. Each answer was right at some moment of the
    /// call. See [`crate::prefix`] for the cost; bursts of 64 and more are the
    /// cheapest.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    #[inline]
    pub fn lookup_many(&self, addresses: &[A], next_hops: &mut [NextHop]) {
        self.shared.lookup(addresses, next_hops, |i| addresses[i].hash());
    }

    /// As [`PrefixReader::lookup_many`], with the choice among several next
    /// hops by `flow_hash`, which is called with the index of an address and
    /// only for those that need it.
    #[inline]
    pub fn lookup_flows(
        &self,
        addresses: &[A],
        next_hops: &mut [NextHop],
        flow_hash: impl Fn(usize) -> u32,
    ) {
        self.shared.lookup(addresses, next_hops, flow_hash);
    }

    /// The next hop of one address. Costs the misses of all its steps.
    #[inline]
    pub fn lookup(&self, address: A) -> NextHop {
        let mut hop = [NextHop::NONE];
        self.lookup_many(&[address], &mut hop);
        hop[0]
    }
}

impl<A: Address> Clone for PrefixReader<A> {
    fn clone(&self) -> PrefixReader<A> {
        PrefixReader { shared: Arc::clone(&self.shared) }
    }
}

impl<A: Address> fmt::Debug for PrefixReader<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixReader").finish_non_exhaustive()
    }
}

/// Routes of one family, changed by its owner while [`PrefixReader`]s look
/// addresses up.
///
/// A change is seen at once or not at all by each lookup: there is no moment
/// when an address has neither its old nor its new next hop. See
/// [`crate::prefix`] for what changes cost.
pub struct PrefixTable<A: Address> {
    shared: Arc<Shared<A>>,
    writer: <A::Engine as Engine<A>>::Writer,
    rib: Rib<A>,
    sets: SetBook,
}

impl<A: Address> PrefixTable<A> {
    /// Without routes. May grow to 1 GiB; memory is taken as it is needed.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Memory`] where so much cannot be mapped.
    pub fn new() -> Result<PrefixTable<A>, PrefixError<A>> {
        PrefixTable::with_memory(MEMORY)
    }

    /// Without routes. What grows with them takes at most about `memory` bytes,
    /// beside the list of routes itself (30 to 60 bytes each).
    ///
    /// # Errors
    ///
    /// As [`PrefixTable::new`].
    pub fn with_memory(memory: usize) -> Result<PrefixTable<A>, PrefixError<A>> {
        let (engine, writer) = A::Engine::new(memory)?;
        let shared = Arc::new(Shared { engine, sets: Sets::new()? });
        Ok(PrefixTable { shared, writer, rib: Rib::default(), sets: SetBook::default() })
    }

    /// Somebody who looks addresses up.
    pub fn reader(&self) -> PrefixReader<A> {
        PrefixReader { shared: Arc::clone(&self.shared) }
    }

    /// Adds a route.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Exists`] where the prefix has one, [`PrefixError::Full`],
    /// and [`PrefixError::NoSuchSet`]. Nothing is changed then.
    pub fn add(&mut self, prefix: Prefix<A>, next_hop: NextHop) -> Result<(), PrefixError<A>> {
        if self.rib.routes.contains_key(&prefix) {
            return Err(PrefixError::Exists(prefix));
        }
        self.set(prefix, next_hop).map(drop)
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
        if let Err(NoRoom) = self.update(prefix) {
            match old {
                Some(old) => self.rib.routes.insert(prefix, old),
                None => self.rib.routes.remove(&prefix),
            };
            return Err(PrefixError::Full);
        }
        self.sets.count(next_hop, true);
        old.into_iter().for_each(|old| self.sets.count(old, false));
        Ok(old)
    }

    /// Deletes a route; returns where it led.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Absent`] where the prefix has none, and
    /// [`PrefixError::Full`]: what shows behind a route may be more varied than
    /// the route was. Nothing is changed then.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Result<NextHop, PrefixError<A>> {
        let old = self.rib.routes.remove(&prefix).ok_or(PrefixError::Absent(prefix))?;
        if let Err(NoRoom) = self.update(prefix) {
            self.rib.routes.insert(prefix, old);
            return Err(PrefixError::Full);
        }
        self.sets.count(old, false);
        Ok(old)
    }

    /// Replaces all routes by these, in any order. Readers go on meanwhile, and
    /// each address goes from its old answer to its new one at once, though not
    /// all addresses at the same moment.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Exists`] where a prefix comes twice, [`PrefixError::Full`]
    /// (while it is done there must be room for both), and
    /// [`PrefixError::NoSuchSet`]. Nothing is changed then.
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
        // From what is sorted the tree is made without a search.
        let new = Rib { routes: BTreeMap::from_iter(routes) };
        let old = std::mem::replace(&mut self.rib, new);
        if let Err(NoRoom) = self.update(Prefix::ALL) {
            self.rib = old;
            return Err(PrefixError::Full);
        }
        self.sets.forget_routes();
        self.rib.routes.values().for_each(|hop| self.sets.count(*hop, true));
        Ok(())
    }

    /// Brings what lookups see in line with the routes inside a prefix.
    fn update(&mut self, prefix: Prefix<A>) -> Result<(), NoRoom> {
        let segments = self.rib.segments(prefix);
        self.shared.engine.update(&mut self.writer, prefix, &segments)
    }

    fn check(&self, next_hop: NextHop) -> Result<(), PrefixError<A>> {
        match self.sets.knows(next_hop) {
            true => Ok(()),
            false => Err(PrefixError::NoSuchSet),
        }
    }

    /// Where the route of exactly this prefix leads.
    pub fn get(&self, prefix: Prefix<A>) -> Option<NextHop> {
        self.rib.routes.get(&prefix).copied()
    }

    /// The longest route an address matches, with its prefix.
    pub fn longest(&self, address: A) -> Option<(Prefix<A>, NextHop)> {
        self.rib.covering(Prefix::of(address, A::BITS))
    }

    /// All routes: by address, shorter before longer.
    pub fn routes(&self) -> impl ExactSizeIterator<Item = (Prefix<A>, NextHop)> {
        self.rib.routes.iter().map(|(prefix, hop)| (*prefix, *hop))
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.rib.routes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rib.routes.is_empty()
    }

    /// Bytes the lookup structure has taken, not counting the list of routes.
    pub fn bytes(&self) -> usize {
        self.shared.engine.bytes(&self.writer)
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
        // The number may have been another set's, which a reader still knows.
        self.shared.engine.generation().advance();
        self.shared.sets.divide(set, members);
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
        self.shared.sets.divide(set, members);
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
    match (1..=256).contains(&members.len()) && members.iter().all(good) {
        true => Ok(()),
        false => Err(PrefixError::Members),
    }
}

impl<A: Address> fmt::Debug for PrefixTable<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixTable").field("routes", &self.len()).finish_non_exhaustive()
    }
}
