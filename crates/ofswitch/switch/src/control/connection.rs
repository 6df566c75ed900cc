//! One connection, from its first byte to its last.
//!
//! A thread of its own reads, handles messages, and writes. It never waits but for its socket and
//! its waker, and reads nothing while answers wait: a peer that does not read is not served.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::busy_poll::BusyPoll;
use super::link::Link;
use super::session::Session;
use super::stop_flag::StopFlag;
use super::waker::{Ready, Waker, wait};
use crate::wire::Fault;

/// Bytes read, and bytes got ready to be written, at a time.
const CHUNK: usize = 1 << 16;

/// Bytes read at a time before the hello.
const FIRST_CHUNK: usize = 1 << 12;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum EndReason {
    /// The controller closed it.
    #[error("the controller closed the connection")]
    Closed,
    /// The switch stops.
    #[error("the switch stopped")]
    Stopped,
    /// The socket failed, or TLS refused the other side.
    #[error("{0}")]
    Failed(#[from] io::Error),
    /// It did not begin as OpenFlow does.
    #[error("the controller did not begin with a hello")]
    NoHello,
    /// There was no hello in time.
    #[error("the controller said no hello in time")]
    Late,
    /// Its place was given to another connection before its hello.
    #[error("too many connections without a hello: this one made room for another")]
    Displaced,
    /// No place for another controller is left.
    #[error("too many controllers are connected, or too many of this one's source")]
    Full,
    /// The peer may not control the switch.
    #[error("{0}")]
    Refused(io::Error),
    /// It did not complete a message in time.
    #[error("the controller stopped in the middle of a message")]
    Stalled,
    /// There is no version both speak.
    #[error("the controller speaks no version that is allowed here")]
    NoVersion,
    /// The bytes received cannot be divided into messages.
    #[error("what the controller sends is no OpenFlow: {0}")]
    Garbage(Fault),
    /// It sent nothing, and did not answer.
    #[error("the controller has been silent for too long")]
    Silent,
    /// It did not read.
    #[error("the controller has not read for too long")]
    Stuck,
    /// More has changed than its monitors can be sent.
    #[error(
        "too much has changed at once for the controller's flow monitors: it connects again and asks anew"
    )]
    Overwhelmed,
}

/// Carries a connection to its end.
pub(super) fn converse(
    link: &mut Link,
    session: &mut Session,
    stop: &StopFlag,
    waker: &Waker,
    times: Times,
) -> EndReason {
    let ended = Conversation::new(link, session, waker, times).run(stop);
    if matches!(
        ended,
        EndReason::Stopped | EndReason::Garbage(_) | EndReason::NoVersion | EndReason::NoHello
    ) {
        link.close();
    }
    ended
}

/// Time limits of a peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Until its hello.
    pub(super) hello: Duration,
    /// Longest time from the first byte of a message to its last.
    pub(super) message: Duration,
    /// Silence until an echo request, and from that to its answer.
    pub(super) probe: Duration,
}

struct Conversation<'a> {
    link: &'a mut Link,
    session: &'a mut Session,
    waker: &'a Waker,
    times: Times,
    began: Instant,
    /// Time of the first byte of the incomplete message.
    half_since: Option<Instant>,
    /// Time of the last input or, while nothing is read, of the last chunk of answers sent.
    heard: Instant,
    /// Whether an echo request was sent since.
    probed: bool,
    /// Whether there may be bytes to read.
    readable: bool,
    busy_poll: BusyPoll,
    /// Bytes being written, and the number of those already written.
    pending: Vec<u8>,
    written: usize,
    buffer: Vec<u8>,
}

