//! Changes to an interface: up, down, promiscuous. Nothing else is changed for
//! the user; what else should be otherwise, the drivers' messages name.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use netlink_packet_core::Emitable;
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::{InterfaceError, Link, find, netlink::Netlink};

/// Sets an interface up or down, as `ip link set NAME up` does.
///
/// # Errors
///
/// When there is no such interface, or without `CAP_NET_ADMIN` in the network
/// namespace's user namespace.
pub fn set_up(name: &str, up: bool) -> Result<(), InterfaceError> {
    let link = find(name)?;
    let mut message = LinkMessage::default();
    message.header.index = link.index;
    message.header.change_mask = LinkFlags::Up;
    message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
    let mut body = vec![0; message.buffer_len()];
    message.emit(&mut body);
    let action = if up { "set up" } else { "set down" };
    Netlink::route()
        .and_then(|mut netlink| netlink.request(libc::RTM_SETLINK, &body))
        .map(|_| ())
        .map_err(|source| InterfaceError::change(action, &link.name, "CAP_NET_ADMIN", source))
}

/// Keeps an interface promiscuous for as long as it lives.
///
/// The kernel counts those who want it, and stops counting us when the socket
/// behind this closes, however the process ends.
#[derive(Debug)]
#[must_use = "the interface stops being promiscuous when this is dropped"]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Makes an interface promiscuous.
    ///
    /// # Errors
    ///
    /// Without `CAP_NET_RAW`, or when the interface has gone.
    pub fn enable(link: &Link) -> Result<Promiscuous, InterfaceError> {
        let failed =
            |source| InterfaceError::change("make promiscuous", &link.name, "CAP_NET_RAW", source);
        // Of no protocol, so no packet is queued on it.
        let socket =
            socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
                .map_err(|error| failed(error.into()))?;
        let index = i32::try_from(link.index)
            .map_err(|_| failed(io::Error::from_raw_os_error(libc::ENODEV)))?;
        let request = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        // SAFETY: the descriptor is open, and the kernel only reads the
        // `packet_mreq`, whose size is given.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const request).cast(),
                size_of_val(&request) as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        Ok(Promiscuous { _socket: socket })
    }
}
