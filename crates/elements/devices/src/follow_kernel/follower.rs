//! The thread that listens to the kernel.

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

use linerate_host::interface::{Prefix, RoutingEvent, RoutingMonitor, Target};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    io::{read, write},
};

/// Events waiting to be acted upon, beyond which the kernel's notices wait.
const LIMIT: usize = 4096;
/// How long it waits for those before it looks again.
const PAUSE: Duration = Duration::from_millis(1);

/// Something to act upon.
#[derive(Debug)]
pub(super) enum Told {
    /// Where packets for a prefix go now: by these gateways and interfaces, or
    /// nowhere.
    Route(Prefix, Way),
    /// The Ethernet address of a neighbour behind an interface, if it is known.
    Neighbour { device: Device, address: IpAddr, mac: Option<[u8; 6]> },
    /// All there was at the start has been told.
    Whole,
    /// Nothing more will be told, for this reason.
    Failed(String),
}

/// A gateway, its interface and its share of the flows.
pub(super) type Hop = (Option<IpAddr>, Device, u16);

/// Where packets go.
#[derive(Debug)]
pub(super) enum Way {
    /// By one of these.
    Through(Vec<Hop>),
    /// They are refused.
    Refused,
    /// There is no route.
    None,
}

/// An interface: its number and, while it is there, its name.
pub(super) type Device = (u32, Option<String>);

/// Listens to the kernel on a thread of its own, which may take long to read a
/// large table.
pub(super) struct Follower {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    told: Mutex<Vec<Told>>,
    over: AtomicBool,
    /// Rings when something is told.
    bell: OwnedFd,
    /// Rings when the thread is to end.
    end: OwnedFd,
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Vec<Told>> {
        self.told.lock().expect("no panic while held")
    }

    fn tell(&self, told: Told) {
        self.told().push(told);
        // Full is as good as rung.
        let _ = write(&self.bell, &1u64.to_ne_bytes());
    }
}

impl Follower {
    /// Follows a table in the network namespace of the calling thread.
    pub(super) fn start(table: u32) -> Result<Follower, String> {
        let mut monitor = RoutingMonitor::open(table).map_err(|error| error.to_string())?;
        let bell = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let shared = || -> io::Result<Shared> {
            let (told, over) = (Mutex::default(), AtomicBool::new(false));
            Ok(Shared { told, over, bell: bell()?, end: bell()? })
        };
        let shared = Arc::new(shared().map_err(|error| format!("eventfd: {error}"))?);
        let its = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("routes".into())
            .spawn(move || {
                if let Err(reason) = listen(&mut monitor, &its) {
                    its.tell(Told::Failed(reason));
                }
            })
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Follower { shared, thread: Some(thread) })
    }

    /// Readable when something is told.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    /// Takes the oldest that is told, at most `count`; whether there is more.
    pub(super) fn take(&self, count: usize, into: &mut Vec<Told>) -> bool {
        let mut told = self.shared.told();
        let count = count.min(told.len());
        into.extend(told.drain(..count));
        if told.is_empty() {
            let _ = read(&self.shared.bell, &mut [0; 8]);
        }
        !told.is_empty()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        let _ = write(&self.shared.end, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(monitor: &mut RoutingMonitor, shared: &Shared) -> Result<(), String> {
    let mut whole = false;
    while !shared.over.load(Ordering::Relaxed) {
        if shared.told().len() >= LIMIT {
            thread::sleep(PAUSE);
            continue;
        }
        match monitor.next_event().map_err(|error| error.to_string())? {
            Some(event) => shared.tell(told(event, monitor)),
            None => {
                if !std::mem::replace(&mut whole, true) {
                    shared.tell(Told::Whole);
                }
                wait(monitor, shared).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(())
}

fn told(event: RoutingEvent, monitor: &RoutingMonitor) -> Told {
    let device = |number| (number, monitor.device(number).map(str::to_owned));
    match event {
        RoutingEvent::Route { prefix, target } => {
            let way = match target {
                None => Way::None,
                Some(Target::Refused) => Way::Refused,
                Some(Target::Through(hops)) => {
                    let hop = |hop: &linerate_host::interface::Hop| {
                        (hop.gateway, device(hop.device), hop.weight)
                    };
                    Way::Through(hops.iter().map(hop).collect())
                }
            };
            Told::Route(prefix, way)
        }
        RoutingEvent::Neighbour { device: number, address, mac } => {
            Told::Neighbour { device: device(number), address, mac }
        }
    }
}

/// Until the kernel says something, or nobody wants to hear it any more.
fn wait(monitor: &RoutingMonitor, shared: &Shared) -> io::Result<()> {
    let mut both = [PollFd::new(monitor, PollFlags::IN), PollFd::new(&shared.end, PollFlags::IN)];
    match poll(&mut both, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
