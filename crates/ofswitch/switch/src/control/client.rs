//! OpenFlow client: sends requests to a switch and reads its replies.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::agent::FOREVER;
use super::connecting::{ConnectAttempt, Listener};
use super::link::Link;
use super::stop_flag::StopFlag;
use super::tls::Tls;
use super::waker::{Ready, Waker, wait};
use super::{Credentials, Target, TlsError, Trust};
use crate::wire::multipart::{Reply, Request};
use crate::wire::{
    BundleAdd, BundleControl, BundleFlags, BundleStep, Code, ErrorMessage, Fault, Header, Hello,
    Message, MultipartRequest, Stream, Unencodable, Version,
};

/// Bytes of output that block further messages. Twice as many block reading too, as input may need
/// an answer.
const WAITING: usize = 256 * 1024;

/// Most unsolicited messages that wait for [`Client::next`], and their bytes. More are dropped.
const UNASKED: usize = 1024;
const UNASKED_BYTES: usize = 4 << 20;

/// Most errors that are kept.
const REFUSALS: usize = 65_536;

/// Messages without an answer that share the time limit of one with an answer.
const BATCH: usize = 1000;

/// Divisor of the time limit for the hello of one of several connections.
const CANDIDATES: u32 = 8;

/// Options of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The versions that may be spoken.
    pub versions: Vec<Version>,
    /// Credentials for TLS.
    pub credentials: Option<Credentials>,
    /// Time limit of a whole answer, and of connecting with its handshakes.
    pub timeout: Duration,
    /// Most bytes of an answer.
    pub max_answer: usize,
    /// Users that the switch at a UNIX socket may run as; `None` is any.
    pub trust: Option<Trust>,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        let timeout = Duration::from_secs(10);
        ClientOptions {
            versions: Version::ALL.to_vec(),
            credentials: None,
            timeout,
            max_answer: 256 << 20,
            trust: None,
        }
    }
}

/// Error of a request to a switch.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It cannot be reached.
    #[error("cannot reach the switch at {target}: {error}")]
    Connect {
        /// Address of the switch.
        target: Target,
        /// Cause.
        error: io::Error,
    },
    /// TLS cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Both sides have no version in common.
    #[error("the switch speaks OpenFlow {theirs}, and not one of {ours}")]
    NoVersion {
        /// Versions spoken here.
        ours: String,
        /// Answer of the switch.
        theirs: String,
    },
    /// The connection has ended.
    #[error("the switch has ended the connection")]
    Ended,
    /// The connection is broken.
    #[error("the connection to the switch is broken: {0}")]
    Broken(io::Error),
    /// No answer, or no complete one, came in time.
    #[error("the switch did not answer in time")]
    TimedOut,
    /// The answer exceeds `max_answer`.
    #[error("the switch's answer is longer than {0} bytes")]
    TooLong(usize),
    /// It refused the request.
    #[error("the switch refuses it: {0}")]
    Refused(Refusal),
    /// It refused one message of several.
    #[error("the switch refuses number {}: {refusal}", .number + 1)]
    RefusedOne {
        /// Its number, from 0 on.
        number: usize,
        /// Answer of the switch.
        refusal: Refusal,
    },
    /// Its message is malformed.
    #[error("the switch says what cannot be understood: {0}")]
    Malformed(Fault),
    /// It answered with another message.
    #[error("the switch answers something else")]
    Unexpected,
    /// The version that is spoken has no words for it.
    #[error("OpenFlow {version}: {error}")]
    Unencodable {
        /// The version.
        version: Version,
        /// Part that the version lacks.
        error: Unencodable,
    },
}

/// Error message of a switch, with its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Its fault, where the numbers are known.
    pub fault: Option<Fault>,
    /// Its numbers as sent.
    pub code: Code,
}

impl Refusal {
    fn new(error: &ErrorMessage, version: Version) -> Refusal {
        Refusal { fault: error.fault(version), code: error.code }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fault) = self.fault {
            write!(formatter, "{fault} ")?;
        }
        match self.code {
            Code::Standard { kind, code } => write!(formatter, "(error {kind}, {code})"),
            Code::Experimenter { experimenter, code } => {
                write!(formatter, "(error {code} of {experimenter:#010x})")
            }
            Code::Vendor { experimenter, kind, code } => {
                write!(formatter, "(error {kind}, {code} of {experimenter:#010x})")
            }
        }
    }
}

/// A connection to a switch, which waits for each answer.
///
/// Each call ends within its time limit and in bounded memory, for any behaviour of the switch.
#[derive(Debug)]
pub struct Client {
    link: Link,
    stream: Stream,
    waker: Arc<Waker>,
    version: Version,
    xid: u32,
    timeout: Duration,
    max_answer: usize,
    /// Bytes to be written, and the number of those already written.
    out: Vec<u8>,
    written: usize,
    /// Messages that no call waited for, with their lengths.
    come: VecDeque<(u32, Message, usize)>,
    come_bytes: usize,
    /// Errors that came meanwhile.
    refused: VecDeque<(u32, Refusal)>,
}

