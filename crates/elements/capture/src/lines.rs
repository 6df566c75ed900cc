//! Reader of lines, or of records with a length in front, in large blocks.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Cursor, Read},
};

/// Bytes read at once.
const BLOCK: usize = 256 << 10;
/// Longest line and record.
const LIMIT: usize = 1 << 20;

/// A reader of a file's lines and records.
pub(super) struct Lines {
    source: BufReader<Box<dyn Read + Send>>,
    position: u64,
    /// Lines, or records, read so far.
    pub(super) count: u64,
}

impl Lines {
    /// Opens a file; `-` is the standard input.
    pub(super) fn open(path: &str) -> io::Result<Lines> {
        Ok(match path {
            "-" => Lines::new(Box::new(io::stdin())),
            path => Lines::new(Box::new(File::open(path)?)),
        })
    }

    /// Reads from text in memory.
    pub(super) fn from_text(text: Vec<u8>) -> Lines {
        Lines::new(Box::new(Cursor::new(text)))
    }

    fn new(source: Box<dyn Read + Send>) -> Lines {
        Lines { source: BufReader::with_capacity(BLOCK, source), position: 0, count: 0 }
    }

    /// Returns the number of bytes read so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns true at the end of the file.
    pub(super) fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.source.fill_buf()?.is_empty())
    }

    /// Returns the start of the next line, as far as it is in the buffer.
    pub(super) fn peek(&mut self) -> io::Result<&[u8]> {
        self.source.fill_buf()
    }

    /// Reads a line without its end; `false` when there is none.
    pub(super) fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        let read = self.source.by_ref().take(LIMIT as u64).read_until(b'\n', line)?;
        if read == LIMIT && !line.ends_with(b"\n") {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "line too long"));
        }
        self.position += read as u64;
        self.count += 1;
        while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            line.pop();
        }
        Ok(read > 0)
    }

    /// Reads a record of a binary dump. Returns `None` at the end of the file, else true if the
    /// record is a line of text.
    pub(super) fn read_record(&mut self, record: &mut Vec<u8>) -> io::Result<Option<bool>> {
        let mut head = [0; 4];
        if !self.fill(&mut head)? {
            return Ok(None);
        }
        let word = u32::from_be_bytes(head);
        let length = (word & 0x7fff_ffff) as usize;
        if !(4..=LIMIT).contains(&length) {
            let text = if length < 4 { "binary record too short" } else { "record too long" };
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        record.resize(length - 4, 0);
        self.count += 1;
        Ok(self.fill(record)?.then_some(word >> 31 == 1))
    }

    /// Fills a buffer; `false` when the file ends before.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        match self.source.read_exact(buffer) {
            Ok(()) => {
                self.position += buffer.len() as u64;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_records() {
        let mut lines = Lines::from_text(b"a\r\n\nlast".to_vec());
        let mut line = Vec::new();
        for expected in ["a", "", "last"] {
            assert!(lines.read_line(&mut line).unwrap());
            assert_eq!(line, expected.as_bytes());
        }
        assert!(!lines.read_line(&mut line).unwrap());
        assert_eq!(lines.position(), 8);

        let mut records =
            Lines::from_text(b"\0\0\0\x05x\x80\0\0\x05y\0\0\0\x04\0\0\0\x03".to_vec());
        assert_eq!(records.read_record(&mut line).unwrap(), Some(false));
        assert_eq!(line, b"x");
        assert_eq!(records.read_record(&mut line).unwrap(), Some(true));
        assert_eq!(records.read_record(&mut line).unwrap(), Some(false));
        assert!(records.read_record(&mut line).is_err());
        let mut cut = Lines::from_text(b"\0\0\0\x09x".to_vec());
        assert_eq!(cut.read_record(&mut line).unwrap(), None);
        let mut long = Lines::from_text(vec![b'x'; LIMIT + 1]);
        assert!(long.read_line(&mut line).is_err());
    }
}
