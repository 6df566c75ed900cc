//! Statistics segment: figures that one process writes and others read, while it lives and after.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::SealFlags;

use super::{
    files::{AttachError, Region, create, open_readable},
    ring::RingMemory,
};
use crate::sync::Ordering;

/// The writing side: a memfd of 64-bit words that no other process can write or resize (Linux 5.1).
#[derive(Debug)]
pub struct StatsSegment {
    region: Region,
    file: OwnedFd,
    words: usize,
}

impl StatsSegment {
    /// A board of so many words, all zero.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn create(name: &str, words: usize) -> Result<StatsSegment, AttachError> {
        let (region, file) = create(name, &[], 8 * words as u64, SealFlags::FUTURE_WRITE)?;
        Ok(StatsSegment { region, file, words })
    }

    /// The file, for readers. It can be mapped for reading only.
    ///
    /// # Errors
    ///
    /// When there are too many open files.
    pub fn file(&self) -> std::io::Result<OwnedFd> {
        self.file.try_clone()
    }

    /// Writes words from a place on.
    ///
    /// # Panics
    ///
    /// When there are not so many.
    #[inline]
    pub fn set_from(&self, at: usize, values: &[u64]) {
        assert!(
            at <= self.words && values.len() <= self.words - at,
            "words {at} of {}",
            self.words
        );
        for (word, value) in self.region.words(at, values.len()).iter().zip(values) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// Writes a word.
    ///
    /// # Panics
    ///
    /// When there is no such word.
    #[inline]
    pub fn set(&self, at: usize, value: u64) {
        assert!(at < self.words, "word {at} of {}", self.words);
        self.region.word(at).store(value, Ordering::Relaxed);
    }
}

/// The reading side.
#[derive(Debug)]
pub struct StatsView {
    region: Region,
    words: usize,
}

impl StatsView {
    /// Maps another process's board, of at least `least` words.
    ///
    /// # Errors
    ///
    /// When it is shorter, others than its owner could write it or cut it short, or the kernel refuses.
    pub fn open(file: impl AsFd, least: usize) -> Result<StatsView, AttachError> {
        let (region, len) = open_readable(file, "the board of figures")?;
        let words = usize::try_from(len / 8).unwrap_or(0);
        if words < least {
            return Err(AttachError::Header("the board of figures"));
        }
        Ok(StatsView { region, words })
    }

    /// A word. Each is whole; several may be of different moments.
    ///
    /// # Panics
    ///
    /// When there is no such word.
    #[inline]
    pub fn get(&self, at: usize) -> u64 {
        assert!(at < self.words, "word {at} of {}", self.words);
        self.region.word(at).load(Ordering::Relaxed)
    }
}
