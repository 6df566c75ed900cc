//! Internet checksum: over bytes, over pseudo headers, and updated in place.
//!
//! Source: RFC 1071 (the sum is the same in either byte order, so bytes are summed as native words
//! and swapped once at the end) and RFC 1624 equation 3 (the incremental update that is right where
//! that of RFC 1141 is not). No table and no SIMD intrinsics. Headers and short packets are summed
//! by words of 64 bits with the carry added back, two instructions for each; longer ones by 32-bit
//! halves in two accumulators, which the compiler vectorises for any target.
//!
//! A checksum is handed around as the number that a header field holds, so storing it is
//! `to_be_bytes` like any other field.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::IpProtocol;

/// A one's complement sum under way, to which pieces of a packet are added in order.
///
/// ```
/// use linerate_packet::checksum::Sum;
/// let mut sum = Sum::default();
/// sum.add_bytes(&[0x45, 0x00, 0x00]);
/// sum.add_bytes(&[0x14]);
/// assert_eq!(sum.finish(), !(0x4500 + 0x0014));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Sum of 16-bit words in native byte order, not folded; the carry of 64 bits is added back.
    words: u64,
    /// Whether an odd number of bytes was added, so that the next piece starts mid-word.
    odd: bool,
}

impl Sum {
    /// Adds bytes. A piece of odd length is fine: the next one continues inside its last word.
    #[inline(always)]
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        let part = sum_words(bytes);
        // Bytes of every word change places when a sum is turned by eight bits.
        self.words = add(self.words, if self.odd { part.rotate_left(8) } else { part });
        self.odd ^= !bytes.len().is_multiple_of(2);
    }

    /// Adds a 16-bit field. Only between pieces of even length.
    #[inline]
    pub fn add_u16(&mut self, value: u16) {
        debug_assert!(!self.odd, "a field begins at an even offset");
        self.words = add(self.words, u64::from(value.to_be()));
    }

    /// Adds a 32-bit field. Only between pieces of even length.
    #[inline]
    pub fn add_u32(&mut self, value: u32) {
        debug_assert!(!self.odd, "a field begins at an even offset");
        self.words = add(self.words, u64::from(value.to_be()));
    }

    /// The checksum: the complement of the sum.
    #[inline]
    #[must_use]
    pub fn finish(self) -> u16 {
        !u16::from_be(fold(self.words))
    }

    /// Is this the sum over data that includes its own, correct checksum?
    #[inline]
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.finish() == 0
    }
}

/// The most bytes that are summed without vectors.
const SHORT: usize = 128;

/// The one's complement sum: the carry is added back.
#[inline(always)]
const fn add(one: u64, two: u64) -> u64 {
    let (sum, carry) = one.overflowing_add(two);
    sum + carry as u64
}

/// Sums native 16-bit words, the last byte of an odd length padded with zero.
#[inline(always)]
fn sum_words(bytes: &[u8]) -> u64 {
    if bytes.len() > SHORT {
        return sum_many_words(bytes);
    }
    // Large steps first and the rest by halves: the begin and the end of a loop over single words
    // cost half of the sum over a header.
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sum = blocks.iter().fold(0, add_words);
    let (pairs, rest) = rest.as_chunks::<16>();
    if let [pair] = pairs {
        sum = add_words(sum, pair);
    }
    let (words, rest) = rest.as_chunks::<8>();
    if let [word] = words {
        sum = add_words(sum, word);
    }
    match bytes.last_chunk::<8>() {
        _ if rest.is_empty() => sum,
        // Read with bytes before it that are summed already, which are shifted out.
        Some(last) => {
            let last = u64::from_le_bytes(*last) >> (8 * (8 - rest.len()));
            add(sum, u64::from_ne_bytes(last.to_le_bytes()))
        }
        None => sum_rest(rest),
    }
}

/// Adds whole words of 64 bits.
#[inline(always)]
fn add_words<const N: usize>(sum: u64, bytes: &[u8; N]) -> u64 {
    const { assert!(N.is_multiple_of(8), "whole words") };
    bytes.as_chunks::<8>().0.iter().fold(sum, |sum, word| add(sum, u64::from_ne_bytes(*word)))
}

/// As [`sum_words`], for less than eight bytes.
#[inline]
fn sum_rest(bytes: &[u8]) -> u64 {
    let mut sum = 0;
    let (fours, rest) = bytes.as_chunks::<4>();
    for four in fours {
        sum += u64::from(u32::from_ne_bytes(*four));
    }
    let (twos, rest) = rest.as_chunks::<2>();
    for two in twos {
        sum += u64::from(u16::from_ne_bytes(*two));
    }
    if let [last] = rest {
        sum += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    sum
}

/// As [`sum_words`], by vectors.
///
/// Each 64-bit word is added as two 32-bit halves to 64-bit accumulators, so there is no carry to
/// propagate inside the loop; they cannot overflow below 32 GiB.
#[inline(never)]
fn sum_many_words(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let (mut low, mut high) = (0u64, 0u64);
    for word in words {
        let word = u64::from_ne_bytes(*word);
        low += word & 0xffff_ffff;
        high += word >> 32;
    }
    low + high + sum_rest(rest)
}

/// Adds the upper parts of a sum to the lower ones until 16 bits are left. A sum of two halves, its
/// carry added back, is the upper half of a number and itself turned by half its bits.
#[inline(always)]
const fn fold(sum: u64) -> u16 {
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

/// The checksum over `bytes`, of any length and alignment.
#[inline]
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    !u16::from_be(fold(sum_words(bytes)))
}

/// Is the checksum that lies inside `bytes` right for them?
#[inline]
#[must_use]
pub fn verify(bytes: &[u8]) -> bool {
    fold(sum_words(bytes)) == 0xffff
}

/// The sum over the IPv4 pseudo header of UDP and TCP (RFC 768, RFC 9293).
#[inline]
#[must_use]
pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: IpProtocol, length: u16) -> Sum {
    // Too few to overflow.
    let addresses = u64::from(src.to_bits().to_be()) + u64::from(dst.to_bits().to_be());
    let rest = u64::from(u16::from(protocol.0).to_be()) + u64::from(length.to_be());
    Sum { words: addresses + rest, odd: false }
}

