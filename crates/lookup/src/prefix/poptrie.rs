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
//! Changes are made beside what is read (copy on write): the nodes from the changed
//! one up to the direct array are written anew, and one store there publishes them,
//! so a lookup sees all of a change or nothing of it. What was replaced is retired,
//! and reused only after the [`Generation`] has advanced.

use std::{
    hint::{black_box, select_unpredictable},
    io,
    ops::Range,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

use linerate_memory::{BitWork, Generation, Words, prefetch, with_bit_instructions};

use super::{
    Address, NextHop, Prefix,
    blocks::{Block, Blocks, LARGEST},
    rib::{Segment, push},
    structure::{Lpm, NoRoom, PAGE},
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
/// In the last word of a node: what the half is shifted by, which half, and whether it skips.
const SHIFT: u64 = HALF as u64 - 1;
const LOW: u64 = 1 << 6;
const SKIPS: u64 = 1 << 7;
/// Addresses that are looked up side by side.
const BLOCK: usize = 128;
/// Blocks retired before they are reclaimed. Readers that are inside retry then, so
/// it is not to happen often.
const RETIRED: usize = 1 << 12;

/// What readers share.
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

/// What a branch leads to.
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

impl<const DIRECT: u32> Poptrie<DIRECT> {
    /// A node by its name; any node where a name was loaded that is being rewritten: the generation
    /// has the lookup retried then.
    #[inline(always)]
    fn node(&self, name: u32) -> &[AtomicU64; WORDS] {
        let (nodes, _) = self.nodes.as_chunks::<WORDS>();
        &nodes[(name & !NODE) as usize & (nodes.len() - 1)]
    }

    /// Up to [`BLOCK`] addresses, level by level: while the node of one is
    /// prefetched the others are at work, and no branch depends on how deep an
    /// address goes. Addresses are moved between lists as by [`Dir24`], without a
    /// branch each.
    ///
    /// [`Dir24`]: super::dir24::Dir24
    #[inline(always)]
    fn lookup_block<A: Address>(&self, addresses: &[A], hops: &mut [NextHop]) {
        for address in addresses {
            prefetch(&self.direct[address.bits(0, DIRECT) as usize]);
        }
        let mut any = 0;
        for (address, hop) in addresses.iter().zip(hops.iter_mut()) {
            let word = self.direct[address.bits(0, DIRECT) as usize].load(Ordering::Relaxed);
            *hop = NextHop(word);
            any |= word;
        }
        if any & NODE == 0 {
            return;
        }
        // Pairs with the fence in `publish`: whoever loaded a node's name loads the
        // node, and all below it.
        fence(Ordering::Acquire);
        // Addresses that are not decided, and their nodes.
        let (mut which, mut at, mut open) = ([0_u8; BLOCK], [0_u32; BLOCK], 0);
        // Those that a fork decided, and where in `leaves` their answers are.
        let (mut decided, mut place, mut done) = ([0_u8; BLOCK], [0_u32; BLOCK], 0);
        for (i, hop) in hops.iter().enumerate().take(BLOCK) {
            prefetch(self.node(hop.0));
            (which[open % BLOCK], at[open % BLOCK]) = (i as u8, hop.0);
            open += (hop.0 / NODE) as usize;
        }
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
        for &place in &place[..done.min(BLOCK)] {
            if let Some(leaf) = self.leaves.get(place as usize) {
                prefetch(leaf);
            }
        }
        for (&i, &place) in decided.iter().zip(&place).take(done) {
            if let (Some(leaf), Some(hop)) =
                (self.leaves.get(place as usize), hops.get_mut(i as usize))
            {
                *hop = NextHop(leaf.load(Ordering::Relaxed));
            }
        }
    }
}

/// A lookup, as work that is compiled for processors with POPCNT.
struct Lookup<'a, A, const DIRECT: u32> {
    trie: &'a Poptrie<DIRECT>,
    addresses: &'a [A],
    hops: &'a mut [NextHop],
}

impl<A: Address, const DIRECT: u32> BitWork for Lookup<'_, A, DIRECT> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // Not in a closure, which would be compiled for the oldest processor.
        for (addresses, hops) in self.addresses.chunks(BLOCK).zip(self.hops.chunks_mut(BLOCK)) {
            self.trie.lookup_block(addresses, hops);
        }
    }
}

