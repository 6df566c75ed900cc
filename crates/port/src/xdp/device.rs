//! The interface under an open port: what may change while it is open.
//!
//! Asked through a socket of its own, which stays in the network namespace the
//! port was opened in, whichever thread asks. Requests are those of
//! netdevice(7).

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use linerate_host::interface::Link;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice::name_to_index};

/// An interface, by the number it had when it was found.
#[derive(Debug)]
pub(super) struct Device {
    name: String,
    index: u32,
    socket: OwnedFd,
}

/// `struct ifreq`: a name and a union of 24 bytes.
#[repr(C, align(8))]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: [u8; 24],
}

impl Device {
    /// Opens the way to ask, in the namespace of the calling thread.
    pub(super) fn open(link: &Link) -> io::Result<Device> {
        let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        Ok(Device { name: link.name.clone(), index: link.index, socket })
    }

    /// Whether it is still there, not another of its name.
    pub(super) fn exists(&self) -> bool {
        name_to_index(&self.socket, &self.name) == Ok(self.index)
    }

    /// Whether packets can be sent: set up, and with somebody at the other
    /// end.
    pub(super) fn is_running(&self) -> io::Result<bool> {
        let [low, high, ..] = self.ask(libc::SIOCGIFFLAGS)?;
        let flags = libc::c_int::from(u16::from_ne_bytes([low, high]));
        let wanted = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(flags & wanted == wanted)
    }

    pub(super) fn mtu(&self) -> io::Result<usize> {
        let [a, b, c, d, ..] = self.ask(libc::SIOCGIFMTU)?;
        Ok(u32::from_ne_bytes([a, b, c, d]) as usize)
    }

    fn ask(&self, request: libc::c_ulong) -> io::Result<[u8; 24]> {
        let mut argument = Request { name: [0; libc::IFNAMSIZ], data: [0; 24] };
        // The kernel gave the name, so it is shorter than the field.
        for (to, from) in argument.name.iter_mut().zip(self.name.bytes()) {
            *to = from;
        }
        // SAFETY: both requests take and answer a `struct ifreq`, which
        // `argument` has the layout of, and follow no pointer in it.
        let done = unsafe { libc::ioctl(self.socket.as_raw_fd(), request as _, &raw mut argument) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(argument.data) }
    }
}
