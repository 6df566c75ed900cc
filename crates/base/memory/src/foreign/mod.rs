//! Memory that a foreign process may write.
//!
//! Shared-memory ports get files from untrusted peers, and give them files of ours. The contents of
//! such memory may change between any two looks at it, and the file behind it may be cut short
//! while we look. So there is no way from here to a `&[u8]`, a promise that the bytes stay as they
//! are: bytes are copied, in machine code the compiler does not see through ([`copy`]), and words
//! are atomics. Code that needs a value twice copies it once and looks at the copy.
//!
//! A file that is cut short behind a mapping makes the next access to it a SIGBUS. That it is
//! sealed against shrinking cannot be demanded, because the memory that DPDK's pools are in is not,
//! and would not be enough: a hole punched into a file of huge pages is an access that fails, too,
//! once there is no page left. So [`fault`] catches the signal, puts zeros in the place of the
//! whole region and marks it [broken](ForeignRegion::is_broken). A polling port looks at that now
//! and then and gives the peer up.

mod bytes;
mod copy;
mod fault;
mod quota;
mod words;

use std::{
    fmt, io,
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicU32, AtomicU64},
    },
    thread,
};

use rustix::{
    fs::{FileType, MemfdFlags, SealFlags},
    io::Errno,
    mm::{Advice, MapFlags, ProtFlags},
};

pub use self::{
    bytes::ForeignBytes,
    quota::{MapLimit, MapQuota},
    words::ForeignWords,
};
use self::{fault::Watch, quota::Share};
use crate::prefetch::prefetch_address;

/// Largest region that is mapped: half of a process's address space.
const SIZE_MAX: u64 = 1 << 46;
/// The file system of huge pages (statfs(2)).
const HUGETLBFS: i64 = 0x9584_58f6;
/// A mapping of so many bytes is unmapped by a thread of its own: that may free all of the region's pages,
/// which takes a while.
const LARGE: usize = 256 << 20;

