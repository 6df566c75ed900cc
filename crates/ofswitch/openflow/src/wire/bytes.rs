//! Reading and writing big-endian numbers, with every length checked.

use super::fault::Fault;
use super::unencodable::Unencodable;

/// Rest of a message, or of a part of one.
///
/// Each part has its fault for an early end: a message's, an action's, a match's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    short: Fault,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], short: Fault) -> Self {
        Reader { rest: bytes, short }
    }

    /// Returns the same bytes, with another fault for wrong lengths.
    pub(crate) fn with_fault(self, short: Fault) -> Self {
        Reader { rest: self.rest, short }
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes all remaining bytes.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(self.short)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(self.short)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// The next `count` bytes, as a part with the same fault.
    pub(crate) fn part(&mut self, count: usize) -> Result<Reader<'a>, Fault> {
        Ok(Reader { rest: self.take(count)?, short: self.short })
    }

    /// Skips padding. Its length is checked; its content is not, as the specification has it.
    pub(crate) fn skip(&mut self, count: usize) -> Result<(), Fault> {
        self.take(count).map(drop)
    }

    /// Bytes that must be zero.
    pub(crate) fn zeros(&mut self, count: usize, otherwise: Fault) -> Result<(), Fault> {
        if self.take(count)?.iter().any(|&byte| byte != 0) {
            return Err(otherwise);
        }
        Ok(())
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Fault> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_be_bytes)
    }

    /// A number of up to sixteen bytes.
    pub(crate) fn number(&mut self, bytes: usize) -> Result<u128, Fault> {
        debug_assert!(bytes <= 16);
        Ok(self.take(bytes)?.iter().fold(0, |number, &byte| number << 8 | u128::from(byte)))
    }

    /// Reads a text in a field of fixed size, which ends at its first zero, or before the last
    /// byte.
    ///
    /// Bytes outside of UTF-8 become question marks, so that the length stays.
    pub(crate) fn text(&mut self, size: usize) -> Result<String, Fault> {
        let field = self.take(size)?;
        let end = field.iter().take(size - 1).take_while(|&&byte| byte != 0).count();
        let ascii = |&byte: &u8| if byte.is_ascii() { char::from(byte) } else { '?' };
        let text = std::str::from_utf8(&field[..end]);
        Ok(text.map_or_else(|_| field[..end].iter().map(ascii).collect(), str::to_owned))
    }

    /// Checks that no bytes remain.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.short) }
    }
}

/// A message that is being written.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Writer::default()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the number of bytes written, the offset of the next.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0);
    }

    pub(crate) fn u8(&mut self, number: u8) {
        self.bytes.push(number);
    }

    pub(crate) fn u16(&mut self, number: u16) {
        self.bytes(&number.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.bytes(&number.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, number: u64) {
        self.bytes(&number.to_be_bytes());
    }

    /// A number of up to sixteen bytes.
    pub(crate) fn number(&mut self, number: u128, bytes: usize) {
        debug_assert!(bytes <= 16);
        self.bytes(&number.to_be_bytes()[16 - bytes..]);
    }

    /// A text in a field of fixed size, cut so that a zero follows it.
    pub(crate) fn text(&mut self, text: &str, size: usize) {
        let mut end = text.len().min(size - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes(&text.as_bytes()[..end]);
        self.zeros(size - end);
    }

    /// Zeros up to a multiple of eight bytes, counted from `start`.
    pub(crate) fn pad(&mut self, start: usize) {
        self.zeros((self.len() - start).next_multiple_of(8) - (self.len() - start));
    }

    /// The number that was written at `at`.
    pub(crate) fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// Overwrites the number at `at`.
    pub(crate) fn put_u16(&mut self, at: usize, number: u16) {
        self.bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
    }

    /// Writes the length of the bytes since `start` into the two bytes at `at`.
    pub(crate) fn length(&mut self, at: usize, start: usize) -> Result<(), Unencodable> {
        let length = u16::try_from(self.len() - start).map_err(|_| Unencodable::TooLong)?;
        self.put_u16(at, length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_ends_with_its_fault() {
        let mut reader = Reader::new(&[1, 2, 3], Fault::ActionBadLength);
        assert_eq!(reader.u16(), Ok(0x0102));
        assert_eq!(reader.u16(), Err(Fault::ActionBadLength));
        assert_eq!(reader.finish(), Err(Fault::ActionBadLength));
        assert_eq!(reader.zeros(1, Fault::MustBeZero), Err(Fault::MustBeZero));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn texts_fit_and_end() {
        let mut out = Writer::new();
        out.text("eth0", 8);
        out.text("säße und mehr", 3);
        let bytes = out.into_bytes();
        assert_eq!(bytes, b"eth0\0\0\0\0s\0\0");
        let mut reader = Reader::new(&bytes, Fault::BadLength);
        assert_eq!(reader.text(8).as_deref(), Ok("eth0"));
        assert_eq!(reader.text(3).as_deref(), Ok("s"));
        let mut reader = Reader::new(b"a\xffbc1234", Fault::BadLength);
        assert_eq!(reader.text(4).as_deref(), Ok("a?b"));
        assert_eq!(reader.text(4).as_deref(), Ok("123"));
    }

    #[test]
    fn lengths_are_bounded() {
        let mut out = Writer::new();
        out.zeros(65_536);
        assert_eq!(out.length(0, 0), Err(Unencodable::TooLong));
        assert_eq!(out.length(2, 1), Ok(()));
    }
}
