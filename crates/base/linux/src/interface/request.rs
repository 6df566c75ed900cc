//! Requests of ioctl(2) that name an interface by a `struct ifreq`.
//!
//! Each asks in the network namespace of the socket it goes through. Sources:
//! netdevice(7), `linux/if_tun.h`.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// Returns true if an interface is set up and its link has a peer at the other end.
///
/// # Errors
///
/// When there is no such interface.
pub fn is_running(socket: impl AsFd, name: &str) -> io::Result<bool> {
    let mut request = Request::named(name)?;
    // SAFETY: reads the name and writes the flags.
    unsafe { request.send(socket, libc::SIOCGIFFLAGS)? };
    // SAFETY: the kernel has filled in this member, an integer.
    let flags = libc::c_int::from(unsafe { request.0.ifr_ifru.ifru_flags });
    let wanted = libc::IFF_UP | libc::IFF_RUNNING;
    Ok(flags & wanted == wanted)
}

/// The longest packet an interface takes, Ethernet header not included.
///
/// # Errors
///
/// When there is no such interface.
pub fn mtu(socket: impl AsFd, name: &str) -> io::Result<usize> {
    let mut request = Request::named(name)?;
    // SAFETY: reads the name and writes the MTU.
    unsafe { request.send(socket, libc::SIOCGIFMTU)? };
    // SAFETY: the kernel has filled in this member, an integer.
    let mtu = unsafe { request.0.ifr_ifru.ifru_mtu };
    usize::try_from(mtu).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Makes an open `/dev/net/tun` a queue of a TAP or TUN interface, with the
/// `IFF_...` flags that say of which kind.
///
/// # Errors
///
/// When the interface cannot be made or has no such queue.
pub fn attach_tun(tun: impl AsFd, name: &str, flags: libc::c_int) -> io::Result<()> {
    let mut request = Request::named(name)?;
    request.0.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: reads name and flags, and writes the name.
    unsafe { request.send(tun, libc::TUNSETIFF as libc::c_ulong) }
}

/// Returns true if the interface of an attached `/dev/net/tun` was deleted.
pub fn is_tun_deleted(tun: impl AsFd) -> bool {
    let Ok(mut request) = Request::named("") else { return false };
    // SAFETY: writes name and flags.
    unsafe { request.send(tun, libc::TUNGETIFF as libc::c_ulong) }
        .is_err_and(|error| error.raw_os_error() == Some(libc::EBADFD))
}

/// Says how many bytes of virtio header go before each packet of an attached
/// `/dev/net/tun`.
///
/// # Errors
///
/// When the kernel takes no header of that length.
pub fn set_tun_header(tun: impl AsFd, bytes: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open, and this code reads one integer.
    let result = unsafe {
        libc::ioctl(tun.as_fd().as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const bytes)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the offloads that the network stack may leave undone in packets it sends to an attached
/// `/dev/net/tun`: flags `TUN_F_...`.
///
/// # Errors
///
/// When the kernel does not know one of them.
pub fn set_tun_offloads(tun: impl AsFd, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: the descriptor is open, and this code takes a number, not a
    // pointer.
    let result = unsafe {
        libc::ioctl(
            tun.as_fd().as_raw_fd(),
            libc::TUNSETOFFLOAD as _,
            libc::c_ulong::from(offloads),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A `struct ifreq`: the name of an interface, and a value.
pub(super) struct Request(libc::ifreq);

impl Request {
    /// A request about the interface of that name.
    pub(super) fn named(name: &str) -> io::Result<Request> {
        // SAFETY: integers, bytes and pointers, for which zero is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays zero.
        if name.len() >= request.ifr_name.len() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(Request(request))
    }

    /// The request with the address of its data, which the kernel may overwrite by the answer.
    pub(super) fn with_data(mut self, data: &mut [u32]) -> Request {
        self.0.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
        self
    }

    /// Sends the request, in which the kernel may answer.
    ///
    /// # Safety
    ///
    /// `code` reads and writes one `ifreq`; if it follows the address in it, the memory it accesses
    /// there is alive and unused.
    pub(super) unsafe fn send(&mut self, fd: impl AsFd, code: libc::c_ulong) -> io::Result<()> {
        // SAFETY: the descriptor is open; the rest is the contract.
        let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), code as _, &raw mut self.0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;

    #[test]
    fn mtu_and_state_are_read_through_a_socket() {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        assert!(mtu(&socket, "lo").unwrap() >= 1500);
        for name in ["no-such-device", "a-name-that-no-interface-can-have"] {
            assert_eq!(mtu(&socket, name).unwrap_err().raw_os_error(), Some(libc::ENODEV));
            assert!(is_running(&socket, name).is_err());
        }
        assert!(!is_tun_deleted(&socket));
    }
}
