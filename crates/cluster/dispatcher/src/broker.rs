//! Broker: a socket that listens for consumers, and a thread that attaches them and notices their
//! end.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use linerate_linux::{close::Closers, sched_slice, socket};
use linerate_memory::{
    Arena,
    shared::{AttachError, PeerRights},
};
use linerate_port::peer::{
    self,
    address::Address,
    event,
    listen::{ListenError, Socket},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    net::{SocketFlags, SocketType, sockopt::socket_peercred},
};

use crate::{
    dispatcher::{AttachedConsumer, Dispatcher},
    limits::{self, Holder, Room},
    transport::{self, Received},
    wire::{Access, Reason, Reply, Request},
};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Connections that are accepted before clients are served again.
const ACCEPTED: usize = 16;
/// Time limit of a new client's first request.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between looks for returned buffers where no packets flow, and between updates of
/// figures.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Shortest interval between two of these looks: workers wait during one.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Shortest interval between two requests of a client.
const MIN_REQUEST_INTERVAL: Duration = Duration::from_millis(10);
/// Time given to consumers that were told to go: they may take the packets on their rings. A
/// consumer that could write is waited for as long as the server lives.
const DETACH_TIMEOUT: Duration = Duration::from_millis(500);

/// Why there is no broker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// No socket can be called so.
    #[error("`{0}` is no UNIX socket: write a file's name, or @NAME, of at most 107 bytes")]
    Address(String),
    /// Another process listens there, or another arena's broker of this one.
    #[error("somebody listens at {0}; end it or choose another socket")]
    InUse(String),
    /// A file is there that is no socket.
    #[error("{0} is there and not a socket; choose another name or remove it")]
    NoSocket(String),
    /// The arena cannot be shared.
    #[error("packet memory cannot be shared: {0}")]
    Shared(#[from] AttachError),
    /// The kernel refused something.
    #[error("cannot {step} at {address}: {source}")]
    System {
        /// The step that failed.
        step: &'static str,
        /// The address of the socket.
        address: String,
        /// The kernel's error.
        source: io::Error,
    },
}

/// The server's side of a cluster; it ends with its last owner.
#[derive(Debug)]
pub struct Broker {
    dispatcher: Arc<Mutex<Dispatcher>>,
    address: Address,
    /// Wakes the thread.
    alarm: Arc<OwnedFd>,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The brokers of this process: graphs that follow one another have the same one.
static BROKERS: Mutex<Vec<Weak<Broker>>> = Mutex::new(Vec::new());

impl Broker {
    /// The broker of an arena at a socket, `/run/x.sock` or `@x`: the one there is in this process,
    /// or a new one.
    ///
    /// # Errors
    ///
    /// When the socket cannot be listened at, or the arena cannot be shared.
    pub fn open(address: &str, arena: &Arena) -> Result<Arc<Broker>, BrokerError> {
        Broker::open_held(address, arena).map(|(broker, _)| broker)
    }

    /// As [`Broker::open`], with a [`Hold`]: clients that connect wait until it is dropped, when
    /// the names of the configuration are there.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn open_held(address: &str, arena: &Arena) -> Result<(Arc<Broker>, Hold), BrokerError> {
        let no_address = || BrokerError::Address(address.into());
        let address = Address::parse(address).ok_or_else(no_address)?;
        let mut brokers = BROKERS.lock().expect("no panic while held");
        brokers.retain(|broker| broker.strong_count() > 0);
        for broker in brokers.iter().filter_map(Weak::upgrade) {
            if broker.address == address {
                let same = broker.dispatcher().arena().region() == arena.region();
                return if same {
                    broker.dispatcher().hold();
                    Ok((Arc::clone(&broker), Hold(broker)))
                } else {
                    Err(BrokerError::InUse(address.to_string()))
                };
            }
        }
        let broker = Arc::new(Broker::start(address, arena)?);
        brokers.push(Arc::downgrade(&broker));
        Ok((Arc::clone(&broker), Hold(broker)))
    }

