//! CRC-32C (Castagnoli), as in iSCSI (RFC 3720, section 12.1): of records of a journal.

/// The polynomial, its bits reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 0 { rest >> 1 } else { rest >> 1 ^ POLYNOMIAL };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
};

/// The checksum of parts that follow each other.
pub(super) fn checksum(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().copied().flatten();
    !bytes.fold(u32::MAX, |sum, byte| sum >> 8 ^ TABLE[usize::from(sum as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 3720, section B.4, and the usual check.
    #[test]
    fn sums_are_those_of_the_rfc() {
        assert_eq!(checksum(&[b"1234", b"56789"]), 0xe306_9283);
        assert_eq!(checksum(&[&[0; 32]]), 0x8a91_36aa);
        assert_eq!(checksum(&[&[0xff; 32]]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(checksum(&[&rising]), 0x46dd_794e);
    }
}
