//! When a run ends.

use std::sync::{
    Arc,
    atomic::{AtomicI32, Ordering},
};

/// The run count of a router, as Click has it: the router runs while it is
/// above zero. An element that wants the run to end takes one away; an element
/// that manages the run (`DriverManager`) is then asked what to do and may add
/// some.
#[derive(Debug, Clone)]
pub struct Driver {
    count: Arc<AtomicI32>,
}

impl Default for Driver {
    fn default() -> Driver {
        Driver { count: Arc::new(AtomicI32::new(1)) }
    }
}

impl Driver {
    /// Asks for the end of the run.
    pub fn stop(&self) {
        self.adjust(-1);
    }

    /// Ends the run whatever its count is.
    pub fn abort(&self) {
        self.count.store(i32::MIN / 2, Ordering::Release);
    }

    /// Adds to the run count.
    pub fn adjust(&self, by: i32) {
        let add = |count: i32| Some(count.saturating_add(by));
        let _ = self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    }

    /// Sets the run count.
    pub fn set(&self, count: i32) {
        self.count.store(count, Ordering::Release);
    }

    /// The run count.
    #[inline]
    pub fn count(&self) -> i32 {
        self.count.load(Ordering::Relaxed)
    }
}
