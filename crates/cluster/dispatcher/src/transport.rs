//! Messages with descriptors, by a UNIX socket that keeps their boundaries.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags,
    },
};

use crate::wire::SIZE;

/// Most descriptors of a message.
pub const DESCRIPTORS: usize = 5;
/// Most descriptors that a message can have (`SCM_MAX_FD`). The kernel would close those without room at
/// once, which may [wait](linerate_linux::close).
const DESCRIPTORS_MAX: usize = 253;

/// Result of a receive.
#[derive(Debug)]
pub enum Received {
    /// A message of the right size, and the descriptors that came with it.
    Message(Box<[u8; SIZE]>, Vec<OwnedFd>),
    /// Nothing yet.
    Nothing,
    /// The other side has closed the socket, or ended.
    Closed,
    /// Not a message, and the descriptors that came with it.
    Malformed(Vec<OwnedFd>),
}

/// Sends a message. It never waits: each side has at most a few messages to read, and one that does not
/// read them is an error.
///
/// # Errors
///
/// When the other side is gone, or does not read.
pub fn send(
    socket: impl AsFd,
    message: &[u8; SIZE],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if descriptors.len() > DESCRIPTORS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(message)], &mut control, flags)?;
    Ok(())
}

/// Receives a message, if there is one. Never waits.
pub fn receive(socket: impl AsFd) -> Received {
    // Messages sent before a reset can still be received.
    let received = receive_next(&socket);
    let received = received.or_else(|errno| match errno {
        Errno::CONNRESET => receive_next(&socket),
        _ => Err(errno),
    });
    received.unwrap_or(Received::Closed)
}

fn receive_next(socket: impl AsFd) -> Result<Received, Errno> {
    // A byte more than a message has shows one that is too long.
    let mut bytes = Box::new([0; SIZE + 1]);
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut to = [IoSliceMut::new(&mut bytes[..])];
    let got = match rustix::net::recvmsg(socket, &mut to, &mut control, flags) {
        Ok(got) => got,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Nothing),
        Err(errno) => return Err(errno),
    };
    // Taken out first, so that they are closed whether the rest is right or not.
    let descriptors: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        })
        .flatten()
        .collect();
    Ok(match bytes.first_chunk() {
        _ if got.bytes == 0 => Received::Closed,
        Some(message)
            if got.bytes == SIZE
                && descriptors.len() <= DESCRIPTORS
                && !got.flags.contains(ReturnFlags::CTRUNC) =>
        {
            Received::Message(Box::new(*message), descriptors)
        }
        _ => Received::Malformed(descriptors),
    })
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn messages_and_descriptors_come_across() {
        let (a, b) = pair();
        assert!(matches!(receive(&b), Received::Nothing));
        send(&a, &[7; SIZE], &[a.as_fd(); DESCRIPTORS]).unwrap();
        let Received::Message(bytes, descriptors) = receive(&b) else { panic!("no message") };
        assert_eq!((*bytes, descriptors.len()), ([7; SIZE], DESCRIPTORS));
        assert!(send(&a, &[7; SIZE], &[a.as_fd(); DESCRIPTORS + 1]).is_err());
        drop((a, descriptors));
        assert!(matches!(receive(&b), Received::Closed));
    }

    #[test]
    fn malformed_messages_are_refused() {
        let (a, b) = pair();
        for length in [1, SIZE - 1, SIZE + 1, 4 * SIZE] {
            rustix::net::send(&a, &vec![0; length], SendFlags::empty()).unwrap();
            assert!(matches!(receive(&b), Received::Malformed(_)), "{length}");
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(100))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let many = [a.as_fd(); 100];
        assert!(control.push(SendAncillaryMessage::ScmRights(&many)));
        let message = [0; SIZE];
        rustix::net::sendmsg(&a, &[IoSlice::new(&message)], &mut control, SendFlags::empty())
            .unwrap();
        assert!(matches!(receive(&b), Received::Malformed(files) if files.len() == 100));
    }

    #[test]
    fn a_message_before_a_reset_is_received() {
        let (a, b) = pair();
        send(&b, &[1; SIZE], &[]).unwrap();
        send(&a, &[2; SIZE], &[]).unwrap();
        // With a message unread the other end is reset.
        drop(a);
        let Received::Message(bytes, _) = receive(&b) else { panic!("no message") };
        assert_eq!(*bytes, [2; SIZE]);
        assert!(matches!(receive(&b), Received::Closed));
    }
}
