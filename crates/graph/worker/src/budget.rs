//! Packet budget shared by several paths.
//!
//! A share for each path would never be used up where packets come by some of the queues only. So a
//! path claims as many packets as a burst may need and settles for those that came. Packets another
//! path has claimed may come back: the end is when all packets have been moved, not when none can
//! be claimed.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Packets that may still be moved. Clones are of the same number.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    /// Not claimed.
    free: AtomicU64,
    /// Not moved, claimed or not.
    left: AtomicU64,
}

impl Budget {
    /// A budget of so many packets.
    pub fn new(packets: u64) -> Budget {
        Budget(Arc::new(Counts { free: packets.into(), left: packets.into() }))
    }

    /// Claims packets, at most `most`; returns how many.
    pub(crate) fn claim(&self, most: u64) -> u64 {
        let less = |free: u64| Some(free - free.min(most));
        // Relaxed: nothing but the numbers is passed on.
        let before = self.0.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.map_or(0, |free| free.min(most))
    }

    /// Gives up a claim of which some packets were moved.
    pub(crate) fn settle(&self, claimed: u64, moved: u64) {
        self.0.left.fetch_sub(moved, Ordering::Relaxed);
        self.0.free.fetch_add(claimed - moved, Ordering::Relaxed);
    }

    /// Returns true when all packets have been moved.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.left.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_without_packets_can_be_made_again() {
        let budget = Budget::new(10);
        assert_eq!((budget.claim(8), budget.clone().claim(8), budget.claim(8)), (8, 2, 0));
        assert!(!budget.is_spent(), "nothing has been moved");
        budget.settle(8, 3);
        budget.settle(2, 2);
        assert_eq!(budget.claim(8), 5);
        budget.settle(5, 5);
        assert!(budget.is_spent());
        assert!(Budget::new(0).is_spent());
    }
}
