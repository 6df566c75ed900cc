//! Counting limits.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The number of permits in use, and the most allowed.
#[derive(Debug)]
pub(crate) struct Limit {
    used: AtomicUsize,
    most: usize,
}

/// A permit, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Limit>);

impl Limit {
    pub(crate) fn new(most: usize) -> Arc<Limit> {
        Arc::new(Limit { used: AtomicUsize::new(0), most })
    }

    /// Takes a permit; `None` when all are in use.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Permit> {
        let more = |used| (used < self.most).then_some(used + 1);
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Permit(Arc::clone(self)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_may_be_are_given_and_given_again() {
        let limit = Limit::new(2);
        let permits = [limit.take(), limit.take()];
        assert!(permits.iter().all(Option::is_some) && limit.take().is_none());
        drop(permits);
        assert!(limit.take().is_some());
    }
}
