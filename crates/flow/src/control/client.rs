//! The other end of the channel: who asks a switch, and tells it something.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::connecting::{Listener, dial};
use super::link::Link;
use super::stopping::Stop;
use super::tls::Tls;
use super::waker::{Ready, Waker, wait};
use super::{Credentials, Target, TlsError};
use crate::wire::multipart::{Reply, Request};
use crate::wire::{
    BundleAdd, BundleControl, BundleFlags, BundleStep, Code, ErrorMessage, Fault, Header, Hello,
    Message, MultipartRequest, Stream, Unencodable, Version,
};

/// Bytes that wait to be written before more are taken.
const WAITING: usize = 256 * 1024;

/// How a client is set.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The versions that may be spoken.
    pub versions: Vec<Version>,
    /// What TLS needs.
    pub credentials: Option<Credentials>,
    /// How long an answer may take, and connecting.
    pub timeout: Duration,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        let timeout = Duration::from_secs(10);
        ClientOptions { versions: Version::ALL.to_vec(), credentials: None, timeout }
    }
}

/// Why a switch was not asked, or does not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It cannot be reached.
    #[error("cannot reach the switch at {target}: {error}")]
    Connect {
        /// Where it was sought.
        target: Target,
        /// What was wrong.
        error: io::Error,
    },
    /// TLS cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Both sides have no version in common.
    #[error("the switch speaks OpenFlow {theirs}, and not one of {ours}")]
    NoVersion {
        /// What may be spoken here.
        ours: String,
        /// What it said.
        theirs: String,
    },
    /// The connection has ended.
    #[error("the switch has ended the connection")]
    Ended,
    /// It is broken.
    #[error("the connection to the switch is broken: {0}")]
    Broken(io::Error),
    /// There was no answer.
    #[error("the switch did not answer in time")]
    TimedOut,
    /// It refused something.
    #[error("the switch refuses it: {0}")]
    Refused(Refusal),
    /// It refused one message of several.
    #[error("the switch refuses number {}: {refusal}", .number + 1)]
    RefusedOne {
        /// Which, from 0 on.
        number: usize,
        /// What it said.
        refusal: Refusal,
    },
    /// What it says makes no sense.
    #[error("the switch says what cannot be understood: {0}")]
    Malformed(Fault),
    /// It answered something else.
    #[error("the switch answers something else")]
    Unexpected,
    /// The version that is spoken has no words for it.
    #[error("OpenFlow {version}: {error}")]
    Unencodable {
        /// The version.
        version: Version,
        /// What it cannot say.
        error: Unencodable,
    },
}

/// What a switch does not do, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong, where its numbers are known.
    pub fault: Option<Fault>,
    /// The numbers the switch said.
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
#[derive(Debug)]
pub struct Client {
    link: Link,
    stream: Stream,
    waker: Waker,
    version: Version,
    xid: u32,
    timeout: Duration,
    /// What is to be written, and how much of it has been.
    out: Vec<u8>,
    written: usize,
    /// What came and was not waited for.
    come: VecDeque<(u32, Message)>,
}

impl Client {
    /// Connects to a switch, or waits until it does, and agrees on a version.
    pub fn connect(target: &Target, options: &ClientOptions) -> Result<Client, ClientError> {
        let tls = match &options.credentials {
            Some(credentials) => Some(Tls::load(credentials)?),
            None if target.is_secure() => return Err(TlsError::Missing(target.to_string()).into()),
            None => None,
        };
        let failed = |error| ClientError::Connect { target: target.clone(), error };
        let waker = Waker::new().map_err(failed)?;
        let link = if target.is_passive() {
            let (listener, _) = Listener::new(target).map_err(failed)?;
            accept(&listener, tls.as_ref(), &waker, options.timeout).map_err(failed)?
        } else {
            dial(target, tls.as_ref(), &Stop::default(), &waker).map_err(failed)?.0
        };
        let greatest = options.versions.iter().copied().max().unwrap_or(Version::V13);
        let mut client = Client {
            link,
            stream: Stream::new(),
            waker,
            version: greatest,
            xid: 0,
            timeout: options.timeout,
            out: Vec::new(),
            written: 0,
            come: VecDeque::new(),
        };
        client.greet(&options.versions)?;
        Ok(client)
    }

