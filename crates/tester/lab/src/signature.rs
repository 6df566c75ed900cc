//! The mark in a generated frame by which the sink finds loss, order and latency.
//!
//! Eighteen bytes at the start of the payload, the size that the smallest UDP/IPv4 frame holds, all
//! big-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | magic number |
//! | 2 | stream: which generator, which of its workers |
//! | 6 | sequence number in the stream |
//! | 6 | time of sending, nanoseconds of the monotonic clock modulo 2^48 |
//!
//! The time wraps after 78 hours; latencies are computed modulo that. They
//! mean something only where both ends share a clock, that is on one machine.

/// Length of a signature in bytes.
pub const SIGNATURE_LEN: usize = 18;

/// "LNRT".
const MAGIC: [u8; 4] = *b"LNRT";
/// The fields of 48 bits.
const MASK: u64 = (1 << 48) - 1;

/// The mark of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// Number of the generator and of its worker.
    pub stream: u16,
    /// Place in the stream, from 0; 48 bits.
    pub sequence: u64,
    /// Time of sending, as [`clock::now`](crate::now); 48 bits.
    pub time: u64,
}

impl Signature {
    /// As it goes into a frame.
    #[inline]
    pub fn to_bytes(self) -> [u8; SIGNATURE_LEN] {
        let mut bytes = [0; SIGNATURE_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&self.stream.to_be_bytes());
        bytes[6..12].copy_from_slice(&self.sequence.to_be_bytes()[2..]);
        bytes[12..].copy_from_slice(&self.time.to_be_bytes()[2..]);
        bytes
    }

    /// From the start of a payload; `None` when there is no signature.
    #[inline]
    pub fn from_bytes(payload: &[u8]) -> Option<Signature> {
        let bytes: &[u8; SIGNATURE_LEN] = payload.first_chunk()?;
        if bytes[..4] != MAGIC {
            return None;
        }
        let wide = |at: usize| {
            let mut wide = [0; 8];
            wide[2..].copy_from_slice(&bytes[at..at + 6]);
            u64::from_be_bytes(wide)
        };
        Some(Signature {
            stream: u16::from_be_bytes([bytes[4], bytes[5]]),
            sequence: wide(6),
            time: wide(12),
        })
    }

    /// Nanoseconds from the sending of the frame to `now`.
    #[inline]
    pub fn age(&self, now: u64) -> u64 {
        now.wrapping_sub(self.time) & MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_in_and_comes_out() {
        let signature = Signature { stream: 0x1234, sequence: MASK - 1, time: 77 };
        let bytes = signature.to_bytes();
        assert_eq!(&bytes[..6], b"LNRT\x12\x34");
        assert_eq!(Signature::from_bytes(&bytes), Some(signature));
        assert_eq!(Signature::from_bytes(&bytes[..17]), None);
        assert_eq!(Signature::from_bytes(&[0; 40]), None);
    }

    #[test]
    fn age_survives_the_wrap() {
        let signature = Signature { stream: 0, sequence: 0, time: MASK - 9 };
        assert_eq!(signature.age((1 << 48) + 20), 30);
    }
}