/// A change that is written and not published yet.
#[derive(Debug, Default)]
struct Change {
    /// Ranges of the direct array and what they become.
    words: Vec<(Range<u32>, u32)>,
    /// Blocks of nodes and of leaves that the change takes, and those it
    /// replaces.
    taken: [Vec<Block>; 2],
    retired: [Vec<Block>; 2],
}

/// The writer's side.
#[derive(Debug)]
pub struct Builder {
    nodes: Blocks,
    leaves: Blocks,
}

impl Builder {
    fn stage<A: Address, const DIRECT: u32>(
        &mut self,
        trie: &Poptrie<DIRECT>,
        prefix: Prefix<A>,
        segments: &[Segment<A>],
    ) -> Result<Change, NoRoom> {
        let mut staging = Staging { trie, builder: self, change: Change::default() };
        match staging.direct_array(prefix, segments) {
            Ok(()) => Ok(staging.change),
            Err(NoRoom) => {
                let [nodes, leaves] = staging.change.taken;
                nodes.into_iter().for_each(|block| self.nodes.give(block));
                leaves.into_iter().for_each(|block| self.leaves.give(block));
                Err(NoRoom)
            }
        }
    }

    fn publish<const DIRECT: u32>(&mut self, trie: &Poptrie<DIRECT>, change: Change) {
        // Pairs with the fence in `lookup_block`.
        fence(Ordering::Release);
        for (range, word) in change.words {
            for place in &trie.direct[range.start as usize..range.end as usize] {
                if place.load(Ordering::Relaxed) != word {
                    place.store(word, Ordering::Relaxed);
                }
            }
        }
        let [nodes, leaves] = change.retired;
        nodes.into_iter().for_each(|block| self.nodes.retire(block));
        leaves.into_iter().for_each(|block| self.leaves.retire(block));
    }

    fn reclaim(&mut self, generation: &Generation) {
        generation.advance();
        self.nodes.reclaim();
        self.leaves.reclaim();
    }
}

/// A change in the making.
struct Staging<'a, const DIRECT: u32> {
    trie: &'a Poptrie<DIRECT>,
    builder: &'a mut Builder,
    change: Change,
}

/// Goes along segments, span by span.
struct Walk<'a, A> {
    segments: &'a [Segment<A>],
}

impl<'a, A: Address> Walk<'a, A> {
    /// The segments that have addresses in `span`, which lies behind those
    /// asked for before. The first of them may begin before it.
    #[inline]
    fn inside(&mut self, span: Prefix<A>) -> &'a [Segment<A>] {
        let (first, last) = (span.first(), span.last());
        while let [_, next, ..] = self.segments
            && next.start <= first
        {
            self.segments = &self.segments[1..];
        }
        let from = self.segments;
        while let [_, next, ..] = self.segments
            && next.start <= last
        {
            self.segments = &self.segments[1..];
        }
        &from[..=from.len() - self.segments.len()]
    }
}

/// A node before its children have a place.
#[derive(Default)]
struct Draft {
    vector: u64,
    leafvec: u64,
    nodes: Vec<[u64; WORDS]>,
    hops: Vec<NextHop>,
}

impl Draft {
    fn push(&mut self, branch: u32, to: Branch) {
        match to {
            Branch::Fork(fork) => {
                self.vector |= 1 << branch;
                self.nodes.push(fork.words());
            }
            Branch::Skip(skip) => {
                self.vector |= 1 << branch;
                self.nodes.push(skip.words());
            }
            Branch::Leaf(hop) if self.hops.last() == Some(&hop) => {}
            Branch::Leaf(hop) => {
                self.leafvec |= 1 << branch;
                self.hops.push(hop);
            }
        }
    }
}

