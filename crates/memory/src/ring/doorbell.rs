//! Telling whoever found a ring empty, or full, that it no longer is.
//!
//! Going to sleep is a race: the other side may change the ring between the
//! last look at it and the sleep. With a doorbell one of the two notices: the
//! sleeper arms it and *then* looks at the ring once more; the other side
//! changes the ring and *then* asks whether it is armed. The fences order each
//! side's write before its look, so both cannot miss each other (Dekker).

use crate::sync::{AtomicU32, Ordering, fence};

/// Whether one side of a ring sleeps, or is about to.
#[derive(Debug)]
pub struct Doorbell {
    armed: AtomicU32,
}

impl Default for Doorbell {
    fn default() -> Doorbell {
        Doorbell::new()
    }
}

impl Doorbell {
    /// A doorbell nobody waits for.
    pub fn new() -> Doorbell {
        Doorbell { armed: AtomicU32::new(0) }
    }

    /// The caller is about to sleep. It looks at the ring again after this,
    /// and sleeps only if there is still nothing for it.
    pub fn arm(&self) {
        self.armed.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The caller has changed the ring. `true` when the other side is to be
    /// woken; says so once per [`Doorbell::arm`]. A fence, some 20 cycles: call
    /// it once per burst.
    #[inline]
    pub fn is_armed(&self) -> bool {
        fence(Ordering::SeqCst);
        self.armed.load(Ordering::Relaxed) != 0 && self.disarm()
    }

    #[cold]
    fn disarm(&self) -> bool {
        self.armed.swap(0, Ordering::Relaxed) != 0
    }
}
