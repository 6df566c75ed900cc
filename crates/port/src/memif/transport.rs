//! Messages and file descriptors over a socket that never makes us wait.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketType,
    },
};

use super::message::{Message, SIZE};

/// Descriptors taken from a message; more are closed by the kernel, and the message is refused.
const DESCRIPTORS: usize = 4;

/// What was there to be received.
#[derive(Debug)]
pub(super) enum Received {
    /// A message, and a descriptor if one came with it.
    Message(Message, Option<OwnedFd>),
    /// Nothing yet.
    Nothing,
    /// The peer has closed the socket, or died.
    Closed,
    /// What came is not a message.
    Malformed(&'static str),
}

/// A socket as both roles use it.
pub(super) fn socket() -> io::Result<OwnedFd> {
    crate::peer::listen::open(SocketType::SEQPACKET)
}

/// Sends a message.
///
/// The peers take turns, so the socket never has more than a few messages to hold: one that has no
/// place for another belongs to a peer that does not read, and is an error like others.
pub(super) fn send(
    socket: &OwnedFd,
    message: &Message,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = message.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags)?;
    Ok(())
}

/// Receives a message, if there is one.
pub(super) fn receive(socket: &OwnedFd) -> Received {
    // A byte more than a message has shows one that is too long.
    let mut bytes = [0; SIZE + 1];
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = rustix::net::recvmsg(
        socket.as_fd(),
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        flags,
    );
    let got = match got {
        Ok(got) => got,
        Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
        Err(_) => return Received::Closed,
    };
    // Taken out first, so that they are closed whatever is wrong with the rest.
    let descriptors: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        })
        .flatten()
        .collect();
    if got.bytes == 0 {
        return Received::Closed;
    }
    if got.bytes != SIZE {
        return Received::Malformed("a message has 128 bytes");
    }
    if got.flags.contains(ReturnFlags::CTRUNC) || descriptors.len() > 1 {
        return Received::Malformed("more than one file descriptor in a message");
    }
    let message = bytes.first_chunk().and_then(Message::decode);
    match message {
        Some(message) => Received::Message(message, descriptors.into_iter().next()),
        None => Received::Malformed("unknown message type"),
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    #[test]
    fn messages_and_descriptors_come_across() {
        let (a, b) = pair();
        assert!(matches!(receive(&b), Received::Nothing));
        send(&a, &Message::Ack, None).unwrap();
        send(&a, &Message::AddRegion { index: 1, size: 2 }, Some(a.as_fd())).unwrap();
        assert!(matches!(receive(&b), Received::Message(Message::Ack, None)));
        let second = receive(&b);
        assert!(
            matches!(second, Received::Message(Message::AddRegion { .. }, Some(_))),
            "{second:?}"
        );
        drop((a, second));
        assert!(matches!(receive(&b), Received::Closed));
    }

    #[test]
    fn what_is_no_message_is_refused_and_its_descriptors_are_closed() {
        let (a, b) = pair();
        let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
        for (bytes, descriptors) in [(127, 0), (129, 0), (128, 0), (128, 2), (128, 100)] {
            let fds = vec![a.as_fd(); descriptors];
            let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(100))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(&fds)));
            let bytes = vec![if descriptors > 0 { 1 } else { 0 }; bytes];
            rustix::net::sendmsg(&a, &[IoSlice::new(&bytes)], &mut control, SendFlags::empty())
                .unwrap();
            assert!(matches!(receive(&b), Received::Malformed(_)));
        }
        // Other tests may open files meanwhile, but not that many.
        assert!(std::fs::read_dir("/proc/self/fd").unwrap().count() < before + 50);
    }
}
