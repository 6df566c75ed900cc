//! Watch for changes of a file.
//!
//! Polls instead of having the kernel tell (inotify): that sees an editor's new file under the old
//! name as well as one on a network.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    time::{Duration, Instant},
};

/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A file being watched.
#[derive(Debug)]
pub(super) struct Watch {
    path: String,
    seen: Option<Stamp>,
    /// Its stamp at the last poll, if not `seen`.
    changing: Option<Stamp>,
    polled: Instant,
}

/// Inode, times and size, which change when a file is written.
type Stamp = (u64, i64, i64, u64);

fn stamp(path: &str) -> Option<Stamp> {
    let data = fs::metadata(path).ok()?;
    Some((data.ino(), data.mtime(), data.mtime_nsec(), data.len()))
}

impl Watch {
    pub(super) fn new(path: &str) -> Watch {
        let seen = stamp(path);
        Watch { path: path.into(), seen, changing: None, polled: Instant::now() }
    }

    /// Returns true if the file is another since the last time, and has been equal for two polls:
    /// its writer has finished.
    pub(super) fn has_changed(&mut self) -> bool {
        if self.polled.elapsed() < POLL_INTERVAL {
            return false;
        }
        self.polled = Instant::now();
        self.poll()
    }

    fn poll(&mut self) -> bool {
        let now = stamp(&self.path).filter(|now| Some(*now) != self.seen);
        let settled = now.is_some() && now == self.changing;
        self.changing = now;
        if settled {
            self.seen = self.changing.take();
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_reported_once_when_it_is_complete() {
        let path = std::env::temp_dir().join(format!("linerate-watch-{}", std::process::id()));
        fs::write(&path, "a").unwrap();
        let mut watch = Watch::new(path.to_str().unwrap());
        assert!(!watch.poll());
        fs::write(&path, "ab").unwrap();
        assert!(!watch.poll());
        fs::write(&path, "abc").unwrap();
        assert!(!watch.poll());
        assert!(watch.poll());
        assert!(!watch.poll());
        fs::remove_file(&path).unwrap();
        assert!(!watch.poll());
        assert!(!watch.poll());
    }
}
