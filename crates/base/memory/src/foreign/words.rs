//! Words of a region, checked once.

use std::{
    fmt,
    ops::Deref,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicU32, AtomicU64},
    },
};

use super::ForeignRegion;

/// Words of a region that were found to be inside of it, and keep it: rings, which are looked at for
/// each packet. As with [`ForeignRegion::words`], others write them at any time.
pub struct ForeignWords<W> {
    words: NonNull<[W]>,
    region: Arc<ForeignRegion>,
}

// SAFETY: as of the region, of which this is a piece: its words are atomics.
unsafe impl<W: Sync> Send for ForeignWords<W> {}
// SAFETY: as above.
unsafe impl<W: Sync> Sync for ForeignWords<W> {}

impl<W> ForeignWords<W> {
    fn new(
        region: &Arc<ForeignRegion>,
        words: impl Fn(&ForeignRegion) -> Option<&[W]>,
    ) -> Option<ForeignWords<W>> {
        let words = NonNull::from(words(region)?);
        Some(ForeignWords { words, region: Arc::clone(region) })
    }
}

impl ForeignWords<AtomicU64> {
    /// `count` words of 64 bits from `at` on; `None` as from [`ForeignRegion::words`].
    pub fn of64(region: &Arc<ForeignRegion>, at: usize, count: usize) -> Option<Self> {
        ForeignWords::new(region, |region| region.words(at, count))
    }
}

impl ForeignWords<AtomicU32> {
    /// `count` words of 32 bits from `at` on, likewise.
    pub fn of32(region: &Arc<ForeignRegion>, at: usize, count: usize) -> Option<Self> {
        ForeignWords::new(region, |region| region.words32(at, count))
    }
}

impl ForeignWords<AtomicU16> {
    /// `count` words of 16 bits from `at` on, likewise.
    pub fn of16(region: &Arc<ForeignRegion>, at: usize, count: usize) -> Option<Self> {
        ForeignWords::new(region, |region| region.words16(at, count))
    }
}

impl<W> Clone for ForeignWords<W> {
    fn clone(&self) -> Self {
        ForeignWords { words: self.words, region: Arc::clone(&self.region) }
    }
}

impl<W> Deref for ForeignWords<W> {
    type Target = [W];

    #[inline]
    fn deref(&self) -> &[W] {
        // SAFETY: they were lent by the region, which stays mapped at its place as long as `self`
        // has it, and gives out nothing but atomics and copies.
        unsafe { self.words.as_ref() }
    }
}

impl<W> fmt::Debug for ForeignWords<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignWords").field("count", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn words_are_the_regions_and_keep_it() {
        let region = Arc::new(ForeignRegion::create("test", 4096).unwrap().0);
        let words = ForeignWords::of32(&region, 4088, 2).unwrap();
        assert!(ForeignWords::of32(&region, 4088, 3).is_none());
        assert!(ForeignWords::of64(&region, 4, 1).is_none());
        region.word32(4092).unwrap().store(7, Ordering::Relaxed);
        drop(region);
        assert_eq!((words.len(), words.clone()[1].load(Ordering::Relaxed)), (2, 7));
    }
}
