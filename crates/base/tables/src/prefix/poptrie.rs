//! Poptrie: a trie of 64-way nodes compressed by counting bits.
//!
//! Asai and Ohara, "Poptrie: A Compressed Trie with Population Count for Fast
//! and Scalable Software IP Routing Table Lookup", SIGCOMM 2015. The first bits
//! of an address choose a word in an array ("direct pointing"); it is the answer
//! or names a node. A node decides six bits with three words, named as in the paper:
//! `vector`, which of the 64 branches are nodes; `leafvec`, where runs of equal
//! leaves begin; and the bases, where its nodes and its leaves are in two arrays. The
//! population count of the bits up to a branch is the index behind the base.
//!
//! Such a node is a fork here, because there is another form, which is not in the paper: a
//! skip (path compression, as in a Patricia trie). Routes of IPv6 are so few among the
//! addresses that most forks would have one child, and each would be a cache miss that waits
//! for the one before. A skip compares up to 64 bits with a key and has the ways for both
//! results in its line: a node or an answer inside, an answer outside. Forks and skips are
//! told apart by their last word and go through the same instructions, without a branch.
//!
//! Changes are made beside the nodes that are read (copy on write): the nodes from the changed one
//! up to the direct array are written anew, and one store there publishes them, so a lookup sees
//! all of a change or nothing of it. Replaced nodes are retired, and reused only after the
//! [`Generation`] has advanced.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide;
mod writer;

use std::{
    hint::{black_box, select_unpredictable},
    io,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

use linerate_memory::{
    BitWork, Generation, Words, prefetch, prefetch_second, with_bit_instructions,
};

use self::writer::Builder;
use super::{
    Address, NextHop, Prefix,
    buddy::LARGEST,
    lpm::{Lpm, NoRoom, PAGE},
    rib::Segment,
};

/// Bits a node decides.
const STRIDE: u32 = 6;
/// Branches of a node.
const BRANCHES: u32 = 1 << STRIDE;
/// Flag of a word of the direct array: it names a node.
const NODE: u32 = 1 << 31;
/// Words of a node, which are in one cache line.
const WORDS: usize = 4;
/// Bits of an address that are compared at once. No node decides bits of both halves, so that
/// one word of the address is all it needs.
const HALF: u32 = 64;
/// In the last word of a node: the shift of the half, which half, and whether it skips.
const SHIFT: u64 = HALF as u64 - 1;
const LOW: u64 = 1 << 6;
const SKIPS: u64 = 1 << 7;
/// Addresses that are looked up side by side.
const BLOCK: usize = 128;
/// Number of addresses ahead at which words of the direct array are prefetched.
const AHEAD: usize = 48;
/// Arrays that readers share.
#[derive(Debug)]
pub struct Poptrie<const DIRECT: u32> {
    direct: Words<AtomicU32>,
    nodes: Words<AtomicU64>,
    leaves: Words<AtomicU32>,
}

/// A node that decides six bits: its branches that are nodes, its branches where another leaf
/// begins, the indices of the first of either, that of the nodes in the upper half, and the depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fork {
    vector: u64,
    leafvec: u64,
    bases: u64,
    depth: u32,
}

/// A node that compares the bits of one half of the address as far as `length`: where all are
/// those of `key`, `inside` is the answer or names a node, else `outside` is the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Skip {
    key: u64,
    inside: u32,
    outside: NextHop,
    length: u32,
}

/// Target of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Branch {
    Leaf(NextHop),
    Fork(Fork),
    Skip(Skip),
}

/// Mask of the bits up to and including `branch`.
#[inline(always)]
fn up_to(branch: u32) -> u64 {
    u64::MAX >> (63 - branch)
}

/// The arrays as lookups read them: slices by themselves, which are not loaded anew behind every
/// store.
#[derive(Clone, Copy)]
struct Arrays<'a, const DIRECT: u32> {
    direct: &'a [AtomicU32],
    nodes: &'a [[AtomicU64; WORDS]],
    leaves: &'a [AtomicU32],
}

impl<const DIRECT: u32> Poptrie<DIRECT> {
    #[inline(always)]
    fn arrays(&self) -> Arrays<'_, DIRECT> {
        let (nodes, _) = self.nodes.as_chunks();
        Arrays { direct: &self.direct, nodes, leaves: &self.leaves }
    }
}

