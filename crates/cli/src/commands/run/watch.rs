//! Whether a file has changed.
//!
//! Looks at it instead of having the kernel tell: that sees an editor's new
//! file under the old name as well as one on a network.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    time::{Duration, Instant},
};

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// A file being watched.
#[derive(Debug)]
pub(super) struct Watch {
    path: String,
    seen: Option<Stamp>,
    /// What it looked like at the last look, if not as `seen`.
    changing: Option<Stamp>,
    looked: Instant,
}

/// What differs when a file has been written.
type Stamp = (u64, i64, i64, u64);

fn stamp(path: &str) -> Option<Stamp> {
    let data = fs::metadata(path).ok()?;
    Some((data.ino(), data.mtime(), data.mtime_nsec(), data.len()))
}

impl Watch {
    pub(super) fn new(path: &str) -> Watch {
        let seen = stamp(path);
        Watch { path: path.into(), seen, changing: None, looked: Instant::now() }
    }

    /// Whether the file is another since the last time, and has been the same
    /// for two looks: whoever writes it has finished.
    pub(super) fn has_changed(&mut self) -> bool {
        if self.looked.elapsed() < PAUSE {
            return false;
        }
        self.looked = Instant::now();
        self.look()
    }

    fn look(&mut self) -> bool {
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
        assert!(!watch.look());
        fs::write(&path, "ab").unwrap();
        assert!(!watch.look());
        fs::write(&path, "abc").unwrap();
        assert!(!watch.look());
        assert!(watch.look());
        assert!(!watch.look());
        fs::remove_file(&path).unwrap();
        assert!(!watch.look());
        assert!(!watch.look());
    }
}
