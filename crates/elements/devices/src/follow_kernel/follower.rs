//! The thread that listens to the kernel's routing notices (rtnetlink).

use std::{
    io,
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use linerate_linux::interface::{Prefix, RoutingEvent, RoutingMonitor, Target};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    io::{read, write},
};

/// Most notices in the channel to the element; further ones wait in the kernel's socket.
const CHANNEL_LIMIT: usize = 4096;
/// Interval of looking whether a full channel has room again.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// A notice of the kernel.
#[derive(Debug)]
pub(super) enum Notice {
    /// The new route of a prefix.
    Route(Prefix, RouteTarget),
    /// The Ethernet address of a neighbour behind an interface, if it is known.
    Neighbour { device: Device, address: IpAddr, mac: Option<[u8; 6]> },
    /// The initial dump of routes and neighbours is complete.
    DumpComplete,
    /// There will be no more notices, for this reason.
    Failed(String),
}

/// A gateway, its interface and its share of the flows.
pub(super) type Hop = (Option<IpAddr>, Device, u16);

/// Target of a route.
#[derive(Debug)]
pub(super) enum RouteTarget {
    /// One of these next hops.
    Through(Vec<Hop>),
    /// Packets are refused: an unreachable, prohibit or blackhole route.
    Refused,
    /// There is no route.
    None,
}

/// An interface: its number and, while it is there, its name.
pub(super) type Device = (u32, Option<String>);

/// Listens to the kernel on a thread of its own, since a large table takes long to
/// read.
pub(super) struct Follower {
    channel: Arc<Channel>,
    thread: Option<JoinHandle<()>>,
}

struct Channel {
    notices: Mutex<Vec<Notice>>,
    stop: AtomicBool,
    /// An eventfd, written to when there are notices.
    bell: OwnedFd,
    /// Another, written to when the thread is to end.
    end: OwnedFd,
}

impl Channel {
    fn notices(&self) -> MutexGuard<'_, Vec<Notice>> {
        self.notices.lock().expect("no panic while held")
    }

    fn post(&self, notice: Notice) {
        self.notices().push(notice);
        // It can only fail when the eventfd is at its maximum, and so readable.
        let _ = write(&self.bell, &1u64.to_ne_bytes());
    }
}

impl Follower {
    /// Follows a routing table in the network namespace of the calling thread.
    pub(super) fn start(table: u32) -> Result<Follower, String> {
        let mut monitor = RoutingMonitor::open(table).map_err(|error| error.to_string())?;
        let bell = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let channel = || -> io::Result<Channel> {
            let (notices, stop) = (Mutex::default(), AtomicBool::new(false));
            Ok(Channel { notices, stop, bell: bell()?, end: bell()? })
        };
        let channel = Arc::new(channel().map_err(|error| format!("eventfd: {error}"))?);
        let shared = Arc::clone(&channel);
        let thread = thread::Builder::new()
            .name("routes".into())
            .spawn(move || {
                if let Err(reason) = listen(&mut monitor, &shared) {
                    shared.post(Notice::Failed(reason));
                }
            })
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Follower { channel, thread: Some(thread) })
    }

    /// Returns the eventfd that is readable while there are notices.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.channel.bell.as_fd()
    }

    /// Takes the oldest notices, at most `count`. Returns true if there are more.
    pub(super) fn take(&self, count: usize, into: &mut Vec<Notice>) -> bool {
        let mut notices = self.channel.notices();
        let count = count.min(notices.len());
        into.extend(notices.drain(..count));
        if notices.is_empty() {
            let _ = read(&self.channel.bell, &mut [0; 8]);
        }
        !notices.is_empty()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.channel.stop.store(true, Ordering::Relaxed);
        let _ = write(&self.channel.end, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(monitor: &mut RoutingMonitor, channel: &Channel) -> Result<(), String> {
    let mut dumped = false;
    while !channel.stop.load(Ordering::Relaxed) {
        if channel.notices().len() >= CHANNEL_LIMIT {
            thread::sleep(FULL_PAUSE);
            continue;
        }
        match monitor.next_event().map_err(|error| error.to_string())? {
            Some(event) => channel.post(notice(event, monitor)),
            None => {
                if !std::mem::replace(&mut dumped, true) {
                    channel.post(Notice::DumpComplete);
                }
                wait(monitor, channel).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(())
}

fn notice(event: RoutingEvent, monitor: &RoutingMonitor) -> Notice {
    let device = |number| (number, monitor.device(number).map(str::to_owned));
    match event {
        RoutingEvent::Route { prefix, target } => {
            let target = match target {
                None => RouteTarget::None,
                Some(Target::Refused) => RouteTarget::Refused,
                Some(Target::Through(hops)) => {
                    let hop = |hop: &linerate_linux::interface::Hop| {
                        (hop.gateway, device(hop.device), hop.weight)
                    };
                    RouteTarget::Through(hops.iter().map(hop).collect())
                }
            };
            Notice::Route(prefix, target)
        }
        RoutingEvent::Neighbour { device: number, address, mac } => {
            Notice::Neighbour { device: device(number), address, mac }
        }
    }
}

/// Waits until the kernel has a notice, or the thread is to end.
fn wait(monitor: &RoutingMonitor, channel: &Channel) -> io::Result<()> {
    let mut both = [PollFd::new(monitor, PollFlags::IN), PollFd::new(&channel.end, PollFlags::IN)];
    match poll(&mut both, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
