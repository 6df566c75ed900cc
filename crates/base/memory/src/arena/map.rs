//! Memory of an arena: a sealed memfd on the best pages that can be had.

use std::{fmt, fs, ops::Range, ptr::NonNull};
#[cfg(not(miri))]
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    mm::{Advice, MapFlags, ProtFlags},
};

use crate::{
    error::MemoryError,
    pages::{HUGE, PAGE, Pages},
};

/// Page size of an arena's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    /// Reserved 2 MiB pages.
    Huge,
    /// 2 MiB pages the kernel found by itself, at least for half of it.
    Transparent,
    /// 4 KiB pages.
    Small,
}

impl fmt::Display for PageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PageKind::Huge => "2 MiB pages",
            PageKind::Transparent => "transparent 2 MiB pages",
            PageKind::Small => "4 KiB pages",
        })
    }
}

/// Half of a process's address space: no arena can be larger, and sizes up to this one can be
/// rounded and added without overflow.
const SIZE_MAX: usize = 1 << 46;

/// A mapped memfd, unmapped on drop.
pub(crate) struct Mapping {
    /// The address space it is mapped into.
    pages: Pages,
    kind: PageKind,
    #[cfg(not(miri))]
    fd: OwnedFd,
}

impl Mapping {
    /// Maps at least `size` bytes and populates all of them, so that no later
    /// access can fault or fail.
    pub(crate) fn new(size: usize, huge: bool, node: Option<u32>) -> Result<Mapping, MemoryError> {
        if size > SIZE_MAX {
            check_available(size, SIZE_MAX as u64)?;
        }
        if huge && let Ok(mut mapping) = Mapping::with(size, true, node) {
            mapping.populate(0..mapping.len())?;
            mapping.kind = PageKind::Huge;
            return Ok(mapping);
        }
        check_available(size, u64::MAX)?;
        let mut mapping = Mapping::with(size, false, node)?;
        if huge {
            // Without transparent pages for shared memory this fails or does nothing; `kind` tells
            // the outcome.
            mapping.advise(Advice::LinuxHugepage);
        }
        mapping.populate(0..mapping.len())?;
        mapping.kind = mapping.inspect();
        Ok(mapping)
    }

    /// Maps at least `size` bytes of small pages, of which none is populated.
    pub(crate) fn unpopulated(size: usize, node: Option<u32>) -> Result<Mapping, MemoryError> {
        check_available(size, SIZE_MAX as u64)?;
        let mapping = Mapping::with(size, false, node)?;
        // Populating a little would take, and clear, 2 MiB each time.
        mapping.advise(Advice::LinuxNoHugepage);
        Ok(mapping)
    }

    #[cfg(not(miri))]
    fn with(size: usize, reserved: bool, node: Option<u32>) -> Result<Mapping, MemoryError> {
        use rustix::fs::{MemfdFlags, SealFlags};
        let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        if reserved {
            flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        }
        let len = size.next_multiple_of(if reserved { HUGE } else { PAGE });
        let fd = rustix::fs::memfd_create("linerate-arena", flags).map_err(fail("memfd_create"))?;
        rustix::fs::ftruncate(&fd, len as u64).map_err(fail("ftruncate"))?;
        // One more may come, see `seal` and `seal_seals`.
        let seals = SealFlags::SHRINK | SealFlags::GROW;
        rustix::fs::fcntl_add_seals(&fd, seals).map_err(fail("sealing"))?;

        let pages = map_file(&fd, len, reserved).map_err(fail("mmap"))?;
        let mapping = Mapping { pages, kind: PageKind::Small, fd };
        if let Some(node) = node {
            mapping.bind(node)?;
        }
        Ok(mapping)
    }

    /// Miri has neither memfds nor NUMA nodes: small private pages.
    #[cfg(miri)]
    fn with(size: usize, reserved: bool, _: Option<u32>) -> Result<Mapping, MemoryError> {
        if reserved {
            return Err(fail("memfd_create")(Errno::NOSYS));
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let pages = Pages::map(size.next_multiple_of(PAGE), HUGE, access, MapFlags::PRIVATE);
        Ok(Mapping { pages: pages.map_err(fail("mmap"))?, kind: PageKind::Small })
    }

    /// Seals the seals: processes that get the file can add none.
    #[cfg(not(miri))]
    pub(crate) fn seal_seals(&self) -> Result<(), MemoryError> {
        let seals = rustix::fs::SealFlags::SEAL;
        let sealed = rustix::fs::fcntl_get_seals(&self.fd).is_ok_and(|all| all.contains(seals));
        if sealed {
            return Ok(());
        }
        rustix::fs::fcntl_add_seals(&self.fd, seals).map_err(fail("sealing"))
    }

    /// Seals the file against writes and new writable mappings (`F_SEAL_FUTURE_WRITE`, Linux 5.1);
    /// writable mappings that exist stay.
    #[cfg(not(any(loom, miri)))]
    pub(crate) fn seal(&self) -> Result<(), MemoryError> {
        use rustix::fs::SealFlags;
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&self.fd, seals).map_err(fail("sealing"))?;
        // Older kernels accept that seal on huge pages and ignore it.
        let access = ProtFlags::READ | ProtFlags::WRITE;
        match Pages::map_file(&self.fd, self.len(), access) {
            Ok(_) => Err(fail("sealing against writing")(Errno::OPNOTSUPP)),
            Err(_) => Ok(()),
        }
    }