/// The bits of an address up to the end of the half in which bit `depth` is.
fn half_end<A: Address>(depth: u32) -> u32 {
    A::BITS.min((depth / HALF + 1) * HALF)
}

/// The branches of a node at `depth`, and how many bits of the address each decides: fewer than
/// six at the end of a half, where each stands for several branches.
fn branches<A: Address>(depth: u32) -> (impl Iterator<Item = u32>, u32) {
    let width = STRIDE.min(half_end::<A>(depth) - depth);
    ((0..BRANCHES).step_by(1 << (STRIDE - width)), width)
}

/// The addresses of `span` that take a branch.
fn child<A: Address>(span: Prefix<A>, branch: u32, width: u32) -> Prefix<A> {
    let depth = u32::from(span.length());
    let within = A::from_bits(branch >> (STRIDE - width), depth, width);
    Prefix::of(span.first().or(within), depth + width)
}

impl<const DIRECT: u32> Staging<'_, DIRECT> {
    fn direct_array<A: Address>(
        &mut self,
        prefix: Prefix<A>,
        segments: &[Segment<A>],
    ) -> Result<(), NoRoom> {
        let mut slot = prefix.first().bits(0, DIRECT);
        if u32::from(prefix.length()) > DIRECT {
            let span = Prefix::of(prefix.first(), DIRECT);
            let to = self.change_within(self.trie.branch_at(slot), span, prefix, segments)?;
            return self.set(slot..slot + 1, to);
        }
        let end = prefix.last().bits(0, DIRECT) + 1;
        let mut walk = Walk { segments };
        while slot < end {
            let span = Prefix::of(A::from_bits(slot, 0, DIRECT), DIRECT);
            let to = self.build(span, walk.inside(span))?;
            let stop = match (to, walk.segments) {
                // The same answer as far as the next segment.
                (Branch::Leaf(_), [_, next, ..]) => next.start.bits(0, DIRECT),
                (Branch::Leaf(_), _) => end,
                (_, _) => slot + 1,
            };
            for slot in slot..stop {
                self.retire(self.trie.branch_at(slot));
            }
            self.set(slot..stop, to)?;
            slot = stop;
        }
        Ok(())
    }

    /// Has words of the direct array lead to a branch.
    fn set(&mut self, slots: Range<u32>, to: Branch) -> Result<(), NoRoom> {
        for word in &self.trie.direct[slots.start as usize..slots.end as usize] {
            self.retire_place(word.load(Ordering::Relaxed));
        }
        let word = self.word(to)?;
        self.change.words.push((slots, word));
        Ok(())
    }

    /// A word that leads to a branch, a node of which is put into a place of its own.
    fn word(&mut self, to: Branch) -> Result<u32, NoRoom> {
        Ok(match to {
            Branch::Leaf(hop) => hop.0,
            Branch::Fork(fork) => NODE | self.nodes(&[fork.words()])?,
            Branch::Skip(skip) => NODE | self.nodes(&[skip.words()])?,
        })
    }

    /// The branch for `span` after a change inside it.
    fn change_within<A: Address>(
        &mut self,
        old: Branch,
        span: Prefix<A>,
        prefix: Prefix<A>,
        segments: &[Segment<A>],
    ) -> Result<Branch, NoRoom> {
        let fork = match old {
            Branch::Leaf(hop) => return self.build(span, &around(hop, span, prefix, segments)),
            Branch::Skip(skip) => return self.change_skip(skip, span, prefix, segments),
            Branch::Fork(fork) => fork,
        };
        let depth = u32::from(span.length());
        let (all, width) = branches::<A>(depth);
        let mut walk = Walk { segments };
        let mut draft = Draft::default();
        for branch in all {
            let old = self.trie.branch_of(fork, branch);
            let child = child(span, branch, width);
            let to = if child.last() < prefix.first() || prefix.last() < child.first() {
                old
            } else if prefix.length() > child.length() {
                self.change_within(old, child, prefix, segments)?
            } else {
                self.retire(old);
                self.build(child, walk.inside(child))?
            };
            draft.push(branch, to);
        }
        self.retire_children(fork);
        self.place(span, draft)
    }

    /// The branch for `span`, where a skip was, after a change inside it.
    fn change_skip<A: Address>(
        &mut self,
        skip: Skip,
        span: Prefix<A>,
        prefix: Prefix<A>,
        segments: &[Segment<A>],
    ) -> Result<Branch, NoRoom> {
        let (within, outside) = (skip.prefix(span), skip.outside);
        let inside = self.trie.branch_by(skip.inside);
        if prefix.length() <= within.length() && prefix.contains(within.first()) {
            self.retire(Branch::Skip(skip));
            return self.build(span, &around(outside, span, prefix, segments));
        }
        if within.contains(prefix.first()) {
            self.retire_place(skip.inside);
            let inside = self.change_within(inside, within, prefix, segments)?;
            return self.skip(span, within, inside, outside);
        }
        let fork_at = u32::from(within.length()).checked_sub(STRIDE);
        let fork_at = fork_at.filter(|depth| *depth >= span.length().into());
        let (Some(latest), Branch::Fork(_) | Branch::Skip(_)) = (fork_at, inside) else {
            // Little is inside, or it is not aligned with what a fork before it decides.
            let mut all = Vec::new();
            self.trie.segments(Branch::Skip(skip), span, &mut all);
            self.retire(Branch::Skip(skip));
            return self.build(span, &replace(&all, prefix, segments));
        };
        // A fork where the ways of both part, and what was inside stays as it is.
        self.retire_place(skip.inside);
        let parting = within.first().common(prefix.first());
        let at = Prefix::of(within.first(), parting.min(latest));
        let (all, width) = branches::<A>(at.length().into());
        let mut walk = Walk { segments };
        let mut draft = Draft::default();
        for branch in all {
            let child = child(at, branch, width);
            let to = if child.contains(within.first()) {
                // Also the way of the change, where they part behind this fork.
                let old = self.skip(child, within, inside, outside)?;
                if child.contains(prefix.first()) && prefix.length() > child.length() {
                    self.change_within(old, child, prefix, segments)?
                } else {
                    old
                }
            } else if child.contains(prefix.first()) && prefix.length() > child.length() {
                self.build(child, &around(outside, child, prefix, segments))?
            } else if prefix.contains(child.first()) {
                self.build(child, walk.inside(child))?
            } else {
                Branch::Leaf(outside)
            };
            draft.push(branch, to);
        }
        let fork = self.place(at, draft)?;
        self.skip(span, at, fork, outside)
    }

    /// The branch for `span` from nothing but the segments inside it.
    fn build<A: Address>(
        &mut self,
        span: Prefix<A>,
        segments: &[Segment<A>],
    ) -> Result<Branch, NoRoom> {
        if let [only] = segments {
            return Ok(Branch::Leaf(only.hop));
        }
        if let Some((within, outside)) = narrowest(span, segments) {
            let inside = self.build(within, Walk { segments }.inside(within))?;
            return self.skip(span, within, inside, outside);
        }
        let (all, width) = branches::<A>(span.length().into());
        let mut walk = Walk { segments };
        let mut draft = Draft::default();
        for branch in all {
            let child = child(span, branch, width);
            let to = self.build(child, walk.inside(child))?;
            draft.push(branch, to);
        }
        self.fork(span, draft)
    }

    /// The branch for `span` where `inside` is for `within` and `outside` for the rest. A skip
    /// behind this one with the same answer outside is joined with it.
    fn skip<A: Address>(
        &mut self,
        span: Prefix<A>,
        within: Prefix<A>,
        inside: Branch,
        outside: NextHop,
    ) -> Result<Branch, NoRoom> {
        if span == within || inside == Branch::Leaf(outside) {
            return Ok(inside);
        }
        let depth = u32::from(span.length());
        if let Branch::Skip(next) = inside
            && next.outside == outside
            && u32::from(within.length()) < half_end::<A>(depth)
        {
            return Ok(Branch::Skip(next));
        }
        let inside = self.word(inside)?;
        let key = within.first().half(depth >= HALF);
        Ok(Branch::Skip(Skip { key, inside, outside, length: within.length().into() }))
    }

    /// A node of what is drafted for `span`, or less where that says the same: a leaf that is alone,
    /// a skip where all but one prefix has the same answer.
    fn place<A: Address>(&mut self, span: Prefix<A>, draft: Draft) -> Result<Branch, NoRoom> {
        match (&*draft.nodes, &*draft.hops) {
            ([], [hop]) => Ok(Branch::Leaf(*hop)),
            ([], [_, _] | [_, _, _]) => {
                let (_, width) = branches::<A>(span.length().into());
                let mut hops = draft.hops.iter();
                let begin = (0..BRANCHES).filter(|branch| draft.leafvec >> branch & 1 == 1);
                let segments: Vec<_> = begin
                    .zip(&mut hops)
                    .map(|(branch, hop)| Segment {
                        start: child(span, branch, width).first(),
                        hop: *hop,
                    })
                    .collect();
                match narrowest(span, &segments) {
                    Some(_) => self.build(span, &segments),
                    None => self.fork(span, draft),
                }
            }
            ([node], [outside]) => {
                let (_, width) = branches::<A>(span.length().into());
                let within = child(span, draft.vector.trailing_zeros(), width);
                self.skip(span, within, Branch::of(*node), *outside)
            }
            _ => self.fork(span, draft),
        }
    }

    /// Writes the children of a fork side by side.
    fn fork<A: Address>(&mut self, span: Prefix<A>, draft: Draft) -> Result<Branch, NoRoom> {
        let mut bases = [0; 2];
        if !draft.nodes.is_empty() {
            bases[0] = self.nodes(&draft.nodes)?;
        }
        if !draft.hops.is_empty() {
            let block = self.builder.leaves.take(draft.hops.len()).ok_or(NoRoom)?;
            self.change.taken[1].push(block);
            bases[1] = block.start;
            for (word, hop) in self.trie.leaves[block.start as usize..].iter().zip(&draft.hops) {
                word.store(hop.0, Ordering::Relaxed);
            }
        }
        let bases = u64::from(bases[0]) << 32 | u64::from(bases[1]);
        let Draft { vector, leafvec, .. } = draft;
        Ok(Branch::Fork(Fork { vector, leafvec, bases, depth: span.length().into() }))
    }

    /// Puts nodes side by side.
    fn nodes(&mut self, nodes: &[[u64; WORDS]]) -> Result<u32, NoRoom> {
        let block = self.builder.nodes.take(nodes.len()).ok_or(NoRoom)?;
        self.change.taken[0].push(block);
        let words = &self.trie.nodes[block.start as usize * WORDS..];
        for (words, node) in words.chunks_exact(WORDS).zip(nodes) {
            for (word, value) in words.iter().zip(node) {
                word.store(*value, Ordering::Relaxed);
            }
        }
        Ok(block.start)
    }

    /// Retires a branch and all below it with this change.
    fn retire(&mut self, branch: Branch) {
        match branch {
            Branch::Leaf(_) => {}
            Branch::Fork(fork) => {
                for child in 0..fork.vector.count_ones() {
                    self.retire(self.trie.read_node(fork.first_node() + child));
                }
                self.retire_children(fork);
            }
            Branch::Skip(skip) => {
                self.retire(self.trie.branch_by(skip.inside));
                self.retire_place(skip.inside);
            }
        }
    }

    /// Retires the place of the node that a word names, but nothing below it.
    fn retire_place(&mut self, word: u32) {
        if word & NODE != 0 {
            self.change.retired[0].push(Block::of(word & !NODE, 1));
        }
    }

    /// Retires the blocks a node's children are in.
    fn retire_children(&mut self, node: Fork) {
        let [nodes, leaves] = &mut self.change.retired;
        if node.vector != 0 {
            nodes.push(Block::of(node.first_node(), node.vector.count_ones() as usize));
        }
        if node.leafvec != 0 {
            leaves.push(Block::of(node.first_leaf(), node.leafvec.count_ones() as usize));
        }
    }
}

