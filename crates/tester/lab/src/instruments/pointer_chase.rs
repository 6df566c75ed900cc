//! A pointer chase: a list in memory of which every step waits for the one before.
//!
//! Its elements are cache lines in random order, a single circle made with
//! Sattolo's shuffle (Information Processing Letters 22, 1986), so that every
//! line is visited before any is visited again and no prefetcher guesses the
//! next. Several walkers on it make accesses that do not wait for each other.

use std::fs;

use linerate_linux::machine::Memory;
use linerate_memory::{Backing, MemoryError, Reserved};

use crate::point::Pages;

/// Bytes of an element.
const LINE: u64 = 64;
/// Largest list: lines have 32-bit numbers.
const LIMIT: u64 = LINE << 32;

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct CacheLine {
    next: u32,
}

const _: () = assert!(size_of::<CacheLine>() as u64 == LINE);

/// A list that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PointerChaseError {
    /// Too small or too large.
    #[error("a list of {0} bytes: choose {LINE} to {LIMIT}")]
    Size(u64),
    /// The machine is short of memory.
    #[error(
        "a list of {} MiB: at most half of the {} MiB of memory available is taken",
        bytes >> 20,
        available >> 20
    )]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// Bytes available.
        available: u64,
    },
    /// No memory, or none of that kind.
    #[error("no list of {bytes} bytes in {pages:?} pages: {source}")]
    Memory {
        /// Its size.
        bytes: u64,
        /// Its pages.
        pages: Pages,
        /// The reason.
        source: MemoryError,
    },
}

/// The list, and its walkers.
#[derive(Debug)]
pub struct PointerChase {
    lines: Reserved<CacheLine>,
    /// Index of the line that each walker has reached.
    walkers: Vec<u32>,
}

impl PointerChase {
    /// A list of `bytes`, rounded down to lines, with `walkers` at even
    /// distances on it. The same seed makes the same list. Making it takes about
    /// 5 ns per line in caches, and 100 ns in memory.
    ///
    /// # Errors
    ///
    /// When it is too large, or such memory cannot be had.
    pub fn new(
        bytes: u64,
        pages: Pages,
        walkers: u32,
        seed: u64,
    ) -> Result<PointerChase, PointerChaseError> {
        if !(LINE..LIMIT).contains(&bytes) {
            return Err(PointerChaseError::Size(bytes));
        }
        // On demand it would come, and then not be there.
        let available = Memory::inspect().available;
        if let Some(available) = available.filter(|available| bytes > available / 2) {
            return Err(PointerChaseError::TooLarge { bytes, available });
        }
        let backing = match pages {
            Pages::Small => Backing::OnDemand,
            Pages::Transparent => Backing::Ready,
            Pages::Huge => Backing::Huge,
        };
        let count = (bytes / LINE) as usize;
        // At least the 2 MiB that such pages have.
        let capacity = if pages == Pages::Small { count } else { count.max(2 << 20 >> 6) };
        let mut lines = Reserved::new(capacity, backing)
            .map_err(|source| PointerChaseError::Memory { bytes, pages, source })?;
        for next in 0..count as u32 {
            // It was made for as many.
            let _ = lines.push(CacheLine { next });
        }
        let mut random = fastrand::Rng::with_seed(seed);
        for at in (1..count).rev() {
            lines.swap(at, random.usize(..at));
        }
        let walkers = spread(&lines, walkers.max(1));
        Ok(PointerChase { lines, walkers })
    }

    /// All walkers take `steps` steps; returns where the first then is, so that
    /// no compiler leaves the walk out.
    #[inline(never)]
    pub fn walk(&mut self, steps: u64) -> u32 {
        match self.walkers.as_mut_slice() {
            [only] => walk(&self.lines, [only], steps),
            [a, b] => walk(&self.lines, [a, b], steps),
            [a, b, c, d] => walk(&self.lines, [a, b, c, d], steps),
            [a, b, c, d, e, f, g, h] => walk(&self.lines, [a, b, c, d, e, f, g, h], steps),
            several => {
                for _ in 0..steps {
                    for at in &mut *several {
                        *at = self.lines[*at as usize].next;
                    }
                }
                several[0]
            }
        }
    }

