//! Socket options and interface requests that rustix has no function for.
//!
//! One function per system call, each safe to call with any argument: the
//! kernel checks what it is given. Also what every driver of a kernel
//! interface does when it opens. Source: socket(7), netdevice(7).

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use linerate_host::interface::{self, InterfaceError, Link};
use linerate_memory::Arena;

use crate::error::OpenError;

/// Types whose every byte pattern is a value, without padding, so that the
/// kernel may read and write them as bytes.
///
/// # Safety
///
/// The implementor is `repr(C)`, valid for any bytes, and holds no pointer
/// that the kernel would follow.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for libc::c_int {}
// SAFETY: two 32-bit counters.
unsafe impl Plain for libc::tpacket_stats {}
// SAFETY: four 32-bit numbers.
unsafe impl Plain for libc::tpacket_req {}

/// setsockopt(2).
pub(crate) fn set_option<T: Plain>(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the kernel reads `value`'s bytes,
    // which are plain.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// getsockopt(2): `initial` overwritten as far as the kernel answers.
pub(crate) fn get_option<T: Plain>(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    initial: T,
) -> io::Result<T> {
    let mut value = initial;
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the descriptor is open; the kernel writes at most `length`
    // bytes to `value`, for which any bytes are valid.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Whether an interface is set up and its link has somebody at the other end,
/// asked in the network namespace of `socket`.
pub(crate) fn running(socket: BorrowedFd<'_>, name: &str) -> io::Result<bool> {
    let mut request = named(name)?;
    ioctl(socket, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the kernel has filled in this member, an integer.
    let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
    let wanted = libc::IFF_UP | libc::IFF_RUNNING;
    Ok(flags & wanted == wanted)
}

/// A request about the interface of that name.
pub(crate) fn named(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: an `ifreq` is integers and bytes, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// A request that takes an `ifreq` and may answer in it.
pub(crate) fn ioctl(
    fd: BorrowedFd<'_>,
    code: libc::c_ulong,
    request: &mut libc::ifreq,
) -> io::Result<()> {
    // SAFETY: the descriptor is open, and every code this crate passes here
    // reads and writes one `ifreq` and nothing it points to.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), code as _, std::ptr::from_mut(request)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Bytes of an Ethernet header and one 802.1Q tag: what a frame has beyond the
/// MTU.
pub(crate) const FRAMING: usize = 14 + 4;

/// Refuses an interface whose frames do not fit the arena's buffers.
pub(crate) fn check_room(port: &str, mtu: usize, arena: &Arena) -> Result<(), OpenError> {
    let (needed, room) = (mtu + FRAMING, arena.room());
    if needed <= room {
        return Ok(());
    }
    Err(OpenError::Unsupported {
        port: port.into(),
        reason: format!(
            "its MTU of {mtu} makes frames of up to {needed} bytes, and a buffer has room for \
             {room}; use --buffer-size {} or lower the MTU to {}",
            needed + arena.headroom(),
            room.saturating_sub(FRAMING),
        ),
    })
}

/// The interface a port is to use.
pub(crate) fn find(port: &str, name: &str) -> Result<Link, OpenError> {
    interface::find(name).map_err(|error| failed(port, error))
}

/// What an interface that cannot be used or changed means for a port.
pub(crate) fn failed(port: &str, error: InterfaceError) -> OpenError {
    let port = port.to_owned();
    match error {
        InterfaceError::Unknown { name, hint } => {
            OpenError::NoInterface { port, interface: name, hint }
        }
        InterfaceError::Gone { interface } => {
            OpenError::NoInterface { port, interface, hint: String::new() }
        }
        InterfaceError::NotPermitted { action, capability, .. } => {
            OpenError::Permission { port, action, remedy: remedy(capability) }
        }
        InterfaceError::System { step, source } => OpenError::System { port, step, source },
    }
}

/// How a process gets a capability.
pub(crate) fn remedy(capability: &str) -> String {
    let capability = capability.to_lowercase();
    format!("run as root, or grant the capability: setcap {capability}+ep PROGRAM")
}

/// A refused step of opening a port, with the capability that allows it.
pub(crate) fn refused(
    port: &str,
    step: &'static str,
    capability: &str,
) -> impl Fn(io::Error) -> OpenError {
    move |source| match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => OpenError::Permission {
            port: port.to_owned(),
            action: step,
            remedy: remedy(capability),
        },
        _ => OpenError::System { port: port.to_owned(), step, source },
    }
}