    /// Starts a broker that is held.
    fn start(address: Address, arena: &Arena) -> Result<Broker, BrokerError> {
        let system = |step| {
            let address = address.to_string();
            move |source| BrokerError::System { step, address, source }
        };
        let alarm = Arc::new(event::new().map_err(system("make an event"))?);
        let mut dispatcher = Dispatcher::new(arena, Arc::clone(&alarm))?;
        dispatcher.hold();
        let listener =
            Socket::bind(&address, SocketType::SEQPACKET, BACKLOG).map_err(
                |error| match error {
                    ListenError::InUse => BrokerError::InUse(address.to_string()),
                    ListenError::NoSocket => BrokerError::NoSocket(address.to_string()),
                    ListenError::System(step, source) => system(step)(source),
                },
            )?;
        let figures = dispatcher.figures_file().map_err(system("open the figures"))?;
        let dispatcher = Arc::new(Mutex::new(dispatcher));
        let ending = Arc::new(AtomicBool::new(false));
        let mut broker_thread = BrokerThread {
            dispatcher: Arc::clone(&dispatcher),
            figures,
            closers: Closers::unless_refused(listener.fd()),
            listener,
            deaf_until: None,
            looked: None,
            is_due: false,
            alarm: Arc::clone(&alarm),
            ending: Arc::clone(&ending),
            clients: Vec::new(),
        };
        let thread =
            thread::Builder::new().name("cluster".into()).spawn(move || broker_thread.serve());
        let thread = Some(thread.map_err(system("start a thread"))?);
        Ok(Broker { dispatcher, address, alarm, ending, thread })
    }

    /// The dispatcher, which workers call per burst.
    ///
    /// # Panics
    ///
    /// When a thread has panicked while it had it.
    pub fn dispatcher(&self) -> MutexGuard<'_, Dispatcher> {
        self.dispatcher.lock().expect("no panic while held")
    }

    /// Address of the socket.
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        event::set(&self.alarm);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Keeps clients from being attached; those that connect meanwhile wait.
#[derive(Debug)]
pub struct Hold(Arc<Broker>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.dispatcher().let_go();
    }
}

/// A connection and its role.
#[derive(Debug)]
struct Client {
    socket: OwnedFd,
    role: Role,
    /// The number of its process, its user, and whether the user may make changes.
    process: u64,
    user: u32,
    trusted: bool,
    /// Time of its connecting, or of its last request.
    heard: Instant,
    /// Bytes of memory that was made for it alone.
    memory: u64,
}

