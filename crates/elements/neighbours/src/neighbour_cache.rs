//! Neighbour cache: headers in use, which each sender remembers for itself. A packet on its way
//! finds its own in a line, nearly always, and takes no lock.
//!
//! A hash table of pairs with linear probing that is at most half full, so that for any number of
//! neighbours none displaces another. Of a pair both are looked at without a branch: with single
//! places one packet in ten goes on to the next place, which no processor foresees; with pairs it
//! is one in fifty. An entry that is no longer good stays in its place until it is found again, or
//! goes when the table is made anew because that half is used up. The table grows with the entries
//! that are good then, up to the limit of a table of neighbours.
//!
//! A remembered header is good until the table of neighbours has changed. Such changes are counted
//! by parts of the addresses ([`Generations`]), so that not every neighbour is asked for again
//! because one has another address now.
//!
//! In a table that is not large it is also noted up to when, and at which count of all changes,
//! everything in it is good: then a packet need not check its own ([`NeighbourCache::settle`]).
//! After a change, or when something has had its time, packets look again until the table was gone
//! over, which is done once in four times as many packets as it has places.
//!
//! The hash is a multiplication by a random number (Dietzfelbinger et al., "A Reliable Randomized
//! Algorithm for the Closest-Pair Problem", 1997): a sender that does not know it cannot choose
//! addresses that lie in a row.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::atomic::{AtomicU32, Ordering},
};

use linerate_memory::prefetch;

use super::table::ENTRIES_LIMIT;
use linerate_element_support::ether::HEADER;

/// Places at the start, and at most.
const LEAST: usize = 1 << 10;
const MOST: usize = 4 * ENTRIES_LIMIT as usize;
/// Places up to which packets need not ask for theirs ahead, and the table is gone over to
/// see whether all is good: 128 KiB.
const NEAR: usize = 1 << 12;
/// Packets for each place, after which it is gone over again.
const RARELY: usize = 4;
/// Pairs looked at for one address, beyond which another multiplier is tried.
const LONGEST: usize = 64;
/// Parts of the addresses with changes counted apart: four lines of counters.
const PARTS: usize = 64;

/// A neighbour's address as it is remembered.
pub trait CacheKey: Copy + Eq + Default {
    /// Its hash, in the upper bits.
    fn spread(self, by: [u64; 2]) -> u64;

    /// The part of the addresses it belongs to: neighbouring ones to different ones.
    fn part(self) -> usize;
}

impl CacheKey for u32 {
    #[inline(always)]
    fn spread(self, by: [u64; 2]) -> u64 {
        u64::from(self).wrapping_mul(by[0])
    }

    #[inline(always)]
    fn part(self) -> usize {
        (self ^ self >> 8) as usize % PARTS
    }
}

impl CacheKey for u128 {
    #[inline(always)]
    fn spread(self, by: [u64; 2]) -> u64 {
        let [low, high] = [self as u64, (self >> 64) as u64];
        // Folded, since of a product's lower bits nothing gets into the upper ones.
        let low = low.wrapping_mul(by[0]);
        (low ^ low >> 32).wrapping_add(high).wrapping_mul(by[1])
    }

    #[inline(always)]
    fn part(self) -> usize {
        (self ^ self >> 8) as usize % PARTS
    }
}

/// Counts the changes of a table of neighbours, by parts of the addresses. Advanced after a change
/// and read before the table is asked, so that a header remembered from an older state is not taken
/// for good.
#[derive(Debug)]
pub struct Generations {
    parts: [AtomicU32; PARTS],
    /// Of all parts. Advanced behind theirs, so that a thread that sees it sees theirs.
    all: AtomicU32,
}

impl Default for Generations {
    fn default() -> Generations {
        Generations { parts: [const { AtomicU32::new(1) }; PARTS], all: AtomicU32::new(1) }
    }
}

impl Generations {
    /// Returns the number of times that an address, or another of its part, has changed.
    pub fn changes<A: CacheKey>(&self, address: A) -> u32 {
        self.of_part(address.part() as u16)
    }

    #[inline(always)]
    fn of_part(&self, part: u16) -> u32 {
        // In bounds, which is seen here and not checked.
        self.parts[usize::from(part) % PARTS].load(Ordering::Acquire)
    }

    /// Counts a change of an address.
    pub fn advance<A: CacheKey>(&self, address: A) {
        self.parts[address.part() % PARTS].fetch_add(1, Ordering::Release);
        self.all.fetch_add(1, Ordering::Release);
    }

    /// No address is.
    pub fn advance_all(&self) {
        for part in self.parts.iter().chain([&self.all]) {
            part.fetch_add(1, Ordering::Release);
        }
    }
}

