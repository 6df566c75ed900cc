//! One client of a control socket: its descriptor and its buffers.
//!
//! Both directions are bounded: no more is read while commands wait or answers
//! are not taken, and the bytes that wait for all clients together have a limit. Large
//! allocations are tried first, and where one fails the connection ends.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    os::fd::{AsFd, BorrowedFd},
};

use linerate_graph::{Answer, Replacement};
use linerate_linux::peer_stream::PeerStream;
use rustix::{
    io::Errno,
    net::getpeername,
    process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open},
};

use super::{
    places::{Guest, Source},
    protocol::{Command, code, take},
};

/// The first line to a client.
pub(super) const GREETING: &[u8] = b"Click::ControlSocket/1.3\r\n";

/// Bytes read at a time.
const PIECE: usize = 16 << 10;
/// Bytes of a command of a client that may only read.
const READER_MAX: usize = 16 << 10;
/// Bytes of a large command. Carrying it out copies it, so there has to be memory for some copies.
const LARGE: usize = 1 << 20;
const COPIES: usize = 4;
/// Answers that may wait before commands do.
const ANSWERS: usize = 1 << 20;

/// A connection of either kind.
#[derive(Debug)]
pub(in super::super) enum Stream {
    Tcp(TcpStream),
    Unix(PeerStream),
}

impl Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(to),
            Stream::Unix(stream) => stream.read(to),
        }
    }

    /// Rust's standard streams raise no signal when the peer has closed.
    pub(in super::super) fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(from),
            Stream::Unix(stream) => stream.write(from),
        }
    }

    /// The connected socket at a descriptor of this process, by a descriptor of its
    /// own.
    pub(super) fn given(number: i32) -> io::Result<Stream> {
        if number < 0 {
            return Err(Errno::BADF.into());
        }
        let own = pidfd_open(getpid(), PidfdFlags::empty())?;
        let socket = pidfd_getfd(own, number, PidfdGetfdFlags::empty())?;
        getpeername(&socket)?;
        // Only to be read and written, which is done alike for all kinds.
        Ok(Stream::Unix(PeerStream::new(socket.into(), None)))
    }

    /// Shuts both directions down, also if other processes have the socket.
    pub(super) fn shut(&self) {
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    pub(in super::super) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(true),
            Stream::Unix(stream) => stream.set_nonblocking(true),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

/// A client and its conversation.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) stream: Stream,
    /// Bytes received and not taken yet.
    input: Vec<u8>,
    /// Bytes to be sent.
    output: Vec<u8>,
    /// Bytes of `output` that have been sent.
    sent: usize,
    /// Nothing more comes.
    pub(super) input_closed: bool,
    /// The peer does not read any more.
    output_closed: bool,
    /// The bytes received are part of a command.
    incomplete: bool,
    /// Set if readiness to send is registered.
    pub(super) waits_to_send: bool,
    /// A handler that is being carried out elsewhere, as the client called it.
    /// No other command is taken meanwhile.
    pub(super) called: Option<(String, Called)>,
    pub(super) source: Source,
    /// Whether it may write without a token, by its user.
    pub(super) is_trusted: bool,
    /// Whether it has sent the token.
    pub(super) said_token: bool,
    /// Time of its last complete command, or of its connecting.
    pub(super) quiet_since: u64,
    /// Bytes that it may have waiting, given those of the other clients.
    pub(super) room: usize,
}

/// Call that is waited for, to answer a client.
#[derive(Debug)]
pub(super) enum Called {
    Replacement(Replacement),
    Read(Answer),
    Write(Answer),
}

impl Client {
    pub(super) fn new(stream: Stream, source: Source, is_trusted: bool, now: u64) -> Client {
        Client {
            stream,
            source,
            is_trusted,
            said_token: false,
            quiet_since: now,
            room: usize::MAX,
            input: Vec::new(),
            output: GREETING.to_vec(),
            sent: 0,
            input_closed: false,
            output_closed: false,
            incomplete: true,
            waits_to_send: false,
            called: None,
        }
    }

    /// Returns true if it may write.
    pub(super) fn writes(&self) -> bool {
        self.is_trusted || self.said_token
    }

    /// Returns its record for the admission of others.
    pub(super) fn guest(&self, number: u64) -> Guest {
        let (source, writes) = (self.source, self.writes());
        Guest { number, source, writes, quiet_since: self.quiet_since }
    }

