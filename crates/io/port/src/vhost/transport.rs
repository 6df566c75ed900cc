//! Messages and their descriptors over a stream that never makes us wait.

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

use super::message::{DESCRIPTORS, HEADER, Message, PAYLOAD};

/// Most descriptors of a message, the kernel's limit. All are received, since the kernel would close the rest on
/// this thread.
const ANY: usize = 253;

/// Result of a receive.
#[derive(Debug)]
pub(super) enum Received {
    Message(Message),
    /// Nothing, or not all of a message yet.
    Nothing,
    /// The peer has closed the socket, or died.
    Closed,
    /// The bytes received are not a message.
    Malformed(&'static str),
}

/// Part of a message that has been received.
#[derive(Debug)]
pub(super) struct Incoming {
    bytes: [u8; HEADER + PAYLOAD],
    filled: usize,
    descriptors: Vec<OwnedFd>,
}

impl Incoming {
    pub(super) fn new() -> Incoming {
        Incoming { bytes: [0; HEADER + PAYLOAD], filled: 0, descriptors: Vec::new() }
    }

    /// Returns true if a message is incomplete.
    pub(super) fn is_partial(&self) -> bool {
        self.filled > 0
    }

    /// Descriptors that are to be closed with the connection.
    pub(super) fn keep(&mut self, descriptors: &mut Vec<OwnedFd>) {
        self.descriptors.append(descriptors);
    }

    /// Receives a message, or as much of it as there is. Never the bytes behind it, since
    /// descriptors belong to the bytes they come with.
    pub(super) fn receive(&mut self, socket: &OwnedFd) -> Received {
        loop {
            let mut wanted = HEADER;
            if let Some(header) = self.bytes[..self.filled].first_chunk() {
                match Message::decode(header) {
                    Ok((length, mut message)) if self.filled == HEADER + length => {
                        message.payload = self.bytes[HEADER..self.filled].into();
                        message.descriptors = std::mem::take(&mut self.descriptors);
                        self.filled = 0;
                        return Received::Message(message);
                    }
                    Ok((length, _)) => wanted = HEADER + length,
                    Err(reason) => return Received::Malformed(reason),
                }
            }
            match self.fill(socket, wanted) {
                Ok(0) => return Received::Closed,
                Ok(_) if self.descriptors.len() > DESCRIPTORS => {
                    return Received::Malformed("more than eight descriptors with a message");
                }
                Ok(_) => {}
                Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
                Err(Errno::TOOBIG) => {
                    return Received::Malformed("more than eight descriptors with a message");
                }
                Err(_) => return Received::Closed,
            }
        }
    }

    fn fill(&mut self, socket: &OwnedFd, wanted: usize) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ANY))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut self.bytes[self.filled..wanted])],
            &mut control,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        )?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                self.descriptors.extend(rights);
            }
        }
        if got.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Errno::TOOBIG);
        }
        self.filled += got.bytes;
        Ok(got.bytes)
    }
}

/// Sends a message. One for which the socket has no place belongs to a peer that does not read, and
/// is an error like others.
pub(super) fn send(socket: &OwnedFd, message: &Message) -> io::Result<()> {
    let bytes = message.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = message.descriptors.iter().map(AsFd::as_fd).collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags)?;
    if sent == bytes.len() { Ok(()) } else { Err(Errno::AGAIN.into()) }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};

    use super::*;
    use crate::vhost::message;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    }

    #[test]
    fn messages_come_whole_with_their_own_descriptors() {
        let (a, b) = pair();
        let mut incoming = Incoming::new();
        assert!(matches!(incoming.receive(&b), Received::Nothing));
        let event = a.try_clone().unwrap();
        send(&a, &Message::of_event(message::SET_VRING_KICK, 1, Some(event))).unwrap();
        send(&a, &Message::of_u64(message::SET_FEATURES, 7)).unwrap();
        let Received::Message(first) = incoming.receive(&b) else { panic!() };
        assert_eq!((first.event(), first.descriptors.len()), (Ok((1, true)), 1));
        let Received::Message(second) = incoming.receive(&b) else { panic!() };
        assert_eq!((second.number(), second.descriptors.len()), (Ok(7), 0));
        let bytes = Message::of_u64(message::SET_FEATURES, 9).encode();
        for byte in &bytes[..19] {
            rustix::io::write(&a, &[*byte]).unwrap();
            assert!(matches!(incoming.receive(&b), Received::Nothing));
        }
        rustix::io::write(&a, &bytes[19..]).unwrap();
        let Received::Message(third) = incoming.receive(&b) else { panic!() };
        assert_eq!(third.number(), Ok(9));
        drop((a, first));
        assert!(matches!(incoming.receive(&b), Received::Closed));
    }

    #[test]
    fn too_many_descriptors_are_refused() {
        let (a, b) = pair();
        let fds = vec![a.as_fd(); 9];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(9))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let bytes = Message::of_u64(message::SET_FEATURES, 7).encode();
        rustix::net::sendmsg(&a, &[IoSlice::new(&bytes)], &mut control, SendFlags::empty())
            .unwrap();
        assert!(matches!(Incoming::new().receive(&b), Received::Malformed(_)));
    }
}
