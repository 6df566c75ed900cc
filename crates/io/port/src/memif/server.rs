//! A listening socket, its interfaces, and the clients that want them.
//!
//! One thread per socket accepts, negotiates, and looks after connections; it never waits for a
//! single client. A client's memory is mapped when it announces it, and everything it says about it
//! is checked before a worker sees it.

use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use linerate_linux::close::Closers;
use linerate_memory::{ForeignError, ForeignRegion, MapQuota};
use rustix::{
    io::Errno,
    net::{SocketFlags, sockopt::socket_peercred},
};

use super::{
    message::{AddRing, Hello, Init, LOG2_MAX, Message, VERSION, field},
    negotiation::{End, Interface, REGIONS, is_same, peer_name},
    ring::{COOKIE, Connection, Lane, Ring, Role},
    transport::{self, Received},
    zero_copy::Parked,
};
use crate::peer::{
    MESSAGE_TIMEOUT, NEGOTIATION_TIMEOUT, POLL_INTERVAL, REFUSALS,
    address::Address,
    admission::{Admission, AdmissionSlot, PLACES},
    event,
    interrupt::Interrupts,
    limit::{Limit, Permit},
    listen::{self, Access, ListenError},
    wait,
};

/// Connections the kernel keeps until they are accepted.
const BACKLOG: i32 = 64;
/// Messages of one client that are answered before others have their turn.
const TURN: usize = 16;
/// Pause of accepting connections when the process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(200);

/// The sockets of this process: interfaces that name the same one share it.
static LISTENERS: Mutex<Vec<(Address, Weak<Listener>)>> = Mutex::new(Vec::new());

/// A socket that listens.
#[derive(Debug)]
struct Listener {
    shared: Arc<Shared>,
    socket: Arc<listen::Socket>,
    access: Access,
    thread: Option<JoinHandle<()>>,
}

/// State that the thread shares with registered ports.
#[derive(Debug)]
struct Shared {
    interfaces: Mutex<HashMap<u32, Arc<Interface>>>,
    wake: Arc<OwnedFd>,
    stop: AtomicBool,
    /// Admission of clients that negotiate.
    admission: Arc<Admission>,
    /// Refused connections whose descriptors are not closed.
    refusals: Arc<Limit>,
    closers: Closers,
}

/// An interface's place on a socket, given up when this is dropped.
#[derive(Debug)]
pub(super) struct Registration {
    listener: Option<Arc<Listener>>,
    id: u32,
}

/// Why there is no such interface now.
#[derive(Debug)]
pub(super) enum RegisterError {
    /// Another port of this process has this id.
    Taken,
    /// Another port of this process has the socket with another `mode`.
    Mode,
    /// There is no such socket.
    Listen(ListenError),
}

impl From<ListenError> for RegisterError {
    fn from(error: ListenError) -> RegisterError {
        RegisterError::Listen(error)
    }
}

/// Offers an interface on a socket, which is made unless this process has it already.
pub(super) fn register(
    address: &Address,
    access: Access,
    interface: Arc<Interface>,
) -> Result<Registration, RegisterError> {
    let mut listeners = LISTENERS.lock().expect("no panic while held");
    listeners.retain(|(_, listener)| listener.strong_count() > 0);
    let known = listeners.iter().find(|(known, _)| known == address);
    let id = interface.id;
    let listener = match known.and_then(|(_, listener)| listener.upgrade()) {
        Some(listener) => {
            if listener.access != access {
                return Err(RegisterError::Mode);
            }
            let mut interfaces = listener.shared.interfaces.lock().expect("no panic while held");
            if interfaces.contains_key(&id) {
                return Err(RegisterError::Taken);
            }
            interfaces.insert(id, interface);
            drop(interfaces);
            listener
        }
        None => {
            let listener = Arc::new(Listener::start(address, access, interface)?);
            listeners.push((address.clone(), Arc::downgrade(&listener)));
            listener
        }
    };
    Ok(Registration { listener: Some(listener), id })
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Held until the listener is gone, if it is the last: the next to open the port finds it
        // there or can make it anew.
        let _listeners = LISTENERS.lock();
        if let Some(listener) = self.listener.take() {
            if let Ok(mut interfaces) = listener.shared.interfaces.lock() {
                interfaces.remove(&self.id);
            }
            event::set(&listener.shared.wake);
        }
    }
}

