//! Private anonymous memory at the boundary of a huge page.
//!
//! The memory of [`Words`](crate::Words), [`Reserved`](crate::Reserved) and the arena: address
//! space that is reserved in one piece, so that nothing in it ever moves, and backed by memory page
//! by page or beforehand. Both kinds of huge page need an address that is a multiple of their size;
//! mmap(2) promises one of a small page, so somewhat more is mapped than is used.
//!
//! Miri has no mappings of this kind. There the memory comes from the allocator, zeroed and aligned
//! in the same way, and every advice is refused as by a kernel without it; the code built on top is
//! the code that ships.

use std::{ops::Range, ptr::NonNull};

use rustix::{
    io::{Errno, Result},
    mm::{Advice, MapFlags, ProtFlags},
};

/// A small page.
pub(crate) const PAGE: usize = 4096;
/// A huge page.
pub(crate) const HUGE: usize = 2 << 20;

/// A mapping, unmapped on drop. Its owner decides on the meaning of its bytes.
pub(crate) struct Pages {
    /// First byte that is used, aligned as asked for.
    start: NonNull<u8>,
    len: usize,
    /// All that was mapped: address and bytes.
    mapped: (NonNull<u8>, usize),
}

// SAFETY: it owns its mapping, and gives away nothing but the address.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `len` bytes of zeros, a multiple of [`PAGE`], at a multiple of `align`: [`PAGE`], or
    /// [`HUGE`], which takes that many bytes of address space more.
    #[cfg(not(miri))]
    pub(crate) fn map(
        len: usize,
        align: usize,
        access: ProtFlags,
        flags: MapFlags,
    ) -> Result<Pages> {
        let slack = if align > PAGE { align } else { 0 };
        let span = len.checked_add(slack).ok_or(Errno::NOMEM)?;
        // SAFETY: a fresh mapping at an address the kernel chooses.
        let base =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), span, access, flags)? };
        let skip = (base as usize).next_multiple_of(align) - base as usize;
        // SAFETY: `skip` is less than `align`, by which the mapping is longer than the used part
        // where the kernel does not align it by itself; and no mapping begins at address zero.
        unsafe {
            Ok(Pages {
                start: NonNull::new_unchecked(base.add(skip).cast()),
                len,
                mapped: (NonNull::new_unchecked(base.cast()), span),
            })
        }
    }

    /// Takes zeroed memory from the allocator.
    #[cfg(miri)]
    pub(crate) fn map(len: usize, align: usize, _: ProtFlags, _: MapFlags) -> Result<Pages> {
        let layout = std::alloc::Layout::from_size_align(len.max(1), align);
        let layout = layout.map_err(|_| Errno::NOMEM)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) });
        let start = start.ok_or(Errno::NOMEM)?;
        Ok(Pages { start, len, mapped: (start, align) })
    }

    /// Maps the first `len` bytes of a file, shared with all processes that map it.
    #[cfg(not(miri))]
    pub(crate) fn map_file(
        file: impl std::os::fd::AsFd,
        len: usize,
        access: ProtFlags,
    ) -> Result<Pages> {
        // SAFETY: a fresh mapping at an address the kernel chooses, which is not zero.
        let start = unsafe {
            let base =
                rustix::mm::mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, 0)?;
            NonNull::new_unchecked(base.cast())
        };
        Ok(Pages { start, len, mapped: (start.cast(), len) })
    }

    /// First byte.
    #[inline(always)]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes in use.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Advises the kernel about some of the bytes (madvise(2)); their pages as a whole are meant.
    ///
    /// # Safety
    ///
    /// The owner of the bytes allows for the effect of the advice: [`Advice::LinuxDontNeed`] makes
    /// them zero.
    #[cfg(not(miri))]
    pub(crate) unsafe fn advise(&self, bytes: Range<usize>, advice: Advice) -> Result<()> {
        let bytes = bytes.start / PAGE * PAGE..bytes.end.min(self.len);
        // SAFETY: the range is inside our own mapping, of which the caller knows the contents.
        unsafe {
            let start = self.start.as_ptr().add(bytes.start);
            rustix::mm::madvise(start.cast(), bytes.len(), advice)
        }
    }

    /// As on a kernel that knows none of it.
    ///
    /// # Safety
    ///
    /// None.
    #[cfg(miri)]
    pub(crate) unsafe fn advise(&self, _: Range<usize>, _: Advice) -> Result<()> {
        Err(Errno::INVAL)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let (base, span) = self.mapped;
        // SAFETY: exactly the mapped range; the owner of the mapping lets no pointer into it live
        // longer.
        #[cfg(not(miri))]
        let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), span) };
        // SAFETY: the layout it was allocated with, and as above.
        #[cfg(miri)]
        unsafe {
            let layout = std::alloc::Layout::from_size_align_unchecked(self.len.max(1), span);
            std::alloc::dealloc(base.as_ptr(), layout);
        }
    }
}
