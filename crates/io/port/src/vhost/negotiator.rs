//! The thread of a port: it finds a peer, or lets one in, and speaks with it as long as it is there.
//!
//! A socket is one interface, so there is one connection at a time; a peer that comes meanwhile
//! waits in the kernel until the one before has gone.

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

use linerate_linux::close::Closer;
use rustix::{
    io::Errno,
    net::{SocketFlags, SocketType},
};

use super::{
    device::{DeviceSession, DeviceSettings},
    driver::{DriverSession, DriverSettings},
    message::Message,
    queue_slot::QueueSlots,
    transport::{Incoming, Received},
};
use crate::{
    link::Link,
    peer::{
        MESSAGE_TIMEOUT, REFUSALS, SESSIONS,
        address::Address,
        event,
        limit::{Limit, Permit},
        listen, wait,
    },
};

/// Between two attempts to connect, the first time and at most.
const RETRY: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
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
    /// Handles a message, and takes the descriptors that belong to it.
    fn receive(&mut self, message: &mut Message) -> Result<(), End>;

    /// Looks after the connection, although nothing came.
    fn look(&mut self) -> Result<(), End>;

    /// Time until the next look, at the latest.
    fn next_look(&self) -> Duration;
}

/// Role of the port towards its peer.
#[derive(Debug)]
pub(super) enum Role {
    Device(DeviceSettings),
    Driver(DriverSettings),
}

/// Side of the socket.
#[derive(Debug)]
pub(super) enum Side {
    Listen(Arc<listen::Socket>),
    Connect(Address),
}

/// Handle common to a port's queues: dropped with the last of them, it closes the port.
#[derive(Debug)]
pub(super) struct PortHandle {
    pub(super) places: Arc<QueueSlots>,
    socket: Option<Arc<listen::Socket>>,
    stop: Arc<AtomicBool>,
    link: Arc<Link>,
    thread: Option<JoinHandle<()>>,
}

impl PortHandle {
    pub(super) fn start(
        side: Side,
        role: Role,
        places: QueueSlots,
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
            limit: Limit::new(SESSIONS),
            refusals: Limit::new(REFUSALS),
            closer: Closer::new(2 * SESSIONS),
            refused: Closer::new(REFUSALS),
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
    places: Arc<QueueSlots>,
    link: Arc<Link>,
    stop: Arc<AtomicBool>,
    /// Sessions whose descriptors are not closed.
    limit: Arc<Limit>,
    /// Refused connections whose descriptors are not closed.
    refusals: Arc<Limit>,
    /// Closes the descriptors that sessions leave, each a socket and queues of the device.
    closer: Closer,
    refused: Closer,
}

impl Negotiator {
    fn run(&self) {
        let mut pause = RETRY[0];
        while !self.stopped() {
            match self.find() {
                Ok(Some((socket, permit))) => {
                    let before = self.link.changes();
                    let End(reason) = self.serve(Arc::new(socket), Arc::new(permit));
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
            // The event that said so may have been cleared.
            if self.stopped() {
                return;
            }
            let _ = wait(crate::peer::all(&[&self.places.control]), Instant::now() + pause);
            event::clear(&self.places.control);
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Finds a peer; `None` when there is none yet.
    fn find(&self) -> Result<Option<(OwnedFd, Permit)>, String> {
        let Some(permit) = self.limit.take() else {
            self.closer.resume();
            return Err("descriptors of former peers are still being closed".into());
        };
        match &self.side {
            Side::Listen(listener) => {
                let fds = [&self.places.control, listener.fd()];
                let until = Instant::now() + Duration::from_secs(3600);
                wait(crate::peer::all(&fds), until).map_err(|error| error.to_string())?;
                event::clear(&self.places.control);
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                match rustix::net::accept_with(listener.fd(), flags) {
                    Ok(socket) if listener.admits(&socket) => {
                        listener.admit_descriptors(&socket);
                        Ok(Some((socket, permit)))
                    }
                    Ok(_) if listener.refuses_descriptors() => Ok(None),
                    Ok(socket) => match self.refusals.take() {
                        Some(refusal) => {
                            self.refused.close((socket, refusal));
                            Ok(None)
                        }
                        None => {
                            self.refused.resume();
                            Err("descriptors of users that were refused are being closed".into())
                        }
                    },
                    Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
                    Err(errno) => Err(format!("connections cannot be accepted: {errno}")),
                }
            }
            Side::Connect(address) => {
                let connected = connect(address);
                let connected = connected.map(|socket| Some((socket, permit)));
                connected.map_err(|error| format!("no device listens at {address}: {error}"))
            }
        }
    }

    /// Speaks with a peer until it goes.
    fn serve(&self, socket: Arc<OwnedFd>, permit: Arc<Permit>) -> End {
        let mut incoming = Incoming::new();
        let end = match self.begin(&socket, &permit) {
            Ok(mut session) => self.speak(&socket, &mut *session, &mut incoming),
            Err(end) => end,
        };
        self.closer.close((socket, incoming, permit));
        end
    }

    fn begin(
        &self,
        socket: &Arc<OwnedFd>,
        permit: &Arc<Permit>,
    ) -> Result<Box<dyn Session + '_>, End> {
        let (places, link) = (&self.places, &self.link);
        Ok(match &self.role {
            Role::Device(settings) => {
                Box::new(DeviceSession::begin(socket, permit, places, link, settings))
            }
            Role::Driver(settings) => Box::new(DriverSession::begin(
                socket,
                permit,
                places,
                link,
                settings,
                &self.closer,
            )?),
        })
    }

    /// Handles the peer's messages until the connection ends.
    fn speak(&self, socket: &OwnedFd, session: &mut dyn Session, incoming: &mut Incoming) -> End {
        let mut partial: Option<Instant> = None;
        loop {
            let until = Instant::now() + session.next_look();
            let fds = [&*self.places.control, socket];
            let ready = wait(crate::peer::all(&fds), until).unwrap_or_else(|_| {
                // For want of memory: later, then.
                thread::sleep(RETRY[0]);
                vec![false; fds.len()]
            });
            event::clear(&self.places.control);
            if self.stopped() {
                return "the port was closed".into();
            }
            let turn = if ready[1] { self.turn(socket, session, incoming) } else { Ok(()) };
            if !incoming.is_partial() {
                partial = None;
            } else if partial.get_or_insert_with(Instant::now).elapsed() > MESSAGE_TIMEOUT {
                return "the peer was refused: a message without end".into();
            }
            let fault = || match self.places.fault() {
                Some(fault) => Err(End::from(format!("the peer was refused: {}", fault.text()))),
                None => Ok(()),
            };
            if let Err(end) = turn.and_then(|()| fault()).and_then(|()| session.look()) {
                return end;
            }
        }
    }

    fn turn(
        &self,
        socket: &OwnedFd,
        session: &mut dyn Session,
        incoming: &mut Incoming,
    ) -> Result<(), End> {
        match incoming.receive(socket) {
            Received::Nothing => Ok(()),
            Received::Message(mut message) => {
                let done = session.receive(&mut message);
                let surplus = !message.descriptors.is_empty();
                let done = match done {
                    Ok(()) if surplus => Err("a descriptor that the message does not have".into()),
                    done => done,
                };
                incoming.keep(&mut message.descriptors);
                done.map_err(|End(reason)| End(format!("the peer was refused: {reason}")))
            }
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
