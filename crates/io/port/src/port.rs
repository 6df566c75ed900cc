//! Traits that every port implements.

use std::{
    fmt, io,
    os::fd::BorrowedFd,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use linerate_memory::{Arena, Frame, PoolCache};
use linerate_packet::MacAddr;
use rustix::event::{PollFd, PollFlags};
use smallvec::SmallVec;

use crate::{
    counters::Counters, devices::Devices, error::PortError, link::Link, shared_state::SharedState,
    uri::PortUri,
};

/// The receiving side of one queue of a port.
pub trait Receive: Send {
    /// Adds packets to `frame`, as many as are ready and fit, and returns how
    /// many; never waits. Buffers come from `pool`.
    ///
    /// # Errors
    ///
    /// When the port no longer works. Packets received before the failure are
    /// in the frame.
    fn receive(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError>;

    /// Counters of packets received and dropped so far.
    fn counters(&self) -> &Arc<Counters>;

    /// Event to wait for until packets may be ready. Asked right before sleeping: a port whose
    /// other end must be told to wake us does it here.
    fn wake(&mut self) -> Wake<'_>;

    /// Returns true if no packet will ever come again (the end of a file).
    fn ended(&self) -> bool {
        false
    }

    /// Brings the counters up to date with the kernel's own. A system call or so: call it about
    /// once a second.
    fn refresh(&mut self) {}

    /// Has the kernel leave out the packets that a program of classic BPF does not want, from now
    /// on and in the place of the one before; `None` is for all packets. Returns whether it does
    /// so, which costs a system call.
    ///
    /// It is a help, and not a decision: packets that came before are still received, and so are
    /// packets that the kernel has in another form than they are received in (with a VLAN tag taken
    /// out). Where a program could decide otherwise on that form (`packet:` may have merged
    /// packets, and unfinished checksums) it is not taken, and all packets are received. So the
    /// caller decides on all packets received all the same. Packets left out are counted nowhere.
    /// Ports of other drivers than `packet:`, and those that were opened with a filter of their
    /// own, take none.
    fn leave_out(&mut self, unwanted_by: Option<&[linerate_filter::Instruction]>) -> bool {
        let _ = unwanted_by;
        false
    }

    /// Gives buffers that wait for packets back, as far as the port can, when
    /// it is closed in order. The kernel gives up the others with the port.
    fn close(&mut self, pool: &mut PoolCache) {
        let _ = pool;
    }

    /// Sleeps until packets may be ready, at most for `timeout`. Returns
    /// whether they may be.
    ///
    /// # Errors
    ///
    /// When polling fails.
    fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        wait_any(&[self.wake()], timeout)
    }
}

/// The transmitting side of one queue of a port.
pub trait Transmit: Send {
    /// Takes packets from the front of `frame`, as many as the port has room for, and returns how
    /// many; never waits. Packets left in the frame were not sent: try again or drop them. Finished
    /// buffers go back to `pool`.
    ///
    /// # Errors
    ///
    /// When the port no longer works.
    fn transmit(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError>;

    /// Counters of packets sent and dropped so far.
    fn counters(&self) -> &Arc<Counters>;

    /// Pushes out packets that are still on the way, collects finished buffers, and returns the
    /// number of packets still on the way. Call it when there is nothing to transmit, and [`drain`]
    /// before closing.
    ///
    /// # Errors
    ///
    /// When the port no longer works.
    fn flush(&mut self, pool: &mut PoolCache) -> Result<usize, PortError> {
        let _ = pool;
        Ok(0)
    }

    /// As [`Receive::close`], for buffers that were not sent.
    fn close(&mut self, pool: &mut PoolCache) {
        let _ = pool;
    }

    /// Event to wait for until there may be room again.
    fn wake(&mut self) -> Wake<'_> {
        Wake::Now
    }

    /// As [`Receive::refresh`].
    fn refresh(&mut self) {}
}

/// When to look at a port again.
#[derive(Debug)]
pub enum Wake<'a> {
    /// At once: it is ready, or cannot tell.
    Now,
    /// When the file descriptor is readable (a receiver) or writable (a
    /// transmitter).
    Fd(BorrowedFd<'a>, Interest),
    /// At a time: the next packet is due then.
    At(Instant),
    /// Never: it has ended.
    Never,
}

/// Readiness of a file descriptor that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Something can be read.
    Read,
    /// Something can be written.
    Write,
}

/// Descriptors [`wait_any`] waits for without allocating.
const POLLED_INLINE: usize = 16;

