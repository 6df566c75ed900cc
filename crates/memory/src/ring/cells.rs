//! The storage of a ring: cells that whoever owns a range of positions may
//! read or write without synchronisation.

#[cfg(loom)]
use loom::cell::UnsafeCell;
#[cfg(not(loom))]
use std::cell::UnsafeCell;
use std::{mem::MaybeUninit, ptr};

/// A power of two of cells, addressed by free-running positions, of which
/// the lower bits count.
pub(crate) struct Cells<T> {
    cells: Box<[UnsafeCell<MaybeUninit<T>>]>,
    mask: usize,
}

// SAFETY: the cells are plain storage; the ring around them hands out ranges
// of positions to one thread at a time, and elements cross threads, hence
// `T: Send`.
unsafe impl<T: Send> Sync for Cells<T> {}

impl<T> Cells<T> {
    pub(crate) fn new(capacity: usize) -> Cells<T> {
        debug_assert!(capacity.is_power_of_two());
        let cells = (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        Cells { cells, mask: capacity - 1 }
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.mask + 1
    }

    /// Copies `count` elements from `from` to the cells at `position` on.
    ///
    /// # Safety
    ///
    /// The caller alone owns those positions, which hold nothing; `count` is
    /// at most the capacity; `from` is valid for `count` reads and gives its
    /// elements away.
    #[inline]
    pub(crate) unsafe fn write(&self, position: usize, from: *const T, count: usize) {
        // SAFETY: `spans` stays inside the cells; ownership by the contract.
        self.spans(position, count, |cells, done, length| unsafe {
            copy_in(cells, from.add(done), length);
        });
    }

    /// Copies `count` elements out of the cells at `position` on to `to`.
    ///
    /// # Safety
    ///
    /// The caller alone owns those positions, which hold elements; `count` is
    /// at most the capacity; `to` is valid for `count` writes.
    #[inline]
    pub(crate) unsafe fn read(&self, position: usize, to: *mut T, count: usize) {
        // SAFETY: as in `write`.
        self.spans(position, count, |cells, done, length| unsafe {
            copy_out(cells, to.add(done), length);
        });
    }

    /// Splits a range of positions where the ring wraps and calls `copy` with
    /// the cells, the number of elements before them, and their number.
    #[inline(always)]
    fn spans(
        &self,
        position: usize,
        count: usize,
        copy: impl Fn(&[UnsafeCell<MaybeUninit<T>>], usize, usize),
    ) {
        let start = position & self.mask;
        let first = count.min(self.cells.len() - start);
        // `first` and `count - first` are at most the length by construction,
        // which the compiler cannot see.
        // SAFETY: `start <= mask` and `start + first <= len`.
        copy(unsafe { self.cells.get_unchecked(start..start + first) }, 0, first);
        if first < count {
            // SAFETY: `count <= len`, by the contract of the callers.
            copy(unsafe { self.cells.get_unchecked(..count - first) }, first, count - first);
        }
    }
}

/// # Safety
///
/// The cells are owned, `from` is valid for as many reads.
#[cfg(not(loom))]
#[inline(always)]
unsafe fn copy_in<T>(cells: &[UnsafeCell<MaybeUninit<T>>], from: *const T, count: usize) {
    // SAFETY: an `UnsafeCell<MaybeUninit<T>>` has the layout of a `T`, and the
    // owned range is contiguous.
    unsafe { copy(from, cells.as_ptr() as *mut T, count) }
}

/// # Safety
///
/// The cells are owned and hold elements, `to` is valid for as many writes.
#[cfg(not(loom))]
#[inline(always)]
unsafe fn copy_out<T>(cells: &[UnsafeCell<MaybeUninit<T>>], to: *mut T, count: usize) {
    // SAFETY: as in `copy_in`.
    unsafe { copy(cells.as_ptr().cast::<T>(), to, count) }
}

/// Copies without overlap; small bursts in line, since a call of `memcpy`
/// costs more than moving eight elements.
///
/// # Safety
///
/// As [`ptr::copy_nonoverlapping`].
#[cfg(not(loom))]
#[inline(always)]
unsafe fn copy<T>(from: *const T, to: *mut T, count: usize) {
    // SAFETY: by the contract of the caller; `rest` counts what is left.
    unsafe {
        if count > 64 {
            ptr::copy_nonoverlapping(from, to, count);
            return;
        }
        let mut done = 0;
        while count - done >= 8 {
            ptr::copy_nonoverlapping(from.add(done), to.add(done), 8);
            done += 8;
        }
        while done < count {
            ptr::copy_nonoverlapping(from.add(done), to.add(done), 1);
            done += 1;
        }
    }
}

/// # Safety
///
/// As the other `copy_in`; loom checks the ownership.
#[cfg(loom)]
unsafe fn copy_in<T>(cells: &[UnsafeCell<MaybeUninit<T>>], from: *const T, count: usize) {
    for (index, cell) in cells[..count].iter().enumerate() {
        // SAFETY: by the contract of the caller.
        cell.with_mut(|to| unsafe { ptr::copy_nonoverlapping(from.add(index), to.cast(), 1) });
    }
}

/// # Safety
///
/// As the other `copy_out`; loom checks the ownership.
#[cfg(loom)]
unsafe fn copy_out<T>(cells: &[UnsafeCell<MaybeUninit<T>>], to: *mut T, count: usize) {
    for (index, cell) in cells[..count].iter().enumerate() {
        // SAFETY: by the contract of the caller.
        cell.with(|from| unsafe { ptr::copy_nonoverlapping(from.cast::<T>(), to.add(index), 1) });
    }
}
