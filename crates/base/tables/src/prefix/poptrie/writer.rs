//! Writer of a poptrie.
//!
//! A change is staged: nodes and leaves are written where no reader comes, and the nodes it takes
//! and those it replaces are recorded. Then it is published by stores into the direct array.

use std::{
    ops::Range,
    sync::atomic::{Ordering, fence},
};

use linerate_memory::Generation;

use super::{
    super::{
        Address, NextHop, Prefix,
        buddy::{Block, Blocks},
        lpm::NoRoom,
        rib::{Segment, push},
    },
    BRANCHES, Branch, Fork, HALF, NODE, Poptrie, STRIDE, Skip, WORDS, up_to,
};

/// Blocks retired before they are reclaimed. Readers that are inside retry then, so
/// it is not to happen often.
const RETIRED: usize = 1 << 12;

/// A change that is written and not published yet.
#[derive(Debug, Default)]
struct Change {
    /// Ranges of the direct array and their new values.
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
    /// Of a trie with room for so many nodes and leaves.
    pub(super) fn new(nodes: usize, leaves: usize) -> Builder {
        Builder { nodes: Blocks::new(nodes as u32), leaves: Blocks::new(leaves as u32) }
    }

    /// As [`Lpm::update`](super::Lpm::update).
    pub(super) fn update<A: Address, const DIRECT: u32>(
        &mut self,
        trie: &Poptrie<DIRECT>,
        generation: &Generation,
        prefix: Prefix<A>,
        segments: &[Segment<A>],
    ) -> Result<(), NoRoom> {
        if self.nodes.retired() + self.leaves.retired() > RETIRED {
            self.reclaim(generation);
        }
        let change = self.stage(trie, prefix, segments).or_else(|NoRoom| {
            self.reclaim(generation);
            self.stage(trie, prefix, segments)
        })?;
        self.publish(trie, change);
        Ok(())
    }

    /// Nothing is taken any more.
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.leaves.clear();
    }

    /// Bytes of nodes and leaves that were ever taken.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.touched() * WORDS * 8 + self.leaves.touched() * 4
    }

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
    Prefix::from_parts(span.first().or(within), depth + width)
}

impl<const DIRECT: u32> Staging<'_, DIRECT> {
    fn direct_array<A: Address>(
        &mut self,
        prefix: Prefix<A>,
        segments: &[Segment<A>],
    ) -> Result<(), NoRoom> {
        let mut slot = prefix.first().bits(0, DIRECT);
        if u32::from(prefix.length()) > DIRECT {
            let span = Prefix::from_parts(prefix.first(), DIRECT);
            let to = self.change_within(self.trie.branch_at(slot), span, prefix, segments)?;
            return self.set(slot..slot + 1, to);
        }
        let end = prefix.last().bits(0, DIRECT) + 1;
        let mut walk = Walk { segments };
        while slot < end {
            let span = Prefix::from_parts(A::from_bits(slot, 0, DIRECT), DIRECT);
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

    /// A word that leads to a branch, a node of which is put into a place of its own. The node that
    /// a skip leads to is moved behind it, into the same line.
    fn word(&mut self, to: Branch) -> Result<u32, NoRoom> {
        Ok(match to {
            Branch::Leaf(hop) => hop.0,
            Branch::Fork(fork) => NODE | self.nodes(&[fork.words()])?,
            Branch::Skip(skip) if skip.inside & NODE == 0 => NODE | self.nodes(&[skip.words()])?,
            Branch::Skip(skip) => {
                let inside = self.trie.words_of(skip.inside & !NODE);
                self.drop_place(skip.inside & !NODE);
                let block = self.take_nodes(2)?;
                let moved = Skip { inside: NODE | (block.start + 1), ..skip };
                self.write(block, &[moved.words(), inside]);
                NODE | block.start
            }
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
            // Little is inside, or it is not aligned with the bits of a fork before it.
            let mut all = Vec::new();
            self.trie.segments(Branch::Skip(skip), span, &mut all);
            self.retire(Branch::Skip(skip));
            return self.build(span, &replace(&all, prefix, segments));
        };
        // A fork where the ways of both part, and the old content stays as it is.
        self.retire_place(skip.inside);
        let parting = within.first().common(prefix.first());
        let at = Prefix::from_parts(within.first(), parting.min(latest));
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

    /// A node of the draft for `span`, or less where that is equivalent: a leaf that is alone, a
    /// skip where all but one prefix has the same answer.
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
                self.skip(span, within, Branch::from_words(*node), *outside)
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
        let block = self.take_nodes(nodes.len())?;
        self.write(block, nodes);
        Ok(block.start)
    }

    fn take_nodes(&mut self, count: usize) -> Result<Block, NoRoom> {
        let block = self.builder.nodes.take(count).ok_or(NoRoom)?;
        self.change.taken[0].push(block);
        Ok(block)
    }

    fn write(&mut self, block: Block, nodes: &[[u64; WORDS]]) {
        let words = &self.trie.nodes[block.start as usize * WORDS..];
        for (words, node) in words.chunks_exact(WORDS).zip(nodes) {
            for (word, value) in words.iter().zip(node) {
                word.store(*value, Ordering::Relaxed);
            }
        }
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
            self.change.retired[0].push(Block::from_units(word & !NODE, 1));
        }
    }

    /// Gives the place of a node back that was the last to be taken, or retires it.
    fn drop_place(&mut self, node: u32) {
        let block = Block::from_units(node, 1);
        match self.change.taken[0].pop_if(|last| *last == block) {
            Some(last) => self.builder.nodes.give(last),
            None => self.change.retired[0].push(block),
        }
    }

    /// Retires the blocks a node's children are in.
    fn retire_children(&mut self, node: Fork) {
        let [nodes, leaves] = &mut self.change.retired;
        if node.vector != 0 {
            nodes.push(Block::from_units(node.first_node(), node.vector.count_ones() as usize));
        }
        if node.leafvec != 0 {
            leaves.push(Block::from_units(node.first_leaf(), node.leafvec.count_ones() as usize));
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
    let within = Prefix::from_parts(first, length.min(end));
    let decides = length <= end && matches!(Walk { segments }.inside(within), [_]);
    let bits = u32::from(within.length()) - depth;
    (bits >= STRIDE || bits > 0 && decides).then_some((within, outside))
}

/// Reads of the writer: no other thread changes anything.
impl<const DIRECT: u32> Poptrie<DIRECT> {
    fn words_of(&self, node: u32) -> [u64; WORDS] {
        let word = |word: usize| self.nodes[node as usize * WORDS + word].load(Ordering::Relaxed);
        [0, 1, 2, 3].map(word)
    }

    fn read_node(&self, node: u32) -> Branch {
        Branch::from_words(self.words_of(node))
    }

    fn branch_at(&self, slot: u32) -> Branch {
        self.branch_by(self.direct[slot as usize].load(Ordering::Relaxed))
    }

    /// Target of a word of the direct array or of a skip.
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
