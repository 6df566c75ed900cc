//! Stop signal of workers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A flag that workers look at once per burst. Clones are the same flag.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
}

impl Stop {
    /// A flag that is not raised.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Tells all workers to stop after their current burst.
    pub fn raise(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether to stop.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// The flag itself, for a signal handler.
    pub fn as_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }
}