/// Why a file of a peer's was not mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// Not a regular file in memory.
    #[error("the file is not memory: a memfd, or a file on tmpfs or hugetlbfs, is")]
    NotMemory,
    /// The file is shorter than its owner said, or longer than can be mapped.
    #[error("the file has {size} bytes and {wanted} were announced")]
    Size {
        /// Length of the file.
        size: u64,
        /// Length the peer announced.
        wanted: u64,
    },
    /// The quota of regions is used up.
    #[error("{0} regions are mapped, the most allowed")]
    Regions(usize),
    /// The region exceeds the quota of bytes.
    #[error("more than {} GiB would be mapped", .most >> 30)]
    Bytes {
        /// The quota, in bytes.
        most: u64,
    },
    /// Less address space is left than the reservation needs.
    #[error("{} GiB of address space are left for memory of others, not {}", .left >> 30, .wanted >> 30)]
    Reserved {
        /// The reservation asked for, in bytes.
        wanted: u64,
        /// The address space left, in bytes.
        left: u64,
    },
    /// The kernel refused a step.
    #[error("{step}: {source}")]
    System {
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// A piece of memory that a foreign process may write, mapped for reading and writing.
pub struct ForeignRegion {
    start: NonNull<u8>,
    len: usize,
    sealed: bool,
    /// Taken when the region is dropped.
    mapping: Option<Mapping>,
}

/// A region's mapping, which ends when this is dropped.
struct Mapping {
    start: NonNull<u8>,
    /// Bytes of the region, rounded up to a page of the file's.
    len: usize,
    watch: Watch,
    /// Given back after the mapping has ended.
    _share: Option<Share>,
}

// SAFETY: a mapping belongs to no thread.
unsafe impl Send for Mapping {}

// SAFETY: the mapping belongs to no thread, and everything that is read from it or written to it
// goes through atomics or copies that the compiler takes for accesses by other code.
unsafe impl Send for ForeignRegion {}
// SAFETY: as above.
unsafe impl Sync for ForeignRegion {}

impl ForeignRegion {
    /// Maps the first `len` bytes of a peer's file. None of it is populated, so that a peer cannot
    /// make us allocate the length it announces: the kernel allocates pages on first access.
    ///
    /// # Errors
    ///
    /// When the file is not memory or shorter than that, and when the kernel refuses.
    pub fn map(file: impl AsFd, len: u64) -> Result<ForeignRegion, ForeignError> {
        ForeignRegion::map_for(file, len, ProtFlags::READ | ProtFlags::WRITE, None)
    }

    /// Maps a region of a peer within its quota.
    ///
    /// # Errors
    ///
    /// As of [`ForeignRegion::map`], and when the quota is used up.
    pub fn map_within(
        quota: &Arc<MapQuota>,
        file: impl AsFd,
        len: u64,
    ) -> Result<ForeignRegion, ForeignError> {
        ForeignRegion::map_for(file, len, ProtFlags::READ | ProtFlags::WRITE, Some(quota))
    }

    /// Maps a peer's file for reading: its words must not be stored to.
    #[cfg(not(any(loom, miri)))]
    pub(crate) fn map_readable(file: impl AsFd, len: u64) -> Result<ForeignRegion, ForeignError> {
        ForeignRegion::map_for(file, len, ProtFlags::READ, None)
    }

    fn map_for(
        file: impl AsFd,
        len: u64,
        access: ProtFlags,
        quota: Option<&Arc<MapQuota>>,
    ) -> Result<ForeignRegion, ForeignError> {
        let file = file.as_fd();
        // First, as this does not call the file system: only memory has seals, and another file system may
        // be served by a process (FUSE), which can delay the calls below.
        let seals = match rustix::fs::fcntl_get_seals(file) {
            Ok(seals) => seals,
            Err(Errno::INVAL) => return Err(ForeignError::NotMemory),
            Err(errno) => return Err(system("reading seals")(errno)),
        };
        let status = rustix::fs::fstat(file).map_err(system("fstat"))?;
        let system_of = rustix::fs::fstatfs(file).map_err(system("fstatfs"))?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(ForeignError::NotMemory);
        }
        let size = u64::try_from(status.st_size).unwrap_or(0);
        if len == 0 || len > size {
            return Err(ForeignError::Size { size, wanted: len });
        }
        if len > SIZE_MAX {
            return Err(ForeignError::Bytes { most: SIZE_MAX });
        }
        // Unmapping part of a huge page is refused.
        let huge = system_of.f_type as i64 == HUGETLBFS;
        let page = if huge { (system_of.f_bsize as u64).max(4096) } else { 4096 };
        let mapped = len.next_multiple_of(page) as usize;
        let share = quota.map(|quota| quota.take(mapped as u64)).transpose()?;
        // Nothing is reserved either: for huge pages that would be all bytes that the peer announces.
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address the kernel chooses.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), mapped, access, flags, file, 0) };
        let start = start.map_err(system("mmap"))?.cast::<u8>();
        let start = NonNull::new(start).ok_or(Errno::NOMEM).map_err(system("mmap"))?;
        let watch = Watch::over(start.as_ptr() as usize, mapped);
        let mapping = Some(Mapping { start, len: mapped, watch, _share: share });
        let sealed = seals.contains(SealFlags::SHRINK);
        Ok(ForeignRegion { start, len: len as usize, sealed, mapping })
    }

    /// Makes a region of zeros, populated, to give to a peer: a memfd that neither side can resize.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn create(name: &str, len: usize) -> Result<(ForeignRegion, OwnedFd), ForeignError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(name, flags).map_err(system("memfd_create"))?;
        rustix::fs::ftruncate(&file, len as u64).map_err(system("ftruncate"))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).map_err(system("sealing"))?;
        let region = ForeignRegion::map(&file, len as u64)?;
        // SAFETY: the hints change no contents. Kernels before 5.14 cannot populate: there the
        // pages come when they are touched.
        let populated = unsafe {
            let start = region.start.as_ptr().cast();
            let _ = rustix::mm::madvise(start, region.len, Advice::LinuxHugepage);
            rustix::mm::madvise(start, region.len, Advice::LinuxPopulateWrite)
        };
        match populated {
            Ok(()) | Err(Errno::INVAL) => Ok((region, file)),
            Err(errno) => Err(system("populating")(errno)),
        }
    }

    /// Gives the memory back to the kernel, if the kernel can take it: all mappings of the file read zeros
    /// then. Pages that a peer writes later are charged to the peer.
    pub fn discard(&self) {
        let len = self.mapping.as_ref().map_or(0, |mapping| mapping.len);
        // SAFETY: the region is mapped; its bytes are no Rust values, and may change at any time.
        let _ =
            unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), len, Advice::LinuxRemove) };
    }

    /// Bytes in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if it has no bytes; it always has some.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if its file was sealed against shrinking when it was mapped.
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Returns true if an access has failed, because the file was cut short: all of it has been
    /// zeros of our own since, which the peer does not see.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.mapping.as_ref().is_some_and(|mapping| mapping.watch.is_broken())
    }

    /// Returns true if these bytes are inside.
    #[inline]
    pub fn contains(&self, at: usize, len: usize) -> bool {
        at <= self.len && len <= self.len - at
    }

    /// Copies the bytes from `at` on into `to`; `false`, and nothing is copied, when some of them
    /// would be outside.
    #[inline]
    #[must_use]
    pub fn read(&self, at: usize, to: &mut [u8]) -> bool {
        let inside = self.contains(at, to.len());
        if inside {
            // SAFETY: `at..at + to.len()` is inside the mapping, which lives as long as `self`;
            // `to` is ours alone and not in the mapping, to whose bytes there are no references.
            unsafe { copy::copy(self.start.as_ptr().add(at), to.as_mut_ptr(), to.len()) };
        }
        inside
    }

    /// Copies `from` to the bytes from `at` on; `false`, and nothing is copied, when some of them
    /// would be outside.
    #[inline]
    #[must_use]
    pub fn write(&self, at: usize, from: &[u8]) -> bool {
        let inside = self.contains(at, from.len());
        if inside {
            // SAFETY: as in `read`, in the other direction.
            unsafe { copy::copy(from.as_ptr(), self.start.as_ptr().add(at), from.len()) };
        }
        inside
    }

    /// `count` words of 64 bits from `at` on; `None` when some would be outside, or `at` is not a
    /// multiple of eight.
    #[inline]
    pub fn words(&self, at: usize, count: usize) -> Option<&[AtomicU64]> {
        if !at.is_multiple_of(8) || !self.contains(at, count.checked_mul(8)?) {
            return None;
        }
        // SAFETY: inside the mapping, which starts at a page and lives as long as `self`, aligned,
        // and valid with any bits. Others write it at any time, which atomics are for; all of this
        // process's accesses of words are atomic, too.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at).cast(), count) })
    }

    /// `count` words of 16 bits from `at` on, as [`ForeignRegion::words`].
    #[inline]
    pub fn words16(&self, at: usize, count: usize) -> Option<&[AtomicU16]> {
        if !at.is_multiple_of(2) || !self.contains(at, count.checked_mul(2)?) {
            return None;
        }
        // SAFETY: as in `words`.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at).cast(), count) })
    }

    /// `count` words of 32 bits from `at` on, as [`ForeignRegion::words`].
    #[inline]
    pub fn words32(&self, at: usize, count: usize) -> Option<&[AtomicU32]> {
        if !at.is_multiple_of(4) || !self.contains(at, count.checked_mul(4)?) {
            return None;
        }
        // SAFETY: as in `words`.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at).cast(), count) })
    }

    /// The 32 bits at `at`, as [`ForeignRegion::words`].
    #[inline]
    pub fn word32(&self, at: usize) -> Option<&AtomicU32> {
        let fits = at.is_multiple_of(4) && self.contains(at, 4);
        // SAFETY: as in `words`.
        fits.then(|| unsafe { &*self.start.as_ptr().add(at).cast::<AtomicU32>() })
    }

    /// The 16 bits at `at`, as [`ForeignRegion::words`].
    #[inline]
    pub fn word16(&self, at: usize) -> Option<&AtomicU16> {
        let fits = at.is_multiple_of(2) && self.contains(at, 2);
        // SAFETY: as in `words`.
        fits.then(|| unsafe { &*self.start.as_ptr().add(at).cast::<AtomicU16>() })
    }

    /// Prefetches the cache line at `at`, if there is one.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        prefetch_address(self.start.as_ptr().wrapping_add(at));
    }
}

