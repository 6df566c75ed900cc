//! A bounded view of a byte stream: the part of the file being parsed.
//!
//! Works on anything readable, so a pipe is as good as a file. It waits only for the bytes asked
//! for, so records written to a pipe arrive as soon as they are complete. Memory grows only with
//! bytes that really arrived, never with a length a file claims.

use std::io::{self, Read};

/// First size of the buffer: large enough that system calls are rare, small enough to stay in the
/// second-level cache between the copy into it and that out of it.
const INITIAL: usize = 64 << 10;

pub(super) struct Window {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// `buffer[start..end]` is read but not yet consumed.
    start: usize,
    end: usize,
    /// Position of `start` in the stream.
    offset: u64,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window")
            .field("offset", &self.offset)
            .field("held", &(self.end - self.start))
            .finish_non_exhaustive()
    }
}

impl Window {
    pub(super) fn new(source: Box<dyn Read + Send>) -> Self {
        Self { source, buffer: vec![0; INITIAL], start: 0, end: 0, offset: 0 }
    }

    /// Position in the stream of the first byte of [`Window::bytes`].
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Everything held and not yet consumed.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Makes at least `count` bytes available; false if the stream ends before.
    #[inline]
    pub(super) fn need(&mut self, count: usize) -> io::Result<bool> {
        if self.end - self.start >= count { Ok(true) } else { self.read(count) }
    }

    /// Reads on until `count` bytes are held.
    #[cold]
    fn read(&mut self, count: usize) -> io::Result<bool> {
        while self.end - self.start < count {
            if self.end == self.buffer.len() {
                self.make_room();
            }
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Empties the window: the source now delivers from `offset` of the stream on.
    pub(super) fn restart(&mut self, offset: u64) {
        (self.start, self.end, self.offset) = (0, 0, offset);
    }

    /// Gives up the first `count` bytes, which must be available.
    pub(super) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
        self.offset += count as u64;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Passes over `count` bytes without holding them; returns how many there were.
    pub(super) fn skip(&mut self, count: u64) -> io::Result<u64> {
        let mut left = count;
        while left > 0 {
            if !self.need(1)? {
                break;
            }
            let held = self.end - self.start;
            let step = usize::try_from(left).map_or(held, |left| left.min(held));
            self.consume(step);
            left -= step as u64;
        }
        Ok(count - left)
    }

    /// Called when the buffer is full to its end: moves the held bytes to the front, or, if they
    /// already fill the buffer, doubles it.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        } else {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delivers one byte per call, like the worst pipe.
    struct Drip(std::vec::IntoIter<u8>);

    impl Read for Drip {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            Ok(self.0.next().map_or(0, |byte| {
                out[0] = byte;
                1
            }))
        }
    }

    #[test]
    fn slow_source_is_awaited_and_offsets_are_kept() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut window = Window::new(Box::new(Drip(bytes.into_iter())));
        assert!(window.need(10).unwrap());
        assert_eq!(window.bytes(), &(0..10).collect::<Vec<u8>>()[..]);
        window.consume(7);
        assert_eq!(window.offset(), 7);
        assert_eq!(window.skip(50).unwrap(), 50);
        assert_eq!(window.offset(), 57);
        assert!(window.need(1).unwrap());
        assert_eq!(window.bytes()[0], 57);
        assert_eq!(window.skip(1000).unwrap(), 43);
        assert!(!window.need(1).unwrap());
    }

    #[test]
    fn memory_follows_the_bytes_that_arrived() {
        let mut window = Window::new(Box::new(io::Cursor::new(vec![1; 1000])));
        assert!(!window.need(usize::MAX / 2).unwrap());
        assert_eq!(window.buffer.len(), INITIAL);
        assert_eq!(window.bytes().len(), 1000);
    }

    #[test]
    fn records_across_the_end_of_the_buffer_stay_whole() {
        let bytes: Vec<u8> = (0..3 * INITIAL).map(|i| (i % 251) as u8).collect();
        let mut window = Window::new(Box::new(io::Cursor::new(bytes.clone())));
        let step = INITIAL / 2 + 13;
        let mut at = 0;
        while window.need(step).unwrap() {
            assert_eq!(&window.bytes()[..step], &bytes[at..at + step]);
            window.consume(step);
            at += step;
        }
        assert_eq!(window.bytes(), &bytes[at..]);
        assert!(window.buffer.len() <= 2 * INITIAL);
    }
}
