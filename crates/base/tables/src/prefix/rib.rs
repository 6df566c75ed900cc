//! RIB: all routes, in order, from which the lookup structure is made.
//!
//! A lookup structure keeps only the longest match of each address, so the shorter
//! routes that match again when a route is deleted must be kept elsewhere. This is a B-tree
//! in the order of addresses, where everything inside a prefix is one range.

use std::collections::BTreeMap;

use super::{Address, NextHop, Prefix};

/// A range of addresses with one answer: from `start` to where the next begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<A> {
    pub(super) start: A,
    pub(super) hop: NextHop,
}

/// Routes by prefix.
#[derive(Debug)]
pub(super) struct Rib<A: Address> {
    pub(super) routes: BTreeMap<Prefix<A>, NextHop>,
}

impl<A: Address> Default for Rib<A> {
    fn default() -> Rib<A> {
        Rib { routes: BTreeMap::new() }
    }
}

impl<A: Address> Rib<A> {
    /// The longest route that contains all of `prefix`; that may be the one of `prefix` itself.
    /// A search in the tree for each route that begins with the same bits and
    /// ends too early, few in practice, the length of an address at worst.
    pub(super) fn covering(&self, prefix: Prefix<A>) -> Option<(Prefix<A>, NextHop)> {
        let mut bound = prefix;
        loop {
            let (&route, &hop) = self.routes.range(..=bound).next_back()?;
            if route.length() <= prefix.length() && route.contains(prefix.first()) {
                return Some((route, hop));
            }
            // A route that contains the prefix and sorts before this route contains the beginning
            // of this route too.
            let common = route.first().common(prefix.first()).min(prefix.length().into());
            bound = Prefix::from_parts(prefix.first(), common);
        }
    }

    /// The answers for all addresses of `within`, in order; neighbours differ.
    /// One step per route inside it. Where only the default route is for an
    /// address there is none: that route is kept elsewhere.
    pub(super) fn segments<'s>(
        &self,
        within: Prefix<A>,
        Segments { all, around }: &'s mut Segments<A>,
    ) -> &'s [Segment<A>] {
        let end = Prefix::from_parts(within.last(), A::BITS);
        let mut inside = self.routes.range(within..=end).peekable();
        // The route that is added or changed is the first of them, and no other search is made.
        let own = inside.next_if(|(route, _)| **route == within).map(|(&route, &hop)| (route, hop));
        let covering = own.or_else(|| self.covering(within));
        let background = covering.filter(|(route, _)| route.length() > 0);
        let background = background.map_or(NextHop::NONE, |(_, hop)| hop);
        all.clear();
        all.push(Segment { start: within.first(), hop: background });
        around.clear();
        around.push((within.last(), background));
        for (route, &hop) in inside {
            close(around, all, |last| last < route.first());
            push(all, Segment { start: route.first(), hop });
            around.push((route.last(), hop));
        }
        close(around, all, |last| last < within.last());
        all
    }
}

/// Output of [`Rib::segments`], which keeps its memory from one change to the next.
#[derive(Debug)]
pub(super) struct Segments<A> {
    all: Vec<Segment<A>>,
    /// The prefixes that contain the current place, innermost last, with their last addresses.
    around: Vec<(A, NextHop)>,
}

impl<A> Default for Segments<A> {
    fn default() -> Segments<A> {
        Segments { all: Vec::new(), around: Vec::new() }
    }
}

/// Takes the innermost prefixes that are `over` off the stack: behind each, the answer is that of
/// the prefix around it.
fn close<A: Address>(
    around: &mut Vec<(A, NextHop)>,
    segments: &mut Vec<Segment<A>>,
    over: impl Fn(A) -> bool,
) {
    while let [.., (_, outer), (last, _)] = **around
        && over(last)
    {
        around.pop();
        push(segments, Segment { start: last.next(), hop: outer });
    }
}

/// Appends a segment, which may take the place of one that turned out empty.
pub(super) fn push<A: Address>(segments: &mut Vec<Segment<A>>, segment: Segment<A>) {
    if segments.last().is_some_and(|last| last.start == segment.start) {
        segments.pop();
    }
    if segments.last().is_none_or(|last| last.hop != segment.hop) {
        segments.push(segment);
    }
}
