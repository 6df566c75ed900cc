//! `pcap_breakloop`: from any thread, and from handlers of signals.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use linerate_port::peer::event;

/// A wish that a loop ends, which also wakes a sleeping loop.
pub(crate) struct Interrupt {
    wanted: AtomicBool,
    /// Whether the event may be set.
    written: AtomicBool,
    event: OwnedFd,
}

impl Interrupt {
    pub(crate) fn new() -> io::Result<Interrupt> {
        let event = event::new()?;
        Ok(Interrupt { wanted: AtomicBool::new(false), written: AtomicBool::new(false), event })
    }

    /// Wishes it. Async-signal-safe: a store and a write(2), and `errno` stays as it was.
    pub(crate) fn raise(&self) {
        // SAFETY: `errno` is this thread's.
        let before = unsafe { *libc::__errno_location() };
        // Before the event: a thread that is woken by that sees it.
        self.wanted.store(true, Ordering::SeqCst);
        event::set(&self.event);
        // Behind it, so that an event is not set for good that comes when its wish has been taken.
        self.written.store(true, Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = before };
    }

    /// Returns true if a break was wished since the last call.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        if !self.is_wanted() {
            return false;
        }
        let wanted = self.wanted.swap(false, Ordering::SeqCst);
        self.settle();
        wanted
    }

    /// Returns true if a break is wished, and leaves it wished.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Clears an event whose wish has been taken. To be called before a sleep.
    pub(crate) fn settle(&self) {
        if !self.written.load(Ordering::SeqCst) {
            return;
        }
        self.written.store(false, Ordering::SeqCst);
        event::clear(&self.event);
        if self.wanted.load(Ordering::SeqCst) {
            // Wished meanwhile: the event cleared may have been this one's.
            event::set(&self.event);
            self.written.store(true, Ordering::SeqCst);
        }
    }

    /// Readable once it is wished.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use linerate_port::{Interest, Wake, wait_any};

    use super::*;

    fn is_set(interrupt: &Interrupt) -> bool {
        let wake = Wake::Fd(interrupt.event(), Interest::Read);
        wait_any(&[wake], Duration::ZERO).unwrap()
    }

    #[test]
    fn a_wish_is_taken_once_and_wakes_once() {
        let interrupt = Interrupt::new().unwrap();
        interrupt.raise();
        interrupt.raise();
        assert!(interrupt.is_wanted() && is_set(&interrupt));
        assert!(interrupt.take() && !interrupt.take());
        assert!(!is_set(&interrupt));
    }

    /// Another thread is between its wish and its event when the wish is taken.
    #[test]
    fn an_event_that_comes_behind_its_wish_does_not_stay() {
        let interrupt = Interrupt::new().unwrap();
        interrupt.wanted.store(true, Ordering::SeqCst);
        assert!(interrupt.take());
        event::set(&interrupt.event);
        interrupt.written.store(true, Ordering::SeqCst);
        assert!(!interrupt.take() && is_set(&interrupt));
        interrupt.settle();
        assert!(!is_set(&interrupt));
        interrupt.raise();
        interrupt.settle();
        assert!(is_set(&interrupt) && interrupt.take(), "a wish outlives it");
    }
}
