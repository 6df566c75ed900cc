//! A list that grows by chunks while several workers write to it.

use std::sync::OnceLock;

/// Entries of a chunk.
const CHUNK: usize = 1 << 16;

/// Entries by number, up to a limit. Those of a chunk are allocated together when the first of them is
/// needed, and stay where they are.
pub(super) struct Chunks<T> {
    chunks: Box<[OnceLock<Box<[T]>>]>,
    limit: usize,
}

impl<T: Default> Chunks<T> {
    /// At most `limit` entries, of which the first chunk is allocated.
    pub(super) fn new(limit: usize) -> Chunks<T> {
        let chunks = (0..limit.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect();
        let list = Chunks { chunks, limit };
        list.place(0);
        list
    }

    /// The entry of a number; `None` beyond the limit.
    #[inline]
    pub(super) fn place(&self, number: u64) -> Option<&T> {
        let (chunk, at) = self.split(number)?;
        let fill = || {
            let entries = (self.limit - chunk * CHUNK).min(CHUNK);
            (0..entries).map(|_| T::default()).collect()
        };
        self.chunks.get(chunk)?.get_or_init(fill).get(at)
    }

    /// Likewise for an existing chunk.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&T> {
        let (chunk, at) = self.split(number)?;
        self.chunks.get(chunk)?.get()?.get(at)
    }

    /// Calls `f` with each number and its entry, of the chunks that are there.
    pub(super) fn for_each(&self, mut f: impl FnMut(u64, &T)) {
        for (chunk, entries) in self.chunks.iter().enumerate() {
            let entries = entries.get().into_iter().flatten();
            ((chunk * CHUNK) as u64..).zip(entries).for_each(|(number, entry)| f(number, entry));
        }
    }

    /// The chunk of a number, and its place there.
    #[inline]
    fn split(&self, number: u64) -> Option<(usize, usize)> {
        let number = usize::try_from(number).ok().filter(|number| *number < self.limit)?;
        Some((number / CHUNK, number % CHUNK))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    #[test]
    fn entries_are_there_up_to_the_limit() {
        let limit = 2 * CHUNK as u64 + 3;
        let list = Chunks::<AtomicU32>::new(limit as usize);
        assert!(list.get(0).is_some() && list.get(CHUNK as u64).is_none());
        for number in [0, CHUNK as u64, limit - 1] {
            list.place(number).unwrap().store(7, Relaxed);
            assert_eq!(list.get(number).unwrap().load(Relaxed), 7);
        }
        let mut found = Vec::new();
        list.for_each(|number, entry| {
            if entry.load(Relaxed) == 7 {
                found.push(number);
            }
        });
        assert_eq!(found, [0, CHUNK as u64, limit - 1]);
        for number in [limit, u64::MAX] {
            assert!(list.place(number).is_none() && list.get(number).is_none());
        }
        assert!(Chunks::<AtomicU32>::new(0).place(0).is_none());
    }
}