/// A header, its neighbour's address, and the time for which it is good.
#[derive(Debug, Clone, Copy, Default)]
struct CachedHeader<A> {
    /// In milliseconds; 0 when nothing is here.
    until: u64,
    address: A,
    /// Of the address, before the table of neighbours was asked.
    generation: u32,
    /// Its Ethertype is 0 when nothing is here, or nothing good.
    header: [u8; HEADER],
    /// Of the address.
    part: u16,
}

impl<A: CacheKey> CachedHeader<A> {
    #[inline(always)]
    fn has_header(&self) -> bool {
        let [.., high, low] = self.header;
        u16::from_ne_bytes([high, low]) != 0
    }

    #[inline(always)]
    fn is_good(&self, now: u64, generations: &Generations) -> bool {
        (self.generation == generations.of_part(self.part)) & (now < self.until)
    }
}

/// Two places, filled in this order. A line when addresses are short.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Pair<A>([CachedHeader<A>; 2]);

const _: () = assert!(size_of::<Pair<u32>>() == 64);

impl<A: CacheKey> Pair<A> {
    /// The one for an address, when it is here.
    #[inline(always)]
    fn entry(&self, address: A) -> &CachedHeader<A> {
        &self.0[usize::from(self.0[0].address != address)]
    }

    fn is_full(&self) -> bool {
        self.0[1].until > 0
    }
}

/// The headers one replica remembers.
#[derive(Debug)]
pub struct NeighbourCache<A> {
    pairs: Vec<Pair<A>>,
    /// Places with something in them, good or not.
    used: usize,
    /// Right shift of a hash to the index of the pair where looking begins.
    shift: u32,
    by: [u64; 2],
    /// Everything with a header is good before this time, in milliseconds, and as long as
    /// this is the count of all changes.
    good: (u64, u32),
    /// Packets since that was so.
    unsettled: usize,
}

impl<A: CacheKey> Default for NeighbourCache<A> {
    fn default() -> NeighbourCache<A> {
        NeighbourCache::with_places(LEAST)
    }
}

impl<A: CacheKey> NeighbourCache<A> {
    fn with_places(places: usize) -> NeighbourCache<A> {
        let random = || RandomState::new().build_hasher().finish() | 1;
        let pairs = places / 2;
        NeighbourCache {
            pairs: vec![Pair::default(); pairs],
            used: 0,
            shift: u64::BITS - pairs.ilog2(),
            by: [random(), random()],
            good: (0, 0),
            unsettled: 0,
        }
    }

    fn places(&self) -> usize {
        2 * self.pairs.len()
    }

    fn known(&self) -> impl Iterator<Item = &CachedHeader<A>> {
        self.pairs.iter().flat_map(|pair| &pair.0)
    }

    /// Before so many packets: whether everything that is remembered is good, so that
    /// [`find_good`](Finder::find_good) may be used for them.
    #[inline(always)]
    pub fn settle(&mut self, packets: usize, now: u64, generations: &Generations) -> bool {
        let (until, changes) = self.good;
        let settled = (now < until) & (changes == generations.all.load(Ordering::Acquire));
        settled || self.settle_again(packets, now, generations)
    }

    #[cold]
    fn settle_again(&mut self, packets: usize, now: u64, generations: &Generations) -> bool {
        self.unsettled += packets;
        if self.is_far() || self.unsettled < RARELY * self.places() {
            return false;
        }
        self.unsettled = 0;
        // Before good headers at that count are looked for.
        let changes = generations.all.load(Ordering::Acquire);
        let mut until = u64::MAX;
        for known in self.pairs.iter_mut().flat_map(|pair| &mut pair.0) {
            if known.is_good(now, generations) {
                until = until.min(known.until);
            } else {
                known.header = [0; HEADER];
            }
        }
        self.good = (until, changes);
        true
    }

    /// The table for packets to look into.
    #[inline(always)]
    pub fn finder(&self) -> Finder<'_, A> {
        Finder { pairs: &self.pairs, shift: self.shift, by: self.by }
    }

    /// Returns true if [`ask`](Finder::ask) is worth while.
    #[inline(always)]
    pub fn is_far(&self) -> bool {
        self.places() > NEAR
    }

    /// Remembers the header for a neighbour until some time, unless its generation has changed
    /// since the table was asked.
    pub fn insert(
        &mut self,
        address: A,
        header: [u8; HEADER],
        (until, generation): (u64, u32),
        (now, generations): (u64, &Generations),
    ) {
        let part = address.part() as u16;
        let known = CachedHeader { until, address, generation, header, part };
        self.good.0 = self.good.0.min(until);
        if (self.used + 1) * 2 > self.places() || !self.put(known, LONGEST) {
            self.make_anew(now, generations);
            self.put(known, usize::MAX);
        }
    }

    /// Puts it into its place or a free one, if there is one among so many pairs.
    fn put(&mut self, known: CachedHeader<A>, among: usize) -> bool {
        let (home, mask) = (self.finder().home(known.address), self.pairs.len() - 1);
        for at in (home..=home + mask).take(among) {
            for place in &mut self.pairs[at & mask].0 {
                let free = place.until == 0;
                if free || place.address == known.address {
                    *place = known;
                    self.used += usize::from(free);
                    return true;
                }
            }
        }
        false
    }

    /// Forgets headers that are not good any more, or all of them at the greatest size. Room is
    /// made for half as many again as are good, at least.
    #[cold]
    fn make_anew(&mut self, now: u64, generations: &Generations) {
        let good = |known: &&CachedHeader<A>| known.is_good(now, generations);
        let count = self.known().filter(good).count();
        let places = (3 * (count + 1)).next_power_of_two().clamp(self.places(), MOST);
        let old = std::mem::replace(self, NeighbourCache::with_places(places));
        if 2 * (count + 1) < places {
            old.known().filter(good).for_each(|known| {
                self.put(*known, usize::MAX);
            });
        }
    }
}

