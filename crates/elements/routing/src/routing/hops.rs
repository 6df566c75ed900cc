//! Next hops: the meaning of the numbers that lookups answer.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, atomic::AtomicU64},
};

use linerate_memory::{Generation, Words};
use linerate_tables::prefix::{NextHop, PrefixTable};

use super::{
    family::Family,
    route::{Route, Share},
};

/// Pairs of gateway and output there can be.
const LIMIT: usize = 1 << 20;
/// Numbers below this fit the 16-bit words of a small table.
const SMALL: usize = 1 << 14;
/// The output of addresses no route is for.
pub(super) const NO_OUTPUT: u32 = u32::MAX;

/// Data of readers: gateway and output of every number.
#[derive(Debug)]
pub(super) struct Hops {
    words: Words<AtomicU64>,
    /// A seqlock for numbers that are used again: a reader inside meanwhile retries.
    pub(super) generation: Generation,
}

impl Hops {
    pub(super) fn new<A: Family>() -> io::Result<Hops> {
        let words = Words::zeroed(LIMIT * A::WORDS)?;
        A::store(&words[..A::WORDS], A::default(), NO_OUTPUT);
        Ok(Hops { words, generation: Generation::new() })
    }

    /// Gateway, zero for none, and output.
    #[inline]
    pub(super) fn get<A: Family>(&self, hop: NextHop) -> (A, u32) {
        let at = hop.index() * A::WORDS;
        A::load(self.words.get(at..at + A::WORDS).unwrap_or(&[]))
    }

    /// As [`Hops::get`], for several.
    #[inline]
    pub(super) fn get_many<A: Family>(
        &self,
        hops: &[NextHop],
        gateways: &mut [A],
        outputs: &mut [u32],
    ) {
        // Known not to change meanwhile, as the compiler cannot.
        let words: &[AtomicU64] = &self.words;
        for (hop, (gateway, output)) in hops.iter().zip(gateways.iter_mut().zip(outputs)) {
            let at = hop.index() * A::WORDS;
            (*gateway, *output) = A::load(words.get(at..at + A::WORDS).unwrap_or(&[]));
        }
    }
}

/// Numbers of next hops, and the routes that use each (reference counts).
#[derive(Debug)]
pub(super) struct HopNumbers<A> {
    numbers: HashMap<(A, u32), NextHop>,
    /// By number, how many routes and sets lead there.
    uses: Vec<usize>,
    free: Vec<NextHop>,
    /// No route leads to them, but a reader may still be inside.
    retired: Vec<NextHop>,
    /// Next hops that are several, both ways.
    sets: HashMap<Arc<[Share<A>]>, NextHop>,
    set_of: HashMap<NextHop, Set<A>>,
}

#[derive(Debug)]
struct Set<A> {
    shares: Arc<[Share<A>]>,
    members: Vec<NextHop>,
    uses: usize,
}

impl<A: Family> HopNumbers<A> {
    pub(super) fn new() -> HopNumbers<A> {
        HopNumbers {
            numbers: HashMap::new(),
            uses: vec![0],
            free: Vec::new(),
            retired: Vec::new(),
            sets: HashMap::new(),
            set_of: HashMap::new(),
        }
    }

    /// The number of where a route leads, for one route more; `None` when there
    /// are too many.
    pub(super) fn acquire(
        &mut self,
        hops: &Hops,
        prefixes: &mut PrefixTable<A>,
        route: &Route<A>,
    ) -> Option<NextHop> {
        let Some(shares) = &route.several else {
            return self.acquire_one(hops, route.gateway, route.output as u32);
        };
        if let Some(hop) = self.sets.get(shares) {
            self.set_of.get_mut(hop)?.uses += 1;
            return Some(*hop);
        }
        let mut members = Vec::with_capacity(shares.len());
        for Share { gateway, output, .. } in shares.iter() {
            match self.acquire_one(hops, *gateway, *output) {
                Some(hop) => members.push(hop),
                None => break,
            }
        }
        let weights = shares.iter().map(|share| share.weight);
        let weighted: Vec<_> = members.iter().copied().zip(weights).collect();
        let whole = weighted.len() == shares.len();
        let Some(hop) = whole.then(|| prefixes.add_set(&weighted).ok()).flatten() else {
            members.into_iter().for_each(|hop| self.release_one(hops, hop));
            return None;
        };
        self.sets.insert(Arc::clone(shares), hop);
        self.set_of.insert(hop, Set { shares: Arc::clone(shares), members, uses: 1 });
        Some(hop)
    }

