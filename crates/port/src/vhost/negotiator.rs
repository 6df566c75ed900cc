//! The thread of a port: it finds a peer, or lets one in, and speaks with it as long as it is there.
//!
//! A socket is one interface, so there is one connection at a time; who comes meanwhile waits in the
//! kernel until the one before has gone.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    net::{SocketFlags, SocketType},
};

use super::{
    device::{DeviceSession, Offer},
    driver::{DriverSession, DriverSettings},
    message::Message,
    place::Places,
    transport::{Incoming, Received},
};
use crate::{
    link::Link,
    peer::{address::Address, event, limit::Limit, listen, wait},
};

/// Between two attempts to connect, the first time and at most.
const RETRY: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// Threads of former sessions that their peers may block.
const BLOCKABLE: usize = 8;
/// Connections the kernel keeps until they are accepted.
pub(super) const BACKLOG: i32 = 16;

/// Why a connection ends, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End(String);

impl From<String> for End {
    fn from(reason: String) -> End {
        End(reason)
    }
}

impl From<&str> for End {
    fn from(reason: &str) -> End {
        End(reason.into())
    }
}

/// A connection, in either role. Dropped, it has taken its queues away.
pub(super) trait Session {
    /// Does what a message says.
    fn receive(&mut self, message: Message) -> Result<(), End>;

    /// Looks after the connection, although nothing came.
    fn look(&mut self) -> Result<(), End>;

    /// How soon to look, at the latest.
    fn next_look(&self) -> Duration;

    fn socket(&self) -> &OwnedFd;
}

/// What the port is to its peer.
#[derive(Debug)]
pub(super) enum Role {
    Device(Offer),
    Driver(DriverSettings),
}

/// How a connection comes about.
#[derive(Debug)]
pub(super) enum Side {
    Listen(Arc<listen::Socket>),
    Connect(Address),
}

/// What a port's queues have in common: dropped with the last of them, it closes the port.
#[derive(Debug)]
pub(super) struct PortHandle {
    pub(super) places: Arc<Places>,
    socket: Option<Arc<listen::Socket>>,
    stop: Arc<AtomicBool>,
    link: Arc<Link>,
    thread: Option<JoinHandle<()>>,
}

impl PortHandle {
    pub(super) fn start(
        side: Side,
        role: Role,
        places: Places,
        link: &Arc<Link>,
    ) -> io::Result<PortHandle> {
        let places = Arc::new(places);
        let stop = Arc::new(AtomicBool::new(false));
        let socket = match &side {
            Side::Listen(socket) => Some(Arc::clone(socket)),
            Side::Connect(_) => None,
        };
        let negotiator = Negotiator {
            side,
            role,
            places: Arc::clone(&places),
            link: Arc::clone(link),
            stop: Arc::clone(&stop),
            blockable: Limit::new(BLOCKABLE),
        };
        let thread = thread::Builder::new().name("vhost".into()).spawn(move || negotiator.run())?;
        let link = Arc::clone(link);
        Ok(PortHandle { places, socket, stop, link, thread: Some(thread) })
    }
}

impl Drop for PortHandle {
    fn drop(&mut self) {
        self.link.close();
        if let Some(socket) = &self.socket {
            socket.unlink();
        }
        self.stop.store(true, Ordering::Relaxed);
        event::set(&self.places.control);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Negotiator {
    side: Side,
    role: Role,
    places: Arc<Places>,
    link: Arc<Link>,
    stop: Arc<AtomicBool>,
    /// Threads that peers can block.
    blockable: Arc<Limit>,
}

impl Negotiator {
    fn run(&self) {
        let mut pause = RETRY[0];
        while !self.stopped() {
            match self.find() {
                Ok(Some(socket)) => {
                    let before = self.link.changes();
                    let End(reason) = self.serve(socket);
                    self.link.set(false, reason);
                    let lived = self.link.changes() != before;
                    pause = if lived { RETRY[0] } else { (pause * 2).min(RETRY[1]) };
                    if let Side::Listen(_) = self.side {
                        continue;
                    }
                }
                Ok(None) => continue,
                Err(error) => {
                    self.link.set(false, error);
                    pause = (pause * 2).min(RETRY[1]);
                }
            }
            let _ = wait(crate::peer::all(&[&self.places.control]), Instant::now() + pause);
            event::clear(&self.places.control);
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Somebody to speak with; `None` when there was nobody yet.
    fn find(&self) -> Result<Option<OwnedFd>, String> {
        match &self.side {
            Side::Listen(listener) => {
                let fds = [&self.places.control, listener.fd()];
                let until = Instant::now() + Duration::from_secs(3600);
                wait(crate::peer::all(&fds), until).map_err(|error| error.to_string())?;
                event::clear(&self.places.control);
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                match rustix::net::accept_with(listener.fd(), flags) {
                    Ok(socket) => Ok(Some(socket)),
                    Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
                    Err(errno) => Err(format!("nobody can be let in: {errno}")),
                }
            }
            Side::Connect(address) => {
                let connected = connect(address);
                connected.map(Some).map_err(|error| format!("nobody listens at {address}: {error}"))
            }
        }
    }

    /// Speaks with a peer until it goes.
    fn serve(&self, socket: OwnedFd) -> End {
        let (places, link, permit) = (&self.places, &self.link, self.blockable.take());
        let mut session: Box<dyn Session> = match &self.role {
            Role::Device(offer) => {
                Box::new(DeviceSession::begin(socket, places, link, *offer, permit))
            }
            Role::Driver(settings) => {
                match DriverSession::begin(socket, places, link, settings, permit) {
                    Ok(session) => Box::new(session),
                    Err(end) => return end,
                }
            }
        };
        let mut incoming = Incoming::new();
        loop {
            let until = Instant::now() + session.next_look();
            let fds = [&self.places.control, session.socket()];
            let ready = wait(crate::peer::all(&fds), until).unwrap_or_else(|_| {
                // For want of memory: later, then.
                thread::sleep(RETRY[0]);
                vec![false; fds.len()]
            });
            event::clear(&self.places.control);
            if self.stopped() {
                return "the port was closed".into();
            }
            let turn = if ready[1] { self.turn(&mut *session, &mut incoming) } else { Ok(()) };
            let fault = || match self.places.fault() {
                Some(fault) => Err(End::from(format!("the peer was refused: {}", fault.text()))),
                None => Ok(()),
            };
            if let Err(end) = turn.and_then(|()| fault()).and_then(|()| session.look()) {
                return end;
            }
        }
    }

    fn turn(&self, session: &mut dyn Session, incoming: &mut Incoming) -> Result<(), End> {
        match incoming.receive(session.socket()) {
            Received::Nothing => Ok(()),
            Received::Message(message) => session
                .receive(message)
                .map_err(|End(reason)| End(format!("the peer was refused: {reason}"))),
            Received::Closed => Err("the peer has gone".into()),
            Received::Malformed(reason) => Err(format!("the peer was refused: {reason}").into()),
        }
    }
}

fn connect(address: &Address) -> io::Result<OwnedFd> {
    let socket = listen::open(SocketType::STREAM)?;
    loop {
        match rustix::net::connect(&socket, &address.socket()?) {
            Ok(()) => return Ok(socket),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
