//! The user on the other end of a connection, as the kernel knows it.
//!
//! For UNIX sockets that is `SO_PEERCRED`. For TCP within one network namespace the kernel reports by
//! `linux/inet_diag.h` which user owns the peer's socket: one exact look-up, independent of the number
//! of sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use crate::interface::netlink::{Netlink, number};

/// Values of `linux/sock_diag.h`, `linux/inet_diag.h` and `net/tcp_states.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NO_COOKIE: [u8; 8] = [0xff; 8];
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;

/// Bytes of the addresses and ports in `struct inet_diag_sockid`.
const ENDS: usize = 36;
/// Offsets in `struct inet_diag_msg` of these, of the user and of the inode, and its size.
const ENDS_AT: usize = 4;
const USER_AT: usize = 64;
const INODE_AT: usize = 68;
const MESSAGE: usize = 72;

/// The user of the process that a connected UNIX socket's peer belonged to when it connected or
/// listened (unix(7), `SO_PEERCRED`).
///
/// # Errors
///
/// When the socket is not a UNIX socket or is not connected.
pub fn unix_user(socket: impl AsFd) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(socket)?.uid.as_raw())
}

/// The user whose socket is the other end of a TCP connection; `None` where that socket is not in
/// this network namespace. `ours` and `theirs` are the connection's addresses as this end has them.
///
/// # Errors
///
/// When the other end is here and has no owner: it was closed, or was not accepted yet
/// ([`io::ErrorKind::NotConnected`]); and when the kernel refuses the look-up.
pub fn tcp_user(ours: SocketAddr, theirs: SocketAddr) -> io::Result<Option<u32>> {
    let (ours, theirs) = (without_mapping(ours), without_mapping(theirs));
    // In the other end's order.
    let ends = ends(theirs, ours);
    let family = if theirs.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let scope = match theirs {
        SocketAddr::V6(theirs) => theirs.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let mut request = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(ends);
    request.extend(scope.to_ne_bytes());
    request.extend(NO_COOKIE);
    match Netlink::sockets()?.request(SOCK_DIAG_BY_FAMILY, &request) {
        Ok(messages) => match messages.first() {
            Some(message) => owner(&message.body, &ends),
            None => Ok(None),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The number of a user: the text as a number, or the entry of `/etc/passwd` for the name.
///
/// # Errors
///
/// When that file cannot be read.
pub fn user_number(text: &str) -> io::Result<Option<u32>> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(text.parse().ok());
    }
    Ok(number_in(&std::fs::read_to_string("/etc/passwd")?, text))
}

fn number_in(users: &str, name: &str) -> Option<u32> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

/// Reads a `struct inet_diag_msg` about the socket with these ends.
///
/// Only an established socket with an inode has an owner: the kernel reports a closed connection, and
/// one that was not accepted yet, as root's.
fn owner(body: &[u8], ends: &[u8; ENDS]) -> io::Result<Option<u32>> {
    // A look-up that finds no connection may find a listener.
    if body.len() < MESSAGE || body[1] == LISTEN || !is_between(body, ends) {
        return Ok(None);
    }
    let word = |at: usize| number(&body[at..at + 4]).unwrap_or(0) as u32;
    if body[1] != ESTABLISHED || word(INODE_AT) == 0 {
        return Err(io::Error::new(io::ErrorKind::NotConnected, "the peer's socket has no owner"));
    }
    Ok(Some(word(USER_AT)))
}

/// Returns true if a message is about the socket with these ends. The kernel reports an IPv6 socket
/// that speaks IPv4 with mapped addresses.
fn is_between(body: &[u8], ends: &[u8; ENDS]) -> bool {
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    let told = &body[ENDS_AT..][..ENDS];
    if told[..4] != ends[..4] {
        return false;
    }
    told[4..] == ends[4..]
        || [4, 20].into_iter().all(|at| {
            told[at..at + 12] == MAPPED
                && told[at + 12..at + 16] == ends[at..at + 4]
                && ends[at + 4..at + 16] == [0; 12]
        })
}

/// Ports and addresses as in `struct inet_diag_sockid`.
fn ends(from: SocketAddr, to: SocketAddr) -> [u8; ENDS] {
    let mut ends = [0; ENDS];
    ends[..2].copy_from_slice(&from.port().to_be_bytes());
    ends[2..4].copy_from_slice(&to.port().to_be_bytes());
    for (at, address) in [(4, from), (20, to)] {
        match address.ip() {
            IpAddr::V4(ip) => ends[at..at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => ends[at..at + 16].copy_from_slice(&ip.octets()),
        }
    }
    ends
}

/// Converts an IPv4-mapped address, which an IPv6 socket reports, to IPv4.
fn without_mapping(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
            SocketAddr::new(address.ip().to_canonical(), address.port())
        }
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn own() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn the_user_of_a_peer_is_known_while_it_is_connected() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(unix_user(&one).unwrap(), own());
        for (listens, connects) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            ("[::]:0", "127.0.0.1"),
            ("127.0.0.1:0", "::ffff:127.0.0.1"),
        ] {
            let listener = TcpListener::bind(listens).unwrap();
            let port = listener.local_addr().unwrap().port();
            let client = TcpStream::connect((connects, port)).unwrap();
            let ends = || (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let of_server = || tcp_user(ends().0, ends().1);
            // The kernel reports a connection that waits to be accepted as root's.
            assert_eq!(of_server().unwrap_err().kind(), io::ErrorKind::NotConnected);
            let (server, _) = listener.accept().unwrap();
            assert_eq!(of_server().unwrap(), Some(own()));
            let (ours, theirs) = (server.local_addr().unwrap(), server.peer_addr().unwrap());
            assert_eq!(tcp_user(ours, theirs).unwrap(), Some(own()), "{ours} {theirs}");
            // Likewise of a closed connection.
            drop(client);
            let closed = tcp_user(ours, theirs);
            assert!(!matches!(closed, Ok(Some(_))), "{closed:?}");
        }
    }

    #[test]
    fn users_have_numbers() {
        let users = "root:x:0:0:root:/root:/bin/bash\nfaucet:x:998:997::/:/bin/false\n+nis\n";
        assert_eq!(number_in(users, "faucet"), Some(998));
        assert_eq!(number_in(users, "nobody-here"), None);
        assert_eq!(number_in(users, "+nis"), None);
        assert_eq!(user_number("4294967295").unwrap(), Some(u32::MAX));
        assert_eq!(user_number("4294967296").unwrap(), None);
        assert_eq!(user_number("root").unwrap(), Some(0));
    }

    #[test]
    fn a_peer_that_is_not_here_has_no_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = listener.local_addr().unwrap();
        assert_eq!(tcp_user(ours, "192.0.2.1:7".parse().unwrap()).unwrap(), None);
        // A listener at the address of a peer is not that peer.
        assert_eq!(tcp_user("192.0.2.1:7".parse().unwrap(), ours).unwrap(), None);
    }

    #[test]
    fn an_answer_that_is_cut_short_is_none() {
        let ends = [7; ENDS];
        let mut body = vec![0; MESSAGE];
        body[1] = ESTABLISHED;
        body[ENDS_AT..][..ENDS].copy_from_slice(&ends);
        body[USER_AT] = 9;
        body[INODE_AT] = 1;
        let user = body[USER_AT..][..4].try_into().map(u32::from_ne_bytes).unwrap();
        assert_eq!(owner(&body, &ends).unwrap(), Some(user));
        for end in 0..MESSAGE {
            assert_eq!(owner(&body[..end], &ends).unwrap(), None);
        }
        assert_eq!(owner(&body, &[8; ENDS]).unwrap(), None);
    }
}