impl<'a> Conversation<'a> {
    fn new(
        link: &'a mut Link,
        session: &'a mut Session,
        waker: &'a Waker,
        times: Times,
    ) -> Conversation<'a> {
        let now = Instant::now();
        Conversation {
            link,
            session,
            waker,
            times,
            began: now,
            half_since: None,
            heard: now,
            probed: false,
            readable: true,
            busy_poll: BusyPoll::default(),
            pending: Vec::new(),
            written: 0,
            buffer: vec![0; FIRST_CHUNK],
        }
    }

    fn run(&mut self, stop: &StopFlag) -> EndReason {
        loop {
            if stop.is_set() {
                return EndReason::Stopped;
            }
            match self.turn() {
                Ok(()) => {}
                Err(ended) => {
                    // The last answer may tell the reason.
                    let _gone = self.write();
                    return ended;
                }
            }
        }
    }

    /// Reads, handles and writes without blocking, then waits.
    fn turn(&mut self) -> Result<(), EndReason> {
        self.check_times()?;
        self.write()?;
        // Messages that came before go first.
        let mut waiting = self.session.advance()?;
        if self.readable && !waiting && !self.session.is_full() {
            self.read()?;
            waiting = self.session.advance()?;
        }
        self.write()?;
        self.session.tick();
        let stuck = !self.pending.is_empty() || self.link.wants_write();
        let listens = !self.session.is_full() && !waiting;
        if (self.readable && listens) || (waiting && !stuck) {
            return Ok(());
        }
        let now = Instant::now();
        if listens && !stuck && self.busy_poll.is_on(now) {
            // Others may want this core: the controller itself, where there is one.
            std::thread::yield_now();
            self.busy_poll.offered(now, Instant::now());
            self.readable = true;
            return Ok(());
        }
        let timeout = self.probe_now(listens)?;
        let wanted = Ready { read: listens, write: stuck };
        let ready = wait(self.waker, Some((self.link.as_fd(), wanted)), Some(timeout));
        self.readable |= ready.read;
        Ok(())
    }

    fn read(&mut self) -> Result<(), EndReason> {
        match self.link.read(&mut self.buffer) {
            Ok(0) => Err(EndReason::Closed),
            Ok(count) => {
                self.session.push(&self.buffer[..count]);
                let is_whole = count < self.buffer.len();
                if self.session.is_established() && self.buffer.len() < CHUNK {
                    self.buffer.resize(CHUNK, 0);
                }
                (self.heard, self.probed) = (Instant::now(), false);
                self.busy_poll.received(self.heard);
                // Where less came than there was room for, poll(2) reports more.
                self.readable = !is_whole || self.link.keeps_bytes();
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn write(&mut self) -> Result<(), EndReason> {
        loop {
            if self.pending.is_empty() {
                self.session.outbox().take(&mut self.pending, CHUNK);
            }
            if self.pending.is_empty() {
                return match self.link.flush() {
                    Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error.into()),
                    _ => Ok(()),
                };
            }
            match self.link.write(&self.pending[self.written..]) {
                Ok(0) => return Err(EndReason::Closed),
                Ok(count) => {
                    self.written += count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            if self.written == self.pending.len() {
                self.written = 0;
                self.pending.clear();
                if self.session.is_full() {
                    self.heard = Instant::now();
                }
                self.busy_poll.wrote(Instant::now());
                // A large answer is not kept for its room.
                self.pending.shrink_to(CHUNK);
            }
        }
    }

    /// Ends a connection whose peer exceeds a time limit, even if it sends other data.
    fn check_times(&mut self) -> Result<(), EndReason> {
        if self.session.is_ending() && !self.has_said_hello()? {
            return Err(EndReason::Displaced);
        }
        if self.session.outbox().is_given_up() {
            return Err(EndReason::Overwhelmed);
        }
        let now = Instant::now();
        if !self.session.is_established() {
            let is_late = now - self.began >= self.times.hello;
            return if is_late { Err(EndReason::Late) } else { Ok(()) };
        }
        // While answers wait, nothing is read, so the peer's time does not run.
        if self.session.take_progress() || !self.session.has_half() || self.session.is_full() {
            self.half_since = None;
        }
        if self.session.has_half() {
            let since = *self.half_since.get_or_insert(now);
            if now - since >= self.times.message {
                return Err(EndReason::Stalled);
            }
        }
        Ok(())
    }

    /// Reads the rest of a half-open connection that makes room for another, and returns true if it
    /// has sent its hello.
    fn has_said_hello(&mut self) -> Result<bool, EndReason> {
        self.read()?;
        self.session.advance()?;
        Ok(self.session.is_established())
    }

    /// Sends an echo request, when it is time to, and returns the time until the next.
    fn probe_now(&mut self, listens: bool) -> Result<Duration, EndReason> {
        let now = Instant::now();
        if !self.session.is_established() {
            return Ok(self.times.hello.saturating_sub(now - self.began));
        }
        let (tick, probe) = (Duration::from_secs(1), self.times.probe);
        let silent = now - self.heard;
        if probe.is_zero() {
            // A peer that does not read is given up all the same.
            let is_stuck = !listens && silent >= 2 * self.times.message;
            return if is_stuck { Err(EndReason::Stuck) } else { Ok(tick) };
        }
        if silent >= 2 * probe {
            return Err(if listens { EndReason::Silent } else { EndReason::Stuck });
        }
        if silent < probe {
            return Ok((probe - silent).min(tick));
        }
        if !self.probed && listens {
            self.probed = true;
            self.session.probe();
            return Ok(Duration::ZERO);
        }
        Ok((2 * probe - silent).min(tick))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use linerate_linux::peer_stream::PeerStream;

    use super::*;
    use crate::control::admission::Source;
    use crate::control::link::Socket;
    use crate::control::session::HelloCheck;
    use crate::control::shared::{Shared, TargetState};
    use crate::control::{AgentOptions, Limits};
    use crate::switch::{Switch, SwitchOptions};
    use crate::wire::{Hello, Message, Version};

    /// Carries a connection that has lost its place before its thread runs, and by then has sent
    /// these bytes. Returns how it ended, and whether it was a controller's.
    fn displaced(said: &[u8]) -> (EndReason, bool) {
        let limits = Limits { half_open: 1, ..Limits::default() };
        let options = AgentOptions { limits, ..AgentOptions::default() };
        let target = "ptcp:0:127.0.0.1".parse().expect("a target");
        let switch = Switch::new(SwitchOptions::default());
        let shared = Shared::new(switch, options, vec![TargetState::new(target, limits)]);
        let waker = shared.stop.waker().expect("an eventfd");
        let come = || shared.places[0].admission.admit(Source::User(4711), Arc::clone(&waker));
        let (first, _second) = (come(), come());
        assert!(first.is_ending());
        let (near, mut far) = UnixStream::pair().expect("sockets");
        far.write_all(said).expect("room");
        far.shutdown(Shutdown::Write).expect("it is connected");
        let mut link = Link::plain(Socket::unix(PeerStream::new(near, None)).expect("a socket"));
        let check = HelloCheck::Listener(first);
        let mut session = shared.arrived(0, String::new(), false, Arc::clone(&waker), check);
        let times = Times { hello: limits.hello, message: limits.message, probe: Duration::ZERO };
        let ended = converse(&mut link, &mut session, &shared.stop, &waker, times);
        (ended, session.is_established())
    }

    #[test]
    fn a_hello_that_has_come_is_heard_though_the_place_is_gone() {
        let hello = Message::Hello(Hello::from_versions(&[Version::V13]));
        let hello = hello.encode(Version::V13, 0).expect("a hello");
        let (ended, is_controller) = displaced(&hello);
        assert!(matches!(ended, EndReason::Closed) && is_controller, "{ended}");
        let (ended, is_controller) = displaced(&hello[..5]);
        assert!(matches!(ended, EndReason::Displaced) && !is_controller, "{ended}");
    }
}
