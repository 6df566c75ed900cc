//! Ranges of buffer numbers.
//!
//! Every arena of a process names its buffers by a range of numbers of its
//! own, aligned to a power of two. That makes "is this slot of this arena" a
//! test of the bits outside a mask, and a slot taken to the wrong arena an
//! error that is noticed instead of two owners of one buffer.

use std::sync::Mutex;

use crate::{error::MemoryError, slot::NUMBER};

/// Ranges are given out from 0 up and reused by size.
struct Space {
    next: u32,
    /// Released ranges: `(mask, tag)`.
    released: Vec<(u32, u32)>,
}

static SPACE: Mutex<Space> = Mutex::new(Space { next: 0, released: Vec::new() });

/// One arena's range.
pub(crate) struct Numbers {
    tag: u32,
    mask: u32,
}

impl Numbers {
    /// A range for at least `count` numbers that no other arena has.
    pub(crate) fn reserve(count: u32) -> Result<Numbers, MemoryError> {
        let size = count.next_power_of_two();
        let mask = size - 1;
        let mut space = SPACE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(at) = space.released.iter().position(|range| range.0 == mask) {
            let (mask, tag) = space.released.swap_remove(at);
            return Ok(Numbers { tag, mask });
        }
        let tag = space.next.next_multiple_of(size);
        let end = tag.checked_add(size).filter(|&end| end <= NUMBER);
        space.next = end.ok_or(MemoryError::NumbersExhausted)?;
        Ok(Numbers { tag, mask })
    }

    pub(crate) fn tag(&self) -> u32 {
        self.tag
    }

    pub(crate) fn mask(&self) -> u32 {
        self.mask
    }

    /// Lets another arena have the range. Only when no slot names it any more.
    pub(crate) fn release(&mut self) {
        let mut space = SPACE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        space.released.push((self.mask, self.tag));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap_and_are_reused() {
        let mut ranges: Vec<Numbers> =
            [5, 1, 4096, 3, 1000].map(|n| Numbers::reserve(n).unwrap()).into();
        for (i, a) in ranges.iter().enumerate() {
            assert_eq!(a.tag() & a.mask(), 0);
            for b in &ranges[..i] {
                let apart = a.tag() > b.tag() + b.mask() || b.tag() > a.tag() + a.mask();
                assert!(apart, "{} {} {} {}", a.tag(), a.mask(), b.tag(), b.mask());
            }
        }
        let mut odd = Numbers::reserve(1 << 20).unwrap();
        let tag = odd.tag();
        odd.release();
        assert_eq!(Numbers::reserve((1 << 20) - 5).unwrap().tag(), tag);
        ranges.iter_mut().for_each(Numbers::release);
    }

    #[test]
    fn too_many_is_an_error() {
        assert!(matches!(Numbers::reserve(1 << 30), Err(MemoryError::NumbersExhausted)));
    }
}
