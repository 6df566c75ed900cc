//! A persistent hash trie: a map whose copies share their equal parts.
//!
//! A node has up to sixteen slots, one for each value of the next four bits of the hash, and only
//! those that are used (Bagwell, "Ideal hash trees", 2001). Copying a trie is copying a pointer;
//! changing one copies the nodes on the way to the entry, as far as other copies have them, and
//! else changes them in place ([`Arc::make_mut`]).
//!
//! Every node knows the greatest rank below it, so that the next greatest entry is found without a
//! look at all.

use std::sync::Arc;

/// Bits of the hash a level goes by.
const BITS: u32 = 4;
/// Depth at which the hash ends: below it, entries with an equal hash are a list.
const LEVELS: u32 = u64::BITS / BITS;

/// Something with a rank.
pub(crate) trait Ranked {
    /// Returns its rank; 0 where entries have none.
    fn rank(&self) -> u16 {
        0
    }
}

/// The map. Keys are in the entries: the caller passes the hash of a key and a comparison with it.
#[derive(Debug)]
pub(crate) struct Trie<T> {
    root: Option<Arc<Node<T>>>,
    len: usize,
}

#[derive(Debug)]
struct Node<T> {
    /// A bit for each slot that is used; where the hash has ended, none.
    used: u16,
    /// The greatest rank of an entry below.
    rank: u16,
    slots: Vec<Slot<T>>,
}

#[derive(Debug)]
enum Slot<T> {
    Branch(Arc<Node<T>>),
    Leaf(u64, T),
}

impl<T> Clone for Trie<T> {
    fn clone(&self) -> Trie<T> {
        Trie { root: self.root.clone(), len: self.len }
    }
}

impl<T> Default for Trie<T> {
    fn default() -> Trie<T> {
        Trie { root: None, len: 0 }
    }
}

impl<T> Default for Node<T> {
    fn default() -> Node<T> {
        Node { used: 0, rank: 0, slots: Vec::new() }
    }
}

impl<T: Clone> Clone for Node<T> {
    fn clone(&self) -> Node<T> {
        // Room for one more, as often as not the reason for the copy.
        let mut slots = Vec::with_capacity(self.slots.len() + 1);
        slots.extend(self.slots.iter().cloned());
        Node { used: self.used, rank: self.rank, slots }
    }
}

impl<T: Clone> Clone for Slot<T> {
    fn clone(&self) -> Slot<T> {
        match self {
            Slot::Branch(node) => Slot::Branch(Arc::clone(node)),
            Slot::Leaf(hash, value) => Slot::Leaf(*hash, value.clone()),
        }
    }
}

/// The hash of a number, or of words one after another.
#[inline]
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    // The halves of a product with an odd number of many bits (as in wyhash).
    let product = u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (product >> 64) as u64 ^ product as u64
}

impl<T> Trie<T> {
    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The entry with this hash that is the one.
    #[inline]
    pub(crate) fn get(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<&T> {
        let mut node = self.root.as_deref()?;
        let mut left = hash;
        for _ in 0..LEVELS {
            match &node.slots[node.position(left)?] {
                Slot::Branch(below) => node = below,
                Slot::Leaf(of, value) => return (*of == hash && is(value)).then_some(value),
            }
            left >>= BITS;
        }
        node.slots.iter().find_map(|slot| match slot {
            Slot::Leaf(_, value) if is(value) => Some(value),
            _ => None,
        })
    }

    /// Returns all entries, in no order.
    pub(crate) fn iter(&self) -> Iter<'_, T> {
        let stack = self.root.iter().map(|node| node.slots.iter()).collect();
        Iter { stack }
    }
}

impl<T: Ranked> Trie<T> {
    /// The greatest rank of an entry.
    pub(crate) fn rank(&self) -> u16 {
        self.root.as_ref().map_or(0, |node| node.rank)
    }
}

impl<T: Ranked + Clone> Trie<T> {
    /// Adds an entry that is not there.
    pub(crate) fn insert(&mut self, hash: u64, value: T) {
        self.len += 1;
        Arc::make_mut(self.root.get_or_insert_default()).insert(0, hash, value);
    }

    /// Changes an entry; it stays if `change` returns true. Returns true if it was there.
    pub(crate) fn modify(
        &mut self,
        hash: u64,
        is: impl Fn(&T) -> bool,
        change: impl FnOnce(&mut T) -> bool,
    ) -> bool {
        if self.get(hash, &is).is_none() {
            return false;
        }
        if let Some(root) = &mut self.root {
            let node = Arc::make_mut(root);
            if !node.modify(hash, 0, &is, change) {
                self.len -= 1;
                if node.slots.is_empty() {
                    self.root = None;
                }
            }
        }
        true
    }

    /// Removes an entry. Returns true if it was there.
    pub(crate) fn remove(&mut self, hash: u64, is: impl Fn(&T) -> bool) -> bool {
        self.modify(hash, is, |_| false)
    }
}

impl<T> Node<T> {
    /// The slot of the lowest digit.
    #[inline]
    fn position(&self, left: u64) -> Option<usize> {
        let bit = 1u16 << (left & 15);
        (self.used & bit != 0).then(|| (self.used & (bit - 1)).count_ones() as usize)
    }
}

