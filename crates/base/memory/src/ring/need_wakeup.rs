//! Wake-up flag of a sleeper that found a ring empty, or full.
//!
//! Going to sleep is a race: the other side may change the ring between the
//! last check of it and the sleep (a lost wake-up). With this flag one of the
//! two notices: the sleeper arms it and *then* checks the ring once more; the
//! other side changes the ring and *then* reads the flag. The fences order each
//! side's store before its load, so both cannot miss each other (Dekker).
//! `AF_XDP` rings have the same flag under the same name.

use crate::sync::{AtomicU32, Ordering, fence};

/// Whether one side of a ring sleeps, or is about to.
#[derive(Debug)]
pub struct NeedWakeup {
    armed: AtomicU32,
}

impl Default for NeedWakeup {
    fn default() -> NeedWakeup {
        NeedWakeup::new()
    }
}

impl NeedWakeup {
    /// A flag without a sleeper.
    pub fn new() -> NeedWakeup {
        NeedWakeup { armed: AtomicU32::new(0) }
    }

    /// The caller is about to sleep. It checks the ring once more after this,
    /// and sleeps only if there is still nothing for it.
    pub fn arm(&self) {
        self.armed.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The caller has changed the ring. `true`, once per [`NeedWakeup::arm`], when
    /// the other side is to be woken. A fence, some 20 cycles: call it once per
    /// burst.
    #[inline]
    pub fn take(&self) -> bool {
        fence(Ordering::SeqCst);
        self.armed.load(Ordering::Relaxed) != 0 && self.disarm()
    }

    #[cold]
    fn disarm(&self) -> bool {
        self.armed.swap(0, Ordering::Relaxed) != 0
    }
}
