//! Wakes a worker for a controller's packet.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd(2): the worker sleeps on it.
#[derive(Debug)]
pub(crate) struct Wakeup(OwnedFd);

impl Wakeup {
    pub(crate) fn new() -> io::Result<Wakeup> {
        Ok(Wakeup(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// The worker wakes, now or the next time it would sleep.
    pub(crate) fn wake(&self) {
        // A counter that is full wakes just as well.
        let _full = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Forgets earlier wakeups.
    pub(crate) fn clear(&self) {
        let _empty = rustix::io::read(&self.0, &mut [0; 8]);
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
