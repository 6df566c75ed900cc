//! Headers in use, which whoever sends remembers for itself: a packet on its way
//! finds its own in a line or two, and takes no lock.
//!
//! A hash table with linear probing that is at most half full, so that however many
//! neighbours there are, none displaces another. What is no longer good stays in its
//! place until it is found again, or goes when the table is made anew because that
//! half is used up. The table grows with what is good then, up to what a table of
//! neighbours can hold.
//!
//! The hash is a multiplication by a random number (Dietzfelbinger et al., "A
//! Reliable Randomized Algorithm for the Closest-Pair Problem", 1997): whoever does
//! not know it cannot choose addresses that lie in a row.

use std::hash::{BuildHasher, Hasher, RandomState};

use linerate_memory::prefetch;

use super::table::ENTRIES_LIMIT;
use crate::ethernet::HEADER;

/// Places at the start, and at most.
const LEAST: usize = 1 << 10;
const MOST: usize = 4 * ENTRIES_LIMIT as usize;
/// Places up to which packets need not ask for theirs ahead: 128 KiB.
const NEAR: usize = 1 << 12;
/// Places looked at for one address, beyond which another multiplier is tried.
const LONGEST: usize = 128;

/// A neighbour's address as it is remembered.
pub(crate) trait Remember: Copy + Eq + Default {
    /// Its hash, in the upper bits.
    fn spread(self, by: [u64; 2]) -> u64;
}

impl Remember for u32 {
    #[inline(always)]
    fn spread(self, by: [u64; 2]) -> u64 {
        u64::from(self).wrapping_mul(by[0])
    }
}

impl Remember for u128 {
    #[inline(always)]
    fn spread(self, by: [u64; 2]) -> u64 {
        let [low, high] = [self as u64, (self >> 64) as u64];
        // Folded, since of a product's lower bits nothing gets into the upper ones.
        let low = low.wrapping_mul(by[0]);
        (low ^ low >> 32).wrapping_add(high).wrapping_mul(by[1])
    }
}

/// A header, whom it is for, and for how long it is good.
#[derive(Clone, Copy, Default)]
struct Known<A> {
    /// In milliseconds; 0 when nothing is here.
    until: u64,
    address: A,
    /// Of the table of neighbours when it was asked.
    generation: u32,
    header: [u8; HEADER],
}

/// The headers one replica remembers.
pub(crate) struct Remembered<A> {
    known: Vec<Known<A>>,
    /// Places with something in them, good or not.
    used: usize,
    /// How far a hash is shifted for the place where looking begins.
    shift: u32,
    by: [u64; 2],
}

impl<A: Remember> Remembered<A> {
    pub(crate) fn new() -> Remembered<A> {
        Remembered::of(LEAST)
    }

    fn of(places: usize) -> Remembered<A> {
        let random = || RandomState::new().build_hasher().finish() | 1;
        let shift = u64::BITS - places.ilog2();
        Remembered {
            known: vec![Known::default(); places],
            used: 0,
            shift,
            by: [random(), random()],
        }
    }

    /// The header for a neighbour, unless the table has to be asked.
    #[inline(always)]
    pub(crate) fn find(&self, address: A, now: u64, generation: u32) -> Option<&[u8; HEADER]> {
        let mut at = self.home(address);
        loop {
            let known = self.place(at)?;
            if known.address == address {
                let good = (known.generation == generation) & (now < known.until);
                return good.then_some(&known.header);
            }
            if known.until == 0 {
                return None;
            }
            at += 1;
        }
    }

    /// Whether [`ask`](Remembered::ask) is worth while.
    #[inline(always)]
    pub(crate) fn is_far(&self) -> bool {
        self.known.len() > NEAR
    }

    /// Asks for the line where a header is looked for first.
    #[inline(always)]
    pub(crate) fn ask(&self, address: A) {
        if let Some(known) = self.place(self.home(address)) {
            prefetch(known);
        }
    }

