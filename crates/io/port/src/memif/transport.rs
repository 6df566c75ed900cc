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

/// Most descriptors of a message, the kernel's limit. All are received, since the kernel would close the rest on
/// this thread.
const DESCRIPTORS: usize = 253;

/// Result of a receive.
#[derive(Debug)]
pub(super) enum Received {
    /// A message.
    Message(Message),
    /// Nothing yet.
    Nothing,
    /// The peer has closed the socket, or died.
    Closed,
    /// The bytes received are not a message.
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

/// Receives a message, if there is one, and adds the descriptors that came with it to those there are.
pub(super) fn receive(socket: &OwnedFd, descriptors: &mut Vec<OwnedFd>) -> Received {
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
    // Taken out first, even if the message is malformed.
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    descriptors.extend(rights.flatten());
    if got.bytes == 0 {
        return Received::Closed;
    }
    if got.bytes != SIZE {
        return Received::Malformed("a message has 128 bytes");
    }
    if got.flags.contains(ReturnFlags::CTRUNC) || descriptors.len() > 1 {
        return Received::Malformed("more than one file descriptor in a message");
    }
    match bytes.first_chunk().and_then(Message::decode) {
        Some(message) if descriptors.len() > message.descriptors() => {
            Received::Malformed("a file descriptor with a message that has none")
        }
        Some(message) => Received::Message(message),
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
        let mut files = Vec::new();
        assert!(matches!(receive(&b, &mut files), Received::Nothing));
        send(&a, &Message::Ack, None).unwrap();
        send(&a, &Message::AddRegion { index: 1, size: 2 }, Some(a.as_fd())).unwrap();
        assert!(matches!(receive(&b, &mut files), Received::Message(Message::Ack)));
        assert!(files.is_empty());
        let second = receive(&b, &mut files);
        assert!(matches!(second, Received::Message(Message::AddRegion { .. })), "{second:?}");
        assert_eq!(files.len(), 1);
        files.clear();
        send(&a, &Message::Ack, Some(a.as_fd())).unwrap();
        assert!(matches!(receive(&b, &mut files), Received::Malformed(_)));
        drop((a, files));
        assert!(matches!(receive(&b, &mut Vec::new()), Received::Closed));
    }

    #[test]
    fn malformed_messages_are_refused_and_their_descriptors_kept() {
        let (a, b) = pair();
        for (bytes, descriptors) in [(127, 0), (129, 0), (128, 0), (128, 2), (128, 253)] {
            let fds = vec![a.as_fd(); descriptors];
            let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(&fds)));
            let bytes = vec![if descriptors > 0 { 1 } else { 0 }; bytes];
            rustix::net::sendmsg(&a, &[IoSlice::new(&bytes)], &mut control, SendFlags::empty())
                .unwrap();
            let mut files = Vec::new();
            assert!(matches!(receive(&b, &mut files), Received::Malformed(_)));
            assert_eq!(files.len(), descriptors);
        }
    }
}
