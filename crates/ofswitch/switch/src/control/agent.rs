//! The agent: starts, runs and ends the threads of the OpenFlow channel.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::admission::Ticket;
use super::connecting::{ConnectAttempt, Listener};
use super::connection::{EndReason, Times, converse};
use super::link::Link;
use super::session::{HelloCheck, Session};
use super::shared::{Shared, TargetState};
use super::tls::Tls;
use super::trust::Peer;
use super::waker::{Ready, Waker, wait};
use super::{AgentOptions, Limits, Target, TlsError, events, state};
use crate::switch::Switch;
use crate::wire::{Role, Version};

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A target cannot be listened at.
    #[error("cannot listen at {target}: {error}")]
    Listen {
        /// Its address.
        target: Target,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The state cannot be read.
    #[error("cannot read the state in {}: {error}", path.display())]
    State {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The state cannot be written.
    #[error("cannot keep the state in {}: {error}", path.display())]
    Keep {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// TLS cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is no version to speak.
    #[error("no version of OpenFlow is allowed")]
    NoVersion,
    /// The system has no threads or files left.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

/// Time to wait for the threads of ending connections. A thread in the middle of a change of a
/// million flows ends by itself after it.
const END_TIME: Duration = Duration::from_millis(500);

/// Time limit of one attempt to connect, with the look-up of the name.
const DIAL_TIME: Duration = Duration::from_secs(60);

/// Upper bound of all configured times.
pub(super) const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Threads of ending connections, in addition to those of open connections.
const ENDING: usize = 16;

/// Serves the controllers of a switch, until it is dropped.
///
/// Each connection has a thread of its own, so that one that floods, stalls or does not read delays
/// no other; so have each target and the unsolicited messages of the switch. Dropping it ends them
/// all, which takes some milliseconds, and no longer than it takes to write the state, independent
/// of the controllers.
#[derive(Debug)]
pub struct Agent {
    shared: Arc<Shared>,
    /// Threads that wait for controllers.
    threads: Vec<JoinHandle<()>>,
    /// The thread that keeps the state, and writes it before it ends.
    keeper: Option<JoinHandle<()>>,
    /// Each of `threads`, and of those they have started, has a sender until it ends.
    ended: (Option<Sender<()>>, Mutex<Receiver<()>>),
}

/// Status of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetStatus {
    /// Its address; a listener that took a free port has its number.
    pub target: Target,
    /// Its controllers.
    pub controllers: Vec<ControllerStatus>,
    /// Connections so far that agreed on a version.
    pub connections: u64,
    /// Why the last one ended, or was not made.
    pub last_error: Option<String>,
    /// Asynchronous messages that found no room, as the controller did not read.
    pub dropped: u64,
    /// Connections refused because of their peer's user, or for want of a place.
    pub rejected: u64,
}

/// A controller that is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerStatus {
    /// Its address.
    pub address: String,
    /// The version, once it is agreed on.
    pub version: Option<Version>,
    /// Its role.
    pub role: Role,
}

/// Status of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStatus {
    /// Status of each target.
    pub targets: Vec<TargetStatus>,
    /// Packets of controllers that no worker took in time.
    pub lost_packets: u64,
    /// Packets for controllers over their rate.
    pub unsent_packets: u64,
    /// Packets, ends of flows and changes of ports that no controller was sent, as the queue was
    /// full.
    pub lost_events: u64,
    /// Why the state could not be written the last time.
    pub state_problem: Option<String>,
}

impl Agent {
    /// Begins to connect and to listen.
    pub fn start(switch: Arc<Switch>, mut options: AgentOptions) -> Result<Agent, AgentError> {
        // Longer than any program runs, and short enough to be added to a clock's time.
        let (shortest, longest) = options.backoff;
        options.backoff = (shortest.min(FOREVER), longest.min(FOREVER));
        options.probe_interval = options.probe_interval.min(FOREVER);
        if options.versions.is_empty() {
            return Err(AgentError::NoVersion);
        }
        let secure = options.targets.iter().find(|target| target.is_secure());
        let tls = match (secure, &options.credentials) {
            (None, _) => None,
            (Some(_), Some(credentials)) => Some(Tls::load(credentials)?),
            (Some(target), None) => return Err(TlsError::Missing(target.to_string()).into()),
        };
        let (mut places, mut listeners) = (Vec::new(), Vec::new());
        for (nth, target) in options.targets.iter().enumerate() {
            let mut target = target.clone();
            if target.is_passive() {
                let bound = Listener::new(&target);
                let (listener, bound) =
                    bound.map_err(|error| AgentError::Listen { target, error })?;
                listeners.push((nth, listener));
                target = bound;
            }
            places.push(TargetState::new(target, options.limits));
        }
        let shared = Shared::new(switch, options, places);
        let (alive, ended) = channel();
        let mut agent = Agent {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
            keeper: None,
            ended: (Some(alive.clone()), Mutex::new(ended)),
        };
        // Before any change.
        if let Some(path) = shared.options.state.clone() {
            state::restore(&shared.switch, &path, shared.now())
                .map_err(|error| AgentError::State { path: path.clone(), error })?;
            // A state that cannot be written is an error at the start already.
            let keeper = state::Keeper::start(&shared, &path)
                .map_err(|error| AgentError::Keep { path, error })?;
            let keep = move || keeper.run();
            agent.keeper = Some(thread::Builder::new().name("of-state".to_owned()).spawn(keep)?);
        }
        let subscription = shared.switch.subscribe();
        let events = Arc::clone(&shared);
        agent.spawn("of-events".to_owned(), move || events::run(&events, &subscription))?;
        for (nth, listener) in listeners {
            let (shared, tls) = (Arc::clone(&shared), tls.clone());
            let (waker, alive) = (shared.stop.waker()?, alive.clone());
            agent.spawn(format!("of-listen-{nth}"), move || {
                listen(&shared, nth, listener, tls.as_ref(), &waker, &alive);
            })?;
        }
        let dialled = shared.places.iter().enumerate();
        for (nth, _) in dialled.filter(|(_, place)| !place.target.is_passive()) {
            let (shared, tls) = (Arc::clone(&shared), tls.clone());
            let waker = shared.stop.waker()?;
            agent.spawn(format!("of-connect-{nth}"), move || {
                connect(&shared, nth, tls.as_ref(), &waker);
            })?;
        }
        Ok(agent)
    }