impl Client {
    fn holder(&self) -> Holder {
        Holder {
            user: self.user,
            process: self.process,
            trusted: self.trusted,
            consumes: matches!(self.role, Role::Attached(..) | Role::Leaving(..)),
            asks: self.role == Role::Asks,
            heard: self.heard,
            memory: self.memory,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Has said nothing yet, and has until then.
    New(Instant),
    /// Asks for figures and changes.
    Asks,
    /// The consumer of an endpoint.
    Attached(usize),
    /// A consumer that was told to go: its buffers are taken back at that time, or when it has
    /// gone.
    Leaving(usize, Option<Instant>),
}

/// State of the broker's thread.
struct BrokerThread {
    dispatcher: Arc<Mutex<Dispatcher>>,
    /// The figures file, for clients.
    figures: OwnedFd,
    /// `None` if the kernel refuses messages of clients with descriptors.
    closers: Option<Closers>,
    listener: Socket,
    /// The time until which no connection is accepted, because descriptors ran out.
    deaf_until: Option<Instant>,
    /// Time of the last look for buffers that have come back, and whether the next is due.
    looked: Option<Instant>,
    is_due: bool,
    alarm: Arc<OwnedFd>,
    ending: Arc<AtomicBool>,
    clients: Vec<Client>,
}

impl BrokerThread {
    fn dispatcher(&self) -> MutexGuard<'_, Dispatcher> {
        self.dispatcher.lock().expect("no panic while held")
    }

    fn serve(&mut self) {
        // Workers never sleep, and the buffers of a killed program are wanted back soon. Without it
        // everything works, later.
        let _ = sched_slice::set_shortest_slice();
        while !self.ending.load(Ordering::Acquire) {
            let is_held = self.dispatcher().is_held();
            let until = self.next_poll(Instant::now(), is_held);
            self.poll(until, is_held);
            self.housekeeping();
        }
        self.shutdown();
    }

    /// The next time at which there is something to do without a message of a client.
    fn next_poll(&self, now: Instant, is_held: bool) -> Instant {
        let due = |client: &Client| match client.role {
            Role::New(until) if !is_held => Some(until),
            Role::New(_) => None,
            Role::Asks => Some(client.heard + MIN_REQUEST_INTERVAL).filter(|again| *again > now),
            Role::Leaving(_, Some(until)) => Some(until.min(now + POLL_INTERVAL)),
            Role::Attached(..) | Role::Leaving(..) => Some(now + POLL_INTERVAL),
        };
        let look = self.is_due.then_some(now + MIN_POLL_INTERVAL);
        let due = self.clients.iter().filter_map(due).chain(self.deaf_until).chain(look).min();
        due.unwrap_or_else(|| now + Duration::from_secs(3600))
    }

    /// Waits for messages of clients, and handles them.
    fn poll(&mut self, until: Instant, is_held: bool) {
        // A client that is not listened to now has the alarm in its place: all others keep theirs.
        let now = Instant::now();
        let heeded = |client: &Client| match client.role {
            Role::New(_) => !is_held,
            Role::Attached(..) => true,
            Role::Asks => client.heard + MIN_REQUEST_INTERVAL <= now,
            Role::Leaving(..) => false,
        };
        let alarm = self.alarm.as_fd();
        self.deaf_until = self.deaf_until.filter(|until| *until > now);
        let is_deaf = is_held || self.deaf_until.is_some();
        let fixed = [alarm, if is_deaf { alarm } else { self.listener.fd().as_fd() }];
        let sockets = self
            .clients
            .iter()
            .map(|client| if heeded(client) { client.socket.as_fd() } else { alarm });
        let Ok(ready) = peer::wait(fixed.into_iter().chain(sockets), until) else {
            // Polling itself has failed: not at once again.
            thread::sleep(POLL_INTERVAL);
            return;
        };
        if ready[0] {
            event::clear(&self.alarm);
        }
        let now = Instant::now();
        let mut at = 0;
        for ready in &ready[2..] {
            let client = &self.clients[at];
            let stays = match client.role {
                Role::Leaving(_, until) => {
                    self.ignore(client);
                    until.is_none_or(|until| until > now) && !is_gone(&client.socket)
                }
                _ if *ready && heeded(client) => self.handle_request(at),
                Role::New(until) => is_held || until > now,
                Role::Asks | Role::Attached(..) => true,
            };
            if stays {
                at += 1;
            } else {
                self.dismiss(at);
            }
        }
        if ready[1] && !is_deaf {
            self.accept(now);
        }
    }

    fn accept(&mut self, now: Instant) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..ACCEPTED {
            let socket = match rustix::net::accept_with(self.listener.fd(), flags) {
                Ok(socket) => socket,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    self.deaf_until = Some(now + POLL_INTERVAL);
                    return;
                }
                Err(_) => return,
            };
            let Ok(peer) = socket_peercred(&socket) else { continue };
            let trusted = peer.uid.is_root() || peer.uid == rustix::process::geteuid();
            let user = peer.uid.as_raw();
            if let Err(text) = self.make_room(user, trusted) {
                send_reply(&socket, &Reply::Refused(Reason::Full, text));
                self.close(user, [socket]);
                continue;
            }
            let process = peer.pid.as_raw_pid() as u64;
            let role = Role::New(now + FIRST_REQUEST_TIMEOUT);
            let client = Client { socket, role, process, user, trusted, heard: now, memory: 0 };
            self.clients.push(client);
        }
    }

    /// Makes room for a connection of a user: another one may have to leave.
    ///
    /// # Errors
    ///
    /// When there is none; the text names the limit.
    fn make_room(&mut self, user: u32, trusted: bool) -> Result<(), String> {
        loop {
            let holders = self.clients.iter().map(Client::holder);
            let at = match limits::room(holders, user, trusted) {
                Room::Free => return Ok(()),
                Room::None(text) => return Err(text),
                Room::Instead(at) => at,
            };
            // A request that has come is answered all the same, and makes a consumer of the client or not.
            let stays = !matches!(self.clients[at].role, Role::New(_)) || self.handle_request(at);
            if stays && matches!(self.clients[at].role, Role::Attached(..)) {
                continue;
            }
            if stays {
                let text = "a program of the server's user or root needs the place";
                send_reply(&self.clients[at].socket, &Reply::Refused(Reason::Full, text.into()));
            }
            self.dismiss(at);
        }
    }

    /// Closes descriptors of a user's client, or sockets that may hold some.
    fn close(&self, user: u32, descriptors: impl IntoIterator<Item = OwnedFd>) {
        match &self.closers {
            None => descriptors.into_iter().for_each(drop),
            Some(closers) => {
                let closer = closers.for_user(user);
                descriptors.into_iter().for_each(|descriptor| closer.close(descriptor));
            }
        }
    }

    /// Handles a request of a client: `false` when the client is to be dismissed.
    fn handle_request(&mut self, at: usize) -> bool {
        let client = &self.clients[at];
        let bytes = match transport::receive(&client.socket) {
            Received::Nothing => return true,
            // A client that sends nothing more may still have the memory.
            Received::Closed if matches!(client.role, Role::Attached(..)) => {
                return !is_gone(&client.socket) && self.refuse(at, "it says nothing more");
            }
            Received::Closed => return false,
            Received::Message(bytes, descriptors) if descriptors.is_empty() => bytes,
            Received::Message(_, descriptors) | Received::Malformed(descriptors) => {
                self.close(client.user, descriptors);
                return self.refuse(at, "no request");
            }
        };
        // Unread answers would take memory and descriptors that others need.
        if !matches!(socket::unread_by_peer(&client.socket), Ok(0)) {
            return self.refuse(at, "read the last answer before the next request");
        }
        match client.role {
            // Consumers have no more requests, and those that were told to go are not listened to.
            Role::Attached(..) | Role::Leaving(..) => {
                return self.refuse(at, "a consumer asks for nothing");
            }
            Role::New(_) | Role::Asks => {}
        }
        let request = match Request::decode(&bytes) {
            Ok(request) => request,
            Err(error) => return self.refuse(at, error),
        };
        if matches!(request, Request::Attach { .. }) && client.role == Role::Asks {
            return self.refuse(at, "attach by a connection of its own");
        }
        self.clients[at].heard = Instant::now();
        let reply = match request {
            Request::Attach { name, access } => return self.attach(at, &name, access),
            Request::Look => return self.show(at),
            _ if !self.clients[at].trusted => {
                let text = "only the server's user and root make changes";
                Reply::Refused(Reason::Stranger, text.into())
            }
            Request::Weigh { name, weights } => match self.dispatcher().weigh(&name, &weights) {
                Ok(moved) => Reply::Done(moved as u32),
                Err((reason, text)) => Reply::Refused(reason, text),
            },
            Request::Detach { name } => self.detach(&name),
        };
        self.clients[at].role = Role::Asks;
        send_reply(&self.clients[at].socket, &reply)
    }

    /// Tells a client why it is dismissed. A consumer keeps its buffers until it ends.
    fn refuse(&mut self, at: usize, text: &str) -> bool {
        let client = &self.clients[at];
        send_reply(&client.socket, &Reply::Refused(Reason::Protocol, text.into()));
        let Role::Attached(endpoint) = client.role else { return false };
        self.end(at, endpoint, Reason::Protocol);
        true
    }

    fn attach(&mut self, at: usize, name: &str, access: Option<Access>) -> bool {
        let client = &self.clients[at];
        let rights = PeerRights::from_socket(client.socket.as_fd());
        let invited = self.dispatcher().invite(name, access, rights);
        // Files are made while workers have the dispatcher.
        let made = invited.and_then(|invited| {
            let memory = invited.bytes();
            let holders = self.clients.iter().map(Client::holder);
            limits::room_for_consumer(holders, client.user, client.trusted, memory)
                .map_err(|text| (Reason::Full, text))?;
            let (ready, files) = invited.make()?;
            Ok((self.dispatcher().admit(ready, client.process)?, files, memory))
        });
        let (AttachedConsumer { endpoint, access, spare, asked }, files, memory) = match made {
            Ok(made) => made,
            Err((reason, text)) => {
                send_reply(&client.socket, &Reply::Refused(reason, text));
                return false;
            }
        };
        self.clients[at].role = Role::Attached(endpoint);
        self.clients[at].memory = memory;
        let figures = &self.figures;
        let files = [&files.directory, &files.packets, &files.channel, &files.doorbell, figures];
        let reply = Reply::Attached { line: endpoint as u32, access, spare, asked };
        transport::send(&self.clients[at].socket, &reply.encode(), &files.map(AsFd::as_fd)).is_ok()
    }

    fn show(&mut self, at: usize) -> bool {
        self.clients[at].role = Role::Asks;
        let client = &self.clients[at];
        if client.trusted {
            self.dispatcher().housekeeping();
        } else {
            self.housekeeping_if_due();
        }
        let socket = &self.clients[at].socket;
        transport::send(socket, &Reply::Figures.encode(), &[self.figures.as_fd()]).is_ok()
    }

    /// Makes the dispatcher look after buffers and figures, unless it did a moment ago.
    fn housekeeping_if_due(&mut self) {
        let now = Instant::now();
        self.is_due = self.looked.is_some_and(|looked| now - looked < MIN_POLL_INTERVAL);
        if !self.is_due {
            self.dispatcher().housekeeping();
            self.looked = Some(now);
        }
    }

    /// Detaches the consumer of a name.
    fn detach(&mut self, name: &str) -> Reply {
        let Some(endpoint) = self.dispatcher().find(name) else {
            return Reply::Refused(Reason::Unknown, format!("nobody is attached as {name}"));
        };
        let role = Role::Attached(endpoint);
        if let Some(at) = self.clients.iter().position(|client| client.role == role) {
            self.end(at, endpoint, Reason::Detached);
        }
        Reply::Done(0)
    }

    /// Tells a consumer to go.
    fn end(&mut self, at: usize, endpoint: usize, reason: Reason) {
        let writes = self.dispatcher().end(endpoint);
        // No packet comes behind this: the client takes what is there and leaves.
        send_reply(&self.clients[at].socket, &Reply::Ended(reason));
        let until = (!writes).then(|| Instant::now() + DETACH_TIMEOUT);
        self.clients[at].role = Role::Leaving(endpoint, until);
    }

    /// Forgets a client whose connection has ended, and takes back its buffers: no thread of its
    /// process has the memory any more.
    fn dismiss(&mut self, at: usize) {
        let client = self.clients.remove(at);
        if let Role::Attached(endpoint) | Role::Leaving(endpoint, _) = client.role {
            // Dropped after the dispatcher's lock is released.
            let memory = self.dispatcher().remove(endpoint);
            drop(memory);
        }
        self.close(client.user, [client.socket]);
    }

    fn housekeeping(&mut self) {
        let due = self.dispatcher().due_to_end();
        for (endpoint, reason) in due {
            let role = Role::Attached(endpoint);
            if let Some(at) = self.clients.iter().position(|client| client.role == role) {
                self.end(at, endpoint, reason);
            }
        }
        self.closers.iter().for_each(Closers::resume);
        self.housekeeping_if_due();
    }

    /// The server ends: consumers are told, and waited for.
    fn shutdown(&mut self) {
        let attached = |client: &Client| matches!(client.role, Role::Attached(..));
        while let Some(at) = self.clients.iter().position(attached) {
            let Role::Attached(endpoint) = self.clients[at].role else { continue };
            self.end(at, endpoint, Reason::Gone);
        }
        self.listener.unlink();
        let leaves = |client: &mut Client| matches!(client.role, Role::Leaving(..));
        let others: Vec<Client> = self.clients.extract_if(.., |client| !leaves(client)).collect();
        others.into_iter().for_each(|client| self.close(client.user, [client.socket]));
        let until = Instant::now() + DETACH_TIMEOUT;
        while !self.clients.is_empty() && Instant::now() < until {
            self.clients.iter().for_each(|client| self.ignore(client));
            match self.clients.iter().position(|client| is_gone(&client.socket)) {
                Some(at) => self.dismiss(at),
                None => thread::sleep(POLL_INTERVAL / 20),
            }
        }
        // A consumer that only reads can do no harm; others keep their buffers until they have ended.
        let reads = |client: &Client| matches!(client.role, Role::Leaving(_, Some(_)));
        while let Some(at) = self.clients.iter().position(reads) {
            self.dismiss(at);
        }
        // Closing the listener would close descriptors in the messages of connections in its backlog.
        for _ in 0..=BACKLOG {
            let Ok(socket) = rustix::net::accept_with(self.listener.fd(), SocketFlags::CLOEXEC)
            else {
                break;
            };
            let user = socket_peercred(&socket).map_or(u32::MAX, |peer| peer.uid.as_raw());
            self.close(user, [socket]);
        }
        let rest = std::mem::take(&mut self.clients);
        rest.into_iter().for_each(|client| self.close(client.user, [client.socket]));
    }

    /// Receives and drops messages: a descriptor in an unread message may be the other end of this socket,
    /// which would stay open.
    fn ignore(&self, client: &Client) {
        for _ in 0..IGNORED {
            match transport::receive(&client.socket) {
                Received::Nothing => return,
                Received::Message(_, descriptors) | Received::Malformed(descriptors) => {
                    self.close(client.user, descriptors);
                }
                // An empty message looks like the end, and more messages may follow it.
                Received::Closed => {}
            }
        }
    }
}

/// Messages that are received and forgotten in one go: more than a socket holds as the kernel has it.
const IGNORED: usize = 64;

/// Returns true if the peer has closed its end, which the kernel does for a process that ends after
/// it has freed the memory. A peer that has only shut down its sending side has not.
fn is_gone(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let _ = rustix::event::poll(&mut polled, Some(&now));
    polled[0].revents().contains(PollFlags::HUP)
}

/// Says something to a client that is expected to read it: `false` when it does not.
fn send_reply(socket: &OwnedFd, reply: &Reply) -> bool {
    transport::send(socket, &reply.encode(), &[]).is_ok()
}
