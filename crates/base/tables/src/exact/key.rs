//! Keys and their hash.

use std::hash::{BuildHasher, Hasher, RandomState};

use linerate_packet::{FlowV4, FlowV6};

/// Seed of a table's hash: 512 bits.
///
/// A sender that does not know it cannot prepare keys that collide; see [`hash`](Seed::hash).
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u64; 8]);

impl Seed {
    /// From the operating system's randomness, by way of the keys std makes for its own hash maps.
    #[must_use]
    pub fn random() -> Seed {
        // One SipHash key per word: a word that leaks says nothing about the others.
        Seed(std::array::from_fn(|_| RandomState::new().build_hasher().finish()))
    }

    /// A known one, for tests and for runs that must repeat: the number, spread by `SplitMix64`.
    #[must_use]
    pub fn fixed(number: u64) -> Seed {
        Seed(std::array::from_fn(|word| {
            let state = number.wrapping_add(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(word as u64 + 1));
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        }))
    }

    /// The hash of `WORDS` words, at most six.
    ///
    /// NH, the universal hash of UMAC (RFC 4418, section 5.2.2), on words of 64 bits: words are
    /// paired, a part of the seed is added to each, and the products of the pairs are summed. Two
    /// keys chosen without knowledge of the seed have the same sum with a probability of at most
    /// 2^-64 (Black et al., "UMAC: Fast and Secure Message Authentication", 1999). One more
    /// multiplication, keyed again, spreads the sum over all bits of the result.
    #[inline(always)]
    #[must_use]
    pub fn hash<const WORDS: usize>(&self, words: [u64; WORDS]) -> u64 {
        const { assert!(WORDS <= 6) };
        let mut sum = 0u128;
        for pair in 0..WORDS.div_ceil(2) {
            let word = |at: usize| words.get(at).copied().unwrap_or(0).wrapping_add(self.0[at]);
            sum = sum.wrapping_add(u128::from(word(2 * pair)) * u128::from(word(2 * pair + 1)));
        }
        let product =
            u128::from(sum as u64 ^ self.0[6]) * u128::from((sum >> 64) as u64 ^ self.0[7]);
        product as u64 ^ (product >> 64) as u64
    }
}

impl std::fmt::Debug for Seed {
    /// Does not show it: logs are read by others.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Seed(..)")
    }
}

/// A key: small, copied, compared as a whole.
pub trait Key: Copy + Eq {
    /// Its hash under a seed. Equal keys have equal hashes; everything the comparison looks at
    /// goes into [`Seed::hash`].
    fn hash(&self, seed: &Seed) -> u64;
}

/// A MAC address and a VLAN, say.
impl Key for u64 {
    #[inline(always)]
    fn hash(&self, seed: &Seed) -> u64 {
        seed.hash([*self])
    }
}

/// An IPv6 address, say.
impl Key for u128 {
    #[inline(always)]
    fn hash(&self, seed: &Seed) -> u64 {
        seed.hash([*self as u64, (*self >> 64) as u64])
    }
}

/// At most six words.
impl<const WORDS: usize> Key for [u64; WORDS] {
    #[inline(always)]
    fn hash(&self, seed: &Seed) -> u64 {
        seed.hash(*self)
    }
}

/// Sixteen bytes.
impl Key for FlowV4 {
    #[inline(always)]
    fn hash(&self, seed: &Seed) -> u64 {
        let addresses = u64::from(self.src.to_bits()) << 32 | u64::from(self.dst.to_bits());
        let rest = rest(self.src_port, self.dst_port, self.vlan, self.protocol.0);
        seed.hash([addresses, rest])
    }
}

/// Forty bytes.
impl Key for FlowV6 {
    #[inline(always)]
    fn hash(&self, seed: &Seed) -> u64 {
        let (src, dst) = (self.src.to_bits(), self.dst.to_bits());
        let rest = rest(self.src_port, self.dst_port, self.vlan, self.protocol.0);
        seed.hash([src as u64, (src >> 64) as u64, dst as u64, (dst >> 64) as u64, rest])
    }
}

#[inline(always)]
fn rest(src_port: u16, dst_port: u16, vlan: u16, protocol: u8) -> u64 {
    u64::from(src_port) << 48
        | u64::from(dst_port) << 32
        | u64::from(vlan) << 16
        | u64::from(protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "thousands of keys take hours")]
    fn bits_of_the_hash_are_even_for_keys_that_count() {
        // Sequential keys are the least random ones in practice: addresses and ports.
        let seed = Seed::random();
        let mut ones = [0u32; 64];
        const KEYS: u64 = 1 << 14;
        for key in 0..KEYS {
            let hash = [key << 32, 6].hash(&seed);
            ones.iter_mut().enumerate().for_each(|(bit, ones)| *ones += (hash >> bit & 1) as u32);
        }
        // Ten standard deviations of a fair coin: 64 * sqrt(KEYS) / 2 / 64 * 10.
        let (middle, spread) = (KEYS as u32 / 2, 640);
        assert!(ones.iter().all(|ones| ones.abs_diff(middle) < spread), "{ones:?}");
    }

    #[test]
    fn every_bit_of_the_key_and_the_seed_counts() {
        let seed = Seed::fixed(3);
        let key = [7u64, 8, 9, 10, 11];
        let hash = key.hash(&seed);
        for bit in 0..320 {
            let mut other = key;
            other[bit / 64] ^= 1 << (bit % 64);
            assert_ne!(other.hash(&seed), hash, "bit {bit} of the key");
        }
        for word in 0..8 {
            let mut words = seed.0;
            words[word] ^= 1 << 20;
            assert_ne!(key.hash(&Seed(words)), hash, "word {word} of the seed");
        }
        assert_ne!(Seed::random(), Seed::random());
    }
}