impl Drop for ForeignRegion {
    fn drop(&mut self) {
        let mapping = self.mapping.take();
        if self.len >= LARGE {
            // For want of threads it is dropped here, with the closure.
            let _ = thread::Builder::new().name("unmap".into()).spawn(move || drop(mapping));
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Before it is unmapped: a later mapping at these addresses is not to be taken for it.
        self.watch.end();
        // SAFETY: exactly the mapped range; all pointers into it borrow the region.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl fmt::Debug for ForeignRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignRegion")
            .field("len", &self.len)
            .field("sealed", &self.sealed)
            .field("broken", &self.is_broken())
            .finish_non_exhaustive()
    }
}

/// Adds the failed step to the kernel's error.
fn system(step: &'static str) -> impl Fn(Errno) -> ForeignError {
    move |errno| ForeignError::System { step, source: errno.into() }
}

// Miri maps no files; the part of this that it can interpret is tested in `copy`.
#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    fn memfd(len: u64) -> OwnedFd {
        let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, len).unwrap();
        file
    }

    #[test]
    fn bytes_of_every_length_come_across_and_nothing_beside_them() {
        let (ours, file) = ForeignRegion::create("test", 1 << 16).unwrap();
        let theirs = ForeignRegion::map(&file, 1 << 16).unwrap();
        assert!(ours.is_sealed() && theirs.is_sealed());
        let bytes: Vec<u8> = (0..9100u32).map(|n| (n * 7 + n / 256 + 1) as u8).collect();
        for len in (0..300).chain([511, 512, 513, 1024, 1500, 1514, 2048, 4095, 9000]) {
            for at in [0, 1, 100] {
                let wipe = vec![0; 9300];
                assert!(ours.write(0, &wipe) && ours.write(at, &bytes[..len]));
                let mut back = vec![0xaa; len + 2];
                assert!(theirs.read(at, &mut back[1..=len]));
                assert_eq!(back[1..=len], bytes[..len], "{len} bytes at {at}");
                assert_eq!((back[0], back[len + 1]), (0xaa, 0xaa));
                let mut beside = [1; 2];
                assert!(theirs.read(at + len, &mut beside[1..]));
                assert_eq!(beside[1], 0, "{len} bytes at {at}");
            }
        }
    }

    #[test]
    fn accesses_outside_a_region_are_refused() {
        let (region, _file) = ForeignRegion::create("test", 4096).unwrap();
        assert!(!region.read(4090, &mut [0; 7]) && region.read(4090, &mut [0; 6]));
        assert!(!region.write(usize::MAX, &[0; 7]) && !region.write(4097, &[]));
        assert!(region.words(4088, 1).is_some() && region.words(4088, 2).is_none());
        assert!(region.words(4, 1).is_none() && region.words(8, usize::MAX / 4).is_none());
        assert!(region.words16(4094, 1).is_some() && region.words16(4094, 2).is_none());
        assert!(region.words32(4090, 1).is_none() && region.words32(4088, 2).is_some());
        assert!(region.words16(1, 1).is_none() && region.words32(0, usize::MAX / 2).is_none());
        assert!(region.word16(4095).is_none() && region.word16(4094).is_some());
        assert!(region.word32(4096).is_none() && region.word32(usize::MAX - 3).is_none());
    }

    #[test]
    fn only_memory_of_the_announced_length_is_mapped() {
        let short = ForeignRegion::map(memfd(4096), 4097);
        assert!(matches!(short, Err(ForeignError::Size { size: 4096, wanted: 4097 })));
        assert!(matches!(ForeignRegion::map(memfd(4096), 0), Err(ForeignError::Size { .. })));
        let (read, _write) = rustix::pipe::pipe().unwrap();
        assert!(matches!(ForeignRegion::map(read, 1), Err(ForeignError::NotMemory)));
        let proc = std::fs::File::open("/proc/self/status").unwrap();
        assert!(matches!(ForeignRegion::map(proc, 1), Err(ForeignError::NotMemory)));
    }

    #[test]
    fn no_more_is_mapped_than_a_quota_says() {
        let port = MapQuota::reserve(MapLimit { regions: 3, bytes: 4 << 40 }).unwrap();
        let peer = port.within(MapLimit { regions: 2, bytes: 3 << 40 });
        let file = memfd(128 << 40);
        let map = |len| ForeignRegion::map_within(&peer, &file, len);
        assert!(matches!(map(128 << 40), Err(ForeignError::Bytes { .. })));
        let first = map((1 << 40) + 1).unwrap();
        assert!(matches!(map(2 << 40), Err(ForeignError::Bytes { .. })));
        let second = map(1 << 40).unwrap();
        assert!(matches!(map(1), Err(ForeignError::Regions(2))));
        assert_eq!(port.used(), MapLimit { regions: 2, bytes: (2 << 40) + 4096 });
        drop((first, second));
        // By a thread, as they are large.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while port.used() != MapLimit::default() {
            assert!(std::time::Instant::now() < until, "{:?}", port.used());
            thread::yield_now();
        }
    }

    #[test]
    fn as_many_regions_are_watched_as_are_mapped() {
        let file = memfd(4096);
        let regions: Vec<ForeignRegion> =
            (0..2000).map(|_| ForeignRegion::map(&file, 4096).unwrap()).collect();
        rustix::fs::ftruncate(&file, 0).unwrap();
        for region in [&regions[0], &regions[1999]] {
            assert!(region.read(0, &mut [1; 8]) && region.is_broken());
        }
        assert!(!regions[1000].is_broken());
    }

    #[test]
    fn a_file_cut_short_reads_as_zeros_and_is_noticed() {
        let file = memfd(1 << 20);
        let region = ForeignRegion::map(&file, 1 << 20).unwrap();
        let other = ForeignRegion::map(memfd(4096), 4096).unwrap();
        assert!(region.write(5000, b"still there") && !region.is_sealed());
        rustix::fs::ftruncate(&file, 4096).unwrap();
        assert!(!region.is_broken());
        let mut back = [1; 11];
        assert!(region.read(5000, &mut back));
        assert_eq!((back, region.is_broken()), ([0; 11], true));
        // From now on it is ordinary memory of ours.
        assert!(region.write(5000, b"back") && region.read(5000, &mut back[..4]));
        assert_eq!(&back[..4], b"back");
        region.words(1 << 19, 1).unwrap()[0].store(7, Ordering::Relaxed);
        assert!(!other.is_broken());
    }

    #[test]
    fn several_threads_may_meet_the_end_of_a_file_at_once() {
        for _ in 0..50 {
            let file = memfd(1 << 20);
            let region = ForeignRegion::map(&file, 1 << 20).unwrap();
            rustix::fs::ftruncate(&file, 0).unwrap();
            std::thread::scope(|scope| {
                for at in 0..4 {
                    let region = &region;
                    scope.spawn(move || assert!(region.write(at << 16, &[1; 4096])));
                }
            });
            assert!(region.is_broken());
        }
    }
}