    fn greet(&mut self, ours: &[Version]) -> Result<(), ClientError> {
        self.send(&Message::Hello(Hello::of(ours)))?;
        let deadline = Instant::now() + self.timeout;
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

    fn refusal(&self, error: &ErrorMessage) -> Refusal {
        Refusal::new(error, self.version)
    }

    /// The version that is spoken.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Sends a message, and says by which number it is answered. It may go out later, with others.
    pub fn send(&mut self, message: &Message) -> Result<u32, ClientError> {
        let version = self.version;
        self.xid = self.xid.wrapping_add(1);
        let bytes = message
            .encode(version, self.xid)
            .map_err(|error| ClientError::Unencodable { version, error })?;
        self.out.extend_from_slice(&bytes);
        let deadline = Instant::now() + self.timeout;
        while self.out.len() - self.written > WAITING {
            self.exchange(deadline)?;
        }
        Ok(self.xid)
    }

    /// Writes and reads what can be, or waits until something can.
    fn exchange(&mut self, deadline: Instant) -> Result<(), ClientError> {
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
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
        match self.link.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(broken(error)),
            _ => {}
        }
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
        if moved {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ClientError::TimedOut);
        }
        let write = self.written < self.out.len() || self.link.wants_write();
        let socket = (self.link.as_fd(), Ready { read: true, write });
        wait(&self.waker, Some(socket), Some(left));
        Ok(())
    }

    /// The next message, or none by then. Whether this side is there is answered.
    fn receive(&mut self, deadline: Instant) -> Result<Option<(u32, Message)>, ClientError> {
        loop {
            let bytes = self.stream.next_message().map_err(ClientError::Malformed)?;
            let Some(bytes) = bytes.map(<[u8]>::to_vec) else {
                match self.exchange(deadline) {
                    Err(ClientError::TimedOut) => return Ok(None),
                    other => other?,
                }
                continue;
            };
            match Message::decode(&bytes).map_err(ClientError::Malformed)? {
                (_, xid, Message::EchoRequest(data)) => {
                    let version = self.version;
                    let reply = Message::EchoReply(data).encode(version, xid);
                    let error = |error| ClientError::Unencodable { version, error };
                    self.out.extend_from_slice(&reply.map_err(error)?);
                }
                (_, xid, message) => return Ok(Some((xid, message))),
            }
        }
    }

    /// What comes unasked, or nothing when the time is over.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<(u32, Message)>, ClientError> {
        match self.come.pop_front() {
            Some(come) => Ok(Some(come)),
            None => self.receive(Instant::now() + timeout),
        }
    }

    /// The answer to a message; what is not is kept for [`Client::next`].
    fn answer(&mut self, xid: u32) -> Result<Message, ClientError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            match self.receive(deadline)? {
                None => return Err(ClientError::TimedOut),
                Some((of, Message::Error(error))) if of == xid => {
                    return Err(ClientError::Refused(self.refusal(&error)));
                }
                Some((of, message)) if of == xid => return Ok(message),
                Some(other) => self.come.push_back(other),
            }
        }
    }

    /// Sends a message that is answered.
    pub fn ask(&mut self, message: &Message) -> Result<Message, ClientError> {
        let xid = self.send(message)?;
        self.answer(xid)
    }

    /// Asks for statistics or descriptions; all parts of the answer.
    pub fn request(&mut self, request: Request) -> Result<Vec<Reply>, ClientError> {
        let message = Message::MultipartRequest(MultipartRequest { more: false, body: request });
        let xid = self.send(&message)?;
        let mut replies = Vec::new();
        loop {
            match self.answer(xid)? {
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

    /// Sends messages that are not answered, and waits until they are obeyed.
    ///
    /// What the switch refuses is told, the others are done: each with its place in `messages`.
    pub fn tell(&mut self, messages: &[Message]) -> Result<Vec<(usize, Refusal)>, ClientError> {
        let first = self.xid.wrapping_add(1);
        for message in messages {
            self.send(message)?;
        }
        let barrier = self.send(&Message::BarrierRequest)?;
        let mut refused = Vec::new();
        let version = self.version;
        let mut take = |(of, error): (u32, ErrorMessage)| {
            refused.push((of.wrapping_sub(first) as usize, Refusal::new(&error, version)));
        };
        let of_these = |of: u32| of.wrapping_sub(first) < barrier.wrapping_sub(first);
        let kept = std::mem::take(&mut self.come);
        let deadline = |timeout| Instant::now() + timeout;
        let mut others: VecDeque<(u32, Message)> = VecDeque::new();
        for (of, message) in kept {
            match message {
                Message::Error(error) if of_these(of) => take((of, error)),
                message => others.push_back((of, message)),
            }
        }
        let mut until = deadline(self.timeout);
        loop {
            match self.receive(until)? {
                None => return Err(ClientError::TimedOut),
                Some((of, Message::BarrierReply)) if of == barrier => break,
                Some((of, Message::Error(error))) if of == barrier => {
                    return Err(ClientError::Refused(self.refusal(&error)));
                }
                Some((of, Message::Error(error))) if of_these(of) => take((of, error)),
                Some(other) => others.push_back(other),
            }
            // It is at work as long as it says something.
            until = deadline(self.timeout);
        }
        self.come.append(&mut others);
        Ok(refused)
    }

    /// Has messages obeyed all at once, or none of them.
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
        for message in messages {
            // Both have the same number.
            let xid = self.xid.wrapping_add(1);
            let message = message
                .encode(version, xid)
                .map_err(|error| ClientError::Unencodable { version, error })?;
            self.send(&Message::BundleAdd(BundleAdd { bundle: NUMBER, flags, message }))?;
        }
        let commit = self.send(&control(BundleStep::CommitRequest))?;
        let answer = self.answer(commit);
        // The first that was refused is why.
        let count = messages.len() as u32;
        let place = self.come.iter().position(|(of, message)| {
            matches!(message, Message::Error(_)) && of.wrapping_sub(first) < count
        });
        if let Some((of, Message::Error(error))) = place.and_then(|at| self.come.remove(at)) {
            let (number, refusal) = (of.wrapping_sub(first) as usize, self.refusal(&error));
            return Err(ClientError::RefusedOne { number, refusal });
        }
        match answer? {
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
    timeout: Duration,
) -> io::Result<Link> {
    let deadline = Instant::now() + timeout;
    loop {
        match listener.accept(tls) {
            Ok((link, _)) => return Ok(link),
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