/// Segments of a span that had one answer everywhere and now has others inside
/// `prefix`.
fn around<A: Address>(
    hop: NextHop,
    span: Prefix<A>,
    prefix: Prefix<A>,
    segments: &[Segment<A>],
) -> Vec<Segment<A>> {
    let before = (span.first() < prefix.first()).then_some(Segment { start: span.first(), hop });
    let behind =
        (prefix.last() < span.last()).then(|| Segment { start: prefix.last().next(), hop });
    let mut all = Vec::with_capacity(segments.len() + 2);
    for segment in before.into_iter().chain(segments.iter().copied()).chain(behind) {
        push(&mut all, segment);
    }
    all
}

/// The segments of a span after those of `prefix`, which is inside it, have become others.
fn replace<A: Address>(
    all: &[Segment<A>],
    prefix: Prefix<A>,
    segments: &[Segment<A>],
) -> Vec<Segment<A>> {
    let mut new = Vec::with_capacity(all.len() + segments.len() + 1);
    all.iter().filter(|old| old.start < prefix.first()).for_each(|old| push(&mut new, *old));
    segments.iter().for_each(|segment| push(&mut new, *segment));
    if let Some(old) = all.iter().rev().find(|old| old.start <= prefix.last()) {
        let end = all.iter().map(|next| next.start).find(|start| *start > prefix.last());
        let all_but_last = Prefix::<A>::ALL.last() != prefix.last();
        if all_but_last && end.is_none_or(|end| end != prefix.last().next()) {
            push(&mut new, Segment { start: prefix.last().next(), hop: old.hop });
        }
    }
    all.iter().filter(|old| old.start > prefix.last()).for_each(|old| push(&mut new, *old));
    new
}

