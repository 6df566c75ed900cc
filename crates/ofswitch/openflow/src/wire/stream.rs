//! Messages out of a stream of bytes.

use super::fault::Fault;
use super::message::{HEADER, Header};

/// Received bytes, until they are messages.
///
/// It holds bytes that were pushed and not taken. A reader of a connection pushes the bytes of one
/// read and takes all messages before it reads again; then there is never more here than one read
/// and one unfinished message of at most 65,535 bytes, for any input.
#[derive(Debug, Default)]
pub struct Stream {
    bytes: Vec<u8>,
    /// Offset of the next message.
    at: usize,
}

impl Stream {
    /// An empty one.
    #[must_use]
    pub fn new() -> Stream {
        Stream::default()
    }

    /// Adds bytes that came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if it is whole.
    ///
    /// A message shorter than its header leaves nothing to go on by: the connection has to end.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, Fault> {
        let rest = &self.bytes[self.at..];
        let Some(header) = Header::read(rest) else { return Ok(None) };
        let length = usize::from(header.length);
        if length < HEADER {
            return Err(Fault::BadLength);
        }
        let Some(message) = rest.get(..length) else { return Ok(None) };
        self.at += length;
        Ok(Some(message))
    }

    /// The header of the next message, before the rest of it has come.
    #[must_use]
    pub fn next_header(&self) -> Option<Header> {
        Header::read(&self.bytes[self.at..])
    }

    /// Returns the number of bytes that wait for the rest of their message.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_however_they_were_cut() {
        let one = [4, 2, 0, 8, 0, 0, 0, 1];
        let two = [4, 2, 0, 12, 0, 0, 0, 2, 1, 2, 3, 4];
        let all = [&one[..], &two[..], &one[..]].concat();
        for size in 1..=all.len() {
            let mut stream = Stream::new();
            let mut found = Vec::new();
            for piece in all.chunks(size) {
                stream.push(piece);
                while let Some(message) = stream.next_message().unwrap() {
                    found.push(message.to_vec());
                }
            }
            assert_eq!(found, [one.to_vec(), two.to_vec(), one.to_vec()], "{size}");
            assert_eq!(stream.waiting(), 0);
        }
    }

    #[test]
    fn a_length_that_leads_nowhere_is_a_fault() {
        let mut stream = Stream::new();
        stream.push(&[4, 2, 0, 7, 0, 0, 0]);
        assert_eq!(stream.next_message(), Ok(None));
        stream.push(&[1]);
        assert_eq!(stream.next_message(), Err(Fault::BadLength));
    }
}