    fn spawn(
        &mut self,
        name: String,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), AgentError> {
        let alive = self.ended.0.clone();
        let body = move || {
            let _alive = alive;
            body();
        };
        self.threads.push(thread::Builder::new().name(name).spawn(body)?);
        Ok(())
    }

    /// The switch it serves.
    #[must_use]
    pub fn switch(&self) -> &Arc<Switch> {
        &self.shared.switch
    }

    /// Returns the status of the agent.
    #[must_use]
    pub fn status(&self) -> AgentStatus {
        let peers = self.shared.peers.lock();
        let of = |nth: usize, place: &TargetState| {
            let here = || peers.peers.iter().filter(|peer| peer.target == nth);
            let controllers = here().map(|peer| ControllerStatus {
                address: peer.address.clone(),
                version: peer.version,
                role: peer.role,
            });
            let history = place.history();
            TargetStatus {
                target: place.target.clone(),
                controllers: controllers.collect(),
                connections: history.connections,
                last_error: history.last_error.clone(),
                dropped: history.dropped + here().map(|peer| peer.outbox.dropped()).sum::<u64>(),
                rejected: history.rejected,
            }
        };
        let places = self.shared.places.iter().enumerate();
        AgentStatus {
            targets: places.map(|(nth, place)| of(nth, place)).collect(),
            lost_packets: self.shared.lost_packets.load(Ordering::Relaxed),
            unsent_packets: self.shared.unsent_packets.load(Ordering::Relaxed),
            lost_events: self.shared.lost_events.load(Ordering::Relaxed),
            state_problem: self.shared.state_problem().clone(),
        }
    }

    /// Ends all connections, and writes the state a last time: how that went is in the status then.
    pub fn stop(&mut self) {
        self.shared.stop.set();
        drop(self.ended.0.take());
        let ended = self.ended.1.get_mut().unwrap_or_else(PoisonError::into_inner);
        let have_ended = ended.recv_timeout(END_TIME) == Err(RecvTimeoutError::Disconnected);
        for thread in self.threads.drain(..).filter(|_| have_ended).chain(self.keeper.take()) {
            // A panic has been printed.
            let _panicked = thread.join();
        }
    }

    /// Creates a conversation without a socket, as if a controller had connected to a listener.
    ///
    /// The caller carries its bytes: for tests, and for fuzzing.
    pub fn conversation(&self) -> Result<Conversation, AgentError> {
        let waker = self.shared.stop.waker()?;
        let place = usize::MAX;
        Ok(Conversation(self.shared.arrived(place, String::new(), false, waker, HelloCheck::Open)))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A controller's conversation without a connection.
#[derive(Debug)]
pub struct Conversation(Session);

impl Conversation {
    /// Takes bytes of the controller, and handles messages as far as answers have room. A call
    /// without bytes continues.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), EndReason> {
        self.0.push(bytes);
        while self.0.advance()? && !self.0.is_full() {}
        self.0.tick();
        Ok(())
    }

    /// Returns the answers and unsolicited messages since the last call.
    pub fn recv(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.outbox().take(&mut bytes, usize::MAX);
        bytes
    }
}

/// Connects to a target again and again.
fn connect(shared: &Arc<Shared>, nth: usize, tls: Option<&Tls>, waker: &Arc<Waker>) {
    let place = &shared.places[nth];
    let (shortest, longest) = shared.options.backoff;
    let mut pause = shortest;
    while !shared.stop.is_set() {
        let began = Instant::now();
        let attempt = ConnectAttempt {
            tls,
            trust: Some(&shared.options.trust),
            stop: &shared.stop,
            waker,
            deadline: began + DIAL_TIME,
        };
        match attempt.dial(&place.target) {
            Ok((link, address)) => {
                let check = match link.plain_ends() {
                    Some((ours, theirs)) => HelloCheck::Dialled { ours, theirs },
                    None => HelloCheck::Open,
                };
                serve(shared, nth, link, address, check, waker);
            }
            Err(error) => place.history().last_error = Some(error.to_string()),
        }
        // One that held for a while was a good one.
        if began.elapsed() > longest.max(Duration::from_secs(1)) {
            pause = shortest;
        }
        // Not all switches of a network at once.
        let jitter = pause.mul_f64(fastrand::f64() / 4.0);
        rest(shared, waker, pause - jitter);
        pause = (2 * pause).min(longest);
    }
}

/// Waits, unless the agent stops.
fn rest(shared: &Shared, waker: &Waker, time: Duration) {
    let deadline = Instant::now() + time;
    while !shared.stop.is_set() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        wait(waker, None, Some(left));
    }
}

