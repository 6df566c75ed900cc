//! Counts of workers: requests for them, and answers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::lock;

/// Requests for a worker's counts, and its answers.
#[derive(Debug, Default)]
pub struct WorkerState {
    wanted: AtomicU64,
    /// The request the worker saw last.
    seen: AtomicU64,
    done: AtomicU64,
    working: AtomicBool,
}

impl WorkerState {
    /// Returns true if the worker's counts are requested: two loads. The worker then takes the
    /// newest tables ([`Switch::refresh`](super::Switch::refresh)), adds its counts to the counters
    /// and calls [`done`](Self::done).
    #[must_use]
    pub fn is_due(&self) -> bool {
        let wanted = self.wanted.load(Ordering::Acquire);
        let due = wanted != self.done.load(Ordering::Relaxed);
        if due {
            self.seen.store(wanted, Ordering::Relaxed);
        }
        due
    }

    /// Answers the request that was seen last.
    pub fn done(&self) {
        self.done.store(self.seen.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Sets whether the worker works: an idle one is not waited for. It is set before the worker
    /// has packets, as the count of one may be requested at once, and cleared when the worker has
    /// added its counts.
    pub fn set_working(&self, working: bool) {
        self.working.store(working, Ordering::Release);
    }

    fn is_waited_for(&self, wanted: u64) -> bool {
        self.done.load(Ordering::Acquire) < wanted && self.working.load(Ordering::Acquire)
    }
}

/// Time to wait for a worker at work. One that runs answers with its next packets; one that has to
/// share its processor is not run for some time slices.
const PATIENCE: Duration = Duration::from_secs(1);

/// All workers.
#[derive(Debug, Default)]
pub(super) struct Workers {
    all: Mutex<Vec<Weak<WorkerState>>>,
    wanted: AtomicU64,
}

impl Workers {
    pub(super) fn add(&self) -> Arc<WorkerState> {
        let worker = Arc::new(WorkerState::default());
        let mut all = lock(&self.all);
        all.retain(|worker| worker.strong_count() > 0);
        all.push(Arc::downgrade(&worker));
        worker
    }

    /// Requests the counts of all workers. Returns the number for [`have_done`](Self::have_done).
    pub(super) fn want(&self) -> u64 {
        let wanted = self.wanted.fetch_add(1, Ordering::AcqRel) + 1;
        for worker in self.all() {
            worker.wanted.fetch_max(wanted, Ordering::AcqRel);
        }
        wanted
    }

    /// Returns true if all workers at work have added their counts.
    pub(super) fn have_done(&self, wanted: u64) -> bool {
        !self.all().iter().any(|worker| worker.is_waited_for(wanted))
    }

    /// Requests the counts of all workers, and waits for those that are at work.
    pub(super) fn flush(&self) {
        let wanted = self.want();
        let start = Instant::now();
        while !self.have_done(wanted) && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    fn all(&self) -> Vec<Arc<WorkerState>> {
        lock(&self.all).iter().filter_map(Weak::upgrade).collect()
    }
}