impl Client {
    /// Connects to a switch, or waits until it does, and agrees on a version.
    pub fn connect(target: &Target, options: &ClientOptions) -> Result<Client, ClientError> {
        let options = &ClientOptions { timeout: options.timeout.min(FOREVER), ..options.clone() };
        let deadline = Instant::now() + options.timeout;
        let tls = match &options.credentials {
            Some(credentials) => Some(Tls::load(credentials)?),
            None if target.is_secure() => return Err(TlsError::Missing(target.to_string()).into()),
            None => None,
        };
        let failed = |error| ClientError::Connect { target: target.clone(), error };
        let waker = Arc::new(Waker::new().map_err(failed)?);
        if !target.is_passive() {
            let (tls, trust, stop) = (tls.as_ref(), options.trust.as_ref(), &StopFlag::default());
            let attempt = ConnectAttempt { tls, trust, stop, waker: &waker, deadline };
            let (link, _) = attempt.dial(target).map_err(failed)?;
            return Client::over(link, waker, options, deadline);
        }
        let (listener, _) = Listener::new(target).map_err(failed)?;
        let mut last = None;
        loop {
            let link = match accept(&listener, tls.as_ref(), &waker, deadline) {
                Ok(link) => link,
                Err(error) => return Err(last.unwrap_or_else(|| failed(error))),
            };
            // The connection may be of a peer that sends nothing: others are accepted, too.
            let until = Instant::now() + options.timeout / CANDIDATES;
            match Client::over(link, Arc::clone(&waker), options, until.min(deadline)) {
                Ok(client) => return Ok(client),
                Err(error) => last = Some(error),
            }
        }
    }

    /// Agrees on a version with the switch at the other end.
    fn over(
        link: Link,
        waker: Arc<Waker>,
        options: &ClientOptions,
        deadline: Instant,
    ) -> Result<Client, ClientError> {
        let greatest = options.versions.iter().copied().max().unwrap_or(Version::V13);
        let mut client = Client {
            link,
            stream: Stream::new(),
            waker,
            version: greatest,
            xid: 0,
            timeout: options.timeout,
            max_answer: options.max_answer,
            out: Vec::new(),
            written: 0,
            come: VecDeque::new(),
            come_bytes: 0,
            refused: VecDeque::new(),
        };
        client.greet(&options.versions, deadline)?;
        Ok(client)
    }

    fn greet(&mut self, ours: &[Version], deadline: Instant) -> Result<(), ClientError> {
        self.send(&Message::Hello(Hello::from_versions(ours)), deadline)?;
        loop {
            let bytes = self.stream.next_message().map_err(ClientError::Malformed)?;
            let Some(bytes) = bytes.map(<[u8]>::to_vec) else {
                self.exchange(deadline)?;
                continue;
            };
            let greatest = Header::read(&bytes).map_or(0, |header| header.version);
            return match Message::decode(&bytes).map_err(ClientError::Malformed)? {
                (_, _, Message::Hello(hello)) => {
                    match Version::agree(ours, greatest, hello.bitmap.as_deref()) {
                        Some(version) => {
                            self.version = version;
                            Ok(())
                        }
                        None => Err(no_version(ours, greatest, hello.bitmap.as_deref())),
                    }
                }
                (_, _, Message::Error(error)) => Err(ClientError::Refused(self.refusal(&error))),
                _ => Err(ClientError::Unexpected),
            };
        }
    }

    /// The deadline of a call that begins now.
    fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    fn refusal(&self, error: &ErrorMessage) -> Refusal {
        Refusal::new(error, self.version)
    }

    /// The version that is spoken.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Sends a message, now or with later ones, and returns the number of its answer.
    fn send(&mut self, message: &Message, deadline: Instant) -> Result<u32, ClientError> {
        let version = self.version;
        self.xid = self.xid.wrapping_add(1);
        let bytes = message
            .encode(version, self.xid)
            .map_err(|error| ClientError::Unencodable { version, error })?;
        self.out.extend_from_slice(&bytes);
        while self.out.len() - self.written > WAITING {
            self.exchange(deadline)?;
            // Messages that come meanwhile are kept, up to a bound.
            while let Some((xid, message, length)) = self.take()? {
                self.keep(xid, message, length);
            }
        }
        Ok(self.xid)
    }

