//! Next hops of routes, and sets of several that share the traffic (ECMP; next-hop groups in Linux,
//! load-balance objects in VPP).

use std::{
    io,
    sync::atomic::{AtomicU32, Ordering, fence},
};

use linerate_memory::Words;

/// Sets there can be at once.
const SETS: u32 = if cfg!(miri) { 1 << 2 } else { 1 << 14 };
/// Parts traffic to a set is divided into.
const BUCKETS: usize = 256;

/// Next hop of a route, as a number of the caller's: the index of gateway and output in the
/// caller's array, where index 0 is the treatment without a route.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct NextHop(
    // Zero without a route, else twice the number; one more where the number is
    // that of a set, which lookups replace by one of its members.
    pub(super) u32,
);

impl NextHop {
    /// No route: index 0.
    pub const NONE: NextHop = NextHop(0);
    /// The highest number. Up to 16,383 the IPv4 structure needs half the
    /// memory.
    pub const MAX: u32 = (1 << 30) - 1;

    /// The next hop of that number; `None` unless it is in `1..=NextHop::MAX`.
    pub fn new(number: u32) -> Option<NextHop> {
        (1..=NextHop::MAX).contains(&number).then_some(NextHop(number << 1))
    }

    /// Its number; 0 without a route.
    #[inline(always)]
    pub fn index(self) -> usize {
        (self.0 >> 1) as usize
    }

    pub(super) fn of_set(number: u32) -> NextHop {
        NextHop(number << 1 | 1)
    }

    /// The number of the set, if it stands for one.
    pub(super) fn set(self) -> Option<u32> {
        self.is_set().then_some(self.0 >> 1)
    }

    /// Returns true if it stands for several. Lookups never answer with such a one.
    #[inline(always)]
    pub fn is_set(self) -> bool {
        self.0 & 1 != 0
    }
}

impl std::fmt::Debug for NextHop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.set(), self.0) {
            (_, 0) => f.write_str("none"),
            (Some(set), _) => write!(f, "set {set}"),
            (None, _) => write!(f, "{}", self.index()),
        }
    }
}

/// The sets as lookups see them: 256 buckets each, as VPP and Linux have them, so that the choice
/// is one load for any weights.
#[derive(Debug)]
pub(super) struct Sets(Words<AtomicU32>);

impl Sets {
    pub(super) fn new() -> io::Result<Sets> {
        Words::zeroed(SETS as usize * BUCKETS).map(Sets)
    }

    /// The member of the set that packets of this flow hash take.
    #[inline]
    pub(super) fn member(&self, set: NextHop, hash: u32) -> NextHop {
        // All bits of the hash take part, good or not (Knuth).
        let bucket = hash.wrapping_mul(0x9e37_79b9) >> 24;
        let place = (set.0 >> 1) as usize * BUCKETS + bucket as usize;
        NextHop(self.0.get(place).map_or(0, |member| member.load(Ordering::Relaxed)))
    }

    fn buckets(&self, set: u32) -> &[AtomicU32] {
        let start = set as usize * BUCKETS;
        &self.0[start..start + BUCKETS]
    }
}

/// Reference counts of the sets, by the routes that lead to each.
#[derive(Debug, Default)]
pub(super) struct SetUses {
    uses: Vec<Option<usize>>,
}

impl SetUses {
    /// Takes a number that is not in use.
    pub(super) fn take(&mut self) -> Option<NextHop> {
        let number = self.uses.iter().position(Option::is_none).unwrap_or(self.uses.len());
        if number == SETS as usize {
            return None;
        }
        self.uses.resize(self.uses.len().max(number + 1), None);
        self.uses[number] = Some(0);
        Some(NextHop::of_set(number as u32))
    }

    /// Routes that lead to a set; `None` where there is no such set.
    pub(super) fn uses(&self, set: NextHop) -> Option<usize> {
        *self.uses.get(set.set()? as usize)?
    }

    /// Returns true if routes may lead there.
    pub(super) fn knows(&self, hop: NextHop) -> bool {
        !hop.is_set() || self.uses(hop).is_some()
    }

    /// A route leads there, or no longer does.
    pub(super) fn count(&mut self, hop: NextHop, more: bool) {
        let Some(Some(uses)) = hop.set().and_then(|set| self.uses.get_mut(set as usize)) else {
            return;
        };
        *uses = if more { *uses + 1 } else { *uses - 1 };
    }

    /// No route leads to any set.
    pub(super) fn forget_routes(&mut self) {
        self.uses.iter_mut().flatten().for_each(|uses| *uses = 0);
    }

    pub(super) fn remove(&mut self, set: NextHop) {
        if let Some(set) = set.set() {
            self.uses[set as usize] = None;
        }
    }
}

impl Sets {
    /// Divides the buckets in proportion to the weights, to the nearest whole
    /// bucket. Buckets whose next hop keeps its share stay where they are, so
    /// that flows move only as far as the change asks for.
    pub(super) fn divide(&self, set: NextHop, members: &[(NextHop, u32)]) {
        let Some(number) = set.set() else { return };
        let total: u64 = members.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let (mut before, mut share) = (0, Vec::with_capacity(members.len()));
        for (hop, weight) in members {
            let bucket = |weight| ((weight * BUCKETS as u64 + total / 2) / total) as usize;
            let after = before + u64::from(*weight);
            share.push((*hop, bucket(after) - bucket(before)));
            before = after;
        }
        let mut stays = [false; BUCKETS];
        let buckets = self.buckets(number);
        for (bucket, stays) in buckets.iter().zip(&mut stays) {
            let hop = NextHop(bucket.load(Ordering::Relaxed));
            if let Some((_, left)) = share.iter_mut().find(|(of, left)| *of == hop && *left > 0) {
                *left -= 1;
                *stays = true;
            }
        }
        let mut rest = share.iter().flat_map(|(hop, left)| std::iter::repeat_n(*hop, *left));
        for (bucket, _) in buckets.iter().zip(stays).filter(|(_, stays)| !stays) {
            let Some(hop) = rest.next() else { break };
            bucket.store(hop.0, Ordering::Relaxed);
        }
        // Pairs with the fence in `Fib::burst`; the set's number is stored after
        // it.
        fence(Ordering::Release);
    }
}