/// The sum over the IPv6 pseudo header of UDP, TCP and `ICMPv6` (RFC 8200 section 8.1).
#[inline]
#[must_use]
pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: IpProtocol, length: u32) -> Sum {
    let mut sum = Sum::default();
    sum.add_bytes(&src.octets());
    sum.add_bytes(&dst.octets());
    sum.add_u32(length);
    sum.add_u16(u16::from(protocol.0));
    sum
}

/// `check` after a 16-bit field it covers changed from `old` to `new`.
///
/// Equal to computing it afresh unless everything the checksum covers has become zero, which no
/// IP header and no pseudo header can be.
///
/// ```
/// use linerate_packet::checksum::update16;
/// // The example of RFC 1624 section 4.
/// assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
/// ```
#[inline]
#[must_use]
pub const fn update16(check: u16, old: u16, new: u16) -> u16 {
    let sum = (!check) as u32 + (!old) as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// `check` after a 32-bit field it covers, at an even offset, changed from `old` to `new`.
#[inline]
#[must_use]
pub const fn update32(check: u16, old: u32, new: u32) -> u16 {
    !fold((!check) as u64 + (!old) as u64 + new as u64)
}

/// `check` after an even number of bytes it covers, at an even offset, changed from `old` to `new`.
#[inline]
#[must_use]
pub fn update_bytes<const N: usize>(check: u16, old: &[u8; N], new: &[u8; N]) -> u16 {
    const { assert!(N.is_multiple_of(2), "a field of whole words") };
    let (old, new) = (fold(sum_words(old)), fold(sum_words(new)));
    update16(check, u16::from_be(old), u16::from_be(new))
}

/// Returns the value of a computed checksum on the wire in UDP: zero means "none", so zero is sent
/// as its other representation (RFC 768).
#[inline]
#[must_use]
pub const fn udp_nonzero(check: u16) -> u16 {
    if check == 0 { 0xffff } else { check }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The definition, word by word.
    fn reference(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn known_sums() {
        // RFC 1071 section 3: 0001 f203 f4f5 f6f7 sums to ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[]), 0xffff);
        assert_eq!(checksum(&[0xff]), !0xff00);
        assert_eq!(checksum(&[0xff; if cfg!(miri) { 256 } else { 65536 }]), 0);
        assert!(verify(&[0xff; 64]));
        assert!(!verify(&[0; 64]));
    }

    #[test]
    fn every_short_length_at_every_alignment() {
        let bytes: Vec<u8> = (0..200u32).map(|i| (i * 151 + 13) as u8).collect();
        for start in 0..16 {
            for end in (start..bytes.len()).step_by(if cfg!(miri) { 37 } else { 1 }) {
                assert_eq!(checksum(&bytes[start..end]), reference(&bytes[start..end]));
            }
        }
    }

    #[test]
    fn rfc_1624_example() {
        assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
        assert_eq!(udp_nonzero(0), 0xffff);
        assert_eq!(udp_nonzero(7), 7);
    }

    proptest! {
        #[test]
        fn equals_the_definition(bytes in proptest::collection::vec(any::<u8>(), 0..if cfg!(miri) { 100 } else { 3000 })) {
            prop_assert_eq!(checksum(&bytes), reference(&bytes));
        }

        #[test]
        fn pieces_of_any_length_sum_like_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            cuts in proptest::collection::vec(0..300usize, 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let (mut sum, mut from) = (Sum::default(), 0);
            for to in cuts {
                sum.add_bytes(&bytes[from..to]);
                from = to;
            }
            prop_assert_eq!(sum.finish(), reference(&bytes));
        }

        #[test]
        fn updates_equal_a_fresh_checksum(
            mut bytes in proptest::collection::vec(any::<u8>(), 20..60),
            word in 0..9usize,
            new16 in any::<u16>(),
            new32 in any::<u32>(),
        ) {
            bytes[0] |= 0x40; // as in an IP header: never all zero
            let (at, before) = (2 * word + 1, checksum(&bytes));
            let at = at + 1; // even, and past the first byte
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].copy_from_slice(&new16.to_be_bytes());
            prop_assert_eq!(update16(before, old, new16), checksum(&bytes));

            let (at, before) = (at.min(bytes.len() - 4) & !1, checksum(&bytes));
            let old = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
            bytes[at..at + 4].copy_from_slice(&new32.to_be_bytes());
            prop_assert_eq!(update32(before, old, new32), checksum(&bytes));
            prop_assert_eq!(
                update_bytes(before, &old.to_be_bytes(), &new32.to_be_bytes()),
                checksum(&bytes)
            );
        }

        #[test]
        fn storing_the_checksum_makes_it_verify(
            mut bytes in proptest::collection::vec(any::<u8>(), 2..200),
        ) {
            bytes[0] = 0;
            bytes[1] = 0;
            let check = checksum(&bytes);
            bytes[..2].copy_from_slice(&check.to_be_bytes());
            prop_assert!(verify(&bytes));
            // A single changed bit never goes unnoticed.
            bytes[1] ^= 1;
            prop_assert!(!verify(&bytes));
        }
    }
}
