//! Closes descriptors that a peer chose, on threads of their own.
//!
//! The last close of a file may wait: that of a TCP socket for its linger time (`SO_LINGER`), that of a FUSE
//! file for the process that serves it. A peer hands such a file over by a UNIX socket and closes its own
//! descriptor; the receiver's is the last then, and so is a socket's with messages that it has not read. A
//! thread that serves others therefore closes neither itself, unless the kernel
//! [refuses descriptors](crate::socket::refuse_descriptors) in the first place.

use std::{
    collections::VecDeque,
    os::fd::OwnedFd,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

/// Most threads. Descriptors wait when each of them does.
const THREADS_MAX: usize = 32;

#[derive(Debug)]
struct Queue {
    descriptors: VecDeque<OwnedFd>,
    threads: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { descriptors: VecDeque::new(), threads: 0 });

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes descriptors without waiting.
pub fn close(descriptors: impl IntoIterator<Item = OwnedFd>) {
    let mut queue = queue();
    let before = queue.descriptors.len();
    queue.descriptors.extend(descriptors);
    if queue.descriptors.len() == before || queue.threads == THREADS_MAX {
        return;
    }
    let started = thread::Builder::new().name("close".into()).spawn(close_all);
    queue.threads += usize::from(started.is_ok());
}

/// Closes what there is, one at a time.
fn close_all() {
    loop {
        let mut queue = queue();
        let Some(descriptor) = queue.descriptors.pop_front() else {
            queue.threads -= 1;
            return;
        };
        drop(queue);
        drop(descriptor);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
        time::{Duration, Instant},
    };

    use rustix::net::sockopt::set_socket_linger;

    use super::*;

    /// A socket whose close waits for a minute: what it has sent is not read.
    fn lingering() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        while near.write(&[0; 1 << 16]).is_ok() {}
        set_socket_linger(&near, Some(Duration::from_secs(60))).unwrap();
        (near, far)
    }

    #[test]
    fn a_close_that_waits_keeps_neither_its_caller_nor_others() {
        let until = Instant::now() + Duration::from_secs(30);
        let (near, far) = lingering();
        let number = std::os::fd::AsRawFd::as_raw_fd(&near);
        close([near.into()]);
        let (pipe, other) = rustix::pipe::pipe().unwrap();
        close([pipe]);
        // The other end of the pipe notices.
        while rustix::io::write(&other, &[1]) != Err(rustix::io::Errno::PIPE) {
            assert!(Instant::now() < until, "it is not closed");
            thread::yield_now();
        }
        assert!(Instant::now() < until, "{number} has been waited for");
        drop(far);
    }
}