    /// Maps all of a file that another process made. Its size cannot change: it is sealed.
    #[cfg(not(any(loom, miri)))]
    pub(crate) fn attach(fd: OwnedFd, len: u64, writable: bool) -> Result<Mapping, MemoryError> {
        use rustix::fs::{FileType, SealFlags};
        let status = rustix::fs::fstat(&fd).map_err(fail("fstat"))?;
        let regular = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
        let seals = rustix::fs::fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
        if !regular
            || !seals.contains(SealFlags::SHRINK)
            || u64::try_from(status.st_size) != Ok(len)
        {
            return Err(fail("a file that is not sealed or of another size")(Errno::INVAL));
        }
        let write = if writable { ProtFlags::WRITE } else { ProtFlags::empty() };
        let pages = Pages::map_file(&fd, len as usize, ProtFlags::READ | write);
        let mut mapping =
            Mapping { pages: pages.map_err(fail("mmap"))?, kind: PageKind::Small, fd };
        mapping.kind = mapping.inspect();
        Ok(mapping)
    }

    /// Gives the kernel a hint about the pages, which it may not take.
    fn advise(&self, hint: Advice) {
        // SAFETY: hints do not change contents.
        let _ = unsafe { self.pages.advise(0..self.len(), hint) };
    }

    /// Populates more bytes if the machine has the memory.
    pub(crate) fn populate_parts(&self, parts: [Range<usize>; 3]) -> Result<(), MemoryError> {
        check_available(parts.iter().map(Range::len).sum(), u64::MAX)?;
        parts.into_iter().try_for_each(|bytes| self.populate(bytes))
    }

    /// Populates the pages that these bytes are in. Kernels before 5.14 cannot:
    /// there the pages are faulted in when first touched.
    fn populate(&self, bytes: Range<usize>) -> Result<(), MemoryError> {
        // SAFETY: populating does not change contents.
        match unsafe { self.pages.advise(bytes, Advice::LinuxPopulateWrite) } {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(fail("populating")(errno)),
        }
    }

    /// Takes the memory from one NUMA node.
    #[cfg(not(miri))]
    fn bind(&self, node: u32) -> Result<(), MemoryError> {
        let out_of_range = || MemoryError::Option {
            option: "node",
            value: node.into(),
            reason: "this machine has no such NUMA node; see `lscpu`".into(),
        };
        if node >= 64 {
            return Err(out_of_range());
        }
        let mask: libc::c_ulong = 1 << node;
        // SAFETY: the range is our own mapping and the mask is one word, of
        // which the kernel is told to read 64 bits (it subtracts one).
        let done = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start().as_ptr(),
                self.len(),
                libc::MPOL_BIND,
                &raw const mask,
                65 as libc::c_ulong,
                0,
            )
        };
        match done {
            0 => Ok(()),
            _ => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINVAL) => Err(out_of_range()),
                // A kernel without NUMA has one node only.
                error if error.raw_os_error() == Some(libc::ENOSYS) && node == 0 => Ok(()),
                source => Err(MemoryError::System { step: "mbind", source }),
            },
        }
    }

    /// Reads from `/proc/self/smaps` whether the kernel used transparent huge pages.
    fn inspect(&self) -> PageKind {
        let smaps = read_proc("/proc/self/smaps").unwrap_or_default();
        let huge = huge_bytes_at(&smaps, self.start().as_ptr() as usize);
        if huge >= self.len() / 2 { PageKind::Transparent } else { PageKind::Small }
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.pages.start()
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    pub(crate) fn kind(&self) -> PageKind {
        self.kind
    }

    #[cfg(not(miri))]
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Adds the failed step to the kernel's error.
fn fail(step: &'static str) -> impl FnOnce(Errno) -> MemoryError {
    move |errno| MemoryError::System { step, source: errno.into() }
}

/// Maps a file of `len` bytes at an address that is a multiple of 2 MiB, which
/// both kinds of huge page need. The kernel sees to it where they are `reserved`.
#[cfg(not(miri))]
fn map_file(fd: &OwnedFd, len: usize, reserved: bool) -> rustix::io::Result<Pages> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    if reserved {
        return Pages::map_file(fd, len, access);
    }
    let nothing = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let pages = Pages::map(len, HUGE, ProtFlags::empty(), nothing)?;
    // SAFETY: replaces the reserved range, to which there are no references yet, and goes when the
    // pages do.
    let mapped = unsafe {
        let start = pages.start().as_ptr().cast();
        rustix::mm::mmap(start, len, access, MapFlags::SHARED | MapFlags::FIXED, fd, 0)
    };
    if let Err(errno) = mapped {
        // The kernel may have unmapped the reserved range before it refused, and another thread may
        // have the addresses by now: to unmap them would take its memory.
        std::mem::forget(pages);
        return Err(errno);
    }
    Ok(pages)
}

