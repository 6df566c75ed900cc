//! The checksum of SCTP: `CRC32c` (RFC 9260 section 6.8).
//!
//! By a table of 256 entries, 1 byte at a time: it is computed for packets that a host left without
//! one, and those are few.

/// The polynomial, its bits the other way round.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// Offset of the checksum in an SCTP packet.
const FIELD: usize = 8;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut remainder, mut step) = (byte as u32, 0);
        while step < 8 {
            remainder = remainder >> 1 ^ if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
            step += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
};

/// The checksum, as the field has it in little-endian order.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    let step =
        |remainder: u32, byte: &u8| remainder >> 8 ^ TABLE[usize::from(remainder as u8 ^ byte)];
    !bytes.iter().fold(u32::MAX, step)
}

/// Computes the checksum of an SCTP packet, if it has a place for it.
#[cold]
pub(super) fn complete(packet: &mut [u8]) -> Option<()> {
    packet.get_mut(FIELD..FIELD + 4)?.fill(0);
    let sum = crc32c(packet).to_le_bytes();
    packet.get_mut(FIELD..FIELD + 4)?.copy_from_slice(&sum);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_remainders() {
        // RFC 3720 appendix B.4, and the check value of the catalogue of CRCs.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
