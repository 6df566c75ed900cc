//! Wakers for threads that wait for sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// An eventfd(2) that one thread waits for.
#[derive(Debug)]
pub(super) struct Waker(OwnedFd);

impl Waker {
    pub(super) fn new() -> io::Result<Waker> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Waker(eventfd(0, flags)?))
    }

    /// Ends the current wait, or else the next.
    pub(super) fn wake(&self) {
        // A counter that is full wakes just as well.
        let _full = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Forgets earlier wakes.
    pub(super) fn clear(&self) {
        let _empty = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// Events of a socket to wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) read: bool,
    pub(super) write: bool,
}

/// Waits until a socket is ready for the wanted events, the waker wakes, or the time is over.
///
/// A broken connection is ready for all wanted events; the next read or write returns its error.
pub(super) fn wait(
    waker: &Waker,
    socket: Option<(BorrowedFd<'_>, Ready)>,
    timeout: Option<Duration>,
) -> Ready {
    let mut wanted = PollFlags::empty();
    let mut polled = [PollFd::new(&waker.0, PollFlags::IN), PollFd::new(&waker.0, PollFlags::IN)];
    let mut count = 1;
    if let Some((socket, ready)) = socket {
        wanted.set(PollFlags::IN, ready.read);
        wanted.set(PollFlags::OUT, ready.write);
        polled[1] = PollFd::from_borrowed_fd(socket, wanted);
        count = 2;
    }
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: timeout.as_secs().min(1 << 30) as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let polled = &mut polled[..count];
    let found = match poll(polled, timeout.as_ref()) {
        Ok(_) => {
            if !polled[0].revents().is_empty() {
                waker.clear();
            }
            polled.get(1).map_or(PollFlags::empty(), PollFd::revents)
        }
        Err(Errno::INTR) => PollFlags::empty(),
        // Out of memory: all wanted events are tried.
        Err(_) => wanted,
    };
    let broken = found.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
    Ready {
        read: wanted.contains(PollFlags::IN) && (broken || found.contains(PollFlags::IN)),
        write: wanted.contains(PollFlags::OUT) && (broken || found.contains(PollFlags::OUT)),
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
