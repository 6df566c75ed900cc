//! Whether the other end of a port is there.
//!
//! A port whose peer is a process may be opened before there is one, lose it and get it back with
//! other queues and buffers. That is neither an error, after which a port has to be opened again, nor
//! a matter of the packet path: the driver keeps the port, a thread of its own negotiates, and here
//! is what became of it, for whoever shows it or acts on it.

use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The link of a port, written by its driver and read by anybody.
#[derive(Debug, Default)]
pub struct Link {
    /// How often it went up or down: odd while it is up. An event for those who remember what they
    /// saw last.
    changes: AtomicU64,
    /// Who the peer is, or why there is none.
    detail: Mutex<String>,
    changed: Condvar,
}

impl Link {
    /// A link that is down.
    pub fn new(detail: impl Into<String>) -> Link {
        Link { detail: Mutex::new(detail.into()), ..Link::default() }
    }

    /// Whether the peer is there.
    pub fn is_up(&self) -> bool {
        !self.changes().is_multiple_of(2)
    }

    /// How often it went up or down so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Who the peer is and what was negotiated; while the link is down, what is waited for and what
    /// came of the last attempt.
    pub fn detail(&self) -> String {
        self.detail.lock().expect("no panic while held").clone()
    }

    /// Waits until it is up, at most for `limit`. Returns whether it is.
    pub fn wait_up(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut detail = self.detail.lock().expect("no panic while held");
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.is_up() || left.is_zero() {
                return self.is_up();
            }
            detail = self.changed.wait_timeout(detail, left).expect("no panic while held").0;
        }
    }

    /// Says how it is now, and why.
    pub(crate) fn set(&self, up: bool, detail: impl Into<String>) {
        let mut current = self.detail.lock().expect("no panic while held");
        *current = detail.into();
        if self.is_up() != up {
            self.changes.fetch_add(1, Ordering::Release);
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted_and_waited_for() {
        let link = Link::new("nobody yet");
        assert_eq!(
            (link.is_up(), link.changes(), link.detail().as_str()),
            (false, 0, "nobody yet")
        );
        assert!(!link.wait_up(Duration::from_millis(1)));
        std::thread::scope(|scope| {
            scope.spawn(|| link.set(true, "a peer"));
            assert!(link.wait_up(Duration::from_secs(60)));
        });
        link.set(true, "the same peer");
        assert_eq!((link.changes(), link.detail().as_str()), (1, "the same peer"));
        link.set(false, "gone");
        assert_eq!((link.is_up(), link.changes()), (false, 2));
    }
}
