//! Halves of words, and the classes of values that rules tell apart.

use super::{test::Test, words::LANES};

/// Most pairs of a class and a value that may split it.
const SPLIT_LIMIT: usize = 1 << 23;

/// A half of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Half {
    pub(super) offset: usize,
    /// The second half.
    pub(super) second: bool,
}

impl Half {
    /// Takes that half of each of some words, both as this machine reads them.
    #[inline(always)]
    pub(super) fn take(self, words: &[u32; LANES], halves: &mut [u16; LANES]) {
        let choose =
            |[a, b, c, d]: [u8; 4]| u16::from_ne_bytes(if self.second { [c, d] } else { [a, b] });
        for (half, word) in halves.iter_mut().zip(words) {
            *half = choose(word.to_ne_bytes());
        }
    }
}

/// The halves a test looks at: mask and value.
pub(super) fn halves(test: &Test) -> impl Iterator<Item = (Half, u16, u16)> {
    let Test { offset, mask, value, .. } = *test;
    [(false, 16), (true, 0)].into_iter().filter_map(move |(second, shift)| {
        let (mask, value) = ((mask >> shift) as u16, (value >> shift) as u16);
        (mask != 0).then_some((Half { offset, second }, mask, value))
    })
}

/// Values no test of these masks and values tells apart are one class: the class of each value, and
/// a value of each class. `None` when there are more than numbers of `Class` have.
pub(super) fn classes<Class>(mut tests: Vec<(u16, u16)>) -> Option<(Vec<Class>, Vec<u16>)>
where
    Class: Copy + Default + Into<usize> + TryFrom<usize>,
{
    tests.sort_unstable();
    tests.dedup();
    let mut classes = vec![Class::default(); 1 << 16];
    let mut samples = vec![0u16];
    // The value among those of one mask, 0 for any other.
    let mut places = vec![0u16; 1 << 16];
    for same_mask in tests.chunk_by(|one, other| one.0 == other.0) {
        let mask = same_mask[0].0;
        Class::try_from(same_mask.len()).ok()?;
        for (place, (_, value)) in (1..).zip(same_mask) {
            places[usize::from(*value)] = place;
        }
        let width = same_mask.len() + 1;
        if samples.len() * width > SPLIT_LIMIT {
            return None;
        }
        let mut split = vec![None; samples.len() * width];
        samples.clear();
        for value in 0..=u16::MAX {
            let class = &mut classes[usize::from(value)];
            let place = usize::from(places[usize::from(value & mask)]);
            let new = &mut split[(*class).into() * width + place];
            *class = match *new {
                Some(new) => new,
                None => {
                    let fresh = Class::try_from(samples.len()).ok()?;
                    samples.push(value);
                    *new.insert(fresh)
                }
            };
        }
        for (_, value) in same_mask {
            places[usize::from(*value)] = 0;
        }
    }
    Some((classes, samples))
}
