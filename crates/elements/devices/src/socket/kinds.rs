//! Opening the sockets of each element.

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    path::PathBuf,
};

use linerate_linux::{socket::refuse_descriptors, socket_file::SocketFile};
use rustix::{
    fd::OwnedFd,
    fs::{OFlags, fcntl_setfl},
    net::{
        AddressFamily, Protocol, SocketAddrAny, SocketFlags, SocketType, bind, connect,
        getsockname, ipproto, listen, socket_with, sockopt,
    },
};

use super::{
    TCP,
    carrier::{Failed, Open, Peer, Sockets},
};

/// Connections that wait for the one there is to end.
const BACKLOG: i32 = 2;

/// An address, and the file it is if it is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) address: SocketAddrAny,
    pub(super) path: Option<PathBuf>,
}

/// Sockets of `Socket`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct General {
    pub(super) stream: bool,
    pub(super) client: bool,
    pub(super) remote: Address,
    pub(super) local: Option<Address>,
    pub(super) nodelay: bool,
    pub(super) receive_buffer: Option<u32>,
    pub(super) send_buffer: Option<u32>,
}

/// Sockets of `McastSocket`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Multicast {
    pub(super) group: SocketAddrV4,
    /// Unspecified for the system's choice.
    pub(super) source: SocketAddrV4,
    pub(super) looped: bool,
    pub(super) receive_buffer: Option<u32>,
    pub(super) send_buffer: Option<u32>,
}

/// Sockets of `RawSocket`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Raw {
    pub(super) protocol: u32,
    /// A TCP or UDP port.
    pub(super) reserved: Option<u16>,
}

fn socket(
    family: AddressFamily,
    kind: SocketType,
    protocol: Option<Protocol>,
) -> Result<OwnedFd, Failed> {
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, protocol);
    let socket = socket.map_err(failed("socket"))?;
    if family == AddressFamily::UNIX {
        // Else the worker that receives would close a peer's descriptors, which may wait.
        refuse_descriptors(&socket);
    }
    Ok(socket)
}

fn failed(call: &'static str) -> impl Fn(rustix::io::Errno) -> Failed {
    move |errno| (call, errno)
}

fn nonblocking(socket: &OwnedFd) -> Result<(), Failed> {
    fcntl_setfl(socket, OFlags::NONBLOCK).map_err(failed("fcntl"))
}

fn buffers(
    receiver: &OwnedFd,
    receive: Option<u32>,
    sender: &OwnedFd,
    send: Option<u32>,
) -> Result<(), Failed> {
    if let Some(bytes) = send {
        sockopt::set_socket_send_buffer_size(sender, bytes as usize)
            .map_err(failed("setsockopt(SO_SNDBUF)"))?;
    }
    if let Some(bytes) = receive {
        sockopt::set_socket_recv_buffer_size(receiver, bytes as usize)
            .map_err(failed("setsockopt(SO_RCVBUF)"))?;
    }
    Ok(())
}

impl Address {
    pub(super) fn internet(address: SocketAddrV4) -> Address {
        Address { address: address.into(), path: None }
    }
}

impl General {
    fn is_internet(&self) -> bool {
        self.remote.address.address_family() == AddressFamily::INET
    }

    /// The address the socket is bound to.
    fn bound(&self) -> Option<&Address> {
        if self.client { self.local.as_ref() } else { Some(&self.remote) }
    }
}

impl Open for General {
    fn open(&self, sockets: &mut Sockets) -> Result<(), Failed> {
        let kind = if self.stream { SocketType::STREAM } else { SocketType::DGRAM };
        let socket = socket(self.remote.address.address_family(), kind, None)?;
        if self.stream && self.is_internet() {
            if self.nodelay {
                sockopt::set_tcp_nodelay(&socket, true)
                    .map_err(failed("setsockopt(TCP_NODELAY)"))?;
            }
            // A server can start again while old connections linger.
            sockopt::set_socket_reuseaddr(&socket, true)
                .map_err(failed("setsockopt(SO_REUSEADDR)"))?;
        }
        buffers(&socket, self.receive_buffer, &socket, self.send_buffer)?;
        if let Some(Address { address, path }) = self.bound() {
            bind(&socket, address).map_err(failed("bind"))?;
            sockets.file = path.as_deref().and_then(SocketFile::find);
        }
        let remote = &self.remote.address;
        match (self.stream, self.client) {
            (true, true) => connect(&socket, remote).map_err(failed("connect"))?,
            (true, false) => listen(&socket, BACKLOG).map_err(failed("listen"))?,
            (false, _) => {}
        }
        nonblocking(&socket)?;
        sockets.peer = match SocketAddrV4::try_from(remote.clone()) {
            _ if self.stream => Peer::Stream,
            _ if !self.client => Peer::Last(None),
            Ok(to) if to.ip().is_unspecified() => Peer::Annotation(to.port()),
            _ => Peer::Address(remote.clone()),
        };
        if self.stream && !self.client {
            sockets.listener = Some(socket);
        } else {
            sockets.active = Some(socket);
        }
        Ok(())
    }
}

impl Open for Multicast {
    fn open(&self, sockets: &mut Sockets) -> Result<(), Failed> {
        let receiver = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        let sender = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        buffers(&receiver, self.receive_buffer, &sender, self.send_buffer)?;
        // Others on this machine may listen to the group as well.
        sockopt::set_socket_reuseaddr(&receiver, true)
            .map_err(failed("setsockopt(SO_REUSEADDR)"))?;
        bind(&receiver, &self.group).map_err(failed("bind"))?;
        let source = self.source.ip();
        if !source.is_unspecified() {
            bind(&sender, &self.source).map_err(failed("bind"))?;
            sockets.own = Some(getsockname(&sender).map_err(failed("getsockname"))?);
            sockopt::set_ip_multicast_if(&sender, source)
                .map_err(failed("setsockopt(IP_MULTICAST_IF)"))?;
        }
        sockopt::set_ip_add_membership(&receiver, self.group.ip(), source)
            .map_err(failed("setsockopt(IP_ADD_MEMBERSHIP)"))?;
        sockopt::set_ip_multicast_loop(&sender, self.looped)
            .map_err(failed("setsockopt(IP_MULTICAST_LOOP)"))?;
        nonblocking(&receiver)?;
        nonblocking(&sender)?;
        sockets.peer = Peer::Address(self.group.into());
        (sockets.active, sockets.sender) = (Some(receiver), Some(sender));
        Ok(())
    }
}

impl Open for Raw {
    fn open(&self, sockets: &mut Sockets) -> Result<(), Failed> {
        let number = std::num::NonZeroU32::new(self.protocol);
        let protocol = number.map(Protocol::from_raw);
        let receiver = socket(AddressFamily::INET, SocketType::RAW, protocol)?;
        // Of this protocol a socket takes packets with their IP header.
        let sender = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW))?;
        sockopt::set_socket_broadcast(&sender, true).map_err(failed("SO_BROADCAST"))?;
        if let Some(port) = self.reserved {
            let stream = self.protocol == TCP;
            let kind = if stream { SocketType::STREAM } else { SocketType::DGRAM };
            let reserved = socket(AddressFamily::INET, kind, None)?;
            bind(&reserved, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))
                .map_err(failed("bind"))?;
            sockets.reserved = Some(reserved);
        }
        nonblocking(&receiver)?;
        nonblocking(&sender)?;
        sockets.peer = Peer::Header;
        (sockets.active, sockets.sender) = (Some(receiver), Some(sender));
        Ok(())
    }
}
