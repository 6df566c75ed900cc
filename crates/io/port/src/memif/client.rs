//! The connecting side: a thread that finds its server, gives it memory, and finds it again.
//!
//! Region 0 has all rings, first those to the server, then those to the client, and behind them a
//! buffer for each descriptor, in this order. It is made anew for each connection: writes of a
//! former peer to its memory do no harm then. With [zero-copy](super::zero_copy) it has the rings
//! alone, and region 1 is our arena.

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
use linerate_memory::{ForeignRegion, stride_for};
use rustix::io::Errno;

use super::{
    message::{AddRing, Hello, Init, Message, VERSION, field},
    negotiation::{End, Interface, peer_name, prepare},
    ring::{ALIGN, Buffers, Connection, DESCRIPTOR, HEADER, Lane, Ring, Role},
    transport::{self, Received},
    zero_copy::{self, Parked},
};
use crate::peer::{
    MESSAGE_TIMEOUT, NEGOTIATION_TIMEOUT, POLL_INTERVAL, SESSIONS,
    address::Address,
    event,
    interrupt::Interrupts,
    limit::{Limit, Permit},
    wait,
};

/// Between two attempts to connect, the first time and at most.
const RETRY: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// Time for a worker of a peer that has closed its end to finish its burst.
const GRACE: Duration = Duration::from_millis(10);
/// Alignment of the buffers.
const PAGE: usize = 4096;