/// Refuses a size above `limit`, or above the memory available to the machine or the control group,
/// before the kernel's OOM killer acts.
fn check_available(size: usize, limit: u64) -> Result<(), MemoryError> {
    let meminfo = read_proc("/proc/meminfo").unwrap_or_default();
    let limits = [available_bytes(&meminfo), control_group_limit()];
    let limit = limits.into_iter().flatten().fold(limit, u64::min);
    if size as u64 > limit {
        return Err(MemoryError::TooLarge { wanted: (size >> 20) as u64, available: limit >> 20 });
    }
    Ok(())
}

/// Reads a file of procfs or sysfs; `None` under Miri, whose memory the kernel does not know.
fn read_proc(path: &str) -> Option<String> {
    if cfg!(miri) { None } else { fs::read_to_string(path).ok() }
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Bytes left to this process's control group (version 2).
fn control_group_limit() -> Option<u64> {
    let group = read_proc("/proc/self/cgroup")?;
    let path = group.lines().find_map(|line| line.strip_prefix("0::"))?;
    let read = |file: &str| -> Option<u64> {
        fs::read_to_string(format!("/sys/fs/cgroup{path}/{file}")).ok()?.trim().parse().ok()
    };
    Some(read("memory.max")?.saturating_sub(read("memory.current")?))
}

/// Bytes in huge pages of the mapping that starts at `start`, from the text of
/// `/proc/self/smaps`.
fn huge_bytes_at(smaps: &str, start: usize) -> usize {
    let header = format!("{start:x}-");
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&header));
    lines
        .find_map(|line| line.strip_prefix("ShmemPmdMapped:"))
        .and_then(|value| value.trim().strip_suffix("kB")?.trim().parse::<usize>().ok())
        .map_or(0, |kilobytes| kilobytes << 10)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn reads_available_memory() {
        let text = "MemTotal: 100 kB\nMemAvailable:   24000 kB\n";
        assert_eq!(available_bytes(text), Some(24000 << 10));
        assert_eq!(available_bytes("MemTotal: 1 kB"), None);
        assert_eq!(available_bytes("MemAvailable: many kB"), None);
    }

    #[test]
    fn finds_its_own_mapping_in_smaps() {
        let text = "10000-20000 rw-s 0 00:01 7 /memfd:a\nShmemPmdMapped:  2048 kB\n\
                    7f00200000-7f00400000 rw-s 0 00:01 8 /memfd:b\nRss: 4 kB\n\
                    ShmemPmdMapped:    4096 kB\n";
        assert_eq!(huge_bytes_at(text, 0x7f_0020_0000), 4096 << 10);
        assert_eq!(huge_bytes_at(text, 0x1), 0);
    }

    /// Without reserved pages the kernel refuses the mapping when its addresses are already given
    /// back: another thread's memory that is there by then stays.
    #[cfg(not(miri))]
    #[test]
    fn a_refused_mapping_takes_no_memory_of_others() {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    (0..200).for_each(|_| drop(Mapping::new(1 << 18, true, None).unwrap()));
                });
                scope.spawn(|| {
                    for round in 0..2000 {
                        let pages = Pages::map(1 << 18, PAGE, access, MapFlags::PRIVATE).unwrap();
                        let bytes = pages.start().as_ptr().cast::<u8>();
                        for at in (0..1 << 18).step_by(PAGE) {
                            // SAFETY: inside the mapping, which this thread alone has.
                            unsafe {
                                bytes.add(at).write_volatile(round as u8);
                                assert_eq!(bytes.add(at).read_volatile(), round as u8);
                            }
                        }
                    }
                });
            }
        });
    }

    #[cfg(not(miri))]
    #[test]
    fn the_file_cannot_be_shrunk() {
        let mapping = Mapping::new(1 << 20, false, None).unwrap();
        assert_eq!(mapping.kind(), PageKind::Small);
        assert_eq!(rustix::fs::ftruncate(mapping.fd(), 4096), Err(rustix::io::Errno::PERM));
        assert_eq!(mapping.start().as_ptr() as usize % HUGE, 0);
    }
}