impl<T: Ranked> Slot<T> {
    fn rank(&self) -> u16 {
        match self {
            Slot::Branch(node) => node.rank,
            Slot::Leaf(_, value) => value.rank(),
        }
    }
}

impl<T: Ranked + Clone> Node<T> {
    fn insert(&mut self, level: u32, hash: u64, value: T) {
        self.rank = self.rank.max(value.rank());
        if level == LEVELS {
            self.slots.push(Slot::Leaf(hash, value));
            return;
        }
        let left = hash >> (BITS * level);
        let Some(at) = self.position(left) else {
            self.used |= 1 << (left & 15);
            if let Some(at) = self.position(left) {
                // Nodes are many and few of their slots are used: twice the room would mostly stay
                // empty.
                self.slots.reserve_exact(1);
                self.slots.insert(at, Slot::Leaf(hash, value));
            }
            return;
        };
        match &mut self.slots[at] {
            Slot::Branch(below) => Arc::make_mut(below).insert(level + 1, hash, value),
            slot => {
                let both = Slot::Branch(Arc::default());
                let Slot::Leaf(old, before) = std::mem::replace(slot, both) else { return };
                let Slot::Branch(below) = slot else { return };
                let below = Arc::make_mut(below);
                below.insert(level + 1, old, before);
                below.insert(level + 1, hash, value);
            }
        }
    }

    /// Changes an entry that is there; returns whether it stays.
    fn modify(
        &mut self,
        left: u64,
        level: u32,
        is: &impl Fn(&T) -> bool,
        change: impl FnOnce(&mut T) -> bool,
    ) -> bool {
        let found = if level == LEVELS {
            self.slots.iter().position(|slot| matches!(slot, Slot::Leaf(_, value) if is(value)))
        } else {
            self.position(left)
        };
        let Some(at) = found else { return true };
        let before = self.slots[at].rank();
        let mut empty = false;
        let stays = match &mut self.slots[at] {
            Slot::Leaf(_, value) => {
                let stays = change(value);
                empty = !stays;
                stays
            }
            Slot::Branch(below) => {
                let node = Arc::make_mut(below);
                let stays = node.modify(left >> BITS, level + 1, is, change);
                if !stays {
                    match node.slots.as_slice() {
                        [] => empty = true,
                        [Slot::Leaf(..)] => {
                            // A single slot below is moved up here.
                            if let Some(alone) = node.slots.pop() {
                                self.slots[at] = alone;
                            }
                        }
                        _ => {}
                    }
                }
                stays
            }
        };
        let mut after = 0;
        if empty {
            self.slots.remove(at);
            if level < LEVELS {
                self.used &= !(1 << (left & 15));
            }
        } else {
            after = self.slots[at].rank();
        }
        if after >= self.rank {
            self.rank = after;
        } else if before == self.rank {
            self.rank = self.slots.iter().map(Slot::rank).max().unwrap_or_default();
        }
        stays
    }
}

/// All entries of a [`Trie`].
#[derive(Debug)]
pub(crate) struct Iter<'a, T> {
    stack: Vec<std::slice::Iter<'a, Slot<T>>>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            match self.stack.last_mut()?.next() {
                Some(Slot::Leaf(_, value)) => return Some(value),
                Some(Slot::Branch(node)) => self.stack.push(node.slots.iter()),
                None => {
                    self.stack.pop();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Entry(u32, u16);

    impl Ranked for Entry {
        fn rank(&self) -> u16 {
            self.1
        }
    }

    proptest! {
        /// Against a map, with hashes of which many are the same, or nearly; copies made before
        /// stay as they were.
        #[test]
        fn it_is_a_map_and_copies_are_others(
            steps in proptest::collection::vec((0..40u32, 0..4u8, 0..50u16), 1..150),
            bits in prop_oneof![Just(0u32), Just(3), Just(64)],
        ) {
            let hash = |key: u32| match bits {
                64 => mix(0, u64::from(key)),
                bits => u64::from(key) & ((1 << bits) - 1),
            };
            let (mut trie, mut model) = (Trie::default(), BTreeMap::new());
            let mut kept = Vec::new();
            for (key, step, rank) in steps {
                let is = |entry: &Entry| entry.0 == key;
                prop_assert_eq!(trie.get(hash(key), is).map(|entry| entry.1), model.get(&key).copied());
                match step {
                    0 => {
                        prop_assert_eq!(trie.remove(hash(key), is), model.remove(&key).is_some());
                    }
                    1 => kept.push((trie.clone(), model.clone())),
                    _ if model.contains_key(&key) => {
                        let set = |entry: &mut Entry| { entry.1 = rank; true };
                        prop_assert!(trie.modify(hash(key), is, set));
                        model.insert(key, rank);
                    }
                    _ => {
                        trie.insert(hash(key), Entry(key, rank));
                        model.insert(key, rank);
                    }
                }
            }
            kept.push((trie, model));
            for (trie, model) in kept {
                prop_assert_eq!(trie.len(), model.len());
                prop_assert_eq!(trie.rank(), model.values().max().copied().unwrap_or(0));
                let all: BTreeMap<u32, u16> = trie.iter().map(|entry| (entry.0, entry.1)).collect();
                prop_assert_eq!(all, model);
            }
        }
    }
}
