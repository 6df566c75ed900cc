//! `pcap_breakloop`: from any thread, and from handlers of signals.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use linerate_port::peer::event;

/// A wish that a loop ends, which whoever sleeps in one notices, too.
pub(crate) struct Interrupt {
    wanted: AtomicBool,
    event: OwnedFd,
}

impl Interrupt {
    pub(crate) fn new() -> io::Result<Interrupt> {
        Ok(Interrupt { wanted: AtomicBool::new(false), event: event::new()? })
    }

    /// Wishes it. Async-signal-safe: a store and a write(2), and `errno` stays as it was.
    pub(crate) fn raise(&self) {
        // SAFETY: `errno` is this thread's.
        let before = unsafe { *libc::__errno_location() };
        // Before the event: who is woken by that sees it.
        self.wanted.store(true, Ordering::Release);
        event::set(&self.event);
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = before };
    }

    /// Whether it was wished since this was asked last.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        if !self.wanted.load(Ordering::Relaxed) {
            return false;
        }
        // In this order: what is wished in between is not lost, but woken for once too often.
        event::clear(&self.event);
        self.wanted.swap(false, Ordering::Acquire)
    }

    /// Readable once it is wished.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
