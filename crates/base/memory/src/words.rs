//! Large arrays of atomic words for tables that are read without locks while they change.

use std::{
    fmt, io,
    marker::PhantomData,
    ops::Deref,
    slice,
    sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering},
};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::pages::{HUGE, Pages};

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
/// Memory is taken on first access, on transparent huge pages where they can be had: an array may
/// be made as long as it can ever become, and costs the memory of its used part. Reading at random
/// from an array on 4 KiB pages costs a TLB miss with every cache miss.
pub struct Words<T: sealed::Word> {
    pages: Pages,
    len: usize,
    owned: PhantomData<T>,
}

impl<T: sealed::Word> Words<T> {
    /// `len` words of zero.
    ///
    /// # Errors
    ///
    /// The kernel's error where so much cannot be mapped.
    pub fn zeroed(len: usize) -> io::Result<Words<T>> {
        let too_long = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(too_long)?;
        let span = bytes.checked_next_multiple_of(HUGE).ok_or_else(too_long)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let pages = Pages::map(span, HUGE, access, MapFlags::PRIVATE | MapFlags::NORESERVE)?;
        // A hint: where there are no such pages it fails and changes nothing.
        // SAFETY: it does not change contents.
        let _ = unsafe { pages.advise(0..span, Advice::LinuxHugepage) };
        Ok(Words { pages, len, owned: PhantomData })
    }

    /// Makes all words zero and gives their memory back to the kernel; words touched afterwards are
    /// faulted in anew. Costs the unmapping of the pages in use, about a millisecond for each 32
    /// MiB of small ones.
    ///
    /// Safe beside readers: each word is either the old one or zero, and there is no order between
    /// words. A seqlock around it works as around stores: a reader that loads such a zero also sees
    /// every store of the writer before the call, so [`Generation`] has it look again.
    ///
    /// [`Generation`]: crate::Generation
    pub fn clear(&self) {
        // SAFETY: this makes every byte of a private anonymous mapping read as zero, a value of
        // `T`; the words are only ever read and written as atomics.
        let released = unsafe { self.pages.advise(0..self.pages.len(), Advice::LinuxDontNeed) };
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
        // SAFETY: `len` words fit in the mapping, which lives as long as `self`
        // and begins at a page; the kernel filled them with zero, a value of
        // `T`; they are only ever changed through the atomics themselves.
        unsafe { slice::from_raw_parts(self.pages.start().as_ptr().cast(), self.len) }
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
    fn words_are_zero_and_keep_stores_of_another_thread() {
        const LEN: usize = if cfg!(miri) { 3 << 9 } else { 3 << 20 };
        let words: Words<AtomicU64> = Words::zeroed(LEN).unwrap();
        assert_eq!(words.len(), LEN);
        assert!(words.iter().step_by(4099).all(|word| word.load(Ordering::Relaxed) == 0));
        thread::scope(|scope| {
            scope.spawn(|| words[LEN - 1].store(7, Ordering::Relaxed));
        });
        assert_eq!(words[LEN - 1].load(Ordering::Relaxed), 7);
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