    /// Bytes buffered for it.
    pub(super) fn waiting(&self) -> usize {
        self.input.len() + self.output.len()
    }

    /// Reads a piece, unless commands wait.
    pub(super) fn receive(&mut self) {
        if self.input_closed || !self.incomplete {
            return;
        }
        let length = self.input.len();
        if self.waiting() + PIECE > self.room || self.input.try_reserve(PIECE).is_err() {
            return self.lose("Too much data is on its way");
        }
        self.input.resize(length + PIECE, 0);
        let read = self.stream.read(&mut self.input[length..]);
        let (read, closed) = match read {
            Ok(0) => (0, true),
            Ok(read) => (read, false),
            Err(error) => {
                (0, !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted))
            }
        };
        self.input.truncate(length + read);
        self.input_closed |= closed;
        self.incomplete = read == 0 && !closed;
    }

    /// The next command, if one is complete and its answer can be kept.
    pub(super) fn command(&mut self) -> Option<Command> {
        if self.output.len() - self.sent > ANSWERS || self.called.is_some() {
            return None;
        }
        if self.input.len() > LARGE && !has_memory(COPIES * self.input.len()) {
            self.lose("Not enough memory for so much data");
            return None;
        }
        let taken = match take(&self.input, self.input_closed) {
            None if !self.writes() && self.input.len() > READER_MAX => {
                let text = "Too much data before AUTH".into();
                Some((Command::Lost { code: code::PERMISSION, text }, self.input.len()))
            }
            taken => taken,
        };
        let Some((command, length)) = taken else {
            self.incomplete = true;
            return None;
        };
        self.input.drain(..length);
        if self.input.is_empty() {
            self.input.shrink_to(PIECE);
        }
        if matches!(command, Command::Quit { .. } | Command::Lost { .. }) {
            self.input_closed = true;
            self.input.clear();
        }
        self.incomplete = self.input.is_empty();
        Some(command)
    }

    /// Returns true if there may be a command to take at once.
    pub(super) fn is_ready(&self) -> bool {
        let answered = self.output.len() - self.sent <= ANSWERS;
        !self.incomplete && !self.is_over() && answered && self.called.is_none()
    }

    /// Answers with a line; `more` is whether another one of the same answer
    /// follows.
    pub(super) fn message(&mut self, code: u16, text: &str, more: bool) {
        let mark = if more { '-' } else { ' ' };
        self.output.extend(format!("{code}{mark}").bytes());
        self.output.extend(printable(text).bytes());
        self.output.extend(b"\r\n");
    }

    /// Takes no more commands.
    pub(super) fn end(&mut self) {
        self.input_closed = true;
        self.incomplete = true;
        self.input.clear();
    }

    /// Answers with the status of the data, and the data.
    pub(super) fn data(&mut self, text: &str, data: impl AsRef<[u8]>) {
        let data = data.as_ref();
        let fits = self.waiting().saturating_add(data.len()) <= self.room
            && self.output.try_reserve(data.len() + text.len() + PIECE).is_ok();
        if !fits {
            return self.lose("Too much data waits to be taken");
        }
        self.message(code::OK, text, false);
        self.output.extend(format!("DATA {}\r\n", data.len()).bytes());
        self.output.extend(data);
    }

    /// Ends the connection for want of memory.
    fn lose(&mut self, text: &str) {
        self.message(code::TOO_BIG, text, false);
        self.end();
        self.input = Vec::new();
    }

    /// Sends as much as the peer takes.
    pub(super) fn send(&mut self) {
        while !self.output_closed && self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.output_closed = error.kind() != ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        if self.sent == self.output.len() || self.sent > PIECE {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Returns true if answers wait to be taken.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns true if no more answers are to be sent.
    pub(super) fn is_over(&self) -> bool {
        let said = self.output.is_empty() && self.called.is_none();
        self.output_closed || (self.input_closed && self.input.is_empty() && said)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stream.shut();
    }
}

/// Returns true if so much memory can be allocated now.
fn has_memory(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// Escapes characters that could be taken for the end of a line.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ' '..='~' | '\u{80}'.. => out.push(c),
            _ => {
                out.push('\\');
                out.push_str(&format!("{:03o}", u32::from(c)));
            }
        }
    }
    out
}
