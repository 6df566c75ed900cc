//! Storage of a ring: cells that the owner of a range of positions may read or write without
//! synchronisation.

#[cfg(loom)]
use loom::cell::UnsafeCell;
#[cfg(not(loom))]
use std::cell::UnsafeCell;
use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    mem::{ManuallyDrop, MaybeUninit},
    ptr::{self, NonNull},
    slice,
};

use crossbeam_utils::CachePadded;

type Cell<T> = UnsafeCell<MaybeUninit<T>>;

/// A power of two of cells, addressed by free-running positions, of which
/// the lower bits count.
///
/// They begin where a cache line does: a burst that fills a line would otherwise be in two, and both
/// would go from core to core for it.
pub(crate) struct Cells<T> {
    first: NonNull<Cell<T>>,
    /// One less than the number of cells.
    mask: usize,
}

// SAFETY: the cells are plain storage; the ring around them hands out ranges
// of positions to one thread at a time, and elements cross threads, hence
// `T: Send`.
unsafe impl<T: Send> Sync for Cells<T> {}
// SAFETY: the memory is the cells' own; the elements as above.
unsafe impl<T: Send> Send for Cells<T> {}

impl<T> Drop for Cells<T> {
    fn drop(&mut self) {
        let count = self.capacity();
        // SAFETY: `new` has made so many cells there, in memory of that layout, and there are no
        // references to them any more. Elements in them are the ring's to drop.
        unsafe {
            ptr::slice_from_raw_parts_mut(self.first.as_ptr(), count).drop_in_place();
            dealloc(self.first.as_ptr().cast(), Cells::<T>::layout(count));
        }
    }
}

impl<T> Cells<T> {
    pub(crate) fn new(capacity: usize) -> Cells<T> {
        debug_assert!(capacity.is_power_of_two());
        let layout = Cells::<T>::layout(capacity);
        // SAFETY: the layout has a size; the memory is checked, and is large enough and aligned for so
        // many cells, which are made here.
        unsafe {
            let Some(first) = NonNull::new(alloc(layout).cast::<Cell<T>>()) else {
                handle_alloc_error(layout)
            };
            (0..capacity)
                .for_each(|at| first.add(at).write(UnsafeCell::new(MaybeUninit::uninit())));
            Cells { first, mask: capacity - 1 }
        }
    }

    fn layout(capacity: usize) -> Layout {
        let size = size_of::<Cell<T>>().checked_mul(capacity).map(|size| size.max(1));
        let align = align_of::<CachePadded<Cell<T>>>();
        size.and_then(|size| Layout::from_size_align(size, align).ok()).expect("fits in memory")
    }

    #[inline(always)]
    fn all(&self) -> &[Cell<T>] {
        // SAFETY: `new` has made so many, which live as long as `self`; they may be changed only
        // through their `UnsafeCell`.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.mask + 1) }
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
        let start = position & self.mask;
        let first = self.mask + 1 - start;
        // SAFETY: `start <= mask` and `count <= len`, so both ranges lie in
        // the cells; ownership by the contract.
        unsafe {
            if count <= first {
                copy_in(self.all().get_unchecked(start..start + count), from, count);
            } else {
                self.write_wrapped(start, from, count);
            }
        }
    }

    /// The rare burst that wraps to the first cell, out of line to keep the
    /// common case short.
    ///
    /// # Safety
    ///
    /// As `write`, from the cell `start` on.
    #[cold]
    #[inline(never)]
    unsafe fn write_wrapped(&self, start: usize, from: *const T, count: usize) {
        let first = self.mask + 1 - start;
        // SAFETY: as in `write`.
        unsafe {
            copy_in(&self.all()[start..], from, first);
            copy_in(&self.all()[..count - first], from.add(first), count - first);
        }
    }

    /// Copies `count` elements out of the cells at `position` on to `to`.
    ///
    /// # Safety
    ///
    /// The caller alone owns those positions, which hold elements; `count` is
    /// at most the capacity; `to` is valid for `count` writes.
    #[inline]
    pub(crate) unsafe fn read(&self, position: usize, to: *mut T, count: usize) {
        let start = position & self.mask;
        let first = self.mask + 1 - start;
        // SAFETY: as in `write`.
        unsafe {
            if count <= first {
                copy_out(self.all().get_unchecked(start..start + count), to, count);
            } else {
                self.read_wrapped(start, to, count);
            }
        }
    }

