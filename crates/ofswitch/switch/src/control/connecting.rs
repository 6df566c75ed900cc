//! Connecting and accepting sockets, with waits that a waker ends.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use linerate_linux::close::{Closer, Closers};
use linerate_linux::peer;
use linerate_linux::peer_stream::PeerStream;
use linerate_linux::socket::{BACKLOG, listen_tcp, refuse_descriptors};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::Target;
use super::link::{Link, Socket};
use super::stop_flag::StopFlag;
use super::tls::Tls;
use super::trust::{Peer, Trust};
use super::waker::{Ready, Waker, wait};

/// Time to try one address.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Most addresses of a name that are tried.
const ADDRESSES: usize = 16;

/// Parameters of an attempt to connect.
#[derive(Debug)]
pub(super) struct ConnectAttempt<'a> {
    pub(super) tls: Option<&'a Tls>,
    /// Users that the other end of a UNIX socket may run as; `None` is any.
    pub(super) trust: Option<&'a Trust>,
    pub(super) stop: &'a StopFlag,
    pub(super) waker: &'a Arc<Waker>,
    /// Deadline of the attempt.
    pub(super) deadline: Instant,
}

fn open(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

impl ConnectAttempt<'_> {
    /// The time that is left, if any is.
    fn left(&self, until: Instant) -> io::Result<Duration> {
        let left = until.min(self.deadline).saturating_duration_since(Instant::now());
        if left.is_zero() || self.stop.is_set() {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(left)
    }

    fn connect_to(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = open(family)?;
        match connect(&socket, &address) {
            Ok(()) => return Ok(socket.into()),
            Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let until = Instant::now() + CONNECT_TIME;
        loop {
            let left = self.left(until)?;
            let wanted = Ready { read: false, write: true };
            if wait(self.waker, Some((socket.as_fd(), wanted)), Some(left)).write {
                rustix::net::sockopt::socket_error(&socket)??;
                return Ok(socket.into());
            }
        }
    }

    /// The addresses of a host. A thread of its own looks a name up, as the resolver may wait long
    /// for its servers.
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let (answer, found) = sync_channel(1);
        let (host, waker) = (host.to_owned(), Arc::clone(self.waker));
        let look_up = move || {
            let addresses = (host.as_str(), port).to_socket_addrs();
            let _gone = answer.send(addresses.map(|all| all.take(ADDRESSES).collect()));
            waker.wake();
        };
        thread::Builder::new().name("of-name".into()).spawn(look_up)?;
        loop {
            let left = self.left(self.deadline);
            match found.try_recv() {
                Ok(addresses) => return addresses,
                Err(TryRecvError::Empty) => {
                    wait(self.waker, None, Some(left?));
                }
                Err(TryRecvError::Disconnected) => return Err(ErrorKind::Other.into()),
            }
        }
    }

    /// Connects to a target, and returns the address, too.
    pub(super) fn dial(&self, target: &Target) -> io::Result<(Link, String)> {
        match target {
            Target::Connect { host, port, secure } => {
                let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
                for address in self.look_up(host, *port)? {
                    let stream = match self.connect_to(address) {
                        Ok(stream) => stream,
                        Err(error) => {
                            last = error;
                            continue;
                        }
                    };
                    let socket = Socket::tcp(stream)?;
                    let link = match self.tls.filter(|_| *secure) {
                        Some(tls) => Link::client(socket, tls, address.ip())?,
                        None => Link::plain(socket),
                    };
                    return Ok((link, address.to_string()));
                }
                Err(last)
            }
            Target::ConnectUnix(path) => {
                let socket = open(AddressFamily::UNIX)?;
                let closer = (!refuse_descriptors(&socket)).then(|| Closer::new(1));
                connect(&socket, &SocketAddrUnix::new(path)?)?;
                let socket = Socket::unix(PeerStream::new(socket.into(), closer))?;
                if let Some(trust) = self.trust {
                    trust.check(&Peer::from_socket(&socket)?, false)?;
                }
                Ok((Link::plain(socket), path.display().to_string()))
            }
            Target::Listen { .. } | Target::ListenUnix(_) => Err(ErrorKind::Unsupported.into()),
        }
    }
}

/// A socket controllers come to. That of UNIX is gone with it.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp {
        listener: TcpListener,
        secure: bool,
    },
    Unix {
        listener: UnixListener,
        path: PathBuf,
        file: Option<(u64, u64)>,
        /// `None` if the kernel refuses messages of peers with descriptors.
        closers: Option<Closers>,
    },
}

/// Returns device and inode of the file at a path.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// A socket without a listener is removed. A listener that accepts nothing is not waited for.
fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {
            match connect(open(AddressFamily::UNIX)?, &SocketAddrUnix::new(path)?) {
                Err(Errno::CONNREFUSED) => std::fs::remove_file(path),
                _ => Err(ErrorKind::AddrInUse.into()),
            }
        }
        Ok(_) => Err(ErrorKind::AlreadyExists.into()),
        Err(_) => Ok(()),
    }
}

fn listen_unix(path: &Path) -> io::Result<UnixListener> {
    remove_stale(path)?;
    let socket = open(AddressFamily::UNIX)?;
    // Before the file is there, so that no other user ever gets in: access to it is control of the
    // switch.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

impl Listener {
    /// Listens at a target, and returns the target as it is then: a free port has a number.
    pub(super) fn new(target: &Target) -> io::Result<(Listener, Target)> {
        match target {
            Target::Listen { address, secure } => {
                let listener = listen_tcp(address)?;
                let address = listener.local_addr()?;
                let target = Target::Listen { address, secure: *secure };
                Ok((Listener::Tcp { listener, secure: *secure }, target))
            }
            Target::ListenUnix(path) => {
                let listener = listen_unix(path)?;
                let file = file_at(path);
                let closers = Closers::unless_refused(&listener);
                let path = path.clone();
                Ok((Listener::Unix { listener, path, file, closers }, target.clone()))
            }
            Target::Connect { .. } | Target::ConnectUnix(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Accepts a connection, and returns its address, too.
    pub(super) fn accept(&self) -> io::Result<(Socket, String)> {
        match self {
            Listener::Tcp { listener, .. } => {
                let (stream, address) = listener.accept()?;
                Ok((Socket::tcp(stream)?, without_mapping(address).to_string()))
            }
            Listener::Unix { listener, path, closers, .. } => {
                let (stream, _) = listener.accept()?;
                let closer = match closers {
                    Some(closers) => Some(closers.for_user(peer::unix_user(&stream)?)),
                    None => None,
                };
                let socket = Socket::unix(PeerStream::new(stream, closer))?;
                Ok((socket, path.display().to_string()))
            }
        }
    }

    /// Returns true if connections begin with TLS.
    pub(super) fn is_secure(&self) -> bool {
        matches!(self, Listener::Tcp { secure: true, .. })
    }

    /// The byte stream of an admitted connection.
    pub(super) fn link(&self, socket: Socket, tls: Option<&Tls>) -> io::Result<Link> {
        match tls.filter(|_| self.is_secure()) {
            Some(tls) => Link::server(socket, tls),
            None => Ok(Link::plain(socket)),
        }
    }
}

/// An address of IPv4 that came to a socket of IPv6 is one of IPv4.
fn without_mapping(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
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