    /// Writes and reads without blocking, or waits until either is possible.
    fn exchange(&mut self, deadline: Instant) -> Result<(), ClientError> {
        // The deadline holds even while bytes move.
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ClientError::TimedOut);
        }
        let mut moved = false;
        while self.written < self.out.len() {
            match self.link.write(&self.out[self.written..]) {
                Ok(count) => {
                    self.written += count;
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(broken(error)),
            }
        }
        if self.written == self.out.len() || self.written > WAITING {
            self.out.drain(..self.written);
            self.written = 0;
        }
        match self.link.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(broken(error)),
            _ => {}
        }
        // The client reads no more from a switch that does not read its answers.
        let listens = self.out.len() - self.written <= 2 * WAITING;
        if listens {
            let mut buffer = [0; 16 * 1024];
            match self.link.read(&mut buffer) {
                Ok(0) => return Err(ClientError::Ended),
                Ok(count) => {
                    self.stream.push(&buffer[..count]);
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(broken(error)),
            }
        }
        if moved {
            return Ok(());
        }
        let write = self.written < self.out.len() || self.link.wants_write();
        let socket = (self.link.as_fd(), Ready { read: listens, write });
        wait(&self.waker, Some(socket), Some(left));
        Ok(())
    }

    /// The next complete message, with its length. Echo requests are answered.
    fn take(&mut self) -> Result<Option<(u32, Message, usize)>, ClientError> {
        loop {
            let bytes = self.stream.next_message().map_err(ClientError::Malformed)?;
            let Some(bytes) = bytes else { return Ok(None) };
            let length = bytes.len();
            match Message::decode(bytes).map_err(ClientError::Malformed)? {
                (_, xid, Message::EchoRequest(data)) => {
                    let version = self.version;
                    let reply = Message::EchoReply(data).encode(version, xid);
                    let error = |error| ClientError::Unencodable { version, error };
                    self.out.extend_from_slice(&reply.map_err(error)?);
                }
                (_, xid, message) => return Ok(Some((xid, message, length))),
            }
        }
    }

    /// The next message, or none before the deadline.
    fn receive(&mut self, deadline: Instant) -> Result<Option<(u32, Message, usize)>, ClientError> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            match self.exchange(deadline) {
                Err(ClientError::TimedOut) => return Ok(None),
                other => other?,
            }
        }
    }

    /// Keeps a message that no call waited for, if there is room.
    fn keep(&mut self, xid: u32, message: Message, length: usize) {
        if let Message::Error(error) = message {
            if self.refused.len() < REFUSALS {
                self.refused.push_back((xid, self.refusal(&error)));
            }
            return;
        }
        let has_room = self.come.len() < UNASKED && self.come_bytes + length <= UNASKED_BYTES;
        if has_room {
            self.come_bytes += length;
            self.come.push_back((xid, message, length));
        }
    }

    /// A message that was kept.
    fn kept(&mut self, at: usize) -> Option<(u32, Message, usize)> {
        let (xid, message, length) = self.come.remove(at)?;
        self.come_bytes -= length;
        Some((xid, message, length))
    }

    /// Returns the next unsolicited message, or nothing when the time is over.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<(u32, Message)>, ClientError> {
        let next = match self.kept(0) {
            Some(kept) => Some(kept),
            None => self.receive(Instant::now() + timeout.min(FOREVER))?,
        };
        Ok(next.map(|(xid, message, _)| (xid, message)))
    }

    /// The answer to a message, with its length; other messages are kept.
    fn answer(&mut self, xid: u32, deadline: Instant) -> Result<(Message, usize), ClientError> {
        if let Some(at) = self.refused.iter().position(|(of, _)| *of == xid)
            && let Some((_, refusal)) = self.refused.remove(at)
        {
            return Err(ClientError::Refused(refusal));
        }
        let kept = self.come.iter().position(|(of, ..)| *of == xid);
        if let Some((_, message, length)) = kept.and_then(|at| self.kept(at)) {
            return Ok((message, length));
        }
        loop {
            match self.receive(deadline)? {
                None => return Err(ClientError::TimedOut),
                Some((of, Message::Error(error), _)) if of == xid => {
                    return Err(ClientError::Refused(self.refusal(&error)));
                }
                Some((of, message, length)) if of == xid => return Ok((message, length)),
                Some((of, message, length)) => self.keep(of, message, length),
            }
        }
    }

    /// Sends a message that is answered.
    pub fn ask(&mut self, message: &Message) -> Result<Message, ClientError> {
        let deadline = self.deadline();
        let xid = self.send(message, deadline)?;
        Ok(self.answer(xid, deadline)?.0)
    }

    /// Asks for statistics or descriptions; all parts of the answer.
    pub fn request(&mut self, request: Request) -> Result<Vec<Reply>, ClientError> {
        let message = Message::MultipartRequest(MultipartRequest { more: false, body: request });
        let deadline = self.deadline();
        let xid = self.send(&message, deadline)?;
        let (mut replies, mut bytes) = (Vec::new(), 0);
        loop {
            let (message, length) = self.answer(xid, deadline)?;
            bytes += length;
            if bytes > self.max_answer {
                return Err(ClientError::TooLong(self.max_answer));
            }
            match message {
                Message::MultipartReply(reply) => {
                    replies.push(reply.body);
                    if !reply.more {
                        return Ok(replies);
                    }
                }
                _ => return Err(ClientError::Unexpected),
            }
        }
    }

    /// Sends messages that have no answer, and waits until they are processed.
    ///
    /// Returns the refusals of the switch, each with its place in `messages`; the others are done.
    pub fn tell(&mut self, messages: &[Message]) -> Result<Vec<(usize, Refusal)>, ClientError> {
        let mut refused = Vec::new();
        for (nth, batch) in messages.chunks(BATCH).enumerate() {
            let deadline = self.deadline();
            let first = self.xid.wrapping_add(1);
            for message in batch {
                self.send(message, deadline)?;
            }
            let barrier = self.send(&Message::BarrierRequest, deadline)?;
            match self.answer(barrier, deadline)?.0 {
                Message::BarrierReply => {}
                _ => return Err(ClientError::Unexpected),
            }
            for (number, refusal) in self.refusals(first, batch.len()) {
                refused.push((nth * BATCH + number, refusal));
            }
        }
        Ok(refused)
    }

    /// Errors about `count` messages from the number `first` on, with their positions.
    fn refusals(&mut self, first: u32, count: usize) -> Vec<(usize, Refusal)> {
        let refused = std::mem::take(&mut self.refused).into_iter();
        let places = refused.map(|(of, refusal)| (of.wrapping_sub(first) as usize, refusal));
        places.filter(|(place, _)| *place < count).collect()
    }

    /// Has messages done all at once, or none of them.
    ///
    /// OpenFlow 1.3 has this as an extension of ONF, 1.0 has not.
    pub fn bundle(&mut self, messages: &[Message]) -> Result<(), ClientError> {
        const NUMBER: u32 = 1;
        let flags = BundleFlags::ATOMIC.with(BundleFlags::ORDERED);
        let control = |step| {
            Message::BundleControl(BundleControl {
                bundle: NUMBER,
                step,
                flags,
                properties: Vec::new(),
            })
        };
        let version = self.version;
        self.ask(&control(BundleStep::OpenRequest))?;
        let first = self.xid.wrapping_add(1);
        for batch in messages.chunks(BATCH) {
            let deadline = self.deadline();
            for message in batch {
                // Both have the same number.
                let xid = self.xid.wrapping_add(1);
                let message = message
                    .encode(version, xid)
                    .map_err(|error| ClientError::Unencodable { version, error })?;
                let add = BundleAdd { bundle: NUMBER, flags, message };
                self.send(&Message::BundleAdd(add), deadline)?;
            }
        }
        let deadline = self.deadline();
        let commit = self.send(&control(BundleStep::CommitRequest), deadline)?;
        let answer = self.answer(commit, deadline);
        // The first that was refused is why.
        if let Some(&(number, refusal)) = self.refusals(first, messages.len()).first() {
            return Err(ClientError::RefusedOne { number, refusal });
        }
        match answer?.0 {
            Message::BundleControl(control) if control.step == BundleStep::CommitReply => Ok(()),
            _ => Err(ClientError::Unexpected),
        }
    }
}

