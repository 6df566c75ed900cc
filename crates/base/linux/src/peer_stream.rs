//! Streams of UNIX sockets at which no descriptor is asked for.
//!
//! A peer can hand over descriptors beside any byte. A plain read closes them on the thread that reads, and
//! such a close [may wait](crate::close).

use std::{
    io::{self, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    ops::Deref,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::close::Closer;

/// Most descriptors beside a byte (`SCM_MAX_FD`).
const DESCRIPTORS_MAX: usize = 253;

/// A connected stream. Neither reading nor dropping it closes a descriptor of the peer on the caller's thread.
#[derive(Debug)]
pub struct PeerStream {
    /// `None` once it is dropped.
    stream: Option<UnixStream>,
    closer: Option<Closer>,
}

impl PeerStream {
    /// A stream with the closer for descriptors of its peer; `None` if the kernel refuses them.
    pub fn new(stream: UnixStream, closer: Option<Closer>) -> PeerStream {
        PeerStream { stream: Some(stream), closer }
    }
}

impl Deref for PeerStream {
    type Target = UnixStream;

    fn deref(&self) -> &UnixStream {
        self.stream.as_ref().expect("it is not dropped yet")
    }
}

impl Read for PeerStream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut stream: &UnixStream = self;
        let Some(closer) = &self.closer else { return stream.read(to) };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(stream, &mut [IoSliceMut::new(to)], &mut control, flags)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                descriptors.for_each(|descriptor| closer.close(descriptor));
            }
        }
        Ok(received.bytes)
    }
}

impl Write for PeerStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let mut stream: &UnixStream = self;
        stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for PeerStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.deref().as_fd()
    }
}

impl Drop for PeerStream {
    fn drop(&mut self) {
        // Unread messages may have descriptors.
        if let (Some(closer), Some(stream)) = (&self.closer, self.stream.take()) {
            closer.close(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::IoSlice,
        time::{Duration, Instant},
    };

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;
    use crate::close::tests::lingering;

    /// Sends a byte and hands over a socket whose close waits for a minute.
    fn send_lingering(to: &UnixStream) -> std::net::TcpStream {
        let (near, far) = lingering();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [near.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let sent = sendmsg(to, &[IoSlice::new(b"x")], &mut control, SendFlags::NOSIGNAL);
        assert_eq!(sent, Ok(1));
        far
    }

    #[test]
    fn neither_a_read_nor_the_end_waits_for_descriptors_of_a_peer() {
        let begun = Instant::now();
        let (near, far) = UnixStream::pair().unwrap();
        let mut stream = PeerStream::new(near, Some(Closer::new(1)));
        let first = send_lingering(&far);
        assert_eq!(stream.read(&mut [0; 10]).unwrap(), 1);
        let second = send_lingering(&far);
        stream.write_all(b"yes").unwrap();
        drop(stream);
        assert!(begun.elapsed() < Duration::from_secs(30), "a close has been waited for");
        drop((first, second));
    }
}
