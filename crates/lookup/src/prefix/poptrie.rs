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
//! Changes are made beside what is read (copy on write): the nodes from the changed
//! one up to the direct array are written anew, and one store there publishes them,
//! so a lookup sees all of a change or nothing of it. What was replaced is retired,
//! and reused only after the [`Generation`] has advanced.

use std::{
    hint::black_box,
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
/// Words of a node: three, and one that keeps it within a cache line.
const WORDS: usize = 4;
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

/// A node: its branches that are nodes, its branches where another leaf begins, and
/// the indices of the first of either, that of the nodes in the upper half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    vector: u64,
    leafvec: u64,
    bases: u64,
}

/// What a branch leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Branch {
    Leaf(NextHop),
    Node(Node),
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
        // Those that are, and where in `leaves` their answers are.
        let (mut decided, mut place, mut done) = ([0_u8; BLOCK], [0_u32; BLOCK], 0);
        for (i, hop) in hops.iter().enumerate().take(BLOCK) {
            prefetch(self.node(hop.0));
            (which[open % BLOCK], at[open % BLOCK]) = (i as u8, hop.0);
            open += (hop.0 / NODE) as usize;
        }
        let mut depth = DIRECT;
        while open > 0 && depth < A::BITS {
            let mut deeper = 0;
            for k in 0..open {
                let i = which[k % BLOCK];
                let words = self.node(at[k % BLOCK]);
                let [vector, leafvec, bases] =
                    [0, 1, 2].map(|word| words[word].load(Ordering::Relaxed));
                let branch = addresses[i as usize % addresses.len()].bits(depth, STRIDE);
                let mask = up_to(branch);
                let nodes = (vector & mask).count_ones().wrapping_sub(1);
                let leaves = (leafvec & mask).count_ones().wrapping_sub(1);
                let next = ((bases >> 32) as u32).wrapping_add(nodes);
                let end = (bases as u32).wrapping_add(leaves);
                let is_node = (vector >> branch) as usize & 1;
                prefetch(self.node(next));
                (which[deeper % BLOCK], at[deeper % BLOCK]) = (i, next);
                (decided[done % BLOCK], place[done % BLOCK]) = (i, end);
                deeper += is_node;
                done += 1 - is_node;
            }
            open = deeper;
            depth += STRIDE;
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
    nodes: Vec<Node>,
    hops: Vec<NextHop>,
}

impl Draft {
    fn push(&mut self, branch: u32, to: Branch) {
        match to {
            Branch::Node(node) => {
                self.vector |= 1 << branch;
                self.nodes.push(node);
            }
            Branch::Leaf(hop) if self.hops.last() == Some(&hop) => {}
            Branch::Leaf(hop) => {
                self.leafvec |= 1 << branch;
                self.hops.push(hop);
            }
        }
    }
}