    /// Bytes of it that lie in pages larger than 4 KiB, as the kernel says;
    /// `None` when it does not.
    pub fn in_large_pages(&self) -> Option<u64> {
        let address = (&raw const self.lines[0]).addr();
        large_pages(&fs::read_to_string("/proc/self/smaps").ok()?, address)
    }
}

/// A number of walkers known when compiled: their places stay in registers.
#[inline(always)]
fn walk<const N: usize>(lines: &[CacheLine], walkers: [&mut u32; N], steps: u64) -> u32 {
    let mut at = walkers.each_ref().map(|place| **place);
    for _ in 0..steps {
        for place in &mut at {
            *place = lines[*place as usize].next;
        }
    }
    let first = at[0];
    for (place, at) in walkers.into_iter().zip(at) {
        *place = at;
    }
    first
}

/// Places at even distances along the circle, so that no walker follows another
/// into lines that are still in a cache.
fn spread(lines: &[CacheLine], walkers: u32) -> Vec<u32> {
    let distance = (lines.len() as u32 / walkers).max(1);
    let mut places = vec![0];
    let mut at = 0;
    while places.len() < walkers as usize {
        for _ in 0..distance {
            at = lines[at as usize].next;
        }
        places.push(at);
    }
    places
}

/// Bytes in huge pages of any kind of the mapping an address is in.
fn large_pages(smaps: &str, address: usize) -> Option<u64> {
    let mut inside = false;
    let mut total = None;
    for line in smaps.lines() {
        let first = line.split_whitespace().next()?;
        if let Some((from, to)) = first.split_once('-') {
            let number = |text| usize::from_str_radix(text, 16).ok();
            inside = number(from).is_some_and(|from| from <= address)
                && number(to).is_some_and(|to| address < to);
            continue;
        }
        let counted = ["AnonHugePages:", "Private_Hugetlb:", "Shared_Hugetlb:"].contains(&first);
        if inside && counted {
            let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
            total = Some(total.unwrap_or(0) + (kib << 10));
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_visits_every_line_once() {
        for pages in [Pages::Small, Pages::Transparent] {
            for lines in [1, 2, 3, 100, 4096] {
                let mut circle = PointerChase::new(lines * LINE, pages, 1, 7).unwrap();
                let mut seen = vec![false; lines as usize];
                for _ in 0..lines {
                    let at = circle.walk(1);
                    assert!(!std::mem::replace(&mut seen[at as usize], true), "{at} of {lines}");
                }
                assert_eq!(circle.walk(lines), circle.walk(0));
            }
        }
    }

    #[test]
    fn walkers_take_turns_whatever_their_number() {
        for walkers in 1..=9 {
            let mut circle = PointerChase::new(64 * LINE, Pages::Small, walkers, 1).unwrap();
            let before = circle.walkers.clone();
            assert_eq!(before.len(), walkers as usize);
            circle.walk(3);
            let after: Vec<u32> = before
                .iter()
                .map(|place| (0..3).fold(*place, |at, _| circle.lines[at as usize].next))
                .collect();
            assert_eq!(circle.walkers, after, "{walkers}");
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        for bytes in [0, 63, LIMIT] {
            assert!(matches!(
                PointerChase::new(bytes, Pages::Small, 1, 1),
                Err(PointerChaseError::Size(_))
            ));
        }
    }

    #[test]
    fn sets_larger_than_memory_are_refused_beforehand() {
        if Memory::inspect().available.is_some_and(|available| available < LIMIT / 2) {
            let error = PointerChase::new(LIMIT - LINE, Pages::Small, 1, 1).unwrap_err();
            assert!(matches!(error, PointerChaseError::TooLarge { .. }), "{error}");
        }
    }

    #[test]
    fn the_kernel_reports_the_page_size() {
        let smaps = "1000-3000 rw-p 0 00:00 0\nRss: 8 kB\nAnonHugePages: 0 kB\n\
            3000-9000 rw-p 0 00:00 0\nAnonHugePages: 4 kB\nPrivate_Hugetlb: 2 kB\n";
        assert_eq!(large_pages(smaps, 0x3000), Some(6 << 10));
        assert_eq!(large_pages(smaps, 0x1000), Some(0));
        assert_eq!(large_pages(smaps, 0x9000), None);
        let circle = PointerChase::new(1 << 20, Pages::Small, 1, 1).unwrap();
        assert_eq!(circle.in_large_pages(), Some(0));
    }
}
