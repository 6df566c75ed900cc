//! Driver: the run count, and the end of a run.

use std::sync::{
    Arc, Mutex, OnceLock, Weak,
    atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering},
};

/// The run count of a router, as Click has it: the router runs while it is
/// above zero. An element that wants the run to end takes one away; an element
/// that manages the run (`DriverManager`) is then asked what to do and may add
/// some. A graph that replaces another has a count of its own.
#[derive(Debug, Clone)]
pub struct Driver {
    run: Arc<Run>,
    common: Arc<Common>,
}

/// State of the run of one graph.
#[derive(Debug)]
struct Run {
    count: AtomicI32,
    /// Whether an element is asked before it ends.
    managed: AtomicBool,
    /// Whether that element has let it end.
    ended: AtomicBool,
}

/// The run count of a run that is over, also after additions.
const ABORTED: i32 = i32::MIN / 2;

/// One more than the largest number of a signal that elements can handle.
const SIGNALS: usize = 32;

/// State that all graphs of a router share.
#[derive(Debug, Default)]
struct Common {
    runs: Mutex<Runs>,
    /// A bit for each signal that elements handle.
    signals: AtomicU64,
    /// Signals elements have taken so far, by number.
    taken: [AtomicU32; SIGNALS],
    failure: OnceLock<String>,
}

/// The runs of the graph that runs and of those that are to replace it.
#[derive(Debug, Default)]
struct Runs {
    all: Vec<Weak<Run>>,
    aborted: bool,
}

impl Default for Driver {
    fn default() -> Driver {
        Driver::with(Arc::default())
    }
}

impl Driver {
    fn with(common: Arc<Common>) -> Driver {
        let mut runs = common.runs.lock().expect("no panic while held");
        let run = Arc::new(Run {
            count: AtomicI32::new(if runs.aborted { ABORTED } else { 1 }),
            managed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        runs.all.retain(|run| run.strong_count() > 0);
        runs.all.push(Arc::downgrade(&run));
        drop(runs);
        Driver { run, common }
    }

    /// The one of a graph that is to replace another.
    pub(crate) fn successor(&self) -> Driver {
        Driver::with(Arc::clone(&self.common))
    }

    /// Asks for the end of the run.
    pub fn stop(&self) {
        self.adjust(-1);
    }

    /// Ends the run at any run count, and that of every other graph of the router.
    pub fn abort(&self) {
        let mut runs = self.common.runs.lock().expect("no panic while held");
        runs.aborted = true;
        for run in runs.all.iter().filter_map(Weak::upgrade) {
            run.count.store(ABORTED, Ordering::Release);
        }
    }

    /// Returns true if the runs of all graphs of the router have been ended.
    pub(crate) fn is_aborted(&self) -> bool {
        self.common.runs.lock().expect("no panic while held").aborted
    }

    /// Ends this graph's run, because that of the one before it was over.
    pub(crate) fn abandon(&self) {
        self.set(ABORTED);
    }

    /// Ends the run because something without which it makes no sense has failed. `false` when
    /// something else has failed before: the first failure is the one reported by
    /// [`Driver::failure`]. Parts of one element on several workers fail for one reason.
    pub fn fail(&self, reason: &str) -> bool {
        let told = self.common.failure.get_or_init(|| reason.into());
        self.abort();
        told == reason
    }

    /// Returns the reason for which the run failed.
    pub fn failure(&self) -> Option<&str> {
        self.common.failure.get().map(String::as_str)
    }

    /// Adds to the run count.
    pub fn adjust(&self, by: i32) {
        let add = |count: i32| Some(count.saturating_add(by));
        let _ = self.run.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    }

    /// Sets the run count.
    pub fn set(&self, count: i32) {
        self.run.count.store(count, Ordering::Release);
    }

    /// The run count.
    #[inline]
    pub fn count(&self) -> i32 {
        self.run.count.load(Ordering::Relaxed)
    }

    pub(crate) fn manage(&self) {
        self.run.managed.store(true, Ordering::Release);
    }

    /// The element that manages the run has let it end.
    pub(crate) fn end(&self) {
        self.run.ended.store(true, Ordering::Release);
    }

    /// Returns true if a run whose count is used up is over, for a worker without the element that
    /// manages it.
    pub(crate) fn is_over(&self) -> bool {
        !self.run.managed.load(Ordering::Acquire) || self.run.ended.load(Ordering::Acquire)
    }

    /// From now on an element handles a signal, or no element does any more.
    pub fn handle_signal(&self, signal: i32, handled: bool) {
        let bit = 1u64.checked_shl(signal as u32).unwrap_or(0);
        if handled {
            self.common.signals.fetch_or(bit, Ordering::AcqRel);
        } else {
            self.common.signals.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// An element acts upon a signal that has come. Said before it says that it
    /// no longer handles it.
    pub fn take_signal(&self, signal: i32) {
        if let Some(taken) = self.taken(signal) {
            taken.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Counts the signals on which elements have acted: another receiver of the signal can tell
    /// that it was handled here.
    pub fn signals_taken(&self, signal: i32) -> u32 {
        self.taken(signal).map_or(0, |taken| taken.load(Ordering::Acquire))
    }

    fn taken(&self, signal: i32) -> Option<&AtomicU32> {
        self.common.taken.get(usize::try_from(signal).ok()?)
    }

    /// Returns true if an element handles a signal, so that it does not end the run.
    pub fn handles_signal(&self, signal: i32) -> bool {
        let bit = 1u64.checked_shl(signal as u32).unwrap_or(0);
        self.common.signals.load(Ordering::Acquire) & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once() {
        let driver = Driver::default();
        assert!(driver.fail("f: the interface has gone") && driver.count() < 0);
        // On another worker.
        assert!(driver.fail("f: the interface has gone"));
        assert!(!driver.fail("t: the interface has gone"));
        assert_eq!(driver.failure(), Some("f: the interface has gone"));
    }
}
