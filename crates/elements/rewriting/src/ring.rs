//! A ring of places for consistent hashing of addresses, as Click's.

use std::net::Ipv4Addr;

/// Places of patterns on a ring of 31 bits, ascending.
#[derive(Debug)]
pub(super) struct Ring(Vec<(u32, u16)>);

impl Ring {
    pub(super) fn new(ids: &[u16], nodes: usize, seed: i32) -> Ring {
        let mut random = Additive::new(seed as u32);
        let mut places = Vec::new();
        let mut index = 0;
        for id in 0..ids.iter().max().map_or(0, |most| u32::from(*most) + 1) {
            let is_used = ids.iter().any(|used| u32::from(*used) == id);
            for _ in 0..nodes {
                let place = random.next();
                if is_used {
                    places.push((place, index));
                }
            }
            index += u16::from(is_used);
        }
        places.sort_unstable();
        Ring(places)
    }

    /// Returns the index of the pattern for an address.
    pub(super) fn place(&self, address: Ipv4Addr) -> usize {
        let number = u32::from_le_bytes(address.octets());
        let hash = number.wrapping_mul((number & 0xff) << 24 | 1) % i32::MAX as u32;
        let next = self.0.partition_point(|(place, _)| *place < hash);
        // Behind the last Click takes the middle of the ring, not its beginning.
        let next = self.0.get(next).or_else(|| self.0.get(middle(self.0.len())));
        next.map_or(0, |(_, index)| usize::from(*index))
    }
}

/// Returns how many come before the root of a binary tree of that many whose levels are full but
/// for the last, which is filled from the left.
fn middle(count: usize) -> usize {
    let Some(levels) = count.checked_ilog2() else { return 0 };
    let half = 1usize << levels >> 1;
    let last = count + 1 - (1 << levels);
    (half.max(1) - 1) + last.min(half)
}

/// The additive feedback generator behind `random()` in the C library, x^31 + x^3 + 1.
struct Additive {
    state: [u32; 31],
    at: usize,
}

impl Additive {
    fn new(seed: u32) -> Additive {
        let mut state = [0; 31];
        let mut word = i64::from(seed.max(1) as i32);
        for place in &mut state {
            *place = word as u32;
            word = 16807 * word % 2_147_483_647;
            if word < 0 {
                word += 2_147_483_647;
            }
        }
        // The first three places are used once more as they are.
        let mut random = Additive { state, at: 3 };
        for _ in 0..310 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u32 {
        let back = (self.at + 28) % 31;
        let sum = self.state[self.at].wrapping_add(self.state[back]);
        self.state[self.at] = sum;
        self.at = (self.at + 1) % 31;
        sum >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of `srandom(7)`, `random()` in the GNU C library.
    #[test]
    fn numbers_are_those_of_the_c_library() {
        let mut random = Additive::new(7);
        let numbers = [0; 6].map(|_| random.next());
        let expected =
            [1_045_618_677, 1_863_967_299, 1_272_579_899, 461_085_871, 21_961_325, 1_105_564_443];
        assert_eq!(numbers, expected);
    }

    /// Which place comes first in a breadth-first walk of trees of 1 to 10 places.
    #[test]
    fn the_root_of_a_tree_filled_from_the_left() {
        let roots: Vec<usize> = (1..=10).map(middle).collect();
        assert_eq!(roots, [0, 1, 1, 2, 3, 3, 3, 4, 5, 6]);
    }

    #[test]
    fn most_sources_stay_when_a_pattern_goes() {
        let (all, fewer) = (Ring::new(&[1, 2, 3], 100, 5), Ring::new(&[1, 2], 100, 5));
        let source = |number: u32| Ipv4Addr::from(number.wrapping_mul(0x9e37_79b1));
        let moved = (0..3000).filter(|number| {
            let before = all.place(source(*number));
            before < 2 && before != fewer.place(source(*number))
        });
        // Behind the last place, where Click's tree and ours go to the middle.
        assert!(moved.count() < 60);
    }
}
