//! Delta encoding of the TCP/IP headers of a connection's consecutive packets.
//!
//! A byte of flags, the TCP checksum, and a delta for each field whose flag is set: one byte, or a
//! zero and two bytes. The identification grows by one when its flag is not set.

use linerate_element_support::ip::{
    IDENT, LEAST, TOTAL_LENGTH, fill_checksum, get_four, get16, put16,
};

use super::{HEADERS, Headers};

/// Flags of an encoded delta.
const PUSH: u8 = 1 << 4;
const URGENT: u8 = 1;
const IDENTIFICATION: u8 = 1 << 5;
/// Offsets in the headers.
const TCP_FLAGS: usize = LEAST + 13;
const TCP_CHECKSUM: usize = LEAST + 16;
/// Bits of the TCP flags.
const PSH: u8 = 8;
const URG: u8 = 0x20;
/// Length of the flags and the checksum.
const FIXED: usize = 3;
/// Bytes of a change at most: five fields in three each.
pub(super) const MOST: usize = FIXED + 15;

/// A delta-encoded header field of two or four bytes.
struct Field {
    flag: u8,
    at: usize,
    is_long: bool,
}

const fn field(flag: u8, at: usize, is_long: bool) -> Field {
    Field { flag, at, is_long }
}

/// Fields in the order of their deltas: urgent pointer, window, acknowledgement, sequence number,
/// identification.
const FIELDS: [Field; 5] = [
    field(URGENT, LEAST + 18, false),
    field(1 << 1, LEAST + 14, false),
    field(1 << 2, LEAST + 8, true),
    field(1 << 3, LEAST + 4, true),
    field(IDENTIFICATION, IDENT, false),
];

impl Field {
    fn get(&self, headers: &Headers) -> u32 {
        if self.is_long {
            u32::from_be_bytes(get_four(headers, self.at))
        } else {
            get16(headers, self.at).into()
        }
    }

    fn add(&self, headers: &mut Headers, change: u16) {
        if self.is_long {
            let value = self.get(headers).wrapping_add(change.into());
            headers[self.at..self.at + 4].copy_from_slice(&value.to_be_bytes());
        } else {
            let value = get16(headers, self.at).wrapping_add(change);
            put16(headers, self.at, value);
        }
    }
}

/// An encoded delta.
#[derive(Debug)]
pub(super) struct Change {
    bytes: [u8; MOST],
    length: usize,
}

impl Change {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// Encodes the delta to the headers of the next packet, which has `length` bytes; `None` if the
    /// encoding cannot express it.
    pub(super) fn between(old: &Headers, new: &Headers, length: usize) -> Option<Change> {
        let [high, low] = get16(new, TCP_CHECKSUM).to_be_bytes();
        let mut change = Change { bytes: [0; MOST], length: FIXED };
        (change.bytes[1], change.bytes[2]) = (high, low);
        let mut flags = if new[TCP_FLAGS] & PSH != 0 { PUSH } else { 0 };
        for field in &FIELDS {
            let (before, after) = (field.get(old), field.get(new));
            let is_as_expected = match field.flag {
                IDENTIFICATION => after == before + 1,
                _ => after == before,
            };
            if is_as_expected {
                continue;
            }
            flags |= field.flag;
            let by = u16::try_from(after.checked_sub(before)?).ok()?;
            match by.to_be_bytes() {
                [0, low @ 1..=u8::MAX] => change.push(low),
                [high, low] => [0, high, low].into_iter().for_each(|byte| change.push(byte)),
            }
        }
        change.bytes[0] = flags;
        // Decode to verify: changes of any other field are not encoded.
        let mut told = *old;
        apply(&mut told, change.bytes())?;
        finish(&mut told, length)?;
        (told == *new).then_some(change)
    }
}

/// Applies an encoded delta to headers, except for length and IP checksum, which [`finish`] writes.
/// Returns the length of the delta; `None` if it is truncated.
pub(super) fn apply(headers: &mut Headers, bytes: &[u8]) -> Option<usize> {
    let (&[flags, high, low], mut rest) = bytes.split_first_chunk::<FIXED>()?;
    headers[TCP_CHECKSUM..TCP_CHECKSUM + 2].copy_from_slice(&[high, low]);
    headers[TCP_FLAGS] &= !(PSH | URG);
    if flags & PUSH != 0 {
        headers[TCP_FLAGS] |= PSH;
    }
    if flags & URGENT != 0 {
        headers[TCP_FLAGS] |= URG;
    }
    for field in &FIELDS {
        let by = match (flags & field.flag != 0, rest) {
            (true, [0, high, low, behind @ ..]) => {
                rest = behind;
                u16::from_be_bytes([*high, *low])
            }
            (true, [by @ 1..=u8::MAX, behind @ ..]) => {
                rest = behind;
                u16::from(*by)
            }
            (true, _) => return None,
            (false, _) => u16::from(field.flag == IDENTIFICATION),
        };
        field.add(headers, by);
    }
    Some(bytes.len() - rest.len())
}

