//! Stalling peers of shared-memory ports: they follow their protocol up to a stage, and stop there.
//! They ask for interrupts by eventfds to which a `write` blocks.

pub mod channel;
pub mod memif;
pub mod vhost;

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
    os::fd::{AsFd, OwnedFd},
    thread,
    time::Duration,
};

use rustix::{event::EventfdFlags, fs::OFlags};

/// An eventfd to which a `write` blocks.
///
/// # Panics
///
/// When there are too many open files.
#[must_use]
pub fn full_eventfd() -> OwnedFd {
    let eventfd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    fill(&eventfd);
    eventfd
}

/// Makes an eventfd, of any process, one to which a `write` blocks.
///
/// # Panics
///
/// When another process fills it, too.
pub fn fill(eventfd: impl AsFd) {
    let eventfd = eventfd.as_fd();
    rustix::fs::fcntl_setfl(eventfd, OFlags::NONBLOCK).expect("an open file");
    let mut count = [0; 8];
    let _ = rustix::io::read(eventfd, &mut count);
    rustix::io::write(eventfd, &(u64::MAX - 1).to_ne_bytes()).expect("an empty eventfd");
    rustix::fs::fcntl_setfl(eventfd, OFlags::empty()).expect("an open file");
}

/// A TCP socket that takes an hour to close: the peer, which comes with it, does not read. Close it by
/// [`close`].
///
/// # Panics
///
/// When there is no loopback interface.
#[must_use]
pub fn lingering_socket() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let mut socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
    let peer = listener.accept().expect("loopback").0;
    socket.set_nonblocking(true).expect("a socket");
    while socket.write(&[0; 1 << 16]).is_ok() {}
    socket.set_nonblocking(false).expect("a socket");
    let hour = Some(Duration::from_secs(3600));
    rustix::net::sockopt::set_socket_linger(&socket, hour).expect("a socket");
    (socket.into(), peer)
}

/// Closes a descriptor that was sent to another process, on a thread: the last of the two processes to close it
/// waits.
pub fn close(descriptor: OwnedFd) {
    thread::spawn(move || drop(descriptor));
}