impl Listener {
    /// Listens for clients of a first interface: clients that connect at once get its limits.
    fn start(
        address: &Address,
        access: Access,
        first: Arc<Interface>,
    ) -> Result<Listener, ListenError> {
        let system = |step| move |error| ListenError::System(step, error);
        let kind = rustix::net::SocketType::SEQPACKET;
        let socket = listen::Socket::bind_with(address, kind, BACKLOG, Some(access))?;
        let shared = Arc::new(Shared {
            interfaces: Mutex::new(HashMap::from([(first.id, first)])),
            wake: Arc::new(event::new().map_err(system("eventfd"))?),
            stop: AtomicBool::new(false),
            admission: Arc::default(),
            refusals: Limit::new(REFUSALS),
            closers: Closers::new(PLACES),
        });
        let socket = Arc::new(socket);
        let mut thread = Negotiator {
            socket: Arc::clone(&socket),
            shared: Arc::clone(&shared),
            sessions: Vec::new(),
        };
        let thread = thread::Builder::new()
            .name("memif-server".into())
            .spawn(move || thread.run())
            .map_err(system("start a thread"))?;
        Ok(Listener { shared, socket, access, thread: Some(thread) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.socket.unlink();
        self.shared.stop.store(true, Ordering::Relaxed);
        event::set(&self.shared.wake);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread of a socket.
struct Negotiator {
    socket: Arc<listen::Socket>,
    shared: Arc<Shared>,
    sessions: Vec<Session>,
}

impl Negotiator {
    fn run(&mut self) {
        let mut pause: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if pause.is_some_and(|until| until <= now) {
                pause = None;
            }
            let until = self.next_look(now, pause);
            let accepting = pause.is_none().then_some(self.socket.fd());
            let fds: Vec<&OwnedFd> = [&*self.shared.wake]
                .into_iter()
                .chain(self.sessions.iter().map(|session| &session.socket))
                .chain(accepting)
                .collect();
            let ready = wait(crate::peer::all(&fds), until);
            // Polling fails for want of memory: later, then.
            let ready = ready.unwrap_or_else(|_| {
                thread::sleep(PAUSE);
                vec![false; fds.len()]
            });
            event::clear(&self.shared.wake);
            if self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            for (session, ready) in self.sessions.iter_mut().zip(&ready[1..]) {
                session.turn(*ready, &self.shared);
            }
            let ended = self.sessions.extract_if(.., |session| session.ended);
            ended.for_each(|session| session.leave(&self.shared.closers));
            if let Ok(interfaces) = self.shared.interfaces.lock() {
                interfaces.values().for_each(|interface| interface.sweep());
            }
            if accepting.is_some() && ready.last() == Some(&true) && !self.accept() {
                pause = Some(Instant::now() + PAUSE);
            }
        }
        for mut session in self.sessions.drain(..) {
            session.end(&End::refused("the interface was closed"), &self.shared);
            session.leave(&self.shared.closers);
        }
    }

    /// When to look at the sessions although nothing came.
    fn next_look(&self, now: Instant, pause: Option<Instant>) -> Instant {
        let looks = self.sessions.iter().map(|session| match session.connection {
            Some(_) => now + POLL_INTERVAL,
            None => session.deadline,
        });
        looks.chain(pause).min().unwrap_or(now + Duration::from_secs(3600))
    }

    /// Accepts waiting clients; `false` when accepting has to pause.
    fn accept(&mut self) -> bool {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(self.socket.fd(), flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(_) => return false,
            };
            let place = if self.socket.admits(&socket) {
                self.shared.admission.admit(&socket)
            } else {
                Err("this user may not connect, by the option `mode`")
            };
            match place {
                Ok(place) => {
                    self.socket.admit_descriptors(&socket);
                    match Session::begin(socket, place, &self.shared) {
                        Ok(session) => self.sessions.push(session),
                        Err(gone) => self.shared.closers.for_user(gone.1.user()).close(gone),
                    }
                }
                Err(text) => {
                    let text = text.into();
                    let _ = transport::send(&socket, &Message::Disconnect { code: 0, text }, None);
                    if self.socket.refuses_descriptors() {
                        continue;
                    }
                    let closers = &self.shared.closers;
                    closers.resume();
                    let Some(refusal) = self.shared.refusals.take() else { return false };
                    let user = socket_peercred(&socket).map_or(u32::MAX, |peer| peer.uid.as_raw());
                    closers.for_user(user).close((socket, refusal));
                }
            }
        }
    }
}

/// A client, from its connection to its end.
struct Session {
    socket: OwnedFd,
    place: Arc<AdmissionSlot>,
    /// Its permit to negotiate for an interface.
    permit: Option<Permit>,
    begun: Instant,
    deadline: Instant,
    /// Descriptors that were received and are not used, or not yet.
    received: Vec<OwnedFd>,
    quota: Option<Arc<MapQuota>>,
    interface: Option<Arc<Interface>>,
    /// The interface whose link tells of a refusal: the one that it wants or, of an unknown id, another one.
    asked: Option<Arc<Interface>>,
    peer: String,
    regions: Vec<Arc<ForeignRegion>>,
    to_server: Vec<Arc<Lane>>,
    to_client: Vec<Arc<Lane>>,
    connection: Option<Arc<Connection>>,
    interrupts: Interrupts,
    ended: bool,
}

impl Session {
    /// Greets a client. `Err` has the resources of a client that has gone.
    fn begin(
        socket: OwnedFd,
        place: AdmissionSlot,
        shared: &Shared,
    ) -> Result<Session, (OwnedFd, AdmissionSlot)> {
        // Which interface it wants is not known yet.
        let (mut queues, mut log2) = (1, 0);
        for interface in shared.interfaces.lock().expect("no panic while held").values() {
            queues = queues.max(interface.queues);
            log2 = log2.max(interface.log2);
        }
        let hello = Message::Hello(Hello {
            name: field(super::PROGRAM),
            versions: (VERSION, VERSION),
            max_region: REGIONS as u16 - 1,
            max_to_client: queues - 1,
            max_to_server: queues - 1,
            max_log2: log2,
        });
        if transport::send(&socket, &hello, None).is_err() {
            return Err((socket, place));
        }
        let place = Arc::new(place);
        let interrupts = Interrupts::new(&shared.wake, Arc::clone(&place) as _);
        let begun = Instant::now();
        Ok(Session {
            socket,
            place,
            permit: None,
            begun,
            deadline: begun + MESSAGE_TIMEOUT,
            received: Vec::new(),
            quota: None,
            interface: None,
            asked: None,
            peer: String::new(),
            regions: Vec::new(),
            to_server: Vec::new(),
            to_client: Vec::new(),
            connection: None,
            interrupts,
            ended: false,
        })
    }

    /// Handles messages and timeouts of a client.
    fn turn(&mut self, ready: bool, shared: &Shared) {
        if let Err(end) = self.try_turn(ready, shared) {
            self.end(&end, shared);
        }
    }

    fn try_turn(&mut self, ready: bool, shared: &Shared) -> Result<(), End> {
        if ready {
            for _ in 0..TURN {
                match transport::receive(&self.socket, &mut self.received) {
                    Received::Nothing => break,
                    Received::Message(message) => self.answer(message, shared)?,
                    Received::Closed => return Err(End::Left("the client has gone".into())),
                    Received::Malformed(reason) => return Err(End::refused(reason)),
                }
            }
        }
        if let Some(interface) = &self.interface
            && !is_offered(interface, shared)
        {
            return Err(End::refused("the interface was closed"));
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

    /// Answers a message.
    fn answer(&mut self, message: Message, shared: &Shared) -> Result<(), End> {
        if let Message::Disconnect { text, .. } = &message {
            return Err(End::Left(format!("the client has left: {text}")));
        }
        if self.connection.is_some() {
            return Err(End::refused(format!("{} while connected", message.kind())));
        }
        self.deadline = (Instant::now() + MESSAGE_TIMEOUT).min(self.begun + NEGOTIATION_TIMEOUT);
        let answer = match message {
            Message::Init(init) if self.interface.is_none() => {
                self.init(&init, shared)?;
                Message::Ack
            }
            _ if self.interface.is_none() => {
                return Err(End::refused(format!("{} before INIT", message.kind())));
            }
            Message::AddRegion { index, size } => {
                self.add_region(index, size)?;
                Message::Ack
            }
            Message::AddRing(ring) => {
                self.add_ring(&ring)?;
                Message::Ack
            }
            Message::Connect { .. } => {
                self.connect(shared)?;
                return Ok(());
            }
            other => return Err(End::refused(format!("unexpected {}", other.kind()))),
        };
        self.send(&answer)
    }

    fn send(&self, message: &Message) -> Result<(), End> {
        let lost = |error| End::Left(format!("the client does not read: {error}"));
        transport::send(&self.socket, message, None).map_err(lost)
    }

    fn init(&mut self, init: &Init, shared: &Shared) -> Result<(), End> {
        self.peer = peer_name(&init.name);
        let interface = {
            let interfaces = shared.interfaces.lock().expect("no panic while held");
            let down = || interfaces.values().filter(|interface| !interface.link.is_up());
            let interface = interfaces.get(&init.id).cloned();
            self.asked = interface.clone().or_else(|| down().min_by_key(|down| down.id).cloned());
            interface
        };
        if init.version != VERSION {
            return Err(End::refused(format!(
                "unsupported version {:#x}, which is not {VERSION:#x}",
                init.version
            )));
        }
        let Some(interface) = interface else {
            return Err(End::refused(format!("unmatched interface id {}", init.id)));
        };
        if init.mode != 0 {
            return Err(End::refused("mode mismatch"));
        }
        match &interface.secret {
            Some(_) if init.secret == [0; 24] => return Err(End::refused("secret required")),
            Some(secret) if !is_same(secret, &init.secret) => {
                return Err(End::refused("incorrect secret"));
            }
            _ => {}
        }
        // The first client to connect is the peer; one that only announces it keeps no other out.
        if interface.link.is_up() {
            return Err(End::refused("already connected"));
        }
        let Some(share) = &interface.share else {
            return Err(End::refused(format!("unmatched interface id {}", init.id)));
        };
        self.permit = share.negotiating.take();
        if self.permit.is_none() {
            return Err(End::refused("too many clients negotiate for this interface"));
        }
        self.quota = Some(share.quota.within(share.session));
        self.interface = Some(interface);
        Ok(())
    }

    fn add_region(&mut self, index: u16, size: u64) -> Result<(), End> {
        let (Some(file), Some(quota)) = (self.received.first(), &self.quota) else {
            return Err(End::refused("no file for a region"));
        };
        if usize::from(index) != self.regions.len() || self.regions.len() >= REGIONS {
            return Err(End::refused("region index out of order"));
        }
        let region = ForeignRegion::map_within(quota, file, size);
        let region = region.map_err(|error| match error {
            ForeignError::Bytes { .. } => {
                End::refused(format!("region {index}: {error}, by the option `memory`"))
            }
            _ => End::refused(format!("region {index}: {error}")),
        });
        self.regions.push(Arc::new(region?));
        // It is a memory file, so closing it does not block.
        self.received.clear();
        Ok(())
    }

    fn add_ring(&mut self, ring: &AddRing) -> Result<(), End> {
        let (queues, log2) =
            self.interface.as_ref().map_or((0, 0), |interface| (interface.queues, interface.log2));
        let lanes = if ring.to_server { &mut self.to_server } else { &mut self.to_client };
        let refuse = |reason: &str| {
            let direction = if ring.to_server { "to the server" } else { "to the client" };
            Err(End::refused(format!("ring {} {direction}: {reason}", ring.index)))
        };
        if usize::from(ring.index) != lanes.len() {
            return refuse("index out of order");
        }
        if lanes.len() >= usize::from(queues) {
            return refuse("more rings than offered");
        }
        if ring.private != 0 {
            return refuse("private header");
        }
        if ring.log2 > log2.min(LOG2_MAX) {
            return refuse("larger than offered");
        }
        let Some(region) = self.regions.get(usize::from(ring.region)) else {
            return refuse("no such region");
        };
        let Some(event) = self.received.pop_if(|event| event::is_one(event)) else {
            return refuse("not an eventfd");
        };
        match Ring::new(region, ring.offset as usize, ring.log2) {
            Ok(ring) => {
                let interrupt = self.interrupts.add(event);
                let interrupt = interrupt.map_err(|error| End::refused(error.to_string()))?;
                lanes.push(Arc::new(Lane {
                    ring,
                    interrupt,
                    buffers: None,
                    parked: Parked::default(),
                }));
                Ok(())
            }
            Err(reason) => refuse(reason),
        }
    }

    fn connect(&mut self, shared: &Shared) -> Result<(), End> {
        let Some(interface) = &self.interface else { return Ok(()) };
        if self.to_server.is_empty() && self.to_client.is_empty() {
            return Err(End::refused("no rings"));
        }
        let lanes = || self.to_server.iter().chain(&self.to_client);
        if lanes().any(|lane| lane.ring.cookie().load(Ordering::Relaxed) != COOKIE) {
            return Err(End::refused("wrong cookie"));
        }
        let disturbed = |ring: &Ring| {
            // A ring to us may have packets already; we begin at zero, as every side does.
            ring.tail().load(Ordering::Relaxed) != 0
        };
        if lanes().any(|lane| disturbed(&lane.ring)) {
            return Err(End::refused("ring in use"));
        }
        if interface.link.is_up() {
            return Err(End::refused("already connected"));
        }
        self.send(&Message::Connected { name: field(super::PROGRAM) })?;
        let connection = Arc::new(Connection::new(
            Role::Server,
            std::mem::take(&mut self.regions),
            std::mem::take(&mut self.to_server),
            std::mem::take(&mut self.to_client),
            &shared.wake,
        ));
        interface
            .attach(&connection, &self.peer)
            .map_err(|error| End::refused(format!("no event descriptor: {error}")))?;
        self.connection = Some(connection);
        self.place.establish();
        self.permit = None;
        Ok(())
    }

    fn end(&mut self, end: &End, shared: &Shared) {
        self.ended = true;
        if let End::Refused(text) = end {
            let message = Message::Disconnect { code: 0, text: text.clone() };
            let _ = transport::send(&self.socket, &message, None);
        }
        let Some(interface) = self.interface.as_ref().or(self.asked.as_ref()) else { return };
        let reason = end.reason_with_peer(&self.peer);
        if self.connection.take().is_some() {
            interface.detach(reason);
        } else if !interface.link.is_up() && is_offered(interface, shared) {
            interface.link.set(false, reason);
        }
    }
}

impl Session {
    /// Disposes of the resources that came from the client.
    fn leave(self, closers: &Closers) {
        self.place.end();
        let Session { socket, received, place, .. } = self;
        closers.for_user(place.user()).close((socket, received, place));
    }
}

/// Returns true if the interface is still there, and not another of its id.
fn is_offered(interface: &Arc<Interface>, shared: &Shared) -> bool {
    let interfaces = shared.interfaces.lock().expect("no panic while held");
    interfaces.get(&interface.id).is_some_and(|now| Arc::ptr_eq(now, interface))
}