/// Writes total length and IP checksum; returns `None` if the packet is too long.
pub(super) fn finish(headers: &mut Headers, length: usize) -> Option<()> {
    put16(headers, TOTAL_LENGTH, u16::try_from(length).ok()?);
    fill_checksum(&mut headers[..LEAST]);
    Some(())
}

const _: () = assert!(2 + MOST < HEADERS, "a change is shorter than the headers");

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(change: impl FnOnce(&mut Headers)) -> Headers {
        let mut headers = [0; HEADERS];
        (headers[0], headers[9], headers[32], headers[TCP_FLAGS]) = (0x45, 6, 0x50, 0x10);
        change(&mut headers);
        finish(&mut headers, 40).unwrap();
        headers
    }

    /// The encoding is that of Click's elements.
    #[test]
    fn changes_are_flags_checksum_and_differences() {
        let old = headers(|_| {});
        let is = |change: fn(&mut Headers), expected: &[u8]| {
            let new = headers(change);
            let change = Change::between(&old, &new, 40).unwrap();
            assert_eq!(change.bytes(), expected);
            let mut told = old;
            assert_eq!(apply(&mut told, &[expected, &[9, 9]].concat()), Some(expected.len()));
            finish(&mut told, 40).unwrap();
            assert_eq!(told, new);
            for length in 0..expected.len() {
                assert_eq!(apply(&mut told, &expected[..length]), None);
            }
        };
        is(|new| new[5] = 1, &[0, 0, 0]);
        // An unchanged identification has a delta of zero.
        is(|_| {}, &[0x20, 0, 0, 0, 0, 0]);
        is(|new| (new[5], new[27], new[36], new[37]) = (1, 100, 7, 8), &[8, 7, 8, 100]);
        is(|new| (new[5], new[26], new[33]) = (1, 1, 0x18), &[0x18, 0, 0, 0, 1, 0]);
        is(
            |new| {
                (new[5], new[27], new[31], new[35], new[39]) = (2, 4, 3, 2, 1);
                new[33] = 0x30;
            },
            &[0x2f, 0, 0, 1, 2, 3, 4, 2],
        );
    }

    #[test]
    fn changes_without_a_difference_coding_are_none() {
        let old = headers(|old| (old[5], old[27], old[35]) = (9, 9, 9));
        for change in [
            // Fields that shrink, or grow by too much.
            (|new| (new[5], new[27], new[35]) = (8, 9, 9)) as fn(&mut Headers),
            |new| (new[5], new[27], new[35]) = (10, 8, 9),
            |new| (new[5], new[27], new[35]) = (10, 9, 8),
            |new| (new[5], new[25], new[27], new[35]) = (10, 1, 9, 9),
            // Fields and flags that have no delta.
            |new| (new[1], new[5], new[27], new[35]) = (1, 10, 9, 9),
            |new| (new[5], new[6], new[27], new[35]) = (10, 0x40, 9, 9),
            |new| (new[5], new[8], new[27], new[35]) = (10, 1, 9, 9),
            |new| (new[5], new[27], new[32], new[35]) = (10, 9, 0x60, 9),
            |new| (new[5], new[27], new[33], new[35]) = (10, 9, 0x50, 9),
            |new| (new[5], new[27], new[33], new[35]) = (10, 9, 0x30, 9),
            |new| (new[5], new[27], new[35], new[39]) = (10, 9, 9, 1),
        ] {
            assert!(Change::between(&old, &headers(change), 40).is_none());
        }
        let next = headers(|new| (new[5], new[27], new[35]) = (10, 9, 9));
        assert!(Change::between(&old, &next, 40).is_some());
        assert!(Change::between(&old, &next, 41).is_none(), "it says another length");
        let mut wrong = next;
        wrong[10] ^= 1;
        assert!(Change::between(&old, &wrong, 40).is_none(), "its checksum is wrong");
    }
}
