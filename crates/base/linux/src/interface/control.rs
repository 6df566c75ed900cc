//! Changes to an interface: up, down, promiscuous; and, of an interface that is ours, its addresses
//! and MTU. Nothing else is changed for the user; other settings that should be changed are named
//! in the drivers' messages.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    os::fd::OwnedFd,
};

use netlink_packet_core::Emitable;
use netlink_packet_route::{
    AddressFamily,
    address::{AddressAttribute, AddressHeaderFlags, AddressMessage},
    link::{LinkAttribute, LinkFlags, LinkMessage},
    route::{
        RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope,
        RouteType,
    },
};
use rustix::net::{SocketFlags, SocketType, socket_with};

use super::{InterfaceError, Link, find, netlink::Netlink};
use crate::socket::set_option;

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
    let action = if up { "set up" } else { "set down" };
    request(libc::RTM_SETLINK, &message)
        .map_err(|source| InterfaceError::change(action, &link.name, "CAP_NET_ADMIN", source))
}

/// Sets the longest packet an interface takes.
pub fn set_mtu(index: u32, mtu: u32) -> io::Result<()> {
    set(index, LinkAttribute::Mtu(mtu))
}

/// Sets an interface's Ethernet address.
pub fn set_mac(index: u32, mac: [u8; 6]) -> io::Result<()> {
    set(index, LinkAttribute::Address(mac.to_vec()))
}

fn set(index: u32, attribute: LinkAttribute) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes.push(attribute);
    request(libc::RTM_SETLINK, &message)
}

/// Gives an interface an address, if it does not have it, to be used at once: without duplicate
/// address detection.
pub fn add_address(index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
    let mut message = AddressMessage::default();
    message.header.family = match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    message.header.prefix_len = prefix;
    message.header.flags = AddressHeaderFlags::Nodad;
    message.header.index = index;
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    match request(libc::RTM_NEWADDR, &message) {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        result => result,
    }
}

/// Adds a default route to `gateway` on an interface.
pub fn add_default_route(index: u32, gateway: Ipv4Addr) -> io::Result<()> {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Boot;
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unicast;
    message.attributes =
        vec![RouteAttribute::Gateway(RouteAddress::Inet(gateway)), RouteAttribute::Oif(index)];
    let mut body = vec![0; message.buffer_len()];
    message.emit(&mut body);
    match Netlink::route()?.create(libc::RTM_NEWROUTE, &body) {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        result => result,
    }
}

fn request(kind: u16, message: &impl Emitable) -> io::Result<()> {
    let mut body = vec![0; message.buffer_len()];
    message.emit(&mut body);
    Netlink::route()?.request(kind, &body).map(|_| ())
}

/// Keeps an interface promiscuous for as long as it lives.
///
/// The kernel counts the sockets that want it, and stops counting ours when this is dropped, or
/// when the socket behind it closes, however the process ends.
#[derive(Debug)]
#[must_use = "the interface stops being promiscuous when this is dropped"]
pub struct Promiscuous {
    socket: OwnedFd,
    /// The interface's index.
    index: i32,
}

impl Promiscuous {
    /// Makes an interface promiscuous.
    ///
    /// # Errors
    ///
    /// Without `CAP_NET_RAW`, or when the interface has gone.
    pub fn enable(link: &Link) -> Result<Promiscuous, InterfaceError> {
        let failed = |source| {
            InterfaceError::change("receive all packets of", &link.name, "CAP_NET_RAW", source)
        };
        // Of no protocol, so no packet is queued on it.
        let socket = socket_with(
            rustix::net::AddressFamily::PACKET,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|error| failed(error.into()))?;
        let index = i32::try_from(link.index)
            .map_err(|_| failed(io::Error::from_raw_os_error(libc::ENODEV)))?;
        let promiscuous = Promiscuous { socket, index };
        promiscuous.set(libc::PACKET_ADD_MEMBERSHIP).map_err(failed)?;
        Ok(promiscuous)
    }

    fn set(&self, option: i32) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: self.index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set_option(&self.socket, libc::SOL_PACKET, option, request)
    }
}

impl Drop for Promiscuous {
    /// Not left to the socket: another thread may have forked, and its child has the descriptor
    /// until it executes its program.
    fn drop(&mut self) {
        // It fails where the interface has gone, or never was asked.
        let _ = self.set(libc::PACKET_DROP_MEMBERSHIP);
    }
}
