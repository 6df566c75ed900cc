//! Listeners, and socket options that rustix has no function for.
//!
//! Safe to call with any argument: the kernel checks its arguments. Source:
//! socket(7), packet(7).

use std::{
    io,
    net::{TcpListener, ToSocketAddrs},
    os::fd::{AsFd, AsRawFd},
};

/// Values of socket options.
///
/// # Safety
///
/// The implementor is `repr(C)`, without padding, valid for any bytes, and
/// holds no address that the kernel would follow.
pub unsafe trait OptionValue: Copy {}

// SAFETY: an integer.
unsafe impl OptionValue for libc::c_int {}
// SAFETY: two 32-bit counters.
unsafe impl OptionValue for libc::tpacket_stats {}
// SAFETY: four 32-bit numbers.
unsafe impl OptionValue for libc::tpacket_req {}
// SAFETY: a 32-bit number, two 16-bit numbers and eight bytes.
unsafe impl OptionValue for libc::packet_mreq {}

/// setsockopt(2).
///
/// # Errors
///
/// The kernel's error.
pub fn set_option<T: OptionValue>(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: by the contract of `OptionValue`.
    unsafe { set(socket, level, option, &value) }
}

/// Has the kernel run a program of classic BPF on each packet before it is put
/// into a socket's queue; none takes the program off.
///
/// # Errors
///
/// When the kernel refuses the program.
pub fn set_filter(socket: impl AsFd, program: &[libc::sock_filter]) -> io::Result<()> {
    if program.is_empty() {
        return set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0);
    }
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel copies `len` instructions during the call and writes
    // none of them.
    unsafe { set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program) }
}

/// # Safety
///
/// `T` has no padding, and the kernel's accesses by an address in it are allowed by the owner of
/// the memory there.
unsafe fn set<T>(
    socket: impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the descriptor is open and the kernel reads the bytes of `value`;
    // the rest is the contract.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Connections that the kernel keeps until they are accepted: a burst of them leaves room, as the TCP
/// handshake of a connection without room is repeated after a second.
pub const BACKLOG: i32 = 1024;

/// Listens at a TCP address, with a queue of [`BACKLOG`] connections. The listener does not block.
///
/// # Errors
///
/// When the address is in use or is none of this machine, or the kernel refuses.
pub fn listen_tcp(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // The standard library listens with a queue of 128; a second call changes its length.
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// `SO_PASSRIGHTS` of `asm-generic/socket.h`.
const PASS_RIGHTS: libc::c_int = 83;

/// Makes the kernel refuse messages with descriptors (`SO_PASSRIGHTS`), at a UNIX socket and at the sockets
/// accepted from it. `false` before Linux 6.16, which has no such option.
pub fn refuse_descriptors(socket: impl AsFd) -> bool {
    set_option(socket, libc::SOL_SOCKET, PASS_RIGHTS, 0).is_ok()
}

/// Reverts [`refuse_descriptors`] for one socket.
pub fn admit_descriptors(socket: impl AsFd) -> bool {
    set_option(socket, libc::SOL_SOCKET, PASS_RIGHTS, 1).is_ok()
}

/// Bytes of memory of the messages that the other end of a UNIX socket has not read.
///
/// # Errors
///
/// The kernel's error.
pub fn unread_by_peer(socket: impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open, and the kernel writes an integer (`SIOCOUTQ`).
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { Ok(bytes.max(0) as usize) } else { Err(io::Error::last_os_error()) }
}

/// getsockopt(2): `initial` overwritten as far as the kernel answers.
///
/// # Errors
///
/// The kernel's error.
pub fn get_option<T: OptionValue>(
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

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;

    #[test]
    fn an_option_is_set_read_and_refused() {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1).unwrap();
        let set = get_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 0).unwrap();
        assert_eq!(set, 1);
        let error = set_option(&socket, libc::SOL_SOCKET, -1, 1).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT));
    }

    #[test]
    fn unread_bytes_are_counted() {
        use rustix::net::{RecvFlags, SendFlags, SocketFlags, socketpair};
        let flags = SocketFlags::CLOEXEC;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        assert_eq!(unread_by_peer(&a).unwrap(), 0);
        rustix::net::send(&a, &[1; 100], SendFlags::empty()).unwrap();
        assert!(unread_by_peer(&a).unwrap() >= 100);
        rustix::net::recv(&b, &mut [0; 100], RecvFlags::empty()).unwrap();
        assert_eq!(unread_by_peer(&a).unwrap(), 0);
    }

    #[test]
    fn a_filter_is_put_on_and_taken_off() {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        let nothing = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }];
        set_filter(&socket, &nothing).unwrap();
        set_filter(&socket, &[]).unwrap();
        let none = set_filter(&socket, &[]).unwrap_err();
        assert_eq!(none.raw_os_error(), Some(libc::ENOENT));
        let endless = [libc::sock_filter { code: 0x05, jt: 0, jf: 0, k: 9 }];
        assert!(set_filter(&socket, &endless).is_err());
    }
}
