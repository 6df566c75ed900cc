//! Connections come to be: sockets that connect or are connected to, without waiting unwakeably.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::Target;
use super::link::{Link, Socket};
use super::stopping::Stop;
use super::tls::Tls;
use super::waker::{Ready, Waker, wait};

/// How long one address is tried.
const CONNECT_TIME: Duration = Duration::from_secs(5);

fn open(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

fn connect_to(address: SocketAddr, stop: &Stop, waker: &Waker) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = open(family)?;
    match connect(&socket, &address) {
        Ok(()) => return Ok(socket.into()),
        Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let deadline = Instant::now() + CONNECT_TIME;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.is_set() {
            return Err(ErrorKind::TimedOut.into());
        }
        let wanted = Ready { read: false, write: true };
        if wait(waker, Some((socket.as_fd(), wanted)), Some(left)).write {
            rustix::net::sockopt::socket_error(&socket)??;
            return Ok(socket.into());
        }
    }
}

/// Connects to a controller, and says at which address it was.
pub(super) fn dial(
    target: &Target,
    tls: Option<&Tls>,
    stop: &Stop,
    waker: &Waker,
) -> io::Result<(Link, String)> {
    match target {
        Target::Connect { host, port, secure } => {
            let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
            for address in (host.as_str(), *port).to_socket_addrs()? {
                let stream = match connect_to(address, stop, waker) {
                    Ok(stream) => stream,
                    Err(error) => {
                        last = error;
                        continue;
                    }
                };
                let socket = Socket::tcp(stream)?;
                let link = match tls.filter(|_| *secure) {
                    Some(tls) => Link::client(socket, tls, address.ip())?,
                    None => Link::plain(socket),
                };
                return Ok((link, address.to_string()));
            }
            Err(last)
        }
        Target::ConnectUnix(path) => {
            let socket = open(AddressFamily::UNIX)?;
            connect(&socket, &SocketAddrUnix::new(path)?)?;
            let link = Link::plain(Socket::unix(UnixStream::from(socket))?);
            Ok((link, path.display().to_string()))
        }
        Target::Listen { .. } | Target::ListenUnix(_) => Err(ErrorKind::Unsupported.into()),
    }
}

/// A socket controllers come to. That of UNIX is gone with it.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp { listener: TcpListener, secure: bool },
    Unix { listener: UnixListener, path: PathBuf, file: Option<(u64, u64)> },
}

/// Which file is at a path.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// A socket nobody listens at any more is taken away.
fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => match UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path)
            }
            _ => Err(ErrorKind::AddrInUse.into()),
        },
        Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        Err(_) => Ok(()),
    }
}

fn listen_unix(path: &Path) -> io::Result<UnixListener> {
    remove_stale(path)?;
    let socket = open(AddressFamily::UNIX)?;
    // Before there is a file, so that nobody else is ever let in: who reaches it rules the switch.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, 64)?;
    Ok(socket.into())
}

impl Listener {
    /// Listens at a target, and says which one that is now: a free port has a number.
    pub(super) fn new(target: &Target) -> io::Result<(Listener, Target)> {
        match target {
            Target::Listen { address, secure } => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let address = listener.local_addr()?;
                let target = Target::Listen { address, secure: *secure };
                Ok((Listener::Tcp { listener, secure: *secure }, target))
            }
            Target::ListenUnix(path) => {
                let listener = listen_unix(path)?;
                let file = file_at(path);
                Ok((Listener::Unix { listener, path: path.clone(), file }, target.clone()))
            }
            Target::Connect { .. } | Target::ConnectUnix(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// A controller that came, and its address.
    pub(super) fn accept(&self, tls: Option<&Tls>) -> io::Result<(Link, String)> {
        match self {
            Listener::Tcp { listener, secure } => {
                let (stream, address) = listener.accept()?;
                let socket = Socket::tcp(stream)?;
                let link = match tls.filter(|_| *secure) {
                    Some(tls) => Link::server(socket, tls)?,
                    None => Link::plain(socket),
                };
                Ok((link, without_mapping(address).to_string()))
            }
            Listener::Unix { listener, path, .. } => {
                let (stream, _) = listener.accept()?;
                Ok((Link::plain(Socket::unix(stream)?), path.display().to_string()))
            }
        }
    }
}

/// An address of IPv4 that came to a socket of IPv6 is one of IPv4.
fn without_mapping(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V6(ip) => {
            let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
            SocketAddr::new(ip, address.port())
        }
        IpAddr::V4(_) => address,
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp { listener, .. } => listener.as_fd(),
            Listener::Unix { listener, .. } => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix { path, file, .. } = self
            && file.is_some()
            && file_at(path) == *file
        {
            let _gone = std::fs::remove_file(path);
        }
    }
}
