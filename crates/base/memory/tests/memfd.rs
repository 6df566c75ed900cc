//! The kernel's view of an arena: its file, its mappings, its pages. Miri has none of them.
#![cfg(not(any(loom, miri)))]
#![allow(missing_docs, reason = "a test program")]

use std::{
    fs,
    os::fd::{AsRawFd, BorrowedFd},
};

use linerate_memory::{Arena, ArenaOptions, Frame, PageKind};
use rustix::{fs::SealFlags, io::Errno};

fn small(size: usize) -> ArenaOptions {
    ArenaOptions { size, huge: false, ..ArenaOptions::default() }
}

/// The file behind an arena, to be asked about and not written to.
fn file(arena: &Arena) -> BorrowedFd<'_> {
    // SAFETY: no test here reads or writes through it.
    unsafe { arena.fd() }.expect("it is not sealed")
}

/// Bytes of memory an arena has taken.
fn taken(arena: &Arena) -> usize {
    rustix::fs::fstat(file(arena)).unwrap().st_blocks as usize * 512
}

#[test]
fn memory_comes_gradually_where_that_is_asked_for() {
    let options = ArenaOptions { gradual: true, ..small(16 << 20) };
    let arena = options.create().unwrap();
    let whole = small(16 << 20).create().unwrap();
    assert_eq!((arena.count(), arena.size()), (whole.count(), whole.size()));
    assert!(taken(&arena) < 1 << 20, "{} bytes at the start", taken(&arena));
    let mut pool = arena.cache(512);
    let mut frames: Vec<Frame> = Vec::new();
    let mut count = 0;
    loop {
        let mut frame = Frame::new(100);
        if pool.take(&mut frame, 100, 1500) == 0 {
            break;
        }
        count += frame.len();
        // Half a piece is rounded up, and the buffers in caches are present.
        assert!(taken(&arena) < (count + 1024) * 2300);
        arena.for_each_mut(&mut frame, |bytes| bytes.fill(1));
        frames.push(frame);
    }
    assert_eq!(count, arena.count());
    assert_eq!((arena.accounting().held, arena.accounting().free), (count, 0));
    assert!(pool.take_one(0).is_none());
    // The end of the last page is unused.
    assert!(taken(&arena) + 8192 > arena.size());
    frames.iter_mut().for_each(|frame| pool.give(frame));
    assert_eq!(arena.accounting().free, count);
}

#[test]
fn the_memory_cannot_be_resized_by_a_receiver() {
    let arena = small(1 << 20).create().unwrap();
    let seals = rustix::fs::fcntl_get_seals(file(&arena)).unwrap();
    assert!(seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL));
    for size in [0, 4096, 2 << 20] {
        assert_eq!(rustix::fs::ftruncate(file(&arena), size), Err(Errno::PERM));
    }
    assert_eq!(rustix::fs::fcntl_add_seals(file(&arena), SealFlags::WRITE), Err(Errno::PERM));
}

/// Runs where the test process is alone: mappings and file descriptors of
/// other tests would be counted too, so they are told apart by inode.
#[test]
fn nothing_is_left_of_a_dropped_arena() {
    let arena = small(1 << 20).create().unwrap();
    let inode = rustix::fs::fstat(file(&arena)).unwrap().st_ino;
    let number = file(&arena).as_raw_fd();
    let device = format!(" {inode} ");
    let mapped = || {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|l| l.contains("/memfd:linerate-arena") && l.contains(&device)).count()
    };
    let open = || {
        // The number may be another test's file by now: compare inodes.
        let path = format!("/proc/self/fd/{number}");
        rustix::fs::stat(path).is_ok_and(|stat| stat.st_ino == inode)
    };
    assert_eq!((mapped(), open()), (1, true));
    let pool = arena.cache(8);
    drop(arena);
    assert_eq!((mapped(), open()), (1, true), "a cache keeps its arena");
    drop(pool);
    assert_eq!((mapped(), open()), (0, false));
}

#[test]
fn huge_pages_or_the_next_best() {
    let arena = ArenaOptions { size: 4 << 20, ..ArenaOptions::default() }.create().unwrap();
    assert_eq!(arena.size(), 4 << 20);
    let said = arena.pages();
    assert_eq!(said == PageKind::Huge, page_size(&arena) == 2048, "{said}");
    let small = small(4 << 20).create().unwrap();
    assert_eq!((small.pages(), page_size(&small)), (PageKind::Small, 4));
}

/// Page size of the arena's mapping in KiB, from the kernel.
fn page_size(arena: &Arena) -> usize {
    let inode = rustix::fs::fstat(file(arena)).unwrap().st_ino;
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let of_ours = format!(" {inode} ");
    let mut lines = smaps
        .lines()
        .skip_while(|line| !(line.contains("linerate-arena") && line.contains(&of_ours)));
    let line = lines.find_map(|line| line.strip_prefix("KernelPageSize:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// Sets a file of the kernel's and puts its old value back on drop.
struct Setting {
    path: &'static str,
    old: String,
}

impl Setting {
    fn set(path: &'static str, value: &str) -> Setting {
        let old = fs::read_to_string(path).unwrap();
        fs::write(path, value).unwrap();
        Setting { path, old }
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(self.path, self.old.trim());
    }
}

/// One test, since both halves change the same setting; alone, since other programs take huge pages.
#[test]
#[ignore = "needs root, alone"]
fn reserved_huge_pages_are_used_and_given_back() {
    const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
    let before: usize = fs::read_to_string(RESERVED).unwrap().trim().parse().unwrap();
    let _setting = Setting::set(RESERVED, &(before + 8).to_string());
    let free = || -> usize {
        let text = fs::read_to_string("/proc/meminfo").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("HugePages_Free:")).unwrap();
        line.trim().parse().unwrap()
    };
    let at_first = free();
    assert!(at_first >= 8, "the kernel could not reserve huge pages");
    let options = ArenaOptions { size: 5 << 20, ..ArenaOptions::default() };
    let arena = options.create().unwrap();
    assert_eq!((arena.pages(), arena.size()), (PageKind::Huge, 6 << 20));
    assert_eq!(page_size(&arena), 2048);
    drop(arena);
    assert_eq!(free(), at_first);

    // Too few of them: the next best pages, and all of the memory.
    let options = ArenaOptions { size: (at_first + 1) << 21, ..options };
    let arena = options.create().unwrap();
    assert_ne!(arena.pages(), PageKind::Huge);
    assert_eq!(arena.size(), (at_first + 1) << 21);
    assert_eq!(free(), at_first);
}
