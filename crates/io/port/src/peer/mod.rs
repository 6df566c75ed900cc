//! Parts common to all code whose peer is another process, ports and others: UNIX sockets, event
//! descriptors, and waiting for them.

pub mod address;
pub(crate) mod admission;
pub mod event;
pub(crate) mod interrupt;
pub(crate) mod limit;
pub mod listen;
pub(crate) mod options;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use linerate_memory::ForeignError;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::{error::OpenError, kernel::OpenErrors};

/// Time a peer may take for its next message of a negotiation.
pub(crate) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit of a whole negotiation.
pub(crate) const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Most sessions of a port with one peer at a time: the current one, and ended ones whose descriptors are
/// still being closed.
pub(crate) const SESSIONS: usize = 8;
/// Most refused connections whose descriptors are still being closed.
pub(crate) const REFUSALS: usize = 64;
/// Interval of checks of connected peers, for files cut short.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Waits until one of these can be read, or until a time; returns which can.
///
/// # Errors
///
/// When polling fails.
pub fn wait<'a>(
    fds: impl Iterator<Item = BorrowedFd<'a>>,
    until: Instant,
) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> =
        fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let left = until.saturating_duration_since(Instant::now());
    let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    match rustix::event::poll(&mut polled, Some(&limit)) {
        Ok(_) => Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(rustix::io::Errno::INTR) => Ok(vec![false; polled.len()]),
        Err(errno) => Err(errno.into()),
    }
}

/// The descriptors of these, to be waited for.
pub(crate) fn all<'a>(fds: &'a [&'a OwnedFd]) -> impl Iterator<Item = BorrowedFd<'a>> {
    fds.iter().map(|fd| fd.as_fd())
}

/// The error of a port without enough address space for its peer.
pub(crate) fn no_space(errors: &OpenErrors, error: &ForeignError) -> OpenError {
    errors.unsupported(format!("{error}; give ports less by the option `memory`"))
}
