//! Source and destination of packets: a port, or a place in a cluster.
//!
//! Everything a handle will need is acquired when it is opened. Programs give up their privileges
//! afterwards, fork, or change their root.

mod arena;
mod consumer;
mod failure;
mod port;

use std::{
    ffi::{c_int, c_ulong},
    io,
    os::fd::AsRawFd,
    sync::Arc,
    time::{Duration, Instant},
};

use linerate_filter::Instruction;
use linerate_memory::{Arena, Frame};
use linerate_port::{Counts, Interest, Wake};
use smallvec::SmallVec;

pub(crate) use self::{consumer::Consumer, failure::OpenFailure};
use crate::{inject::PacketSink, names::Target};

/// Settings of a program before it opens a handle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenOptions {
    /// Packets for other stations as well.
    pub(crate) promiscuous: bool,
    /// Bytes of packets that wait to be read; the port's own choice when 0.
    pub(crate) buffer_size: usize,
}

/// An opened target.
pub(crate) struct OpenedSource {
    pub(crate) source: Box<dyn Source>,
    /// Destination of packets; `None` where they cannot be sent.
    pub(crate) sink: Option<Box<dyn PacketSink>>,
    /// Memory of the packets.
    pub(crate) arena: Arena,
    /// Whether packets are IP without an Ethernet header.
    pub(crate) raw: bool,
    /// Whether packets say when they came.
    pub(crate) stamps: bool,
    /// Whether packets say that this host sent them.
    pub(crate) directions: bool,
    /// The driver's mode, in words.
    pub(crate) mode: String,
}

/// Source of received packets.
pub(crate) trait Source: Send {
    /// Gives back the packets in the frame and fills it anew with those there are, maybe none.
    /// Never waits.
    fn receive(&mut self, frame: &mut Frame) -> Result<usize, String>;

    /// Events to wait for until there may be packets. Asked right before.
    fn wakes(&mut self) -> Result<Wakes<'_>, String>;

    /// Returns true if no packet will ever come again.
    fn ended(&self) -> bool {
        false
    }

    /// Leaves out packets that a filter does not want, where that can be done before packets come
    /// here: packets that come are filtered all the same.
    fn leave_out(&mut self, unwanted_by: &[Instruction]) {
        let _ = unwanted_by;
    }

    /// Brings the kernel's own counts up to date. A system call or so.
    fn refresh(&mut self) {}

    /// Counts of packets received and dropped, readable at any time.
    fn tally(&self) -> Arc<dyn Tally>;

    /// Gives back the packets in the frame, and closes.
    fn close(&mut self, frame: &mut Frame);
}

/// Wake-ups, one for each queue.
pub(crate) type Wakes<'a> = SmallVec<[Wake<'a>; 8]>;

/// Counters that may be read at any time, by a signal's handler too.
pub(crate) trait Tally: Send + Sync {
    /// Reads the present counts.
    fn read(&self) -> Counts;
}

/// Opens a target.
///
/// # Errors
///
/// When it cannot be had.
pub(crate) fn open(target: &Target, wishes: OpenOptions) -> Result<OpenedSource, OpenFailure> {
    match target {
        Target::Port(uri) => port::open(uri, wishes),
        Target::Consumer { socket, name } => Consumer::open(socket, name),
    }
}

/// Descriptors and time of a sleep, of [`Wake`]s, without borrowing them.
pub(crate) struct Sleep {
    polled: SmallVec<[libc::pollfd; 9]>,
    due: Option<Instant>,
}

impl Sleep {
    pub(crate) fn until(wakes: &[Wake<'_>]) -> Sleep {
        let mut sleep = Sleep { polled: SmallVec::new(), due: None };
        for wake in wakes {
            let time = match wake {
                Wake::Now => Instant::now(),
                Wake::At(time) => *time,
                Wake::Never => continue,
                Wake::Fd(fd, interest) => {
                    let events = match interest {
                        Interest::Read => libc::POLLIN,
                        Interest::Write => libc::POLLOUT,
                    };
                    let polled = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
                    sleep.polled.push(polled);
                    continue;
                }
            };
            sleep.due = Some(sleep.due.map_or(time, |due| due.min(time)));
        }
        sleep
    }

    /// Sleeps until something may have come, at most so long, or until a signal comes. As libpcap's does,
    /// this ends a thread that is cancelled.
    ///
    /// # Safety
    ///
    /// The descriptors are still open.
    ///
    /// # Errors
    ///
    /// When polling fails.
    pub(crate) unsafe fn sleep(mut self, limit: Duration) -> io::Result<()> {
        // The C library's own, which may unwind; `libc` declares one that may not.
        unsafe extern "C-unwind" {
            fn ppoll(
                polled: *mut libc::pollfd,
                count: c_ulong,
                limit: *const libc::timespec,
                signals: *const libc::sigset_t,
            ) -> c_int;
        }
        let left = self.due.map(|due| due.saturating_duration_since(Instant::now()));
        let limit = left.map_or(limit, |left| left.min(limit));
        let limit = libc::timespec {
            tv_sec: limit.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: limit.subsec_nanos().into(),
        };
        let count = self.polled.len() as c_ulong;
        // SAFETY: there are so many, and of the rest the kernel only reads. The caller says that they are
        // this program's to poll.
        let status =
            unsafe { ppoll(self.polled.as_mut_ptr(), count, &raw const limit, std::ptr::null()) };
        match io::Error::last_os_error() {
            // A signal: the caller looks at its flags.
            error if status < 0 && error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}