impl<'a, const DIRECT: u32> Arrays<'a, DIRECT> {
    /// A node by its name; any node where a name was loaded that is being rewritten: the generation
    /// has the lookup retried then.
    #[inline(always)]
    fn node(self, name: u32) -> &'a [AtomicU64; WORDS] {
        &self.nodes[(name & !NODE) as usize & (self.nodes.len() - 1)]
    }

    /// Looks addresses up in the direct array and asks for their nodes. Says whether any of them is
    /// not decided by that.
    #[inline(always)]
    fn open<A: Address>(self, addresses: &[A], hops: &mut [NextHop]) -> bool {
        let word = |address: &A| &self.direct[address.bits(0, DIRECT) as usize];
        let ahead = addresses.len().min(AHEAD);
        addresses[..ahead].iter().for_each(|address| prefetch_second(word(address)));
        let mut any = 0;
        let mut all = addresses.iter().zip(hops);
        for later in &addresses[ahead..] {
            prefetch_second(word(later));
            if let Some((address, hop)) = all.next() {
                hop.0 = word(address).load(Ordering::Relaxed);
                any |= hop.0;
                prefetch_second(self.node(hop.0));
            }
        }
        for (address, hop) in all {
            hop.0 = word(address).load(Ordering::Relaxed);
            any |= hop.0;
            prefetch_second(self.node(hop.0));
        }
        if any & NODE == 0 {
            return false;
        }
        // Pairs with the fence in `publish`: a reader that loaded a node's name loads the node, and
        // all below it.
        fence(Ordering::Acquire);
        true
    }

    /// Lists the addresses that are not decided, and their nodes; returns how many these are.
    #[inline(always)]
    fn list(hops: &[NextHop], which: &mut [u32; BLOCK], at: &mut [u32; BLOCK]) -> usize {
        let mut open = 0;
        for (i, hop) in hops.iter().enumerate().take(BLOCK) {
            (which[open % BLOCK], at[open % BLOCK]) = (i as u32, hop.0);
            open += (hop.0 / NODE) as usize;
        }
        open
    }

    /// Up to [`BLOCK`] addresses, level by level: while the node of one is
    /// prefetched the others are at work, and no branch depends on how deep an
    /// address goes. Addresses are moved between lists as by [`Dir24`], without a
    /// branch each.
    ///
    /// [`Dir24`]: super::dir24::Dir24
    #[inline(always)]
    fn lookup_block<A: Address>(self, addresses: &[A], hops: &mut [NextHop]) {
        if !self.open(addresses, hops) {
            return;
        }
        // Addresses that are not decided, and their nodes.
        let (mut which, mut at) = ([0; BLOCK], [0; BLOCK]);
        let mut open = Self::list(hops, &mut which, &mut at);
        // Those that a fork decided, and where in `leaves` their answers are.
        let (mut decided, mut place, mut done) = ([0; BLOCK], [0; BLOCK], 0);
        // Every node decides a bit at least, also where its words are being rewritten.
        let mut levels = A::BITS - DIRECT;
        while open > 0 && levels > 0 {
            let mut deeper = 0;
            for k in 0..open {
                let (i, name) = (which[k % BLOCK], at[k % BLOCK]);
                let words = self.node(name);
                let [first, second, third, kind] =
                    [0, 1, 2, 3].map(|word| words[word].load(Ordering::Relaxed));
                let (Some(address), Some(hop)) =
                    (addresses.get(i as usize), hops.get_mut(i as usize))
                else {
                    continue;
                };
                let half = address.half(kind & LOW != 0);
                let shift = kind & SHIFT;
                // As a fork: `first` is the vector, `second` the leafvec, `third` the bases.
                let branch = (half << shift >> (HALF - STRIDE)) as u32;
                let mask = up_to(branch);
                let nodes = (first & mask).count_ones().wrapping_sub(1);
                let leaves = (second & mask).count_ones().wrapping_sub(1);
                let child = ((third >> 32) as u32).wrapping_add(nodes);
                let end = (third as u32).wrapping_add(leaves);
                // As a skip: `first` is the key, `second` has both ways.
                let differs = (half ^ first) >> shift != 0;
                let way = select_unpredictable(differs, second >> 32, second) as u32;
                let skips = kind & SKIPS != 0;
                let next = select_unpredictable(skips, way, child);
                let is_node =
                    select_unpredictable(skips, way / NODE, (first >> branch) as u32 & 1) as usize;
                // An answer where a skip decides; else it is written later.
                *hop = NextHop(next);
                prefetch(self.node(select_unpredictable(is_node != 0, next, name)));
                (which[deeper % BLOCK], at[deeper % BLOCK]) = (i, next);
                (decided[done % BLOCK], place[done % BLOCK]) = (i, end);
                deeper += is_node;
                done += usize::from(!skips) & (1 - is_node);
            }
            open = deeper;
            levels -= 1;
        }
        let (decided, place) = (&decided[..done.min(BLOCK)], &place[..done.min(BLOCK)]);
        self.answer(decided, place, hops);
    }

    /// Fetches answers of forks: of the addresses `decided`, at `place` in the leaves. None waits
    /// for another, so the processor has many under way by itself.
    #[inline(always)]
    fn answer(self, decided: &[u32], place: &[u32], hops: &mut [NextHop]) {
        for (&i, &place) in decided.iter().zip(place) {
            if let (Some(leaf), Some(hop)) =
                (self.leaves.get(place as usize), hops.get_mut(i as usize))
            {
                hop.0 = leaf.load(Ordering::Relaxed);
            }
        }
    }
}