fn broken(error: io::Error) -> ClientError {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
            ClientError::Ended
        }
        _ => ClientError::Broken(error),
    }
}

/// Waits for a switch to connect.
fn accept(
    listener: &Listener,
    tls: Option<&Tls>,
    waker: &Waker,
    deadline: Instant,
) -> io::Result<Link> {
    loop {
        match listener.accept() {
            Ok((socket, _)) => return listener.link(socket, tls),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(ErrorKind::TimedOut, "no switch came"));
        }
        let wanted = Ready { read: true, write: false };
        wait(waker, Some((listener.as_fd(), wanted)), Some(left));
    }
}

fn no_version(ours: &[Version], greatest: u8, bitmap: Option<&[u32]>) -> ClientError {
    const NAMES: [&str; 7] = ["?", "1.0", "1.1", "1.2", "1.3", "1.4", "1.5"];
    let name = |number: usize| NAMES.get(number).copied().unwrap_or("of a later time");
    let theirs = match bitmap {
        Some([word, ..]) => {
            let numbers = (0..32).filter(|bit| word >> bit & 1 == 1).map(name);
            numbers.collect::<Vec<_>>().join(", ")
        }
        _ => format!("up to {}", name(greatest.into())),
    };
    let ours = ours.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    ClientError::NoVersion { ours, theirs }
}
