//! Waking a receiver that sleeps, without a fence per burst.
//!
//! With [`NeedWakeup`](super::NeedWakeup) both sides issue a full fence, the sender one for every
//! burst, which would cost more than a small burst does. Here the fence is asymmetric: the
//! receiver, which is about to sleep anyway, issues the barrier for both (membarrier(2)), and the
//! sender only keeps the compiler from reordering and loads a flag.

use std::fmt;

use crate::sync::{AtomicU32, Ordering, heavy_fence, light_fence};

/// Event a receiver sleeps on: an eventfd(2), say.
pub trait Event {
    /// Wakes its sleeper, now or as soon as it sleeps.
    fn set(&self);

    /// Forgets that it was set.
    fn clear(&self);
}

/// A bell beside a ring: its receiver asks to be woken, its sender wakes it.
pub struct Bell<E> {
    /// Whether the receiver sleeps or is about to. Set by the receiver before its
    /// last check of the ring, loaded by the sender after it has added to it.
    /// Changed by atomic exchanges only, so that all changes have one order.
    sleeping: AtomicU32,
    event: E,
}

impl<E: Event> Bell<E> {
    /// A bell without a waiting receiver.
    pub fn new(event: E) -> Bell<E> {
        Bell { sleeping: AtomicU32::new(0), event }
    }

    /// The event the receiver sleeps on.
    pub fn event(&self) -> &E {
        &self.event
    }

    /// The receiver is about to sleep on the event. It checks the ring once more
    /// after this, and sleeps only if that is still empty. `false` when it cannot
    /// be woken on this kernel: it must poll the ring by itself.
    pub fn arm(&self) -> bool {
        // First: elements rung for until now are seen by the check that follows.
        self.event.clear();
        // Release: a sender that sees it and sets the event does so after it was cleared.
        self.sleeping.swap(1, Ordering::Release);
        heavy_fence()
    }

    /// The receiver is awake.
    #[inline]
    pub fn disarm(&self) {
        if self.sleeping.load(Ordering::Relaxed) != 0 {
            self.sleeping.swap(0, Ordering::Relaxed);
        }
    }

    /// The sender has added to the ring: wakes the receiver if it sleeps.
    #[inline]
    pub fn ring(&self) {
        light_fence();
        if self.sleeping.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // Acquire: pairs with the store in `arm`.
        if self.sleeping.swap(0, Ordering::AcqRel) != 0 {
            self.event.set();
        }
    }
}

impl<E> fmt::Debug for Bell<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").field("sleeping", &self.sleeping).finish_non_exhaustive()
    }
}
