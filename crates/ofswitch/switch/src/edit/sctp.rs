//! Incremental update of SCTP's checksum.
//!
//! It is a `CRC32c` (RFC 9260 section 6.8), which is linear: a change of some bytes adds the
//! remainder of the difference with as many zero bytes behind it as bytes follow. So unchanged
//! bytes are not read, and a checksum that was wrong stays wrong. Zero bytes are appended by powers
//! of two, each a matrix over bits, as zlib's `crc32_combine` does.

/// The polynomial, its bits the other way round.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Remainder of each bit with a power of two of zero bytes behind it.
const ZEROS: [[u32; 32]; 16] = {
    let mut powers = [[0; 32]; 16];
    let mut bit = 0;
    while bit < 32 {
        let (mut remainder, mut step) = (1u32 << bit, 0);
        while step < 8 {
            remainder = remainder >> 1 ^ if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
            step += 1;
        }
        powers[0][bit] = remainder;
        bit += 1;
    }
    let mut power = 1;
    while power < 16 {
        let mut bit = 0;
        while bit < 32 {
            powers[power][bit] = times(&powers[power - 1], powers[power - 1][bit]);
            bit += 1;
        }
        power += 1;
    }
    powers
};

const fn times(matrix: &[u32; 32], mut remainder: u32) -> u32 {
    let (mut sum, mut bit) = (0, 0);
    while remainder != 0 {
        if remainder & 1 == 1 {
            sum ^= matrix[bit];
        }
        remainder >>= 1;
        bit += 1;
    }
    sum
}

/// Updates the checksum of a packet of `length` bytes whose first four were `old` and are `new`. It may
/// be cut: the bytes that are missing have not changed.
pub(crate) fn update_checksum(packet: &mut [u8], length: u16, old: [u8; 4], new: [u8; 4]) {
    let mut difference = u32::from_le_bytes(old) ^ u32::from_le_bytes(new);
    for (power, matrix) in ZEROS.iter().enumerate() {
        if length >> power & 1 == 1 {
            difference = times(matrix, difference);
        }
    }
    if let Some(check) = packet.get_mut(8..).and_then(<[u8]>::first_chunk_mut::<4>) {
        *check = (u32::from_le_bytes(*check) ^ difference).to_le_bytes();
    }
}