/// Carries a connection to its end, and remembers why it ended.
fn serve(
    shared: &Arc<Shared>,
    nth: usize,
    mut link: Link,
    address: String,
    check: HelloCheck,
    waker: &Arc<Waker>,
) {
    let is_dialled = !shared.places[nth].target.is_passive();
    let mut session = shared.arrived(nth, address, is_dialled, Arc::clone(waker), check);
    let Limits { hello, message, .. } = shared.options.limits;
    let times = Times { hello, message, probe: shared.options.probe_interval };
    let ended = converse(&mut link, &mut session, &shared.stop, waker, times);
    if !matches!(ended, EndReason::Stopped) {
        shared.places[nth].history().last_error = Some(ended.to_string());
    }
}

/// Accepts connections of a listener until the agent stops.
fn listen(
    shared: &Arc<Shared>,
    nth: usize,
    listener: Listener,
    tls: Option<&Tls>,
    waker: &Waker,
    alive: &Sender<()>,
) {
    let Limits { controllers, half_open, .. } = shared.options.limits;
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !shared.stop.is_set() {
        threads.retain(|thread| !thread.is_finished());
        if threads.len() >= controllers + half_open + ENDING {
            // Threads of displaced connections may still run.
            rest(shared, waker, Duration::from_millis(10));
            continue;
        }
        let wanted = Ready { read: true, write: false };
        if !wait(waker, Some((listener.as_fd(), wanted)), None).read {
            continue;
        }
        match accept(shared, nth, &listener, tls) {
            Ok(Some(visit)) => threads.extend(welcome(shared, nth, visit, alive.clone())),
            Ok(None) => {}
            // Out of files or memory: perhaps not for long.
            Err(error) => {
                shared.places[nth].history().last_error = Some(error.to_string());
                rest(shared, waker, Duration::from_millis(100));
            }
        }
    }
    // No connection is accepted any more, while those there are take their time to end.
    drop(listener);
    for thread in threads {
        let _panicked = thread.join();
    }
}

/// A connection of an admitted peer.
struct Visit {
    link: Link,
    address: String,
    ticket: Ticket,
    waker: Arc<Waker>,
}

/// Accepts a connection, if one waits and its peer is admitted.
fn accept(
    shared: &Shared,
    nth: usize,
    listener: &Listener,
    tls: Option<&Tls>,
) -> io::Result<Option<Visit>> {
    let (socket, address) = match listener.accept() {
        Ok(come) => come,
        Err(error)
            if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let place = &shared.places[nth];
    let peer = Peer::from_socket(&socket);
    let trusted = peer.and_then(|peer| shared.options.trust.check(&peer, listener.is_secure()));
    let source = match trusted {
        Ok(source) => source,
        Err(error) => {
            let mut history = place.history();
            history.rejected += 1;
            history.last_error = Some(error.to_string());
            return Ok(None);
        }
    };
    let waker = shared.stop.waker()?;
    let ticket = place.admission.admit(source, Arc::clone(&waker));
    let link = listener.link(socket, tls)?;
    Ok(Some(Visit { link, address, ticket, waker }))
}

/// Starts the thread of a connection.
fn welcome(
    shared: &Arc<Shared>,
    nth: usize,
    visit: Visit,
    alive: Sender<()>,
) -> Option<JoinHandle<()>> {
    let inside = Arc::clone(shared);
    let body = move || {
        let _alive = alive;
        let Visit { link, address, ticket, waker } = visit;
        serve(&inside, nth, link, address, HelloCheck::Listener(ticket), &waker);
    };
    match thread::Builder::new().name(format!("of-serve-{nth}")).spawn(body) {
        Ok(thread) => Some(thread),
        Err(error) => {
            shared.places[nth].history().last_error = Some(error.to_string());
            None
        }
    }
}
