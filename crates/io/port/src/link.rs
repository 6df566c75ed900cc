//! Link state of a port: up while its other end is there.
//!
//! A port whose peer is a process may be opened before there is one, lose it and get it back with
//! other queues and buffers; the cable of an interface may be pulled out and put back. That is
//! neither an error, after which a port has to be opened again, nor a matter of the packet path: a
//! thread that is not a worker learns of it, and keeps the state and its reason here, for displays
//! and other observers.

use std::{
    fmt,
    sync::{
        Arc, Condvar, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Callback for changes of a link. Called by the thread that learnt of it, which has other things
/// to do: it takes note, and looks at the link elsewhere.
pub type LinkObserver = dyn Fn() + Send + Sync;

/// The link of a port, written by its driver and read by any thread.
#[derive(Default)]
pub struct Link {
    /// Changes so far: odd while the link is up. An event for observers that remember the last
    /// value seen.
    changes: AtomicU64,
    state: Mutex<LinkInner>,
    changed: Condvar,
}

#[derive(Default)]
struct LinkInner {
    /// The peer, or why there is none.
    detail: String,
    followers: Vec<Weak<LinkObserver>>,
    /// Whether the port is closed by its owner: that the link goes down then is no news.
    closing: bool,
    /// Watcher of the interface this is the link of, where it is one of the kernel's. Dropped, it
    /// ends.
    watcher: Option<Box<dyn Send>>,
}

impl Link {
    /// A link that is down.
    pub fn new(detail: impl Into<String>) -> Link {
        let link = Link::default();
        link.state().detail = detail.into();
        link
    }

    fn state(&self) -> std::sync::MutexGuard<'_, LinkInner> {
        self.state.lock().expect("no panic while held")
    }

    /// Returns true if the peer is there.
    pub fn is_up(&self) -> bool {
        !self.changes().is_multiple_of(2)
    }

    /// Number of changes, up or down, so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The peer and the negotiated features; while the link is down, the event waited for and the
    /// result of the last attempt. Empty where there is nothing to say.
    pub fn detail(&self) -> String {
        self.state().detail.clone()
    }

    /// Calls a follower at each change from now on, as long as it lives.
    pub fn follow(&self, follower: &Arc<LinkObserver>) {
        let mut state = self.state();
        state.followers.retain(|known| known.strong_count() > 0);
        state.followers.push(Arc::downgrade(follower));
    }

    /// Waits until it is up, at most for `limit`. Returns whether it is.
    pub fn wait_up(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.state();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.is_up() || left.is_zero() {
                return self.is_up();
            }
            state = self.changed.wait_timeout(state, left).expect("no panic while held").0;
        }
    }

    /// Returns true if the port has been closed by its owner, and not opened again since.
    pub fn is_closed(&self) -> bool {
        self.state().closing
    }

    /// Marks the port as closed: followers need not be told of the link any more.
    pub(crate) fn close(&self) {
        self.state().closing = true;
    }

    /// The port is opened, and this is why its link is down.
    pub(crate) fn open(&self, waiting: String) {
        self.state().closing = false;
        self.set(false, waiting);
    }

    /// Sets the state and its reason. For the driver of the port.
    pub fn set(&self, up: bool, detail: impl Into<String>) {
        let followers: Vec<Arc<LinkObserver>> = {
            let mut state = self.state();
            state.detail = detail.into();
            if self.is_up() == up {
                return;
            }
            self.changes.fetch_add(1, Ordering::Release);
            self.changed.notify_all();
            if state.closing {
                return;
            }
            state.followers.iter().filter_map(Weak::upgrade).collect()
        };
        // A follower may look here at once.
        followers.iter().for_each(|follower| follower());
    }

    /// Sets the watcher of the interface that this is the link of, in the place of the one before.
    pub(crate) fn watch_by(&self, watcher: Option<Box<dyn Send>>) {
        let before = std::mem::replace(&mut self.state().watcher, watcher);
        drop(before);
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("changes", &self.changes())
            .field("detail", &self.detail())
            .finish_non_exhaustive()
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
        link.close();
        assert!(link.is_closed());
        link.open("once more".into());
        assert_eq!((link.is_closed(), link.detail().as_str()), (false, "once more"));
    }

    #[test]
    fn followers_are_told_of_changes_while_they_are_there() {
        let link = Arc::new(Link::new(""));
        let told = Arc::new(AtomicU64::new(0));
        let follower: Arc<LinkObserver> = {
            let (link, told) = (Arc::clone(&link), Arc::clone(&told));
            // Looks at the link it is told of.
            Arc::new(move || told.store(link.changes(), Ordering::Relaxed))
        };
        link.follow(&follower);
        link.set(true, "");
        link.set(true, "again");
        assert_eq!(told.load(Ordering::Relaxed), 1);
        drop(follower);
        link.set(false, "");
        assert_eq!(told.load(Ordering::Relaxed), 1);
    }
}
