//! Stop flag for all threads of an agent.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::waker::Waker;

/// Stop flag, and the wakers to wake when it is set.
#[derive(Debug, Default)]
pub(super) struct StopFlag {
    set: AtomicBool,
    wakers: Mutex<Vec<Weak<Waker>>>,
}

impl StopFlag {
    /// Creates a waker for a thread that looks at [`StopFlag::is_set`] after each wait.
    pub(super) fn waker(&self) -> io::Result<Arc<Waker>> {
        let waker = Arc::new(Waker::new()?);
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.retain(|waker| waker.strong_count() > 0);
        wakers.push(Arc::downgrade(&waker));
        Ok(waker)
    }

    /// Stops all threads. A thread that asks for a waker later sees the flag at once.
    pub(super) fn set(&self) {
        self.set.store(true, Ordering::Release);
        let wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.iter().filter_map(Weak::upgrade).for_each(|waker| waker.wake());
    }

    /// Returns true if it is time to end.
    pub(super) fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }
}
