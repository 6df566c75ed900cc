//! Lookups of eight addresses at a time, where the processor has AVX-512.
//!
//! What [`Poptrie::lookup_block`] does for one address after the other, with the same nodes in the
//! same order: see there. A node's four words are gathered, and which of its ways an address takes
//! is computed for eight of them in as many instructions as for one.

use linerate_memory::{Eight, WIDE, Wide, WideWork, prefetch};

use super::{
    Address, BLOCK, HALF, LOW, Lookup, NODE, NextHop, Poptrie, SHIFT, SKIPS, STRIDE, WORDS,
};

/// Addresses from which on this is quicker.
pub(super) const WORTH: usize = 2 * WIDE;
/// Room for a list: eight are written at once, the last of them behind its end.
const LIST: usize = BLOCK + WIDE;

/// A list of numbers that is written eight at a time.
struct List {
    numbers: [u32; LIST],
    length: usize,
}

impl List {
    #[inline(always)]
    fn new() -> List {
        List { numbers: [0; LIST], length: 0 }
    }

    /// The eight from `at` on.
    #[inline(always)]
    fn eight(&self, wide: Wide, at: usize) -> Eight {
        wide.load_short(self.numbers[at..].first_chunk().unwrap_or(&[0; WIDE]))
    }

    /// Appends those of the numbers that `mask` names.
    #[inline(always)]
    fn extend(&mut self, numbers: Eight, mask: u8) {
        if let Some(room) = self.numbers[self.length..].first_chunk_mut() {
            numbers.compressed(mask).store_short(room);
        }
        self.length += mask.count_ones() as usize;
    }

    #[inline(always)]
    fn as_slice(&self) -> &[u32] {
        &self.numbers[..self.length]
    }
}

impl<A: Address, const DIRECT: u32> WideWork for Lookup<'_, A, DIRECT> {
    #[inline(always)]
    fn run(self, wide: Wide) {
        // Not in a closure, which would be compiled for the oldest processor.
        for (addresses, hops) in self.addresses.chunks(BLOCK).zip(self.hops.chunks_mut(BLOCK)) {
            self.trie.lookup_wide(wide, addresses, hops);
        }
    }
}

impl<const DIRECT: u32> Poptrie<DIRECT> {
    /// As [`Poptrie::lookup_block`].
    #[inline(always)]
    fn lookup_wide<A: Address>(&self, wide: Wide, addresses: &[A], hops: &mut [NextHop]) {
        let (mut which, mut at) = (List::new(), List::new());
        which.length = self.open(addresses, hops, &mut which.numbers, &mut at.numbers);
        if which.length == 0 {
            return;
        }
        // Those that a fork decided, and where in `leaves` their answers are; those that a skip
        // decided, and their answers.
        let (mut forked, mut places) = (List::new(), List::new());
        let (mut skipped, mut answers) = (List::new(), List::new());
        let [one, low, skip, shift, node] =
            [1, LOW, SKIPS, SHIFT, NODE.into()].map(|word| wide.splat(word));
        let (upper_half, last) = (wide.splat(u64::from(HALF) / 2), wide.splat(SHIFT));
        let lower_half = wide.splat(u32::MAX.into());
        let stride = wide.splat((HALF - STRIDE).into());
        let known = wide.splat((self.nodes.len() / WORDS - 1) as u64);
        let all = wide.splat(u64::MAX);
        let mut levels = A::BITS - DIRECT;
        while which.length > 0 && levels > 0 {
            let open = std::mem::take(&mut which.length).min(BLOCK);
            at.length = 0;
            for k in (0..open).step_by(WIDE) {
                let (i, name) = (which.eight(wide, k), at.eight(wide, k));
                let here = u8::MAX >> WIDE.saturating_sub(open - k).min(WIDE - 1);
                let place = name.and(known);
                let place = place.plus(place);
                let place = place.plus(place);
                let words = &*self.nodes;
                let first = wide.gather(words, place);
                let second = wide.gather(words, place.plus(one));
                let third = wide.gather(words, place.plus(one).plus(one));
                let kind = wide.gather(words, place.plus(one).plus(one).plus(one));
                let half = halves(wide, addresses, i, kind.meets(low));
                let by = kind.and(shift);
                // As forks: `first` is the vector, `second` the leafvec, `third` the bases.
                let branch = half.left(by).right(stride);
                let mask = all.right(last.minus(branch));
                let child = third.right(upper_half).plus(first.and(mask).ones()).minus(one);
                let end = third.plus(second.and(mask).ones()).minus(one);
                let forks_on = first.right(branch).meets(one);
                // As skips: `first` is the key, `second` has both ways.
                let differs = half.xor(first).right(by);
                let way = second.or_where(differs.meets(differs), second.right(upper_half));
                let way = way.and(lower_half);
                let skips_on = way.meets(node);
                let skips = kind.meets(skip);
                let on = (skips & skips_on | !skips & forks_on) & here;
                let decided = here & !on;
                let next = child.or_where(skips, way);
                which.extend(i, on);
                at.extend(next, on);
                forked.extend(i, decided & !skips);
                places.extend(end, decided & !skips);
                skipped.extend(i, decided & skips);
                answers.extend(way, decided & skips);
            }
            at.as_slice().iter().for_each(|name| prefetch(self.node(*name)));
            levels -= 1;
        }
        for (&i, &answer) in skipped.as_slice().iter().zip(answers.as_slice()) {
            if let Some(hop) = hops.get_mut(i as usize) {
                hop.0 = answer;
            }
        }
        self.answer(forked.as_slice(), places.as_slice(), hops);
    }
}

/// The halves of eight addresses: the lower ones of those that `low` names, the upper ones of
/// the others.
#[inline(always)]
fn halves<A: Address>(wide: Wide, addresses: &[A], which: Eight, low: u8) -> Eight {
    let mut numbers = [0; WIDE];
    which.store_short(&mut numbers);
    let half = |low| {
        let address = |i: u32| addresses.get(i as usize).map_or(0, |address| address.half(low));
        wide.load(&numbers.map(address))
    };
    let upper = half(false);
    if low == 0 { upper } else { upper.or_where(low, half(true)) }
}
