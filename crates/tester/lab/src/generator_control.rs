//! Control of a running generator by another thread: its frames, its rate, and pauses.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use crate::{rate::Schedule, traffic::Frames};

/// A change; fields that are `None` stay as they are.
#[derive(Debug, Default)]
pub struct Change {
    /// The frames. Counts go on.
    pub frames: Option<Frames>,
    /// Their schedule, counted from the change on: frames due before and not sent are given up.
    pub schedule: Option<Schedule>,
    /// Whether anything is sent. After a pause a schedule that begins then is needed.
    pub sends: Option<bool>,
}

/// A handle to a generator, by which it is changed. Clones are handles to the same.
#[derive(Debug, Clone, Default)]
pub struct GeneratorControl {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Number of changes: the generator looks at nothing else.
    changes: AtomicU64,
    wanted: Mutex<Change>,
}

impl GeneratorControl {
    /// Changes the generator before its next burst.
    pub fn change(&self, change: Change) {
        let mut wanted = self.shared.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.frames = change.frames.or(wanted.frames.take());
        wanted.schedule = change.schedule.or(wanted.schedule.take());
        wanted.sends = change.sends.or(wanted.sends);
        drop(wanted);
        self.shared.changes.fetch_add(1, Ordering::Release);
    }

    /// Returns true if there was a change behind the one numbered `seen`.
    #[inline]
    pub(crate) fn has_changed(&self, seen: u64) -> bool {
        self.shared.changes.load(Ordering::Relaxed) != seen
    }

    /// The changes there have been behind those taken, and the number of the last.
    #[cold]
    pub(crate) fn take(&self) -> (u64, Change) {
        // One that comes in between is taken now and looked for once more.
        let number = self.shared.changes.load(Ordering::Acquire);
        let mut wanted = self.shared.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        (number, std::mem::take(&mut *wanted))
    }
}
