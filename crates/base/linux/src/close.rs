//! Closes descriptors that came from a peer, on threads of that peer.
//!
//! The last close of a file may wait: that of a TCP socket for its linger time (`SO_LINGER`), that of a FUSE
//! file for the process that serves it. A peer hands such a file over by a UNIX socket and closes its own
//! descriptor; then the receiver's close is the last, and so it is for a descriptor in an unread message of a
//! socket that is closed. A thread that serves others therefore closes neither itself, unless the kernel
//! [refuses descriptors](crate::socket::refuse_descriptors) in the first place. Each peer has threads of its
//! own, a bounded number, so that files of one peer delay no close of another's.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    os::fd::AsFd,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use crate::socket::refuse_descriptors;

/// Most threads for each user of a listener whose peers hand no descriptors over.
const OF_USER: usize = 8;

/// Closes the things of one peer.
#[derive(Debug, Clone)]
pub struct Closer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Most threads at a time. When all of them wait, further things wait in the queue.
    threads_max: usize,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    things: VecDeque<Box<dyn Send>>,
    threads: usize,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Queue { things, threads } = self;
        f.debug_struct("Queue").field("things", &things.len()).field("threads", threads).finish()
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Closer {
    /// A closer with so many threads at most. It has none while there is nothing to close.
    pub fn new(threads_max: usize) -> Closer {
        Closer(Arc::new(Shared { threads_max, queue: Mutex::default() }))
    }

    /// Drops things on another thread, and the descriptors in them with it. Never waits: without a thread
    /// to be had they wait for the next call, or for [`Closer::resume`].
    pub fn close(&self, things: impl Send + 'static) {
        let mut queue = self.0.queue();
        queue.things.push_back(Box::new(things));
        self.start(&mut queue);
    }

    /// Starts a thread that could not be started before.
    pub fn resume(&self) {
        let mut queue = self.0.queue();
        if !queue.things.is_empty() {
            self.start(&mut queue);
        }
    }

    fn start(&self, queue: &mut Queue) {
        if queue.threads < self.0.threads_max {
            let shared = Arc::clone(&self.0);
            let started = thread::Builder::new().name("close".into()).spawn(move || run(&shared));
            queue.threads += usize::from(started.is_ok());
        }
    }

    fn is_idle(&self) -> bool {
        let queue = self.0.queue();
        queue.things.is_empty() && queue.threads == 0
    }
}

/// Drops the queued things, one at a time.
fn run(shared: &Shared) {
    loop {
        let mut queue = shared.queue();
        let Some(things) = queue.things.pop_front() else {
            queue.threads -= 1;
            return;
        };
        drop(queue);
        // A thread that a panic ends would stay counted.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(things)));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let queue = self.queue.get_mut().unwrap_or_else(PoisonError::into_inner);
        let things = std::mem::take(&mut queue.things);
        if !things.is_empty() {
            // Kept open where there is no thread for them even now.
            let things = Arc::new(Mutex::new(things));
            let theirs = Arc::clone(&things);
            let close = move || theirs.lock().unwrap_or_else(PoisonError::into_inner).clear();
            if thread::Builder::new().name("close".into()).spawn(close).is_err() {
                std::mem::forget(things);
            }
        }
    }
}

/// Closers of the users that connect to a listener.
#[derive(Debug)]
pub struct Closers {
    threads_max: usize,
    of_users: Mutex<HashMap<u32, Closer>>,
}

impl Closers {
    /// Closers with so many threads at most for each user.
    pub fn new(threads_max: usize) -> Closers {
        Closers { threads_max, of_users: Mutex::default() }
    }

    /// Has the kernel refuse descriptors at a listener. Returns closers for the users that connect to it,
    /// if the kernel cannot.
    pub fn unless_refused(listener: impl AsFd) -> Option<Closers> {
        (!refuse_descriptors(listener)).then(|| Closers::new(OF_USER))
    }

    /// The closer of a user.
    pub fn for_user(&self, user: u32) -> Closer {
        let mut of_users = self.of_users.lock().unwrap_or_else(PoisonError::into_inner);
        of_users.retain(|other, closer| *other == user || !closer.is_idle());
        of_users.entry(user).or_insert_with(|| Closer::new(self.threads_max)).clone()
    }

    /// Starts threads that could not be started before.
    pub fn resume(&self) {
        let of_users = self.of_users.lock().unwrap_or_else(PoisonError::into_inner);
        of_users.values().for_each(Closer::resume);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        os::fd::OwnedFd,
        sync::mpsc::{RecvTimeoutError, channel},
        time::{Duration, Instant},
    };

    use rustix::net::sockopt::{
        set_socket_linger, set_socket_recv_buffer_size, set_socket_send_buffer_size,
    };

    use super::*;

    /// Sockets that linger: more than the threads of one user.
    const LINGERING: usize = 40;

    /// A socket whose close waits for a minute, as its peer does not read, and the peer.
    pub(crate) fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_socket_recv_buffer_size(&listener, 4096).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_socket_send_buffer_size(&near, 4096).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        while std::io::Write::write(&mut &near, &[0; 1 << 16]).is_ok() {}
        set_socket_linger(&near, Some(Duration::from_secs(60))).unwrap();
        (near.into(), far)
    }

    /// Waits until the other end of a pipe is closed.
    #[track_caller]
    fn assert_closes(closer: &Closer) {
        let until = Instant::now() + Duration::from_secs(30);
        let (pipe, other) = rustix::pipe::pipe().unwrap();
        closer.close(pipe);
        while rustix::io::write(&other, &[1]) != Err(rustix::io::Errno::PIPE) {
            assert!(Instant::now() < until, "it is not closed");
            thread::yield_now();
        }
    }

    #[test]
    fn closes_that_wait_keep_neither_their_caller_nor_other_peers() {
        let closers = Closers::new(4);
        let begun = Instant::now();
        let mut far = Vec::new();
        for _ in 0..LINGERING {
            let (near, peer) = lingering();
            closers.for_user(1).close(near);
            far.push(peer);
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "a close has been waited for");
        assert_closes(&closers.for_user(2));
        assert!(closers.for_user(1).0.queue().threads <= 4);
        assert!(!closers.for_user(1).is_idle(), "nothing lingers");
        // Its peers read no more, and are reset: nothing is waited for any longer.
        drop(far);
        assert_closes(&closers.for_user(1));
    }

    #[test]
    fn a_closer_that_ends_leaves_its_things_to_its_threads() {
        let closer = Closer::new(1);
        let (near, far) = lingering();
        closer.close(near);
        let (sender, receiver) = channel::<()>();
        closer.close(sender);
        drop(closer);
        assert!(receiver.try_recv().is_err());
        drop(far);
        let ended = receiver.recv_timeout(Duration::from_secs(30));
        assert_eq!(ended, Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn users_with_nothing_to_close_take_no_memory() {
        let closers = Closers::new(1);
        for user in 0..100 {
            let closer = closers.for_user(user);
            assert!(closer.is_idle());
        }
        assert_eq!(closers.of_users.lock().unwrap().len(), 1);
    }
}