/// The narrowest prefix in `span` outside which all of it has one answer, and that answer, where
/// a skip does better than a fork: it decides the address, or as many bits as that at least.
fn narrowest<A: Address>(span: Prefix<A>, segments: &[Segment<A>]) -> Option<(Prefix<A>, NextHop)> {
    let [first, second, .., last] = segments else {
        let [first, last] = segments else { return None };
        let before = (span.first(), last.start.previous(), last.hop);
        let behind = (last.start, span.last(), first.hop);
        return worth(span, [before, behind], segments);
    };
    let behind = if first.hop == last.hop { last.start.previous() } else { span.last() };
    let from_second = (second.start, behind, first.hop);
    let to_last = (span.first(), last.start.previous(), last.hop);
    worth(span, [from_second, to_last], segments)
}

/// The narrower of two ranges with the answer around each, as a prefix, if it is worth a skip.
fn worth<A: Address>(
    span: Prefix<A>,
    ranges: [(A, A, NextHop); 2],
    segments: &[Segment<A>],
) -> Option<(Prefix<A>, NextHop)> {
    let (first, last, outside) =
        ranges.into_iter().max_by_key(|(first, last, _)| first.common(*last))?;
    let (length, depth) = (first.common(last), u32::from(span.length()));
    let end = half_end::<A>(depth);
    let within = Prefix::of(first, length.min(end));
    let decides = length <= end && matches!(Walk { segments }.inside(within), [_]);
    let bits = u32::from(within.length()) - depth;
    (bits >= STRIDE || bits > 0 && decides).then_some((within, outside))
}

