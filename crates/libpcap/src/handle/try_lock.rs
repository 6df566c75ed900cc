//! A lock that a reading call takes, and others try to take.

use std::{
    cell::UnsafeCell,
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Something that one thread uses at a time.
///
/// A signal's handler, or code that has left another call by a longjmp(3) out of one, finds it
/// taken by its own thread. The former only tries; the latter gets it, for the call that had it
/// will not go on.
pub(crate) struct TryLock<T> {
    /// The thread that has it, as [`this_thread`] says; 0 for none.
    owner: AtomicUsize,
    inner: UnsafeCell<T>,
}

// SAFETY: the value inside is used by the owner of the lock alone.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    pub(crate) fn new(inner: T) -> TryLock<T> {
        TryLock { owner: AtomicUsize::new(0), inner: UnsafeCell::new(inner) }
    }

    /// Waits for it. Others have it for a system call or so.
    #[inline]
    pub(crate) fn take(&self) -> TryLockGuard<'_, T> {
        let me = this_thread();
        // Acquire: the writes of the owner before are seen; see `TryLockGuard::drop`.
        while let Err(owner) =
            self.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
        {
            if owner == me {
                break;
            }
            thread::yield_now();
        }
        TryLockGuard(self)
    }

    /// Takes it if it is free.
    pub(crate) fn try_take(&self) -> Option<TryLockGuard<'_, T>> {
        let taken =
            self.owner.compare_exchange(0, this_thread(), Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| TryLockGuard(self))
    }
}

/// The lock, until it is dropped.
pub(crate) struct TryLockGuard<'a, T>(&'a TryLock<T>);

impl<T> Deref for TryLockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.0.inner.get() }
    }
}

impl<T> DerefMut for TryLockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.inner.get() }
    }
}

impl<T> Drop for TryLockGuard<'_, T> {
    fn drop(&mut self) {
        // Release: see `TryLock::take`.
        self.0.owner.store(0, Ordering::Release);
    }
}

/// A number that no other thread has that runs.
fn this_thread() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_and_others_try() {
        let lock = TryLock::new(5);
        let mut first = lock.take();
        *first += 1;
        thread::scope(|scope| {
            scope.spawn(|| assert!(lock.try_take().is_none()));
        });
        assert!(lock.try_take().is_none(), "not by the same thread either");
        drop(first);
        assert_eq!(lock.try_take().map(|taken| *taken), Some(6));
    }

    /// As a longjmp(3) out of a handler does it.
    #[test]
    fn a_lock_left_by_its_own_thread_is_taken_over() {
        let lock = TryLock::new(());
        std::mem::forget(lock.take());
        drop(lock.take());
        assert!(lock.try_take().is_some());
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let lock = TryLock::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| *lock.take() += 1));
            }
        });
        assert_eq!(*lock.take(), 4000);
    }
}
