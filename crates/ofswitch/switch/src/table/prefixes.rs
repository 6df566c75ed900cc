//! Prefixes of addresses and ports in a table, to skip tuples whose prefix is absent.
//!
//! A tuple of flows that match a prefix of an address need not be looked at for a packet of whose
//! address no flow has a prefix of that length. That is known from fewer bits than the prefix has,
//! where flows are far from the packet: so decisions hold for more packets. The idea is Open
//! vSwitch's (Pfaff et al., "The design and implementation of Open vSwitch", NSDI 2015, section
//! 5.4).
//!
//! A binary trie with paths compressed for each part of the key; persistent, as all of a table.

use std::sync::Arc;

use crate::key::{Key, Mask};
use crate::wire::Field;

/// Parts of the key with a trie of prefixes.
pub(super) const PARTS: usize = 6;

const FIELDS: [Field; PARTS] =
    [Field::Ipv4Src, Field::Ipv4Dst, Field::Ipv6Src, Field::Ipv6Dst, Field::TcpSrc, Field::TcpDst];

/// The word a part is in, or the last of its two.
pub(super) const fn word(part: usize) -> usize {
    crate::key::position_of(FIELDS[part]).word
}

/// The part of a key, its first bit the highest.
fn bits_of(part: usize, key: &Key) -> u128 {
    key.get(FIELDS[part]) << (128 - FIELDS[part].bits())
}

fn first(bits: u32) -> u128 {
    u128::MAX.checked_shl(128 - bits).unwrap_or(0)
}

/// Returns the length of a mask's prefix of a part; `None` when it has no bits of it, or others.
pub(super) fn length(part: usize, mask: &Mask) -> Option<u8> {
    let bits = mask.get(FIELDS[part]) << (128 - FIELDS[part].bits());
    let ones = bits.leading_ones();
    (ones != 0 && bits == first(ones)).then_some(ones as u8)
}

/// Adds the first bits of a part to a mask.
pub(super) fn unmask(part: usize, bits: u8, mask: &mut Mask) {
    let field = FIELDS[part];
    let bits = u32::from(bits).min(field.bits());
    mask.add(field, first(bits) >> (128 - field.bits()));
}

/// Prefixes of a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrefixLengths {
    /// Bit `n - 1` for each length of a prefix it has.
    lengths: u128,
    /// Number of its first bits that were looked at for that.
    bits: u8,
}

impl PrefixLengths {
    /// `None` when there may be flows with its prefix of this length, else from how many bits that
    /// is known that there are not.
    #[inline]
    pub(super) fn excludes(self, length: u8) -> Option<u8> {
        // Whether there is one of this length depends on no more bits than these.
        (self.lengths >> (length - 1) & 1 == 0).then(|| self.bits.min(length))
    }
}

/// The tries of a table.
#[derive(Debug, Clone, Default)]
pub(super) struct Prefixes {
    roots: [Option<Arc<Node>>; PARTS],
}

/// A prefix, and longer ones that begin with it.
#[derive(Debug, Clone)]
struct Node {
    bits: u128,
    length: u8,
    /// Number of flows with this very prefix.
    flows: u32,
    below: [Option<Arc<Node>>; 2],
}

impl Node {
    fn new(bits: u128, length: u8) -> Node {
        Node { bits: bits & first(length.into()), length, flows: 1, below: [None, None] }
    }

    /// Returns the number of first bits shared with a value, up to the node's length.
    fn common(&self, bits: u128) -> u8 {
        let same = (self.bits ^ bits).leading_zeros() as u8;
        same.min(self.length)
    }
}

/// The bit behind the first `length`.
fn next(bits: u128, length: u8) -> usize {
    (bits >> (127 - length) & 1) as usize
}

impl Prefixes {
    /// A flow with this prefix came.
    pub(super) fn insert(&mut self, part: usize, key: &Key, length: u8) {
        insert(&mut self.roots[part], bits_of(part, key), length);
    }

    /// A flow with this prefix went.
    pub(super) fn remove(&mut self, part: usize, key: &Key, length: u8) {
        remove(&mut self.roots[part], bits_of(part, key), length);
    }

    /// Returns the prefixes of a key's part.
    pub(super) fn find(&self, part: usize, key: &Key) -> PrefixLengths {
        let value = bits_of(part, key);
        let mut found = PrefixLengths { lengths: 0, bits: 0 };
        let mut slot = &self.roots[part];
        while let Some(node) = slot {
            let common = node.common(value);
            if common < node.length {
                found.bits = common + 1;
                break;
            }
            found.bits = node.length;
            if node.flows != 0 {
                found.lengths |= 1 << (node.length - 1);
            }
            if node.length == 128 || node.below.iter().all(Option::is_none) {
                break;
            }
            found.bits += 1;
            slot = &node.below[next(value, node.length)];
        }
        found
    }
}

