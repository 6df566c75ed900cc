//! Next hops: what the numbers mean that lookups answer.

use std::{collections::HashMap, io, sync::atomic::AtomicU64};

use linerate_lookup::prefix::NextHop;
use linerate_memory::{Generation, Words};

use super::family::Family;

/// Pairs of gateway and output there can be.
const LIMIT: usize = 1 << 20;
/// Numbers below this make for small tables.
const SMALL: usize = 1 << 14;
/// The output of addresses no route is for.
pub(super) const NO_OUTPUT: u32 = u32::MAX;

/// What readers see: gateway and output of every number.
#[derive(Debug)]
pub(super) struct Hops {
    words: Words<AtomicU64>,
    /// Numbers are used again; who read meanwhile reads again.
    pub(super) generation: Generation,
}

impl Hops {
    pub(super) fn new<A: Family>() -> io::Result<Hops> {
        let words = Words::zeroed(LIMIT * A::WORDS)?;
        A::store(&words[..A::WORDS], A::default(), NO_OUTPUT);
        Ok(Hops { words, generation: Generation::new() })
    }

    /// Gateway, zero for none, and output.
    #[inline(always)]
    pub(super) fn get<A: Family>(&self, hop: NextHop) -> (A, u32) {
        let at = hop.index() * A::WORDS;
        A::load(self.words.get(at..at + A::WORDS).unwrap_or(&[]))
    }
}

/// Who has which number.
#[derive(Debug)]
pub(super) struct Book<A> {
    numbers: HashMap<(A, u32), NextHop>,
    /// By number, how many routes lead there.
    uses: Vec<usize>,
    free: Vec<NextHop>,
    /// No route leads to them, but somebody may be reading.
    retired: Vec<NextHop>,
}

impl<A: Family> Book<A> {
    pub(super) fn new() -> Book<A> {
        Book { numbers: HashMap::new(), uses: vec![0], free: Vec::new(), retired: Vec::new() }
    }

    /// The number of a pair, for one route more; `None` when there are too
    /// many.
    pub(super) fn take(&mut self, hops: &Hops, gateway: A, output: u32) -> Option<NextHop> {
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

    /// One route less leads there.
    pub(super) fn leave(&mut self, hops: &Hops, hop: NextHop) {
        let uses = &mut self.uses[hop.index()];
        *uses -= 1;
        if *uses == 0 {
            self.numbers.remove(&hops.get(hop));
            self.retired.push(hop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_one_number_as_long_as_they_are_used() {
        let hops = Hops::new::<u32>().unwrap();
        let mut book = Book::<u32>::new();
        let first = book.take(&hops, 7, 1).unwrap();
        assert_eq!(book.take(&hops, 7, 1), Some(first));
        let second = book.take(&hops, 7, 2).unwrap();
        assert_ne!(first, second);
        book.leave(&hops, first);
        assert_eq!(hops.get::<u32>(first), (7, 1));
        assert_eq!(book.take(&hops, 7, 1), Some(first));
        assert_eq!(hops.get::<u32>(NextHop::NONE), (0, NO_OUTPUT));
    }

    #[test]
    fn numbers_are_used_again_and_end() {
        let hops = Hops::new::<u128>().unwrap();
        let mut book = Book::<u128>::new();
        for gateway in 0..3 * SMALL as u128 {
            let hop = book.take(&hops, gateway, 0).unwrap();
            assert_eq!(hops.get::<u128>(hop), (gateway, 0));
            book.leave(&hops, hop);
        }
        assert_eq!(book.uses.len(), SMALL);
        let taken = (0..).take_while(|gateway| book.take(&hops, *gateway, 1).is_some()).count();
        assert_eq!(taken, LIMIT - 1);
    }
}
