//! Opening, setting and binding packet sockets. Source: packet(7).

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use linerate_linux::socket::{get_option, set_filter, set_option};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Kernel memory for frames that wait to be sent, or, longer than a slot, to
/// be received.
const QUEUE_BYTES: libc::c_int = 8 << 20;
/// The program of a socket that takes no packets: return 0 bytes.
const NOTHING: libc::sock_filter = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
const ALL_PROTOCOLS: u16 = (libc::ETH_P_ALL as u16).to_be();

/// A packet socket that receives nothing yet.
pub(super) fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?)
}

/// Everything that has to be set before the ring is made.
pub(super) fn prepare_receive(socket: &OwnedFd, outbound: bool) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    // A frame longer than a slot is also queued, whole.
    set_option(socket, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, 1)?;
    // Kernels before 4.20 cannot; the receiver looks at each packet as well.
    if !outbound {
        let _ = set_option(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
    }
    queue_bytes(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)
}

/// Binds a receiver, so that each packet comes to exactly one of them.
pub(super) fn bind_receive(
    socket: &OwnedFd,
    index: u32,
    fanout: &mut Fanout,
    filter: &[libc::sock_filter],
) -> io::Result<()> {
    if fanout.members <= 1 {
        if !filter.is_empty() {
            set_filter(socket, filter)?;
        }
        return bind(socket, index, ALL_PROTOCOLS);
    }
    // Only a bound socket can join the others, and between the two it would
    // get every packet: it takes none until then.
    set_filter(socket, &[NOTHING])?;
    bind(socket, index, ALL_PROTOCOLS)?;
    fanout.join(socket)?;
    set_filter(socket, filter)
}

/// Everything a sender needs.
pub(super) fn prepare_transmit(socket: &OwnedFd, index: u32, qdisc: bool) -> io::Result<()> {
    if !qdisc {
        set_option(socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
    }
    queue_bytes(socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)?;
    // Of no protocol, so that it receives nothing.
    bind(socket, index, 0)
}

/// The sockets among which an interface's packets are shared.
pub(super) struct Fanout {
    members: usize,
    /// Whether packets that are sent are shared as well.
    outbound: bool,
    /// The group's number, once the first member has made it.
    group: Option<libc::c_int>,
}

impl Fanout {
    pub(super) fn new(members: usize, outbound: bool) -> Fanout {
        Fanout { members, outbound, group: None }
    }

    fn join(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let mut kind = libc::PACKET_FANOUT_HASH;
        if !self.outbound {
            kind |= libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        }
        let join = |group: libc::c_int, flags: libc::c_uint| {
            let request = group & 0xffff | ((kind | flags) << 16) as libc::c_int;
            set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, request)
        };
        match self.group {
            Some(group) => join(group, 0),
            None => {
                join(0, libc::PACKET_FANOUT_FLAG_UNIQUEID)?;
                let group = get_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, 0)?;
                self.group = Some(group & 0xffff);
                Ok(())
            }
        }
    }
}

fn queue_bytes(socket: &OwnedFd, force: libc::c_int, ask: libc::c_int) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, force, QUEUE_BYTES)
        .or_else(|_| set_option(socket, libc::SOL_SOCKET, ask, QUEUE_BYTES))
}

fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    let address = address(index as libc::c_int, protocol);
    // SAFETY: the descriptor is open, and the address is as long as said.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn address(index: libc::c_int, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::sa_family_t,
        sll_protocol: protocol,
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// Returns true if the interface a socket is bound to was deleted (or moved to another network
/// namespace): the kernel unbinds it then.
pub(super) fn gone(socket: impl AsFd) -> bool {
    let mut address = address(0, 0);
    let mut length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the descriptor is open; the kernel writes at most `length` bytes
    // to the address, which is integers and bytes.
    let result = unsafe {
        libc::getsockname(socket.as_fd().as_raw_fd(), (&raw mut address).cast(), &raw mut length)
    };
    result == 0 && address.sll_ifindex <= 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_is_in_network_order() {
        assert_eq!(ALL_PROTOCOLS.to_ne_bytes(), [0, 3]);
    }
}