/// Sleeps until one of `wakes` comes, at most for `timeout`. Returns whether
/// one came.
///
/// # Errors
///
/// When polling fails.
pub fn wait_any(wakes: &[Wake<'_>], timeout: Duration) -> io::Result<bool> {
    let mut timeout = timeout;
    let mut due = false;
    // In place, since this may be called for every packet.
    let mut polled: SmallVec<[PollFd<'_>; POLLED_INLINE]> = SmallVec::new();
    for wake in wakes {
        match wake {
            Wake::Now => return Ok(true),
            Wake::Fd(fd, interest) => {
                let flags = match interest {
                    Interest::Read => PollFlags::IN,
                    Interest::Write => PollFlags::OUT,
                };
                polled.push(PollFd::from_borrowed_fd(*fd, flags));
            }
            Wake::At(time) => {
                let left = time.saturating_duration_since(Instant::now());
                if left <= timeout {
                    timeout = left;
                    due = true;
                }
            }
            Wake::Never => {}
        }
    }
    let timespec = rustix::event::Timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    match rustix::event::poll(&mut polled, Some(&timespec)) {
        Ok(ready) => Ok(ready > 0 || due),
        // A signal: the caller looks at its flags.
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Time that packets on their way out are waited for when a port is closed.
pub const DRAIN_LIMIT: Duration = Duration::from_millis(500);
/// Interval of looks whether they are gone.
const DRAIN_RETRY: Duration = Duration::from_micros(50);

/// Sends the packets in `frame`, and waits until none is still on its way, or until `deadline`.
/// Packets in the frame then were not sent.
///
/// # Errors
///
/// When the port no longer works.
pub fn drain(
    transmit: &mut dyn Transmit,
    pool: &mut PoolCache,
    frame: &mut Frame,
    deadline: Instant,
) -> Result<(), PortError> {
    loop {
        if !frame.is_empty() {
            transmit.transmit(pool, frame)?;
        }
        let outstanding = transmit.flush(pool)?;
        if (frame.is_empty() && outstanding == 0) || Instant::now() >= deadline {
            return Ok(());
        }
        thread::sleep(DRAIN_RETRY);
    }
}

/// Directions of a port that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Packets are taken from it.
    Receive,
    /// Packets are given to it.
    Transmit,
    /// Both.
    Both,
}

impl Direction {
    /// Returns true if packets are taken from it.
    pub fn receives(self) -> bool {
        self != Direction::Transmit
    }

    /// Returns true if packets are given to it.
    pub fn transmits(self) -> bool {
        self != Direction::Receive
    }
}

/// Context that a driver needs to open a port.
#[derive(Debug, Clone)]
pub struct Context {
    /// The memory all ports share.
    pub arena: Arena,
    /// Queues wanted; the driver's own choice when `None`. A URI's `queues`
    /// option goes before it.
    pub queues: Option<usize>,
    /// Directions wanted.
    pub direction: Direction,
    /// Whether receivers are to note how packets were addressed on their link,
    /// where the kernel says.
    pub types: bool,
    /// Whether an interface may be taken from the host although its addresses
    /// or its default route are there.
    pub disconnect: bool,
    /// Filter of the packets that are received; all when `None`. Run in the kernel where the driver
    /// can have it so.
    pub filter: Option<Arc<linerate_filter::Filter>>,
    /// Ports by other names, for callers that open ports by them.
    pub devices: Devices,
    /// State that ports of this process share.
    pub shared: SharedState,
    /// The link for the port, for a caller that opens it again and again; one of its own when
    /// `None`.
    pub link: Option<Arc<Link>>,
}

impl Context {
    /// A context for ports in both directions on `arena`.
    pub fn new(arena: Arena) -> Context {
        Context {
            arena,
            queues: None,
            direction: Direction::Both,
            types: false,
            disconnect: false,
            filter: None,
            devices: Devices::default(),
            shared: SharedState::default(),
            link: None,
        }
    }

    /// A copy of the context with another direction.
    pub fn toward(&self, direction: Direction) -> Context {
        Context { direction, ..self.clone() }
    }

    /// The link of a port that is opened: down, with the event waited for as its reason.
    pub(crate) fn link_down(&self, waiting: String) -> Arc<Link> {
        let link = self.link.clone().unwrap_or_default();
        link.open(waiting);
        link
    }
}

/// An open port. Dropping its queues closes it.
pub struct Port {
    /// Description of the open port.
    pub info: PortInfo,
    /// One pair per queue.
    pub queues: Vec<Queue>,
}

/// Both sides of one queue; `None` for a direction that was not asked for or
/// that the port does not have.
pub struct Queue {
    /// The receiving side.
    pub receive: Option<Box<dyn Receive>>,
    /// The transmitting side.
    pub transmit: Option<Box<dyn Transmit>>,
}

/// Description of an open port.
#[derive(Debug, Clone)]
pub struct PortInfo {
    /// The name it was opened by.
    pub uri: PortUri,
    /// The kernel interface behind it.
    pub interface: Option<String>,
    /// Its Ethernet address.
    pub mac: Option<MacAddr>,
    /// Longest frame it can carry, in bytes, Ethernet header included, FCS
    /// not; `None` when only the buffers limit it.
    pub frame_limit: Option<usize>,
    /// Link speed in bit/s, when the port has one.
    pub speed: Option<u64>,
    /// Copies made of packets, in and out.
    pub copies: Copies,
    /// Whether it says of every packet when it was received
    /// ([`Meta::timestamp`](linerate_memory::Meta)).
    pub stamps: bool,
    /// Whether it says of every packet how that was addressed on its link
    /// ([`Meta::packet_type`](linerate_memory::Meta)).
    pub types: bool,
    /// The driver's mode in words: `native XDP, copy mode, need-wakeup`.
    pub mode: String,
    /// Whether its other end is there, where that comes and goes: a peer, or the kernel's word for
    /// an interface. `None` where the port is there as long as it is open.
    pub link: Option<Arc<Link>>,
}

/// Whether a port copies packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// No copies: hardware or the other end uses our buffers.
    None,
    /// The kernel copies into and out of our buffers; user space does not.
    Kernel,
    /// The driver copies once.
    Driver,
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("info", &self.info)
            .field("queues", &self.queues.len())
            .finish()
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("receive", &self.receive.is_some())
            .field("transmit", &self.transmit.is_some())
            .finish()
    }
}