    fn acquire_one(&mut self, hops: &Hops, gateway: A, output: u32) -> Option<NextHop> {
        if let Some(hop) = self.numbers.get(&(gateway, output)) {
            self.uses[hop.index()] += 1;
            return Some(*hop);
        }
        let hop = self.unused(hops)?;
        let at = hop.index() * A::WORDS;
        A::store(&hops.words[at..at + A::WORDS], gateway, output);
        self.numbers.insert((gateway, output), hop);
        self.uses[hop.index()] = 1;
        Some(hop)
    }

    fn unused(&mut self, hops: &Hops) -> Option<NextHop> {
        if self.free.is_empty() && self.uses.len() >= SMALL {
            hops.generation.advance();
            self.free.append(&mut self.retired);
        }
        if let Some(hop) = self.free.pop() {
            return Some(hop);
        }
        let hop = NextHop::new(self.uses.len() as u32).filter(|hop| hop.index() < LIMIT)?;
        self.uses.push(0);
        Some(hop)
    }

    /// One route less leads there, and lookups no longer answer with it.
    pub(super) fn release(&mut self, hops: &Hops, prefixes: &mut PrefixTable<A>, hop: NextHop) {
        if !hop.is_set() {
            return self.release_one(hops, hop);
        }
        let Some(set) = self.set_of.get_mut(&hop) else { return };
        set.uses -= 1;
        if set.uses == 0
            && let Some(Set { shares, members, .. }) = self.set_of.remove(&hop)
        {
            self.sets.remove(&shares);
            members.into_iter().for_each(|hop| self.release_one(hops, hop));
            // No route leads there.
            let _ = prefixes.remove_set(hop);
        }
    }

    fn release_one(&mut self, hops: &Hops, hop: NextHop) {
        let uses = &mut self.uses[hop.index()];
        *uses -= 1;
        if *uses == 0 {
            self.numbers.remove(&hops.get(hop));
            self.retired.push(hop);
        }
    }

    /// The route of a key that leads to `hop`.
    pub(super) fn route(&self, hops: &Hops, key: &Route<A>, hop: NextHop) -> Route<A> {
        match self.set_of.get(&hop) {
            Some(set) => Route::several(key.address, key.mask, &set.shares),
            None => {
                let (gateway, output) = hops.get(hop);
                Route::new(key.address, key.mask, gateway, output as i32)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_one_number_as_long_as_they_are_used() {
        let hops = Hops::new::<u32>().unwrap();
        let mut numbers = HopNumbers::<u32>::new();
        let first = numbers.acquire_one(&hops, 7, 1).unwrap();
        assert_eq!(numbers.acquire_one(&hops, 7, 1), Some(first));
        let second = numbers.acquire_one(&hops, 7, 2).unwrap();
        assert_ne!(first, second);
        numbers.release_one(&hops, first);
        assert_eq!(hops.get::<u32>(first), (7, 1));
        assert_eq!(numbers.acquire_one(&hops, 7, 1), Some(first));
        assert_eq!(hops.get::<u32>(NextHop::NONE), (0, NO_OUTPUT));
    }

    #[test]
    fn numbers_are_used_again_and_end() {
        let hops = Hops::new::<u128>().unwrap();
        let mut numbers = HopNumbers::<u128>::new();
        for gateway in 0..3 * SMALL as u128 {
            let hop = numbers.acquire_one(&hops, gateway, 0).unwrap();
            assert_eq!(hops.get::<u128>(hop), (gateway, 0));
            numbers.release_one(&hops, hop);
        }
        assert_eq!(numbers.uses.len(), SMALL);
        let taken =
            (0..).take_while(|gateway| numbers.acquire_one(&hops, *gateway, 1).is_some()).count();
        assert_eq!(taken, LIMIT - 1);
    }

    #[test]
    fn sets_are_shared_and_leave_their_members() {
        let (hops, mut numbers) = (Hops::new::<u32>().unwrap(), HopNumbers::<u32>::new());
        let mut prefixes = PrefixTable::new().unwrap();
        let shares = [(1, 0, 3), (2, 1, 1)];
        let shares = shares.map(|(gateway, output, weight)| Share { gateway, output, weight });
        let route = Route::several(0, 0, &Arc::from(shares));
        let set = numbers.acquire(&hops, &mut prefixes, &route).unwrap();
        assert_eq!(numbers.acquire(&hops, &mut prefixes, &route), Some(set));
        assert_eq!(numbers.route(&hops, &Route::new(0, 0, 0, -1), set), route);
        (0..2).for_each(|_| numbers.release(&hops, &mut prefixes, set));
        assert!(numbers.numbers.is_empty() && numbers.sets.is_empty() && numbers.set_of.is_empty());
        assert_eq!(numbers.retired.len(), 2);
    }
}
