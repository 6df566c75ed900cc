//! Large arrays of atomic words for tables that are changed while they are read.

use std::{
    fmt, io,
    marker::PhantomData,
    ops::Deref,
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering},
};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const HUGE: usize = 2 << 20;

mod sealed {
    /// Types for which all bits zero is a value.
    pub trait Word: Sync {
        fn zero(&self);
    }

    macro_rules! word {
        ($($type:ident)*) => {$(
            impl Word for super::$type {
                fn zero(&self) {
                    self.store(0, super::Ordering::Relaxed);
                }
            }
        )*};
    }
    word!(AtomicU16 AtomicU32 AtomicU64);
}

/// A fixed number of atomic words ([`AtomicU16`], [`AtomicU32`] or
/// [`AtomicU64`]), all zero at first. It is a slice wherever it is used.
///
/// Memory is taken where words are first touched, on transparent huge pages
/// where they can be had: an array may be made as long as it can ever become,
/// and costs what is used of it. Reading at random from an array on 4 KiB pages
/// costs a miss of the address translation with every other miss.
pub struct Words<T: sealed::Word> {
    start: NonNull<T>,
    len: usize,
    /// What was mapped around it, to be unmapped.
    mapped: (NonNull<u8>, usize),
    owned: PhantomData<T>,
}

// SAFETY: the mapping is owned and the words are atomics, so that threads may
// share them and the last owner may be any.
unsafe impl<T: sealed::Word> Send for Words<T> {}
// SAFETY: as above.
unsafe impl<T: sealed::Word> Sync for Words<T> {}

impl<T: sealed::Word> Words<T> {
    /// `len` words of zero.
    ///
    /// # Errors
    ///
    /// What the kernel says where so much cannot be mapped.
    pub fn zeroed(len: usize) -> io::Result<Words<T>> {
        let too_long = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(too_long)?;
        // One huge page more than needed, so that the array can begin at one.
        let span = bytes.checked_next_multiple_of(HUGE).and_then(|bytes| bytes.checked_add(HUGE));
        let span = span.ok_or_else(too_long)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address the kernel chooses.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), span, access, flags)? };
        let skip = (base as usize).next_multiple_of(HUGE) - base as usize;
        // SAFETY: `skip` is less than a huge page, by which the mapping is
        // longer than what follows.
        let start = unsafe { base.add(skip) };
        // A hint: where there are no such pages it fails and changes nothing.
        // SAFETY: the range is a part of our own fresh mapping.
        let _ = unsafe { madvise(start, span - HUGE, Advice::LinuxHugepage) };
        let (Some(start), Some(base)) = (NonNull::new(start.cast()), NonNull::new(base.cast()))
        else {
            return Err(too_long());
        };
        Ok(Words { start, len, mapped: (base, span), owned: PhantomData })
    }

    /// Makes all words zero and gives their memory back; what is touched
    /// afterwards takes it anew. Costs what the kernel needs to unmap the pages
    /// in use, about a millisecond for each 32 MiB of small ones.
    ///
    /// Others may be reading: they get old words or zeros, word by word in any
    /// order. Whoever announced the change before ([`Generation`]) may rely on
    /// it that who gets a zero sees the announcement: the kernel's change of
    /// mappings is ordered behind all stores before it.
    ///
    /// [`Generation`]: crate::Generation
    pub fn clear(&self) {
        let span = self.mapped.1 - HUGE;
        // SAFETY: the range is a part of our own private anonymous mapping,
        // where this makes every byte read as zero, a value of `T`; the words
        // are only ever read and written as atomics.
        let released = unsafe { madvise(self.start.as_ptr().cast(), span, Advice::LinuxDontNeed) };
        if released.is_err() {
            // Locked memory cannot be given back.
            self.iter().for_each(sealed::Word::zero);
        }
    }
}

impl<T: sealed::Word> Deref for Words<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` words from `start` are inside our mapping, which lives
        // as long as `self`; `start` is aligned to a page; the kernel filled
        // them with zero, a value of `T`; they are only ever changed through
        // the atomics themselves.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: sealed::Word> Drop for Words<T> {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and nothing that borrows it is left.
        let _ = unsafe { munmap(self.mapped.0.as_ptr().cast(), self.mapped.1) };
    }
}

impl<T: sealed::Word> fmt::Debug for Words<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Words").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn words_are_zero_and_keep_what_is_written_by_another_thread() {
        let words: Words<AtomicU64> = Words::zeroed(3 << 20).unwrap();
        assert_eq!(words.len(), 3 << 20);
        assert!(words.iter().step_by(4099).all(|word| word.load(Ordering::Relaxed) == 0));
        thread::scope(|scope| {
            scope.spawn(|| words[(3 << 20) - 1].store(7, Ordering::Relaxed));
        });
        assert_eq!(words[(3 << 20) - 1].load(Ordering::Relaxed), 7);
        assert_eq!(words.as_ptr() as usize % HUGE, 0);
        words[7].store(1, Ordering::Relaxed);
        words.clear();
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        words[7].store(1, Ordering::Relaxed);
        assert_eq!(words[7].load(Ordering::Relaxed), 1);
    }

    #[test]
    fn no_words_and_too_many() {
        assert!(Words::<AtomicU32>::zeroed(0).unwrap().is_empty());
        assert!(Words::<AtomicU32>::zeroed(usize::MAX / 2).is_err());
        assert!(Words::<AtomicU32>::zeroed(usize::MAX / 4 - (1 << 18)).is_err());
    }
}
