//! The descriptor that programs hand to select(2), poll(2) or epoll(7).
//!
//! It is an epoll descriptor over the descriptors that the port itself would be waited for by, and
//! over an event that is set where those say nothing: packets have been taken and not been read, or
//! the port cannot tell. Ports want to be asked right before a sleep; a program may sleep after any
//! call that reads. So they are asked at the end of each, but only once the program has asked for
//! the descriptor.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    time::{Duration, Instant},
};

use linerate_port::{Wake, peer::event};
use rustix::{
    event::{Timespec, epoll},
    time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags},
};

/// Readable while there is something to read, or a wish to break the loop.
pub(crate) struct Selectable {
    all: OwnedFd,
    ready: OwnedFd,
    is_ready: bool,
    timer: OwnedFd,
    /// Descriptors of the port that are in `all`, by queue.
    watched: Vec<Option<RawFd>>,
}

impl Selectable {
    pub(crate) fn new(interrupt: BorrowedFd<'_>) -> io::Result<Selectable> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let ready = event::new()?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let selectable = Selectable { all, ready, is_ready: false, timer, watched: Vec::new() };
        selectable.add(selectable.ready.as_fd())?;
        selectable.add(selectable.timer.as_fd())?;
        selectable.add(interrupt)?;
        Ok(selectable)
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.all.as_raw_fd()
    }

    fn add(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let data = epoll::EventData::new_u64(0);
        Ok(epoll::add(&self.all, fd, data, epoll::EventFlags::IN)?)
    }

    /// There is something to read.
    pub(crate) fn set(&mut self) {
        if !self.is_ready {
            event::set(&self.ready);
            self.is_ready = true;
        }
    }

    /// There is something when one of these comes.
    pub(crate) fn arm(&mut self, wakes: &[Wake<'_>]) {
        self.watched.resize(wakes.len(), None);
        let mut at_once = false;
        let mut due: Option<Instant> = None;
        for (queue, wake) in wakes.iter().enumerate() {
            if !matches!(wake, Wake::Fd(..)) {
                self.leave(queue);
            }
            match wake {
                Wake::Now | Wake::Never => at_once = true,
                Wake::At(time) => due = Some(due.map_or(*time, |due| due.min(*time))),
                // A descriptor that cannot be watched is one that always has something.
                Wake::Fd(fd, _) => at_once |= self.watch(queue, *fd).is_err(),
            }
        }
        if at_once {
            return self.set();
        }
        self.set_timer(due);
        if self.is_ready {
            event::clear(&self.ready);
            self.is_ready = false;
        }
    }

    /// Ports may have another descriptor at another time.
    fn watch(&mut self, queue: usize, fd: BorrowedFd<'_>) -> io::Result<()> {
        if self.watched[queue] == Some(fd.as_raw_fd()) {
            return Ok(());
        }
        self.leave(queue);
        self.add(fd).or_else(|error| match error.raw_os_error() {
            Some(libc::EEXIST) => Ok(()),
            _ => Err(error),
        })?;
        self.watched[queue] = Some(fd.as_raw_fd());
        Ok(())
    }

    /// Stops watching a descriptor of the port: that may be set all the same.
    fn leave(&mut self, queue: usize) {
        let Some(fd) = self.watched[queue].take() else { return };
        if self.watched.contains(&Some(fd)) {
            return;
        }
        // By its number: the port may have closed it, which the kernel says and does no harm.
        // SAFETY: of this call the kernel reads three numbers, and no event.
        unsafe {
            libc::epoll_ctl(self.fd(), libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut());
        }
    }

    fn set_timer(&self, due: Option<Instant>) {
        let left = due.map(|due| {
            // Zero would be never.
            due.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1))
        });
        let left = left.unwrap_or_default();
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let time = Itimerspec { it_interval: none, it_value: value };
        let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time);
    }
}