    /// Remembers the header for a neighbour. `until` is after `now`.
    pub(crate) fn insert(
        &mut self,
        address: A,
        header: [u8; HEADER],
        now: u64,
        (until, generation): (u64, u32),
    ) {
        let known = Known { until, address, generation, header };
        if (self.used + 1) * 2 > self.known.len() || !self.put(known, LONGEST) {
            self.make_anew(now, generation);
            self.put(known, usize::MAX);
        }
    }

    /// Puts it into its place or a free one, if there is one among so many.
    fn put(&mut self, known: Known<A>, among: usize) -> bool {
        let (home, mask) = (self.home(known.address), self.known.len() - 1);
        for at in (home..=home + mask).take(among) {
            let Some(place) = self.known.get_mut(at & mask) else { return false };
            let free = place.until == 0;
            if free || place.address == known.address {
                *place = known;
                self.used += usize::from(free);
                return true;
            }
        }
        false
    }

    /// Forgets what is not good any more, or everything where all that there can be
    /// is. Room is made for half as many again as are good, at least.
    #[cold]
    fn make_anew(&mut self, now: u64, generation: u32) {
        let good = |known: &&Known<A>| known.generation == generation && now < known.until;
        let count = self.known.iter().filter(good).count();
        let places = (3 * (count + 1)).next_power_of_two().clamp(self.known.len(), MOST);
        let old = std::mem::replace(self, Remembered::of(places));
        if 2 * (count + 1) < places {
            old.known.iter().filter(good).for_each(|known| {
                self.put(*known, usize::MAX);
            });
        }
    }

    #[inline(always)]
    fn home(&self, address: A) -> usize {
        (address.spread(self.by) >> self.shift) as usize
    }

    #[inline(always)]
    fn place(&self, at: usize) -> Option<&Known<A>> {
        // Never none; without the bound being checked it would take unsafe code.
        self.known.get(at & (self.known.len().wrapping_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREVER: (u64, u32) = (u64::MAX, 7);

    fn header(of: u64) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&of.to_be_bytes());
        header
    }

    /// As many as a segment has, whatever their addresses: each is found.
    fn all_are_found<A: Remember>(addresses: impl Iterator<Item = A> + Clone) {
        let mut remembered = Remembered::new();
        for round in 0..2 {
            for (at, address) in (0..).zip(addresses.clone()) {
                if round == 0 {
                    assert_eq!(remembered.find(address, 1, 7), None);
                    remembered.insert(address, header(at), 1, FOREVER);
                }
                assert_eq!(remembered.find(address, 1, 7), Some(&header(at)));
            }
        }
        let count = addresses.count();
        assert_eq!(remembered.used, count);
        assert!(remembered.known.len() <= (8 * count).max(LEAST), "{}", remembered.known.len());
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
    fn what_is_not_good_any_more_is_not_found() {
        let mut remembered = Remembered::new();
        assert_eq!(remembered.find(0u32, 0, 0), None, "what is not there is not 0.0.0.0");
        remembered.insert(5u32, header(1), 10, (20, 7));
        assert!(remembered.find(5, 19, 7).is_some());
        assert!(remembered.find(5, 20, 7).is_none() && remembered.find(5, 19, 8).is_none());
        remembered.insert(5, header(2), 20, (30, 8));
        assert_eq!((remembered.find(5, 29, 8), remembered.used), (Some(&header(2)), 1));
    }

    /// Groups without end, each good for a second, or addresses that always change.
    #[test]
    fn what_is_not_good_any_more_takes_no_memory() {
        let mut remembered = Remembered::new();
        for address in 0..1_000_000u32 {
            let (now, generation) = (u64::from(address), address >> 10);
            remembered.insert(address, header(1), now, (now + 100, generation));
            assert!(remembered.find(address, now, generation).is_some());
        }
        assert_eq!(remembered.known.len(), LEAST);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut remembered = Remembered::new();
        for address in 0..3 * MOST as u32 / 2 {
            remembered.insert(address, header(1), 1, FOREVER);
            assert!(remembered.used * 2 <= remembered.known.len());
        }
        assert_eq!(remembered.known.len(), MOST);
        assert!(remembered.find(3 * MOST as u32 / 2 - 1, 1, 7).is_some());
    }
}
