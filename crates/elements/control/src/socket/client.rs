//! One client of a control socket: its descriptor and what is on its way.
//!
//! Both directions are bounded: no more is read while commands wait or answers
//! are not taken.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
};

use linerate_graph::{Answer, Replacement};
use rustix::{
    io::Errno,
    net::getpeername,
    process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open},
};

use super::protocol::{Command, code, take};

/// Bytes read at a time.
const PIECE: usize = 16 << 10;
/// Bytes that may come before the token.
const UNAUTHORIZED_MAX: usize = 4 << 10;
/// Answers that may wait before commands do.
const ANSWERS: usize = 1 << 20;

/// A connection of either kind.
#[derive(Debug)]
pub(in super::super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(to),
            Stream::Unix(stream) => stream.read(to),
        }
    }

    /// Rust's standard streams do not raise a signal when nobody listens.
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
        Ok(Stream::Unix(socket.into()))
    }

    /// Tells the other side that this was all, whoever else has the socket.
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
    /// What it has sent and has not been taken yet.
    input: Vec<u8>,
    /// What it is still to get.
    output: Vec<u8>,
    /// Bytes of `output` that have been sent.
    sent: usize,
    /// Nothing more comes.
    pub(super) input_closed: bool,
    /// Nobody listens any more.
    output_closed: bool,
    /// What has come is part of a command.
    incomplete: bool,
    /// What is waited for, as it is registered.
    pub(super) waits_to_send: bool,
    /// A handler that is being carried out elsewhere, as the client called it.
    /// No other command is taken meanwhile.
    pub(super) called: Option<(String, Called)>,
    /// Whether it may call handlers: it has said the token, or there is none.
    pub(super) authorized: bool,
}

/// What is waited for, to answer a client.
#[derive(Debug)]
pub(super) enum Called {
    Replacement(Replacement),
    Read(Answer),
    Write(Answer),
}

impl Client {
    pub(super) fn new(stream: Stream, authorized: bool) -> Client {
        Client {
            stream,
            input: Vec::new(),
            output: b"Click::ControlSocket/1.3\r\n".to_vec(),
            sent: 0,
            input_closed: false,
            output_closed: false,
            incomplete: true,
            waits_to_send: false,
            called: None,
            authorized,
        }
    }

    /// Reads a piece of what has come, unless commands wait.
    pub(super) fn receive(&mut self) {
        if self.input_closed || !self.incomplete {
            return;
        }
        let length = self.input.len();
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
        let taken = match take(&self.input, self.input_closed) {
            None if !self.authorized && self.input.len() > UNAUTHORIZED_MAX => {
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
        if matches!(command, Command::Quit { .. } | Command::Lost { .. }) {
            self.input_closed = true;
            self.input.clear();
        }
        self.incomplete = self.input.is_empty();
        Some(command)
    }

    /// Whether there may be a command to take at once.
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

    /// Answers with data.
    pub(super) fn data(&mut self, data: impl AsRef<[u8]>) {
        let data = data.as_ref();
        self.output.extend(format!("DATA {}\r\n", data.len()).bytes());
        self.output.extend(data);
    }

    /// Sends what can be sent.
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

    /// Whether answers wait to be taken.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether nothing more is to be said.
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

/// Text without what could be taken for the end of a line.
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