/// The table as packets look into it: a copy that stays in registers, where the one of
/// [`NeighbourCache`] would be loaded again after each packet that is written to.
#[derive(Debug)]
pub struct Finder<'a, A> {
    pairs: &'a [Pair<A>],
    shift: u32,
    by: [u64; 2],
}

impl<A> Clone for Finder<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Finder<'_, A> {}

impl<'a, A: CacheKey> Finder<'a, A> {
    #[inline(always)]
    fn home(self, address: A) -> usize {
        (address.spread(self.by) >> self.shift) as usize
    }

    /// The header for a neighbour in a table that is settled, unless the table of neighbours
    /// has to be asked.
    #[inline(always)]
    pub fn find_good(self, address: A) -> Option<&'a [u8; HEADER]> {
        let known = self.find_place(address)?;
        known.has_header().then_some(&known.header)
    }

    #[inline(always)]
    fn find_place(self, address: A) -> Option<&'a CachedHeader<A>> {
        let known = self.pairs.get(self.home(address))?.entry(address);
        if known.address == address { Some(known) } else { self.find_further(address) }
    }

    /// The header for a neighbour, unless the table has to be asked.
    #[inline(always)]
    pub fn find(self, address: A, now: u64, generations: &Generations) -> Option<&'a [u8; HEADER]> {
        let known = self.find_place(address)?;
        known.is_good(now, generations).then_some(&known.header)
    }

    /// The place of an address that is not where looking begins.
    #[cold]
    fn find_further(self, address: A) -> Option<&'a CachedHeader<A>> {
        let (mut at, mask) = (self.home(address), self.pairs.len() - 1);
        loop {
            let pair = &self.pairs[at & mask];
            let known = pair.entry(address);
            if known.address == address || !pair.is_full() {
                return Some(known).filter(|known| known.address == address);
            }
            at += 1;
        }
    }

    /// Asks for the line where a header is looked for first.
    #[inline(always)]
    pub fn ask(self, address: A) {
        if let Some(pair) = self.pairs.get(self.home(address)) {
            prefetch(pair);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREVER: (u64, u32) = (u64::MAX, 1);

    fn header(of: u64) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&of.to_be_bytes());
        header[12] = 8;
        header
    }

    /// As many addresses as a segment has, of any kind: each is found.
    fn all_are_found<A: CacheKey>(addresses: impl Iterator<Item = A> + Clone) {
        let (mut cache, generations) = (NeighbourCache::default(), Generations::default());
        for round in 0..2 {
            for (at, address) in (0..).zip(addresses.clone()) {
                if round == 0 {
                    assert_eq!(cache.finder().find(address, 1, &generations), None);
                    cache.insert(address, header(at), FOREVER, (1, &generations));
                }
                assert_eq!(cache.finder().find(address, 1, &generations), Some(&header(at)));
            }
        }
        let count = addresses.count();
        assert_eq!(cache.used, count);
        assert!(cache.places() <= (8 * count).max(LEAST), "{}", cache.places());
    }

    #[test]
    fn neighbours_do_not_displace_each_other() {
        for count in [200, 4096, 65_536u32] {
            all_are_found((0..count).map(|n| 0x0a00_0001 + n));
            all_are_found((0..count).map(|n| n << 16 | 0x0a));
            all_are_found((0..count).map(|n| (n + 1).wrapping_mul(0x85eb_ca6b)));
            let net = 0x2001_0db8_u128 << 96;
            all_are_found((0..count).map(|n| net + u128::from(n)));
            all_are_found((0..count).map(|n| net + (u128::from(n) << 40)));
            all_are_found((0..count).map(|n| net + (u128::from(n) << 64)));
        }
    }

    #[test]
    fn expired_entries_are_not_found() {
        let (mut cache, generations) = (NeighbourCache::default(), Generations::default());
        let found = |cache: &NeighbourCache<u32>, address, now| {
            cache.finder().find(address, now, &generations).copied()
        };
        assert_eq!(found(&cache, 0, 0), None, "what is not there is not 0.0.0.0");
        cache.insert(5, header(1), (20, 1), (10, &generations));
        assert!(found(&cache, 5, 19).is_some() && found(&cache, 5, 20).is_none());
        generations.advance(5u32);
        assert!(found(&cache, 5, 19).is_none());
        // Asked for before the change.
        cache.insert(5, header(2), (30, 1), (20, &generations));
        assert_eq!(found(&cache, 5, 29), None);
        cache.insert(5, header(3), (30, 2), (20, &generations));
        assert_eq!((found(&cache, 5, 29), cache.used), (Some(header(3)), 1));
        generations.advance_all();
        assert_eq!(found(&cache, 5, 29), None);
    }

    /// A table that is settled has no other answers than one that looks at each.
    #[test]
    fn a_settled_table_finds_the_same_entries() {
        let (mut cache, generations) = (NeighbourCache::<u32>::default(), Generations::default());
        let mut settled = 0;
        for round in 0..200u64 {
            let now = 10 * round;
            for address in 0..100u32 {
                if (u64::from(address) * 7 + round * 13) % 50 == 0 {
                    let good = (now + 1 + u64::from(address), generations.changes(address));
                    cache.insert(address, header(round << 16 | 1), good, (now, &generations));
                }
            }
            if round % 9 == 0 {
                generations.advance(round as u32);
            }
            for packets in [0, RARELY * LEAST] {
                if !cache.settle(packets, now, &generations) {
                    continue;
                }
                settled += 1;
                for address in 0..200 {
                    let found = cache.finder().find(address, now, &generations);
                    assert_eq!(cache.finder().find_good(address), found, "{address} in {round}");
                }
            }
        }
        assert!(settled >= 200, "{settled}");
    }

    #[test]
    fn a_table_is_settled_until_something_changes_or_has_had_its_time() {
        let (mut cache, generations) = (NeighbourCache::default(), Generations::default());
        let enough = RARELY * LEAST;
        cache.insert(5u32, header(1), (20, 1), (10, &generations));
        assert!(!cache.settle(enough - 1, 10, &generations));
        assert!(cache.settle(1, 10, &generations) && cache.settle(0, 19, &generations));
        assert!(!cache.settle(0, 20, &generations), "its time is over");
        assert!(cache.settle(enough, 20, &generations));
        assert_eq!((cache.finder().find_good(5), cache.finder().find_good(0)), (None, None));
        generations.advance(6u32);
        assert!(!cache.settle(0, 20, &generations));
        assert!(cache.settle(enough, 20, &generations));
        // Soon over.
        cache.insert(7, header(2), (25, generations.changes(7u32)), (20, &generations));
        assert_eq!(cache.finder().find_good(7), Some(&header(2)));
        assert!(!cache.settle(0, 25, &generations));
    }

    #[test]
    fn a_neighbour_that_changes_leaves_most_others_remembered() {
        let (mut cache, generations) = (NeighbourCache::default(), Generations::default());
        for address in 0..65_536u32 {
            cache.insert(address, header(1), FOREVER, (1, &generations));
        }
        generations.advance(77u32);
        let found = |address: &u32| cache.finder().find(*address, 1, &generations).is_some();
        assert!(!found(&77) && found(&76) && found(&78));
        assert_eq!((0..65_536).filter(found).count(), 65_536 / PARTS * (PARTS - 1));
    }

    /// Groups without end, each good for a second, or addresses that always change.
    #[test]
    fn expired_entries_take_no_memory() {
        for changing in [false, true] {
            let (mut cache, generations) = (NeighbourCache::default(), Generations::default());
            for address in 0..1_000_000u32 {
                let now = u64::from(address);
                let until = if changing { u64::MAX } else { now + 100 };
                let good = (until, generations.changes(address));
                cache.insert(address, header(1), good, (now, &generations));
                assert!(cache.finder().find(address, now, &generations).is_some());
                if changing && address % 512 == 0 {
                    generations.advance_all();
                }
            }
            assert!(cache.places() <= 2 * LEAST, "{}", cache.places());
        }
    }

    #[test]
    fn cached_entries_are_bounded() {
        let (mut cache, generations) = (NeighbourCache::default(), Generations::default());
        for address in 0..3 * MOST as u32 / 2 {
            cache.insert(address, header(1), FOREVER, (1, &generations));
            assert!(cache.used * 2 <= cache.places());
        }
        assert_eq!(cache.places(), MOST);
        assert!(cache.finder().find(3 * MOST as u32 / 2 - 1, 1, &generations).is_some());
    }
}
