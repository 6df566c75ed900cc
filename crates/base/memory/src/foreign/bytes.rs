//! Bytes of a region, checked once.

use std::{fmt, marker::PhantomData, ptr::NonNull};

use super::{ForeignRegion, copy};
use crate::prefetch::prefetch_address;

/// Some bytes of a region that were found to be inside of it, or none: the bytes that a descriptor
/// names, looked up before many packets are copied, and copied then. As with
/// [`ForeignRegion::read`], others write them at any time.
#[derive(Clone, Copy)]
pub struct ForeignBytes<'a> {
    start: NonNull<u8>,
    len: usize,
    region: PhantomData<&'a ForeignRegion>,
}

impl ForeignRegion {
    /// These bytes; `None` when some of them would be outside.
    #[inline]
    pub fn bytes(&self, at: usize, len: usize) -> Option<ForeignBytes<'_>> {
        if !self.contains(at, len) {
            return None;
        }
        // SAFETY: inside the mapping, or right behind its end.
        let start = unsafe { self.start.add(at) };
        Some(ForeignBytes { start, len, region: PhantomData })
    }
}

impl ForeignBytes<'_> {
    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes behind the first `count`, if there are so many.
    #[inline]
    #[must_use]
    pub fn behind(self, count: usize) -> Option<Self> {
        let len = self.len.checked_sub(count)?;
        // SAFETY: `count` of them are in front of that.
        let start = unsafe { self.start.add(count) };
        Some(ForeignBytes { start, len, region: self.region })
    }

    /// `len` bytes from `at` on; `None` when there are not as many.
    #[inline]
    #[must_use]
    pub fn part(self, at: usize, len: usize) -> Option<Self> {
        let behind = self.behind(at)?;
        (len <= behind.len).then_some(ForeignBytes { len, ..behind })
    }

    /// Copies the first bytes into `to`; `false`, and nothing is copied, when there are not so many.
    #[inline]
    #[must_use]
    pub fn read(&self, to: &mut [u8]) -> bool {
        let enough = to.len() <= self.len;
        if enough {
            // SAFETY: they are inside the mapping, which lives as long as the borrowed region; `to`
            // is ours alone and not in the mapping, to whose bytes there are no references.
            unsafe { copy::copy(self.start.as_ptr(), to.as_mut_ptr(), to.len()) };
        }
        enough
    }

    /// Copies `from` to the first bytes; `false`, and nothing is copied, when there are not so many.
    #[inline]
    #[must_use]
    pub fn write(&self, from: &[u8]) -> bool {
        let enough = from.len() <= self.len;
        if enough {
            // SAFETY: as in `read`, in the other direction.
            unsafe { copy::copy(from.as_ptr(), self.start.as_ptr(), from.len()) };
        }
        enough
    }

    /// Prefetches the line so many bytes behind the first; any offset is allowed.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        prefetch_address(self.start.as_ptr().wrapping_add(at));
    }
}

impl Default for ForeignBytes<'_> {
    #[inline]
    fn default() -> Self {
        ForeignBytes { start: NonNull::dangling(), len: 0, region: PhantomData }
    }
}

impl fmt::Debug for ForeignBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignBytes").field("len", &self.len).finish_non_exhaustive()
    }
}

// Miri maps no files.
#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_of_the_region_and_no_others() {
        let (region, _file) = ForeignRegion::create("test", 4096).unwrap();
        assert!(region.bytes(4090, 7).is_none() && region.bytes(usize::MAX, 2).is_none());
        let last = region.bytes(4090, 6).unwrap();
        assert!(!last.write(&[1; 7]) && last.write(&[1, 2, 3, 4, 5, 6]));
        let mut back = [0; 4];
        assert!(last.behind(2).unwrap().read(&mut back) && back == [3, 4, 5, 6]);
        assert!(!last.behind(3).unwrap().read(&mut back) && last.behind(7).is_none());
        assert!(last.part(2, 4).unwrap().read(&mut back) && back == [3, 4, 5, 6]);
        assert!(
            last.part(2, 5).is_none()
                && last.part(7, 0).is_none()
                && last.part(1, usize::MAX).is_none()
        );
        assert!(region.read(4092, &mut back) && back == [3, 4, 5, 6]);
        let none = ForeignBytes::default();
        assert!(none.is_empty() && none.read(&mut []) && !none.read(&mut back));
    }
}
