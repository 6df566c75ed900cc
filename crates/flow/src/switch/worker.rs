//! Workers that count by themselves.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a worker and the switch tell each other about counters.
#[derive(Debug, Default)]
pub struct WorkerState {
    wanted: AtomicU64,
    done: AtomicU64,
    working: AtomicBool,
}

impl WorkerState {
    /// Whether what the worker has counted by itself is wanted: two loads. It adds it to the counters
    /// and then says [`done`](Self::done).
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.wanted.load(Ordering::Acquire) != self.done.load(Ordering::Relaxed)
    }

    /// All that was counted up to now is in the counters.
    pub fn done(&self) {
        self.done.store(self.wanted.load(Ordering::Acquire), Ordering::Release);
    }

    /// The worker begins or ends to work: while it does not, nobody waits for it. Before it ends it has
    /// added what it had counted.
    pub fn set_working(&self, working: bool) {
        self.working.store(working, Ordering::Release);
    }
}