/// The branches of a node at `depth`, and how many bits of the address each decides: fewer than
/// six at the last level, where each stands for several branches.
fn branches<A: Address>(depth: u32) -> (impl Iterator<Item = u32>, u32) {
    let width = STRIDE.min(A::BITS - depth);
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
                (Branch::Node(_), _) => slot + 1,
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
            let word = word.load(Ordering::Relaxed);
            if word & NODE != 0 {
                self.change.retired[0].push(Block::of(word & !NODE, 1));
            }
        }
        let word = match to {
            Branch::Leaf(hop) => hop.0,
            Branch::Node(node) => NODE | self.nodes(&[node])?,
        };
        self.change.words.push((slots, word));
        Ok(())
    }

    /// The branch for `span` after a change inside it.
    fn change_within<A: Address>(
        &mut self,
        old: Branch,
        span: Prefix<A>,
        prefix: Prefix<A>,
        segments: &[Segment<A>],
    ) -> Result<Branch, NoRoom> {
        let node = match old {
            Branch::Leaf(hop) => return self.build(span, &around(hop, span, prefix, segments)),
            Branch::Node(node) => node,
        };
        let depth = u32::from(span.length());
        let (all, width) = branches::<A>(depth);
        let touched = prefix.first().bits(depth, STRIDE)..=prefix.last().bits(depth, STRIDE);
        let mut walk = Walk { segments };
        let mut draft = Draft::default();
        for branch in all {
            let old = self.trie.branch_of(node, branch);
            let child = child(span, branch, width);
            let to = if !touched.contains(&branch) {
                old
            } else if prefix.length() > child.length() {
                self.change_within(old, child, prefix, segments)?
            } else {
                self.retire(old);
                self.build(child, walk.inside(child))?
            };
            draft.push(branch, to);
        }
        self.retire_children(node);
        self.place(draft)
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
        let (all, width) = branches::<A>(span.length().into());
        let mut walk = Walk { segments };
        let mut draft = Draft::default();
        for branch in all {
            let child = child(span, branch, width);
            let to = self.build(child, walk.inside(child))?;
            draft.push(branch, to);
        }
        self.place(draft)
    }

    /// Writes the children of a node side by side. A node with a single leaf is that leaf.
    fn place(&mut self, draft: Draft) -> Result<Branch, NoRoom> {
        if let (0, [hop]) = (draft.vector, &*draft.hops) {
            return Ok(Branch::Leaf(*hop));
        }
        let mut bases = [0; 2];
        if !draft.nodes.is_empty() {
            bases[0] = self.nodes(&draft.nodes)?;
        }
        if !draft.hops.is_empty() {
            let block = self.builder.leaves.take(draft.hops.len()).ok_or(NoRoom)?;
            self.change.taken[1].push(block);
            bases[1] = block.start;
            for (word, hop) in self.trie.leaves[block.start as usize..].iter().zip(draft.hops) {
                word.store(hop.0, Ordering::Relaxed);
            }
        }
        let bases = u64::from(bases[0]) << 32 | u64::from(bases[1]);
        Ok(Branch::Node(Node { vector: draft.vector, leafvec: draft.leafvec, bases }))
    }

    /// Puts nodes side by side.
    fn nodes(&mut self, nodes: &[Node]) -> Result<u32, NoRoom> {
        let block = self.builder.nodes.take(nodes.len()).ok_or(NoRoom)?;
        self.change.taken[0].push(block);
        let words = &self.trie.nodes[block.start as usize * WORDS..];
        for (words, node) in words.chunks_exact(WORDS).zip(nodes) {
            for (word, value) in words.iter().zip([node.vector, node.leafvec, node.bases]) {
                word.store(value, Ordering::Relaxed);
            }
        }
        Ok(block.start)
    }

    /// Retires a branch and all below it with this change.
    fn retire(&mut self, branch: Branch) {
        let Branch::Node(node) = branch else { return };
        for child in 0..node.vector.count_ones() {
            self.retire(Branch::Node(self.trie.read_node(node.first_node() + child)));
        }
        self.retire_children(node);
    }

    /// Retires the blocks a node's children are in.
    fn retire_children(&mut self, node: Node) {
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

impl Node {
    fn first_node(self) -> u32 {
        (self.bases >> 32) as u32
    }

    fn first_leaf(self) -> u32 {
        self.bases as u32
    }
}

/// How the writer reads: nobody else changes anything.
impl<const DIRECT: u32> Poptrie<DIRECT> {
    fn read_node(&self, node: u32) -> Node {
        let [vector, leafvec, bases] =
            [0, 1, 2].map(|word| self.nodes[node as usize * WORDS + word].load(Ordering::Relaxed));
        Node { vector, leafvec, bases }
    }

    fn branch_at(&self, slot: u32) -> Branch {
        let word = self.direct[slot as usize].load(Ordering::Relaxed);
        match word & NODE {
            0 => Branch::Leaf(NextHop(word)),
            _ => Branch::Node(self.read_node(word & !NODE)),
        }
    }

    fn branch_of(&self, node: Node, branch: u32) -> Branch {
        if node.vector >> branch & 1 == 1 {
            let index = (node.vector & up_to(branch)).count_ones() - 1;
            return Branch::Node(self.read_node(node.first_node() + index));
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