/// A lookup, as work that is compiled for processors with POPCNT.
struct Lookup<'a, A, const DIRECT: u32> {
    arrays: Arrays<'a, DIRECT>,
    addresses: &'a [A],
    hops: &'a mut [NextHop],
}

impl<A: Address, const DIRECT: u32> BitWork for Lookup<'_, A, DIRECT> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // Not in a closure, which would be compiled for the oldest processor.
        for (addresses, hops) in self.addresses.chunks(BLOCK).zip(self.hops.chunks_mut(BLOCK)) {
            self.arrays.lookup_block(addresses, hops);
        }
    }
}

impl Branch {
    /// The node of these words.
    fn from_words([first, second, third, kind]: [u64; WORDS]) -> Branch {
        let (low, shift) = (if kind & LOW == 0 { 0 } else { HALF }, (kind & SHIFT) as u32);
        if kind & SKIPS == 0 {
            return Branch::Fork(Fork {
                vector: first,
                leafvec: second,
                bases: third,
                depth: low + shift,
            });
        }
        let (inside, outside) = (second as u32, NextHop((second >> 32) as u32));
        Branch::Skip(Skip { key: first, inside, outside, length: low + HALF - shift })
    }
}

impl Skip {
    fn words(self) -> [u64; WORDS] {
        let ways = u64::from(self.outside.0) << 32 | u64::from(self.inside);
        // The half is that of the last bit.
        let last = u64::from(self.length - 1);
        [self.key, ways, 0, (SHIFT - (last & SHIFT)) | last & LOW | SKIPS]
    }

    /// The prefix for which `inside` is.
    fn prefix<A: Address>(self, span: Prefix<A>) -> Prefix<A> {
        let low = u32::from(span.length()) >= HALF;
        Prefix::from_parts(span.first().or(A::from_half(self.key, low)), self.length)
    }
}

impl Fork {
    fn words(self) -> [u64; WORDS] {
        [self.vector, self.leafvec, self.bases, self.depth.into()]
    }

    fn first_node(self) -> u32 {
        (self.bases >> 32) as u32
    }

    fn first_leaf(self) -> u32 {
        self.bases as u32
    }
}

impl<A: Address, const DIRECT: u32> Lpm<A> for Poptrie<DIRECT> {
    type Writer = Builder;

    fn new(memory: usize) -> io::Result<(Self, Builder)> {
        // Routes need up to twice as many leaves as nodes, of an eighth the size.
        let whole = |units: usize| units.clamp(LARGEST, 1 << 30) / LARGEST * LARGEST;
        let nodes = whole(memory / 4 * 3 / (WORDS * size_of::<AtomicU64>()));
        // A power of two, so that any number can be made that of a node.
        let nodes = 1 << nodes.ilog2();
        let leaves = whole(memory / 4 / size_of::<AtomicU32>());
        let trie = Poptrie {
            direct: Words::zeroed(1 << DIRECT)?,
            nodes: Words::zeroed(nodes * WORDS)?,
            leaves: Words::zeroed(leaves)?,
        };
        Ok((trie, Builder::new(nodes, leaves)))
    }

    #[inline]
    fn lookup(&self, addresses: &[A], hops: &mut [NextHop]) {
        let lookup = Lookup { arrays: self.arrays(), addresses, hops };
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        let lookup = {
            if lookup.addresses.len() < wide::WORTH {
                return with_bit_instructions(lookup);
            }
            let Err(lookup) = linerate_memory::with_wide(lookup) else { return };
            lookup
        };
        with_bit_instructions(lookup);
    }

    fn update(
        &self,
        builder: &mut Builder,
        generation: &Generation,
        prefix: Prefix<A>,
        segments: &[Segment<A>],
    ) -> Result<(), NoRoom> {
        builder.update(self, generation, prefix, segments)
    }

    fn clear(&self, builder: &mut Builder) {
        self.direct.clear();
        self.nodes.clear();
        self.leaves.clear();
        builder.clear();
    }

    fn prefault(&self) {
        let load = |word: &AtomicU32| _ = black_box(word.load(Ordering::Relaxed));
        self.direct.iter().step_by(PAGE / size_of::<AtomicU32>()).for_each(load);
    }

    fn bytes(&self, builder: &Builder) -> usize {
        (4 << DIRECT) + builder.bytes()
    }
}