impl Branch {
    /// The node of these words.
    fn of([first, second, third, kind]: [u64; WORDS]) -> Branch {
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
        Prefix::of(span.first().or(A::from_half(self.key, low)), self.length)
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

/// How the writer reads: nobody else changes anything.
impl<const DIRECT: u32> Poptrie<DIRECT> {
    fn read_node(&self, node: u32) -> Branch {
        let word = |word: usize| self.nodes[node as usize * WORDS + word].load(Ordering::Relaxed);
        Branch::of([0, 1, 2, 3].map(word))
    }

    fn branch_at(&self, slot: u32) -> Branch {
        self.branch_by(self.direct[slot as usize].load(Ordering::Relaxed))
    }

    /// What a word of the direct array or of a skip leads to.
    fn branch_by(&self, word: u32) -> Branch {
        match word & NODE {
            0 => Branch::Leaf(NextHop(word)),
            _ => self.read_node(word & !NODE),
        }
    }

    /// Appends the segments of a branch.
    fn segments<A: Address>(&self, branch: Branch, span: Prefix<A>, to: &mut Vec<Segment<A>>) {
        match branch {
            Branch::Leaf(hop) => push(to, Segment { start: span.first(), hop }),
            Branch::Fork(fork) => {
                let (all, width) = branches::<A>(span.length().into());
                for branch in all {
                    self.segments(self.branch_of(fork, branch), child(span, branch, width), to);
                }
            }
            Branch::Skip(skip) => {
                let within = skip.prefix(span);
                push(to, Segment { start: span.first(), hop: skip.outside });
                self.segments(self.branch_by(skip.inside), within, to);
                if within.last() < span.last() {
                    push(to, Segment { start: within.last().next(), hop: skip.outside });
                }
            }
        }
    }

    fn branch_of(&self, node: Fork, branch: u32) -> Branch {
        if node.vector >> branch & 1 == 1 {
            let index = (node.vector & up_to(branch)).count_ones() - 1;
            return self.read_node(node.first_node() + index);
        }
        let index = (node.leafvec & up_to(branch)).count_ones() - 1;
        let leaf = &self.leaves[(node.first_leaf() + index) as usize];
        Branch::Leaf(NextHop(leaf.load(Ordering::Relaxed)))
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
        let (nodes, leaves) = (Blocks::new(nodes as u32), Blocks::new(leaves as u32));
        Ok((trie, Builder { nodes, leaves }))
    }

    #[inline]
    fn lookup(&self, addresses: &[A], hops: &mut [NextHop]) {
        with_bit_instructions(Lookup { trie: self, addresses, hops });
    }

    fn update(
        &self,
        builder: &mut Builder,
        generation: &Generation,
        prefix: Prefix<A>,
        segments: &[Segment<A>],
    ) -> Result<(), NoRoom> {
        if builder.nodes.retired() + builder.leaves.retired() > RETIRED {
            builder.reclaim(generation);
        }
        let change = builder.stage(self, prefix, segments).or_else(|NoRoom| {
            builder.reclaim(generation);
            builder.stage(self, prefix, segments)
        })?;
        builder.publish(self, change);
        Ok(())
    }

    fn clear(&self, builder: &mut Builder) {
        self.direct.clear();
        self.nodes.clear();
        self.leaves.clear();
        builder.nodes.clear();
        builder.leaves.clear();
    }

    fn prefault(&self) {
        let load = |word: &AtomicU32| _ = black_box(word.load(Ordering::Relaxed));
        self.direct.iter().step_by(PAGE / size_of::<AtomicU32>()).for_each(load);
    }

    fn bytes(&self, builder: &Builder) -> usize {
        (4 << DIRECT) + builder.nodes.touched() * WORDS * 8 + builder.leaves.touched() * 4
    }
}
