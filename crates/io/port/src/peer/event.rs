//! Event descriptors: ours, and those of peers.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use rustix::{
    event::{EventfdFlags, epoll},
    io::ReadWriteFlags,
};

/// Makes an event of ours.
///
/// # Errors
///
/// When there are too many open files.
pub fn new() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Sets it. Full is as good as set.
pub fn set(fd: &OwnedFd) {
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

/// Clears an event, and never waits, also if its owner has made it a waiting one.
pub fn clear(fd: &OwnedFd) {
    let mut count = [0; 8];
    let mut to = [io::IoSliceMut::new(&mut count)];
    let _ = rustix::io::preadv2(fd, &mut to, u64::MAX, ReadWriteFlags::NOWAIT);
}

/// Returns true if a peer's descriptor is an eventfd, as it should be. Any other may wait when it
/// is written to, or be ready without end.
pub(crate) fn is_one(fd: &OwnedFd) -> bool {
    let link = rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new());
    link.is_ok_and(|link| link.as_bytes() == b"anon_inode:[eventfd]")
}

/// Several events as one descriptor that is readable once one of them was set.
///
/// They are noticed when they are set, not while they are, so they need not be read: a peer's could
/// be one whose reading waits.
#[derive(Debug)]
pub struct EventSet(OwnedFd);

impl EventSet {
    /// Of these.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn new(events: &[&OwnedFd]) -> io::Result<EventSet> {
        let gathered = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let gathered = EventSet(gathered);
        events.iter().try_for_each(|event| gathered.add(event))?;
        Ok(gathered)
    }

    /// Adds an event. Set already, it is noticed at once.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn add(&self, event: impl AsFd) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.0, event, epoll::EventData::new_u64(0), flags)?)
    }

    /// Removes an event. Closing it would not do where another process has it open, too.
    pub fn remove(&self, event: impl AsFd) {
        let _ = epoll::delete(&self.0, event);
    }

    /// Forgets the events set so far. A waiter looks behind this whether there is something.
    pub fn forget(&self) {
        let mut events = [const { std::mem::MaybeUninit::uninit() }; 4];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = epoll::wait(&self.0, &mut events, Some(&now));
    }
}

impl AsFd for EventSet {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags};

    use super::*;

    fn is_ready(gathered: &EventSet) -> bool {
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(gathered, PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&now)).unwrap() > 0
    }

    #[test]
    fn setting_is_noticed_each_time_and_nothing_is_read() {
        let (a, b) = (new().unwrap(), new().unwrap());
        let gathered = EventSet::new(&[&a, &b]).unwrap();
        assert!(!is_ready(&gathered));
        for _ in 0..3 {
            set(&a);
            assert!(is_ready(&gathered));
            gathered.forget();
            assert!(!is_ready(&gathered));
            set(&b);
            set(&a);
            assert!(is_ready(&gathered));
            gathered.forget();
            assert!(!is_ready(&gathered));
        }
    }

    #[test]
    fn eventfds_are_told_from_others_and_cleared_without_waiting() {
        let blocking = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        assert!(is_one(&blocking) && is_one(&new().unwrap()));
        assert!(!is_one(&rustix::pipe::pipe().unwrap().1));
        assert!(!is_one(&epoll::create(epoll::CreateFlags::CLOEXEC).unwrap()));
        // With nothing in it, this would wait for ever.
        clear(&blocking);
        set(&blocking);
        clear(&blocking);
        clear(&blocking);
    }
}
