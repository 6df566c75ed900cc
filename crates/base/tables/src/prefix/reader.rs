//! FIB, as readers of a table see it: one of its two structures in use (`dir24` for IPv4, `poptrie`
//! for IPv6), the default route and the sets of next hops beside it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering, fence},
    },
};

use linerate_memory::Generation;

use super::{Address, NextHop, lpm::Lpm, next_hop::Sets};

/// Addresses looked up between two checks of the generation.
const BURST: usize = 256;

/// One of the two structures of a FIB.
pub(super) struct Side<A: Address> {
    pub(super) lpm: A::Lpm,
    /// Next hop of the default route, kept beside the structure because it would be every word of
    /// that.
    pub(super) default: AtomicU32,
    /// Whether there are other routes. Without any, lookups need not look into the structure,
    /// where they would find nothing in as many places as there are destinations.
    pub(super) others: AtomicBool,
}

/// Data that lookups read: shared by the table, which writes it, and its readers.
pub(super) struct Fib<A: Address> {
    /// A double buffer: lookups use the one `generation` names, a change of all
    /// routes is written into the other.
    pub(super) sides: [Side<A>; 2],
    pub(super) generation: Generation,
    pub(super) sets: Sets,
}

impl<A: Address> Fib<A> {
    /// One burst. `hash` is asked only for addresses whose route has several
    /// next hops.
    #[inline]
    fn burst(&self, addresses: &[A], hops: &mut [NextHop], hash: impl Fn(usize) -> u32) {
        self.generation.read_side(|side| {
            let Side { lpm, default, others } = &self.sides[side];
            // Pairs with the store in `PrefixTable::update`: without other routes the
            // structure was empty at that moment, with them they are in it.
            if others.load(Ordering::Acquire) {
                lpm.lookup(addresses, hops);
            } else {
                hops.fill(NextHop::NONE);
            }
            let default = default.load(Ordering::Relaxed);
            if default != 0 {
                hops.iter_mut().for_each(|hop| hop.0 = if hop.0 == 0 { default } else { hop.0 });
            }
            if hops.iter().fold(0, |all, hop| all | hop.0) & 1 != 0 {
                // Pairs with the fence in `divide`: a reader that loaded a set's number loads its
                // members.
                fence(Ordering::Acquire);
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

/// Looks addresses up in a [`PrefixTable`](super::PrefixTable) while that is changed. Cheap to
/// clone; every worker may have one, or share one.
pub struct PrefixReader<A: Address> {
    pub(super) fib: Arc<Fib<A>>,
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
        self.fib.lookup(addresses, next_hops, |i| addresses[i].hash());
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
        self.fib.lookup(addresses, next_hops, flow_hash);
    }

    /// The next hop of one address. Its cache misses overlap with nothing.
    #[inline]
    pub fn lookup(&self, address: A) -> NextHop {
        let mut hop = [NextHop::NONE];
        self.lookup_many(&[address], &mut hop);
        hop[0]
    }
}

impl<A: Address> Clone for PrefixReader<A> {
    fn clone(&self) -> PrefixReader<A> {
        PrefixReader { fib: Arc::clone(&self.fib) }
    }
}

impl<A: Address> fmt::Debug for PrefixReader<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixReader").finish_non_exhaustive()
    }
}
