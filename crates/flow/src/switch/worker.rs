//! Workers that count by themselves, and how their counts are had when they are asked for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::lock;

/// What a worker and the switch tell each other about counters.
#[derive(Debug, Default)]
pub struct WorkerState {
    wanted: AtomicU64,
    /// What was wanted when the worker last looked.
    seen: AtomicU64,
    done: AtomicU64,
    working: AtomicBool,
}

impl WorkerState {
    /// Whether what the worker has counted by itself is wanted: two loads. It then takes the newest tables
    /// ([`Switch::refresh`](super::Switch::refresh)), adds what it has to the counters and says
    /// [`done`](Self::done).
    #[must_use]
    pub fn is_due(&self) -> bool {
        let wanted = self.wanted.load(Ordering::Acquire);
        let due = wanted != self.done.load(Ordering::Relaxed);
        if due {
            self.seen.store(wanted, Ordering::Relaxed);
        }
        due
    }

    /// What was wanted when it was asked last is done.
    pub fn done(&self) {
        self.done.store(self.seen.load(Ordering::Relaxed), Ordering::Release);
    }

    /// The worker begins or ends to work: while it does not, nobody waits for it. It begins before it has
    /// packets, as who has one of them may ask for its count at once, and ends when it has added what it had
    /// counted.
    pub fn set_working(&self, working: bool) {
        self.working.store(working, Ordering::Release);
    }

    fn is_waited_for(&self, wanted: u64) -> bool {
        self.done.load(Ordering::Acquire) < wanted && self.working.load(Ordering::Acquire)
    }
}

/// How long it is waited for a worker at work. One that runs answers with its next packets; one that has to
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

    /// Has all add what they have counted. The number is what [`have_done`](Self::have_done) is asked with.
    pub(super) fn want(&self) -> u64 {
        let wanted = self.wanted.fetch_add(1, Ordering::AcqRel) + 1;
        for worker in self.all() {
            worker.wanted.fetch_max(wanted, Ordering::AcqRel);
        }
        wanted
    }

    /// Whether those that are at work have.
    pub(super) fn have_done(&self, wanted: u64) -> bool {
        !self.all().iter().any(|worker| worker.is_waited_for(wanted))
    }

    /// Has all add what they have counted, and waits for those that are at work.
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
