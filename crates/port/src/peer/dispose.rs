//! The end of what came from a peer.
//!
//! Closing a descriptor can take as long as its peer likes: a TCP socket lingers, a file of a file system
//! that is a process is flushed by it, and a UNIX socket is closed with all descriptors that were sent and
//! not received. So these are closed by a thread that nothing waits for.

use std::thread;

/// Drops something on a thread of its own, or for want of threads here.
pub(crate) fn dispose<T: Send + 'static>(things: T) {
    let _ = thread::Builder::new().name("close".into()).spawn(move || drop(things));
}