fn insert(slot: &mut Option<Arc<Node>>, bits: u128, length: u8) {
    let Some(node) = slot else {
        *slot = Some(Arc::new(Node::new(bits, length)));
        return;
    };
    let common = node.common(bits).min(length);
    if common == node.length {
        let node = Arc::make_mut(node);
        if length == common {
            node.flows += 1;
        } else {
            insert(&mut node.below[next(bits, common)], bits, length);
        }
        return;
    }
    // They part ways here.
    let mut parent = Node::new(bits, common);
    parent.below[next(node.bits, common)] = Some(Arc::clone(node));
    if common < length {
        parent.flows = 0;
        parent.below[next(bits, common)] = Some(Arc::new(Node::new(bits, length)));
    }
    *slot = Some(Arc::new(parent));
}

fn remove(slot: &mut Option<Arc<Node>>, bits: u128, length: u8) {
    let Some(node) = slot else { return };
    if node.length > length || node.common(bits) < node.length {
        return;
    }
    let node = Arc::make_mut(node);
    if node.length == length {
        node.flows = node.flows.saturating_sub(1);
    } else {
        remove(&mut node.below[next(bits, node.length)], bits, length);
    }
    if node.flows == 0 {
        // A node is there for a prefix or for a fork.
        match &mut node.below {
            [Some(_), Some(_)] => {}
            [only @ Some(_), None] | [None, only @ Some(_)] => *slot = only.take(),
            [None, None] => *slot = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(address: u32) -> Key {
        let mut key = Key::default();
        key.set(Field::Ipv4Dst, address.into());
        key
    }

    /// Addresses that have much in common.
    fn address() -> impl Strategy<Value = u32> {
        prop_oneof![
            any::<u32>(),
            (0..16u32).prop_map(|low| 0x0a00_0000 | low),
            (0..16u32).prop_map(|high| high << 28)
        ]
    }

    proptest! {
        #[test]
        fn a_length_is_excluded_when_no_prefix_has_it(
            prefixes in proptest::collection::vec((address(), 1..33u8, any::<bool>()), 1..40),
            address in address(),
            other in any::<u32>(),
        ) {
            let mut tries = Prefixes::default();
            for (of, length, _) in &prefixes {
                tries.insert(1, &key(*of), *length);
            }
            for (of, length, _) in prefixes.iter().filter(|(.., goes)| *goes) {
                tries.remove(1, &key(*of), *length);
            }
            let stay: Vec<_> = prefixes.iter().filter(|(.., goes)| !goes).collect();
            let found = tries.find(1, &key(address));
            let top = |length: u8| u32::MAX << (32 - length);
            let has = |address: u32, length: u8| {
                stay.iter().any(|(of, at, _)| *at == length && (of ^ address) & top(length) == 0)
            };
            for length in 1..=32 {
                match found.excludes(length) {
                    None => prop_assert!(has(address, length)),
                    Some(bits) => {
                        prop_assert!(bits <= length && !has(address, length));
                        prop_assert!(bits > 0 || stay.is_empty());
                        // Addresses with the same bits have none either.
                        let kept = if bits == 0 { 0 } else { top(bits) };
                        prop_assert!(!has(address & kept | other & !kept, length));
                    }
                }
            }
            if stay.is_empty() {
                prop_assert!(tries.roots[1].is_none());
            }
        }
    }

    #[test]
    fn masks_of_prefixes_are_told_from_others() {
        let mut mask = Mask::default();
        assert_eq!(length(0, &mask), None);
        mask.add(Field::Ipv4Src, 0xffff_0000);
        mask.add(Field::Ipv4Dst, 0x0000_ffff);
        mask.add_all(Field::Ipv6Src);
        mask.add_all(Field::Icmpv4Type);
        mask.add_all(Field::UdpDst);
        let lengths: Vec<_> = (0..PARTS).map(|part| length(part, &mask)).collect();
        assert_eq!(lengths, [Some(16), None, Some(128), None, None, Some(16)]);
        let mut other = Mask::default();
        unmask(2, 70, &mut other);
        assert_eq!(other.get(Field::Ipv6Src), u128::MAX << 58);
    }
}
