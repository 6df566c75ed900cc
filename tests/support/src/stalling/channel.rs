//! Messages and descriptors over a UNIX socket.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    },
};

/// Default time limit of an answer.
const ANSWER: Duration = Duration::from_secs(20);

/// A connected or listening socket.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    timeout: Duration,
}

impl Channel {
    fn socket(kind: SocketType) -> OwnedFd {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).expect("a socket")
    }

    fn address(name: &str) -> SocketAddrUnix {
        let address = match name.strip_prefix('@') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
            None => SocketAddrUnix::new(name),
        };
        address.expect("a short name")
    }

    /// Connects to a path or an abstract `@NAME`.
    ///
    /// # Errors
    ///
    /// When nothing listens there, or its backlog is full.
    pub fn connect(name: &str, kind: SocketType) -> io::Result<Channel> {
        let socket = Channel::socket(kind);
        rustix::net::connect(&socket, &Channel::address(name))?;
        Ok(Channel { socket, timeout: ANSWER })
    }

    /// Limits how long an answer is waited for.
    #[must_use]
    pub fn patient(self, timeout: Duration) -> Channel {
        Channel { timeout, ..self }
    }

    /// Listens at a path or an abstract `@NAME`.
    ///
    /// # Errors
    ///
    /// When something listens there already.
    pub fn listen(name: &str, kind: SocketType, backlog: i32) -> io::Result<Channel> {
        let socket = Channel::socket(kind);
        rustix::net::bind(&socket, &Channel::address(name))?;
        rustix::net::listen(&socket, backlog)?;
        Ok(Channel { socket, timeout: ANSWER })
    }

    /// Accepts a connection.
    ///
    /// # Errors
    ///
    /// When none comes in time.
    pub fn accept(&self) -> io::Result<Channel> {
        self.wait()?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::accept_with(&self.socket, flags)?;
        Ok(Channel { socket, timeout: self.timeout })
    }

    fn wait(&self) -> io::Result<()> {
        let limit = self.timeout;
        let limit =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let ready = rustix::event::poll(&mut fds, Some(&limit))?;
        if ready > 0 { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }

    /// Sends a message without waiting.
    ///
    /// # Errors
    ///
    /// When the other side is gone or does not read.
    pub fn send(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(message)], &mut control, flags)?;
        Ok(())
    }

    /// Receives at most so many bytes, and the descriptors that come with them. No bytes are the end.
    ///
    /// # Errors
    ///
    /// When nothing comes in time.
    pub fn receive(&self, most: usize) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        self.wait()?;
        let mut bytes = vec![0; most];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::net::recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        );
        let count = match got {
            Ok(got) => got.bytes,
            // Closed with messages of ours unread.
            Err(Errno::CONNRESET) => 0,
            Err(errno) => return Err(errno.into()),
        };
        bytes.truncate(count);
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        Ok((bytes, rights.flatten().collect()))
    }

    /// Receives exactly so many bytes of a stream.
    ///
    /// # Errors
    ///
    /// When they do not come in time, or the other side is gone.
    pub fn receive_all(&self, count: usize) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let (mut bytes, mut descriptors) = (Vec::new(), Vec::new());
        while bytes.len() < count {
            let (some, with) = self.receive(count - bytes.len())?;
            if some.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend(some);
            descriptors.extend(with);
        }
        Ok((bytes, descriptors))
    }

    /// Waits until the other side has closed its end; drops its messages.
    pub fn wait_closed(&self) -> bool {
        loop {
            match self.receive(4096) {
                Ok((bytes, _)) if bytes.is_empty() => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
