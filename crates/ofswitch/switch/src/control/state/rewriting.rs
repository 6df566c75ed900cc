//! Writing the text anew while the switch goes on.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::super::waker::Waker;
use super::files::Files;
use crate::switch::Saved;

/// A thread that writes a text.
#[derive(Debug)]
pub(super) struct Rewriting {
    /// The journal that goes on from the text.
    pub(super) journal: u64,
    thread: JoinHandle<io::Result<Written>>,
}

/// A text that was written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    /// Its length in bytes.
    pub(super) length: u64,
    /// Time it took.
    pub(super) time: Duration,
}

/// Writes a text.
pub(super) fn write(files: &Files, saved: &Saved, journal: u64) -> io::Result<Written> {
    let began = Instant::now();
    let length = files.write(saved, journal)?;
    Ok(Written { length, time: began.elapsed() })
}

impl Rewriting {
    /// Begins to write a text. The waker wakes when that has ended.
    pub(super) fn begin(
        files: &Files,
        saved: Saved,
        journal: u64,
        waker: &Arc<Waker>,
    ) -> io::Result<Rewriting> {
        let (files, waker) = (files.clone(), Arc::clone(waker));
        let body = move || {
            let written = write(&files, &saved, journal);
            // Tables that only the text needed are freed here.
            drop(saved);
            waker.wake();
            written
        };
        let thread = thread::Builder::new().name("of-state-text".to_owned()).spawn(body)?;
        Ok(Rewriting { journal, thread })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end.
    pub(super) fn end(self) -> io::Result<Written> {
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    }
}
