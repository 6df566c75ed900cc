//! Prefix-preserving address mapping: two addresses whose longest common prefix has n bits map to
//! addresses whose longest common prefix has n bits.
//!
//! As in Crypto-PAn (Xu, Fan, Ammar and Moon, 2002), a bit is flipped or not by a function of a key
//! and of the bits in front of it. The mapping has no state, and the order of addresses does not
//! matter.

use super::siphash::siphash;

/// Address bits that one hash value decides: six levels of a binary tree, each of whose 63 nodes
/// uses one bit of the value.
const STEP: u32 = 6;

/// A mapping: a key, and the prefixes that stay unchanged.
#[derive(Debug)]
pub(super) struct Map {
    key: [u64; 2],
    /// Number of leading one bits to leave unchanged.
    ones: u32,
    /// First bytes to leave unchanged.
    kept: Vec<u8>,
}

/// A mask of the `bits` most significant bits.
fn first(bits: u32) -> u32 {
    u32::MAX.checked_shl(32 - bits.min(32)).unwrap_or(0)
}

impl Map {
    /// A mapping without prefixes to leave unchanged.
    pub(super) fn new(key: [u64; 2]) -> Map {
        Map { key, ones: 0, kept: Vec::new() }
    }

    /// Leaves up to `ones` leading one bits unchanged.
    pub(super) fn keep_ones(&mut self, ones: u32) {
        self.ones = ones;
    }

    /// Leaves the first byte of addresses unchanged that begin with `byte`.
    pub(super) fn keep_byte(&mut self, byte: u8) {
        self.kept.push(byte);
    }

    /// Takes over the key of another mapping.
    pub(super) fn take_key(&mut self, other: &Map) {
        self.key = other.key;
    }

    /// Bits to flip, before unchanged prefixes are taken into account.
    #[inline]
    fn turned(&self, address: u32) -> u32 {
        let mut turned = 0;
        for level in (0..32).step_by(STEP as usize) {
            let prefix = address & first(level);
            let nodes = siphash(self.key, u64::from(prefix) << 32 | u64::from(level));
            let mut node = 1;
            for bit in (level..(level + STEP).min(32)).map(|level| 31 - level) {
                turned |= ((nodes >> node) as u32 & 1) << bit;
                node = node << 1 | (address >> bit & 1);
            }
        }
        turned
    }

    /// Length of the prefix to leave unchanged: the bits in common with an unchanged prefix and the
    /// first bit that differs, so that no other address maps into that prefix.
    #[inline]
    fn staying(&self, address: u32) -> u32 {
        let ones = (address.leading_ones() + 1).min(self.ones);
        let common = |kept: &u8| ((address >> 24) as u8 ^ kept).leading_zeros();
        let bytes = self.kept.iter().map(|kept| (common(kept) + 1).min(8));
        bytes.fold(ones, u32::max)
    }

    /// Maps an address; 0.0.0.0 and 255.255.255.255 map to themselves.
    #[inline]
    pub(super) fn map(&self, address: u32) -> u32 {
        match address {
            0 | u32::MAX => address,
            _ => address ^ (self.turned(address) & !first(self.staying(address))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> impl Iterator<Item = u32> {
        let mut state = 1_u32;
        std::iter::from_fn(move || {
            state = state.wrapping_mul(0x9e37_79b1).wrapping_add(0x85eb_ca77);
            Some(state ^ state >> 15)
        })
    }

    #[test]
    fn prefixes_are_kept_and_no_more() {
        let map = Map::new([3, 4]);
        let mut changed = 0;
        for address in addresses().take(300) {
            for bits in 0..32 {
                // Equal up to one bit, and different from there on.
                let other = address ^ 1 << bits ^ address.rotate_left(7) & ((1 << bits) - 1);
                if [0, u32::MAX].contains(&other) {
                    continue;
                }
                let common = (address ^ other).leading_zeros();
                assert_eq!(common, 31 - bits);
                assert_eq!((map.map(address) ^ map.map(other)).leading_zeros(), common);
            }
            changed += u32::from(map.map(address) != address);
        }
        assert!(changed > 290, "{changed}");
        assert_eq!([0, u32::MAX].map(|address| map.map(address)), [0, u32::MAX]);
        let other = Map::new([3, 5]);
        let differ = addresses().take(300).filter(|at| map.map(*at) != other.map(*at));
        assert!(differ.count() > 290, "the key decides");
    }

    /// Each bit is flipped in about half of all addresses.
    #[test]
    fn bits_are_turned_around_by_chance() {
        let map = Map::new([1, 2]);
        let mut turned = [0; 32];
        for address in addresses().take(2000) {
            let bits = map.map(address) ^ address;
            (0..32).for_each(|bit| turned[bit] += bits >> bit & 1);
        }
        // The first levels of the tree have few nodes.
        for (bit, count) in turned.iter().enumerate().filter(|(bit, _)| *bit < 22) {
            assert!((800..1200).contains(count), "{bit}: {count}");
        }
    }

    #[test]
    fn classes_stay() {
        for seed in 0..20 {
            for ones in 0..=32 {
                let map = Map { ones, ..Map::new([seed, 9]) };
                for address in addresses().take(100).chain([u32::MAX - 1, 0xf000_0000, 1]) {
                    let (before, after) = (address.leading_ones(), map.map(address).leading_ones());
                    assert_eq!(before.min(ones), after.min(ones), "{address:x} {ones}");
                }
            }
        }
    }

    /// The ranges are those that Click documents for `PRESERVE_8 18`.
    #[test]
    fn a_byte_that_stays_has_neighbours_that_do() {
        let ranges =
            [0..=15, 16..=17, 18..=18, 19..=19, 20..=23, 24..=31, 32..=63, 64..=127, 128..=255];
        for seed in 0..50 {
            let map = Map { kept: vec![18], ..Map::new([seed, 1]) };
            for range in &ranges {
                for net in range.clone() {
                    let mapped = map.map(net << 24 | 0x0001_0203) >> 24;
                    assert!(range.contains(&mapped), "{net} {mapped}");
                }
            }
        }
        let both = Map { ones: 2, kept: vec![18, 200], ..Map::new([5, 1]) };
        assert_eq!([18, 200].map(|net| both.map(net << 24 | 1) >> 24), [18, 200]);
    }
}
