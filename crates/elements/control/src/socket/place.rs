//! Places for a control socket to listen at.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixListener,
    },
    path::Path,
};

use linerate_graph::{ElementBuilder, parse_integer};
use linerate_linux::{
    close::Closers, peer::tcp_user, peer_stream::PeerStream, socket::listen_tcp,
    socket_file::SocketFile,
};
use rustix::net::sockopt::socket_peercred;
use thiserror::Error;

use super::{client::Stream, places::Source};
use linerate_element_support::output::reason;

/// Ports tried for `PORT+`.
const PORTS: u16 = 12;

/// Default permissions of a UNIX socket: only its owner and root connect.
const MODE: u32 = 0o600;

/// Place to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum ListenAddress {
    Nowhere,
    Tcp {
        port: u16,
        or_above: bool,
        /// The address to listen on, where it was given.
        address: Option<IpAddr>,
    },
    Unix {
        name: String,
        /// The permissions of its file.
        mode: u32,
    },
    /// One client, at a file descriptor of this process.
    Given(i32),
}

impl ListenAddress {
    /// Returns true if a socket that listens there can be taken over from one that listens at
    /// `old`.
    pub(in super::super) fn can_be(&self, old: &ListenAddress) -> bool {
        match (self, old) {
            (ListenAddress::Nowhere, _) => false,
            (
                ListenAddress::Tcp { or_above: true, address: new, .. },
                ListenAddress::Tcp { address: old, .. },
            ) => new == old,
            (new, old) => new == old,
        }
    }
}

#[derive(Debug)]
pub(in super::super) enum Listener {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        /// Removed with the listener.
        _file: SocketFile,
        /// `None` if the kernel refuses messages of clients with descriptors.
        closers: Option<Closers>,
    },
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix { listener, .. } => listener.as_fd(),
        }
    }
}

/// Error of listening at a place.
#[derive(Debug, Error)]
#[error("cannot listen on {place} for control connections: {source}")]
pub(in super::super) struct CannotListen {
    place: String,
    /// The system call that failed.
    call: &'static str,
    source: io::Error,
}

impl CannotListen {
    /// Returns the error in Click's words.
    pub(in super::super) fn as_click(&self) -> String {
        format!("{}: {}", self.call, reason(&self.source))
    }
}

impl Listener {
    /// Listens at a place, and returns the TCP port that is, if it is one; at
    /// `local` connections only this host may make.
    ///
    /// # Errors
    ///
    /// The system call that failed, and why.
    pub(in super::super) fn bind(
        place: &ListenAddress,
        local: bool,
    ) -> Result<Option<(Listener, u16)>, CannotListen> {
        let failed = |place: &dyn ToString, call: &'static str| {
            let place = place.to_string();
            move |source: io::Error| CannotListen { place, call, source }
        };
        let (listener, port) = match place {
            ListenAddress::Nowhere | ListenAddress::Given(_) => return Ok(None),
            ListenAddress::Tcp { port, or_above, address } => {
                let any = if local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
                let address = address.unwrap_or(any.into());
                let last = if *or_above { port.saturating_add(PORTS - 1) } else { *port };
                let mut bound = listen_tcp((address, *port));
                for other in port.saturating_add(1)..=last {
                    if bound.is_ok() {
                        break;
                    }
                    bound = listen_tcp((address, other));
                }
                let listener = bound.map_err(failed(&SocketAddr::new(address, *port), "bind"))?;
                let port = listener.local_addr().map_or(*port, |address| address.port());
                (Listener::Tcp(listener), port)
            }
            ListenAddress::Unix { name, mode } => {
                let listens = SocketFile::listen(Path::new(name), *mode);
                let (listener, file) =
                    listens.map_err(|error| failed(name, error.call)(error.source))?;
                let closers = Closers::unless_refused(&listener);
                (Listener::Unix { listener, _file: file, closers }, 0)
            }
        };
        Ok(Some((listener, port)))
    }

    /// Accepts a connection.
    pub(in super::super) fn accept(&self) -> io::Result<Arrival> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept()?;
                let is_local = from.ip().to_canonical().is_loopback();
                let ours = stream.local_addr().ok().filter(|_| is_local);
                let user = ours.and_then(|ours| tcp_user(ours, from).ok().flatten());
                Ok(Arrival {
                    stream: Stream::Tcp(stream),
                    source: user.map_or_else(|| Source::from_ip(from.ip()), Source::LocalTcp),
                    from: format!(" from {}.{}", from.ip(), from.port()),
                })
            }
            Listener::Unix { listener, closers, .. } => {
                let (stream, _) = listener.accept()?;
                let user = socket_peercred(&stream)?.uid.as_raw();
                let source = Source::User(user);
                let closer = closers.as_ref().map(|closers| closers.for_user(user));
                let stream = PeerStream::new(stream, closer);
                Ok(Arrival { stream: Stream::Unix(stream), source, from: String::new() })
            }
        }
    }
}

/// A new connection.
pub(in super::super) struct Arrival {
    pub(in super::super) stream: Stream,
    pub(in super::super) source: Source,
    /// Its origin, for messages.
    pub(super) from: String,
}

/// Returns the place of a socket whose type is `kind`.
pub(super) fn place(make: &mut ElementBuilder<'_>, kind: &str) -> ListenAddress {
    match kind {
        "" => {}
        "TCP" => match make.get::<String>("PORT").as_deref().map(tcp_port) {
            Some(Some((port, or_above))) => {
                return ListenAddress::Tcp { port, or_above, address: address(make) };
            }
            Some(None) => make.error("PORT requires TCP port"),
            None => make.error("PORT: required argument missing"),
        },
        "UNIX" => {
            let name = if make.is_given("PORT") { "PORT" } else { "FILENAME" };
            match make.get::<String>(name) {
                // The kernel's addresses hold that many, with the end.
                Some(name) if name.len() < 108 => {
                    return ListenAddress::Unix { name, mode: mode(make) };
                }
                Some(_) => make.error("filename too long"),
                None => make.error("FILENAME: required argument missing"),
            }
        }
        "SOCKET" => {
            let name = if make.is_given("PORT") { "PORT" } else { "FD" };
            match make.get::<i32>(name) {
                Some(number) => return ListenAddress::Given(number),
                None if make.is_given(name) => {}
                None => make.error("FD: required argument missing"),
            }
        }
        _ => make.error(format!("unknown socket type '{kind}'")),
    }
    ListenAddress::Nowhere
}

/// The permissions of a socket's file, in octal as chmod(1) takes them.
pub(in super::super) fn mode(make: &mut ElementBuilder<'_>) -> u32 {
    let Some(text) = make.get::<String>("MODE") else { return MODE };
    let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.unwrap_or_else(|| {
        make.error("MODE requires permissions in octal, such as 0660");
        MODE
    })
}

/// The address to listen on.
fn address(make: &mut ElementBuilder<'_>) -> Option<IpAddr> {
    let text: String = make.get("ADDRESS")?;
    text.parse().map_err(|_| make.error("ADDRESS requires IP address")).ok()
}

/// The port of `PORT` or `PORT+`.
fn tcp_port(text: &str) -> Option<(u16, bool)> {
    let (number, or_above) = match text.strip_suffix('+') {
        Some(number) => (number, true),
        None => (text, false),
    };
    let port = parse_integer(number).and_then(|port| u16::try_from(port).ok())?;
    (port > 0 || !or_above).then_some((port, or_above))
}
