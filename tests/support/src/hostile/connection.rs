//! Connections of honest and hostile clients. Every call has a time limit.

use std::{
    fmt,
    io::{self, ErrorKind, IoSlice},
    mem::MaybeUninit,
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
        SocketFlags, SocketType,
        sockopt::{Timeout, set_socket_timeout},
    },
};

/// Time that a hostile client waits for a connection.
const CONNECT: Duration = Duration::from_millis(50);
/// Descriptors in one message at most; the kernel's limit is 253.
pub const DESCRIPTORS: usize = 253;

/// The address of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A stream socket's file.
    Unix(PathBuf),
    /// The file of a SEQPACKET socket.
    Packets(PathBuf),
    /// The abstract name of a SEQPACKET socket, without the `@`.
    Abstract(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) | Address::Packets(path) => path.display().fmt(f),
            Address::Abstract(name) => write!(f, "@{name}"),
        }
    }
}

/// A connected socket in nonblocking mode.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
}

impl Connection {
    /// Connects without waiting, as hostile clients do.
    ///
    /// # Errors
    ///
    /// When there is no listener, its backlog is full, or it does not let this user in.
    pub fn new(address: &Address) -> io::Result<Connection> {
        Connection::within(address, CONNECT)
    }

    /// Connects as honest clients do, and waits while the backlog is full.
    ///
    /// # Errors
    ///
    /// When there is no listener, it does not let this user in, or not in time.
    pub fn within(address: &Address, time: Duration) -> io::Result<Connection> {
        let unix = |kind, name: &SocketAddrUnix| -> io::Result<OwnedFd> {
            let flags = SocketFlags::CLOEXEC;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
            set_socket_timeout(&socket, Timeout::Send, Some(time))?;
            rustix::net::connect(&socket, name)?;
            rustix::io::ioctl_fionbio(&socket, true)?;
            Ok(socket)
        };
        let socket = match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, time)?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                stream.into()
            }
            Address::Unix(path) => unix(SocketType::STREAM, &SocketAddrUnix::new(path)?)?,
            Address::Packets(path) => unix(SocketType::SEQPACKET, &SocketAddrUnix::new(path)?)?,
            Address::Abstract(name) => {
                let name = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
                unix(SocketType::SEQPACKET, &name)?
            }
        };
        Ok(Connection { socket })
    }

    /// Sends as many bytes as there is room for at once, and returns their number.
    ///
    /// # Errors
    ///
    /// When the peer has gone, or there is no room.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
    }

    /// Sends bytes together with descriptors, at most [`DESCRIPTORS`].
    ///
    /// # Errors
    ///
    /// When the peer has gone, or there is no room.
    pub fn send_with(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags)?)
    }

    /// Sends all of it.
    ///
    /// # Errors
    ///
    /// When the peer has gone, or does not take it in time.
    pub fn send_all(&self, mut bytes: &[u8], within: Duration) -> io::Result<()> {
        let deadline = Instant::now() + within;
        while !bytes.is_empty() {
            match self.send(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, deadline)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives the bytes there are, and waits for the first of them. No byte is the end.
    ///
    /// # Errors
    ///
    /// When the peer has gone, or sends nothing in time.
    pub fn receive(&self, bytes: &mut [u8], within: Duration) -> io::Result<usize> {
        let deadline = Instant::now() + within;
        loop {
            match rustix::io::read(&self.socket, &mut *bytes) {
                Err(rustix::io::Errno::AGAIN) => self.wait(PollFlags::IN, deadline)?,
                other => return Ok(other?),
            }
        }
    }

    /// Waits until it has received this text, and returns all that it has received.
    ///
    /// # Errors
    ///
    /// When the peer has gone, or does not send it in time.
    pub fn receive_until(&self, text: &str, within: Duration) -> io::Result<String> {
        let deadline = Instant::now() + within;
        let mut received = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let got = self.receive(&mut piece, left).map_err(|error| {
                let so_far = String::from_utf8_lossy(&received);
                io::Error::new(error.kind(), format!("{error}, after {so_far:?}"))
            })?;
            received.extend_from_slice(&piece[..got]);
            let said = String::from_utf8_lossy(&received);
            if said.contains(text) {
                return Ok(said.into_owned());
            }
            if got == 0 {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    format!("the end, after {said:?}"),
                ));
            }
        }
    }

    /// Receives and drops all data, without waiting.
    pub fn discard(&self) {
        let mut piece = [0; 65536];
        while rustix::io::read(&self.socket, &mut piece).is_ok_and(|got| got > 0) {}
    }

    /// Returns true if the peer has ended the connection. Receives and drops all data.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let mut piece = [0; 65536];
        loop {
            match rustix::io::read(&self.socket, &mut piece) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error != rustix::io::Errno::AGAIN,
            }
        }
    }

    fn wait(&self, flags: PollFlags, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).expect("a timeout of seconds");
        let mut polled = [PollFd::new(&self.socket, flags)];
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(0) => Err(ErrorKind::TimedOut.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Connections that an attack holds at most: more than any listener has places, and few enough that the
/// honest clients of this process have descriptors.
const HELD: usize = 300;

/// Opens connections until it is refused, it has as many as an attack may, or the turn ends.
pub fn open_all(address: &Address, open: &mut Vec<Connection>, turn: &mut super::Turn<'_>) {
    while turn.goes_on() && open.len() < HELD {
        match Connection::new(address) {
            Ok(connection) => {
                turn.count();
                open.push(connection);
            }
            Err(_) => break,
        }
    }
}