/// The thread of a client, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Client {
    wake: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    pub(super) fn start(address: &Address, interface: Arc<Interface>) -> io::Result<Client> {
        let wake = Arc::new(event::new()?);
        let stop = Arc::new(AtomicBool::new(false));
        let mut thread = Negotiator {
            address: address.clone(),
            interface,
            wake: Arc::clone(&wake),
            stop: Arc::clone(&stop),
            limit: Limit::new(SESSIONS),
            closer: Closer::new(SESSIONS),
        };
        let thread =
            thread::Builder::new().name("memif-client".into()).spawn(move || thread.run())?;
        Ok(Client { wake, stop, thread: Some(thread) })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        event::set(&self.wake);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Negotiator {
    address: Address,
    interface: Arc<Interface>,
    wake: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
    /// Sessions whose descriptors are not closed.
    limit: Arc<Limit>,
    closer: Closer,
}

impl Negotiator {
    fn run(&mut self) {
        let mut pause = RETRY[0];
        while !self.stop.load(Ordering::Relaxed) {
            let changes = self.interface.link.changes();
            let reason = match self.connect() {
                Ok((socket, permit)) => {
                    let mut session = Session::begin(socket, permit, self);
                    let end = session.run(self);
                    session.end(&end, &self.interface, &self.closer);
                    end.reason()
                }
                Err(error) => format!("waiting for a server at {}: {error}", self.address),
            };
            if self.interface.link.changes() == changes {
                self.interface.link.set(false, reason);
                pause = (pause * 2).min(RETRY[1]);
            } else {
                pause = RETRY[0];
            }
            // The event that said so may have been cleared.
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let _ = wait(crate::peer::all(&[&self.wake]), Instant::now() + pause);
            event::clear(&self.wake);
            self.interface.sweep();
        }
    }

    fn connect(&self) -> io::Result<(OwnedFd, Permit)> {
        let Some(permit) = self.limit.take() else {
            self.closer.resume();
            return Err(io::Error::other("descriptors of former servers are still being closed"));
        };
        let socket = transport::socket()?;
        loop {
            match rustix::net::connect(&socket, &self.address.socket()?) {
                Ok(()) => return Ok((socket, permit)),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Messages to send, in turn with the server's ACKs.
type Script = std::vec::IntoIter<(Message, Option<OwnedFd>)>;

/// A connection to a server, from the first message to its end.
struct Session {
    socket: OwnedFd,
    permit: Arc<Permit>,
    begun: Instant,
    deadline: Instant,
    /// Descriptors that were received; an honest server sends none.
    received: Vec<OwnedFd>,
    script: Option<Script>,
    /// The connection that is made, for use once the server has all of it.
    made: Option<Arc<Connection>>,
    connection: Option<Arc<Connection>>,
    server: String,
    interrupts: Interrupts,
    wake: Arc<OwnedFd>,
}

impl Session {
    fn begin(socket: OwnedFd, permit: Permit, negotiator: &Negotiator) -> Session {
        let permit = Arc::new(permit);
        let interrupts = Interrupts::new(&negotiator.wake, Arc::clone(&permit) as _);
        let begun = Instant::now();
        Session {
            socket,
            permit,
            begun,
            deadline: begun + MESSAGE_TIMEOUT,
            received: Vec::new(),
            script: None,
            made: None,
            connection: None,
            server: String::new(),
            interrupts,
            wake: Arc::clone(&negotiator.wake),
        }
    }

    /// Negotiates, and looks after the connection until it ends.
    fn run(&mut self, negotiator: &Negotiator) -> End {
        loop {
            let until = match self.connection {
                Some(_) => Instant::now() + POLL_INTERVAL,
                None => self.deadline,
            };
            let fds = [&*self.wake, &self.socket];
            let ready = wait(crate::peer::all(&fds), until).unwrap_or_else(|_| {
                thread::sleep(POLL_INTERVAL);
                vec![false; fds.len()]
            });
            event::clear(&self.wake);
            if negotiator.stop.load(Ordering::Relaxed) {
                return End::refused("the interface was closed");
            }
            if let Err(end) = self.turn(ready[1], &negotiator.interface) {
                return end;
            }
            negotiator.interface.sweep();
        }
    }

    fn turn(&mut self, ready: bool, interface: &Interface) -> Result<(), End> {
        if ready {
            match transport::receive(&self.socket, &mut self.received) {
                Received::Nothing => {}
                Received::Message(_) if !self.received.is_empty() => {
                    return Err(End::refused("a file descriptor of a server"));
                }
                Received::Message(message) => self.answer(message, interface)?,
                Received::Closed => return Err(End::Left("the server has gone".into())),
                Received::Malformed(reason) => return Err(End::refused(reason)),
            }
        }
        self.interrupts.look();
        match &self.connection {
            Some(connection) => match connection.fault() {
                Some(fault) => Err(End::refused(fault.text())),
                None => Ok(()),
            },
            None if Instant::now() >= self.deadline => Err(End::refused("negotiation timed out")),
            None => Ok(()),
        }
    }

    fn answer(&mut self, message: Message, interface: &Interface) -> Result<(), End> {
        self.deadline = (Instant::now() + MESSAGE_TIMEOUT).min(self.begun + NEGOTIATION_TIMEOUT);
        match (message, &self.script) {
            (Message::Disconnect { text, .. }, _) => {
                Err(End::Left(format!("the server has refused or left: {text}")))
            }
            (Message::Hello(hello), None) => {
                self.hello(&hello, interface)?;
                self.say_next()
            }
            (Message::Ack, Some(script)) if script.len() > 0 => self.say_next(),
            (Message::Connected { .. }, Some(script)) if script.len() == 0 => {
                self.connected(interface)
            }
            (message, _) => Err(End::refused(format!("unexpected {}", message.kind()))),
        }
    }

    fn say_next(&mut self) -> Result<(), End> {
        let Some((message, descriptor)) = self.script.as_mut().and_then(Iterator::next) else {
            return Err(End::refused("unexpected ACK"));
        };
        let lost = |error| End::Left(format!("the server does not read: {error}"));
        transport::send(&self.socket, &message, descriptor.as_ref().map(std::os::fd::AsFd::as_fd))
            .map_err(lost)
    }

    /// Handles the server's HELLO: makes memory within its limits.
    fn hello(&mut self, hello: &Hello, interface: &Interface) -> Result<(), End> {
        let (least, most) = hello.versions;
        if !(least..=most).contains(&VERSION) {
            return Err(End::refused("unsupported version"));
        }
        self.server = peer_name(&hello.name);
        let no_memory = |error: String| End::refused(format!("no memory for rings: {error}"));
        // Highest indices; VPP sends its number of queues.
        let offered = |max: u16| interface.queues.min(max.saturating_add(1));
        let layout = Layout {
            to_server: offered(hello.max_to_server),
            to_client: offered(hello.max_to_client),
            log2: interface.log2.min(hello.max_log2),
            buffer: interface.arena.is_none().then_some(interface.buffer as usize),
        };
        let (region, file) = ForeignRegion::create("linerate-memif", layout.size())
            .map_err(|error| no_memory(error.to_string()))?;
        let region = Arc::new(region);
        let duplicate = |fd: &OwnedFd| fd.try_clone().map_err(|error| no_memory(error.to_string()));

        let mut script = vec![
            (Message::Init(self.init(interface)), None),
            (Message::AddRegion { index: 0, size: region.len() as u64 }, Some(file)),
        ];
        if let Some(arena) = &interface.arena {
            let file = zero_copy::region(arena).map_err(|error| no_memory(error.to_string()))?;
            let size = arena.size() as u64;
            script.push((Message::AddRegion { index: zero_copy::REGION, size }, Some(file)));
        }
        let mut lanes = [Vec::new(), Vec::new()];
        for number in 0..layout.to_server + layout.to_client {
            let to_server = number < layout.to_server;
            let index = if to_server { number } else { number - layout.to_server };
            let at = layout.ring(number);
            let ring = Ring::new(&region, at, layout.log2).map_err(End::refused)?;
            prepare(&ring);
            let event = event::new().map_err(|error| no_memory(error.to_string()))?;
            let message = Message::AddRing(AddRing {
                to_server,
                index,
                region: 0,
                offset: at as u32,
                log2: layout.log2,
                private: 0,
            });
            script.push((message, Some(duplicate(&event)?)));
            let interrupt = self.interrupts.add(event);
            let interrupt = interrupt.map_err(|error| no_memory(error.to_string()))?;
            let parked = Parked::default();
            let lane = Lane { ring, interrupt, buffers: layout.buffers(number), parked };
            lanes[usize::from(!to_server)].push(Arc::new(lane));
        }
        script.push((Message::Connect { name: field(super::PROGRAM) }, None));
        let [to_server, to_client] = lanes;
        self.made = Some(Arc::new(Connection::new(
            Role::Client,
            vec![region],
            to_server,
            to_client,
            &self.wake,
        )));
        self.script = Some(script.into_iter());
        Ok(())
    }

    fn init(&self, interface: &Interface) -> Init {
        Init {
            version: VERSION,
            id: interface.id,
            mode: 0,
            secret: interface.secret.unwrap_or_default(),
            name: field(super::PROGRAM),
        }
    }

    fn connected(&mut self, interface: &Interface) -> Result<(), End> {
        let Some(connection) = self.made.take() else {
            return Err(End::refused("unexpected CONNECTED"));
        };
        if interface.receives {
            for lane in &connection.to_client {
                let (Some(buffers), ring) = (&lane.buffers, &lane.ring) else { continue };
                for count in 0..ring.size() {
                    ring.descriptors().store(count, buffers.free(count, ring.size()));
                }
                ring.head().store(ring.size(), Ordering::Release);
            }
        }
        interface
            .attach(&connection, &self.server)
            .map_err(|error| End::refused(format!("no event descriptor: {error}")))?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Ends the session. A thread of its own takes back the buffers that the server has, and closes the
    /// descriptors that came from it.
    fn end(self, end: &End, interface: &Interface, closer: &Closer) {
        if let End::Refused(text) = end {
            let message = Message::Disconnect { code: 0, text: text.clone() };
            let _ = transport::send(&self.socket, &message, None);
        }
        if self.connection.is_some() {
            interface.detach(end.reason());
        }
        let Session { socket, permit, received, connection, .. } = self;
        let lends = connection.is_some() && interface.arena.is_some();
        closer.close(ClosingSession {
            socket,
            received,
            lends,
            _connection: connection,
            _permit: permit,
        });
    }
}

/// The resources of an ended session, released when this is dropped.
struct ClosingSession {
    socket: OwnedFd,
    received: Vec<OwnedFd>,
    /// Whether the server has buffers of our arena.
    lends: bool,
    /// Its last owner takes back the buffers that the server has.
    _connection: Option<Arc<Connection>>,
    _permit: Arc<Permit>,
}

impl Drop for ClosingSession {
    /// If buffers are lent, waits until the server has closed its end of the socket, or its time is over,
    /// and until it cannot be writing to them.
    fn drop(&mut self) {
        if !self.lends {
            return;
        }
        let until = Instant::now() + POLL_INTERVAL;
        while !matches!(transport::receive(&self.socket, &mut self.received), Received::Closed) {
            let fds = [&self.socket];
            let waited = wait(crate::peer::all(&fds), until);
            if waited.is_err() || Instant::now() >= until {
                break;
            }
        }
        thread::sleep(GRACE);
    }
}

/// Layout of a client's region.
struct Layout {
    to_server: u16,
    to_client: u16,
    log2: u8,
    /// Bytes of each buffer, unless they are elsewhere.
    buffer: Option<usize>,
}

impl Layout {
    fn slots(&self) -> usize {
        1 << self.log2
    }

    fn rings(&self) -> usize {
        usize::from(self.to_server) + usize::from(self.to_client)
    }

    /// Offset of a ring, by its number among all.
    fn ring(&self, number: u16) -> usize {
        usize::from(number) * (HEADER + self.slots() * DESCRIPTOR).next_multiple_of(ALIGN)
    }

    /// Place of the buffers of a ring.
    fn buffers(&self, number: u16) -> Option<Buffers> {
        let size = self.buffer?;
        let stride = stride_for(size);
        let before = usize::from(number) * self.slots() * stride;
        let at = self.end_of_rings() + before;
        Some(Buffers { at, stride, size: size as u32 })
    }

    fn end_of_rings(&self) -> usize {
        self.ring(self.rings() as u16).next_multiple_of(PAGE)
    }

    fn size(&self) -> usize {
        let end = self.buffers(self.rings() as u16).map(|buffers| buffers.at);
        end.unwrap_or(self.end_of_rings()).next_multiple_of(PAGE)
    }

    /// Bytes a client's region may have at most, since descriptors' offsets have 32 bits.
    const MOST: u64 = u32::MAX as u64;
}

/// Returns true if a client with so many queues, slots and bytes per buffer can describe its
/// memory.
pub(super) fn fits(queues: u16, log2: u8, buffer: u32) -> bool {
    let buffer = Some(buffer as usize);
    let layout = Layout { to_server: queues, to_client: queues, log2, buffer };
    layout.size() as u64 <= Layout::MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_and_buffers_do_not_overlap() {
        for (to_server, to_client, log2, buffer) in
            [(1, 1, 0, 64), (2, 3, 10, 2048), (1, 2, 3, 9000)]
        {
            let layout = Layout { to_server, to_client, log2, buffer: Some(buffer) };
            let mut end = 0;
            for number in 0..to_server + to_client {
                assert!(layout.ring(number) >= end && layout.ring(number).is_multiple_of(ALIGN));
                end = layout.ring(number) + HEADER + DESCRIPTOR * (1 << log2);
            }
            for number in 0..to_server + to_client {
                let buffers = layout.buffers(number).unwrap();
                assert!(buffers.at >= end && buffers.size as usize == buffer);
                end = buffers.place((1 << log2) - 1, 1 << log2) + buffer;
            }
            assert!(layout.size() >= end);
        }
        assert!(fits(1, 14, 65_472) && !fits(64, 14, 65_472));
    }
}