    /// # Safety
    ///
    /// As `read`, from the cell `start` on.
    #[cold]
    #[inline(never)]
    unsafe fn read_wrapped(&self, start: usize, to: *mut T, count: usize) {
        let first = self.mask + 1 - start;
        // SAFETY: as in `read`.
        unsafe {
            copy_out(&self.all()[start..], to, first);
            copy_out(&self.all()[..count - first], to.add(first), count - first);
        }
    }

    /// Moves one element to the cell at `position`.
    ///
    /// # Safety
    ///
    /// As [`Cells::write`].
    #[inline]
    pub(crate) unsafe fn write_one(&self, position: usize, element: T) {
        // SAFETY: masked, so inside the cells; ownership by the contract, and the element is
        // forgotten here.
        unsafe {
            let cell = self.all().get_unchecked(position & self.mask);
            copy_in(std::slice::from_ref(cell), &raw const *ManuallyDrop::new(element), 1);
        }
    }

    /// Moves the element out of the cell at `position`.
    ///
    /// # Safety
    ///
    /// As [`Cells::read`].
    #[inline]
    pub(crate) unsafe fn read_one(&self, position: usize) -> T {
        let mut element = MaybeUninit::uninit();
        // SAFETY: masked, so inside the cells; ownership by the contract, and the cell holds an
        // element, which is initialised here then.
        unsafe {
            let cell = self.all().get_unchecked(position & self.mask);
            copy_out(std::slice::from_ref(cell), element.as_mut_ptr(), 1);
            element.assume_init()
        }
    }
}

/// # Safety
///
/// The cells are owned, `from` is valid for as many reads.
#[cfg(not(loom))]
#[inline(always)]
unsafe fn copy_in<T>(cells: &[Cell<T>], from: *const T, count: usize) {
    // SAFETY: an `UnsafeCell<MaybeUninit<T>>` has the layout of a `T`, and the
    // owned range is contiguous.
    unsafe { copy(from, cells.as_ptr() as *mut T, count) }
}

/// # Safety
///
/// The cells are owned and hold elements, `to` is valid for as many writes.
#[cfg(not(loom))]
#[inline(always)]
unsafe fn copy_out<T>(cells: &[Cell<T>], to: *mut T, count: usize) {
    // SAFETY: as in `copy_in`.
    unsafe { copy(cells.as_ptr().cast::<T>(), to, count) }
}

/// Copies without overlap. Small bursts in line and by the bits of their
/// length: a call of `memcpy` costs more than moving sixteen elements, and the
/// compiler turns every loop into such a call.
///
/// # Safety
///
/// As [`ptr::copy_nonoverlapping`].
#[cfg(not(loom))]
#[inline(always)]
unsafe fn copy<T>(mut from: *const T, mut to: *mut T, count: usize) {
    // SAFETY: by the contract of the caller; each step moves `N` elements when
    // bit `N` of the count is set, which together are `count`.
    unsafe {
        if count == 1 {
            ptr::copy_nonoverlapping(from, to, 1);
            return;
        }
        if count >= 16 {
            ptr::copy_nonoverlapping(from, to, count);
            return;
        }
        if count & 8 != 0 {
            ptr::copy_nonoverlapping(from, to, 8);
            (from, to) = (from.add(8), to.add(8));
        }
        if count & 4 != 0 {
            ptr::copy_nonoverlapping(from, to, 4);
            (from, to) = (from.add(4), to.add(4));
        }
        if count & 2 != 0 {
            ptr::copy_nonoverlapping(from, to, 2);
            (from, to) = (from.add(2), to.add(2));
        }
        if count & 1 != 0 {
            ptr::copy_nonoverlapping(from, to, 1);
        }
    }
}

/// # Safety
///
/// As the other `copy_in`; loom checks the ownership.
#[cfg(loom)]
unsafe fn copy_in<T>(cells: &[Cell<T>], from: *const T, count: usize) {
    for (index, cell) in cells[..count].iter().enumerate() {
        // SAFETY: by the contract of the caller.
        cell.with_mut(|to| unsafe { ptr::copy_nonoverlapping(from.add(index), to.cast(), 1) });
    }
}

/// # Safety
///
/// As the other `copy_out`; loom checks the ownership.
#[cfg(loom)]
unsafe fn copy_out<T>(cells: &[Cell<T>], to: *mut T, count: usize) {
    for (index, cell) in cells[..count].iter().enumerate() {
        // SAFETY: by the contract of the caller.
        cell.with(|from| unsafe { ptr::copy_nonoverlapping(from.cast::<T>(), to.add(index), 1) });
    }
}
