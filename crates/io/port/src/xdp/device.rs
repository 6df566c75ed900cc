//! The interface under an open port: properties that may change while it is open.
//!
//! Asked through a socket of its own, which stays in the network namespace the port was opened in,
//! also for threads in another.

use std::{io, os::fd::OwnedFd};

use linerate_linux::interface::{self, Link};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice::name_to_index};

/// An interface, by the number it had when it was found.
#[derive(Debug)]
pub(super) struct Device {
    name: String,
    index: u32,
    socket: OwnedFd,
}

impl Device {
    /// Opens the way to ask, in the namespace of the calling thread.
    pub(super) fn open(link: &Link) -> io::Result<Device> {
        let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        Ok(Device { name: link.name.clone(), index: link.index, socket })
    }

    /// Returns true if it is still there, not another of its name.
    pub(super) fn exists(&self) -> bool {
        name_to_index(&self.socket, &self.name) == Ok(self.index)
    }

    /// Returns true if packets can be sent: set up, and with a peer at the other end.
    pub(super) fn is_running(&self) -> io::Result<bool> {
        interface::is_running(&self.socket, &self.name)
    }

    pub(super) fn mtu(&self) -> io::Result<usize> {
        interface::mtu(&self.socket, &self.name)
    }
}
