//! A ring between two processes that need not trust each other.
//!
//! Each side keeps its own position in memory of its own and only publishes it to the other. A
//! position published by the other is believed as far as it is possible: it lies between the last
//! one and this side's. All else is [`Broken`], for good. So a malicious peer can make itself a
//! broken ring and wrong words, which the receiver checks, and nothing else.

use crate::{
    prefetch::prefetch_for_writing,
    sync::{AtomicU64, Ordering, fence},
};

/// Words, eight bytes each, from which the parts of a ring are counted: positions and the flag of
/// the sleeper are on lines of their own.
const TAIL: usize = 0;
const HEAD: usize = 8;
const SLEEPS: usize = 16;
const CELLS: usize = 24;
/// Words of a cache line.
const LINE: usize = 8;
/// Words whose lines are prefetched: more lines are more than a processor fetches at once.
const PREFETCHED: usize = 128;
/// Most cells of a ring.
pub const CELLS_MAX: u32 = 1 << 16;

/// Memory of a ring: words that another process may write at any time.
pub trait RingMemory {
    /// `count` words from `at` on.
    fn words(&self, at: usize, count: usize) -> &[AtomicU64];

    /// The word at `at`.
    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words(at, 1)[0]
    }
}

/// The cells of a ring, from a position on: where they are is looked up once for many words.
#[derive(Debug)]
pub struct Cells<'a> {
    cells: &'a [AtomicU64],
    at: u64,
}

impl<'a> Cells<'a> {
    #[inline]
    fn new(place: &'a impl RingMemory, base: usize, cells: u64, at: u64) -> Cells<'a> {
        let cells = place.words(base + CELLS, cells as usize);
        assert!(cells.len().is_power_of_two(), "ring of {} cells", cells.len());
        Cells { cells, at }
    }

    #[inline(always)]
    fn next(&mut self) -> &'a AtomicU64 {
        let cell = &self.cells[self.at as usize & (self.cells.len() - 1)];
        self.at += 1;
        cell
    }

    /// Writes the next word, for which there is room.
    #[inline(always)]
    pub fn put(&mut self, word: u64) {
        self.next().store(word, Ordering::Relaxed);
    }

    /// Reads the next word, which is there. It may be read again.
    #[inline(always)]
    pub fn take(&mut self) -> u64 {
        self.next().load(Ordering::Relaxed)
    }
}

/// Words that a ring of so many cells takes: whole cache lines.
#[cfg(not(any(loom, miri)))]
pub(crate) const fn words_of(cells: u32) -> usize {
    (CELLS + cells as usize).next_multiple_of(8)
}

/// The other side's position makes no sense: nothing behind it can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the other side of a shared ring tells a position that is not possible")]
pub struct Broken;

/// The writing end.
#[derive(Debug)]
pub struct Sender<P> {
    place: P,
    base: usize,
    cells: u64,
    /// Our position, and how much of it the other has been told.
    tail: u64,
    published: u64,
    /// The other's position, as it last told.
    head: u64,
}

/// The reading end.
#[derive(Debug)]
pub struct Receiver<P> {
    place: P,
    base: usize,
    cells: u64,
    head: u64,
    tail: u64,
}

impl<P: RingMemory> Sender<P> {
    /// The end of a fresh ring of `cells`, a power of two, whose words begin at `base`.
    pub fn new(place: P, base: usize, cells: u32) -> Sender<P> {
        assert!(cells.is_power_of_two() && cells <= CELLS_MAX, "ring of {cells} cells");
        Sender { place, base, cells: cells.into(), tail: 0, published: 0, head: 0 }
    }

    /// Words that can be added now, if that is less than `wanted` asking the other side.
    #[inline]
    pub fn room(&mut self, wanted: usize) -> Result<usize, Broken> {
        let room = self.cells - (self.tail - self.head);
        if room >= wanted as u64 {
            return Ok(room as usize);
        }
        // Acquire: the receiver has read the cells that are written again.
        let head = self.place.word(self.base + HEAD).load(Ordering::Acquire);
        if head < self.head || head > self.published {
            return Err(Broken);
        }
        self.head = head;
        Ok((self.cells - (self.tail - head)) as usize)
    }

    /// Writes a word, for which there is room; the other side does not know of it yet.
    #[inline]
    pub fn put(&mut self, word: u64) {
        debug_assert!(self.tail - self.head < self.cells);
        let cell = CELLS + (self.tail & (self.cells - 1)) as usize;
        self.place.word(self.base + cell).store(word, Ordering::Relaxed);
        self.tail += 1;
    }

    /// The cells of the words to come: words written there are put by [`Sender::advance`].
    #[inline]
    pub fn cells(&self) -> Cells<'_> {
        Cells::new(&self.place, self.base, self.cells, self.tail)
    }

    /// Prefetches the cells of so many words, and the position, for writing.
    #[inline]
    pub fn prefetch(&self, count: usize) {
        let (cells, mask) =
            (self.place.words(self.base + CELLS, self.cells as usize), self.cells - 1);
        for at in (0..count.min(PREFETCHED)).step_by(LINE) {
            prefetch_for_writing(&cells[((self.tail + at as u64) & mask) as usize]);
        }
        prefetch_for_writing(self.place.word(self.base + TAIL));
    }

    /// Counts words in that were written to [`Sender::cells`], and for which there was room.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        debug_assert!(self.tail - self.head + count as u64 <= self.cells);
        self.tail += count as u64;
    }

    /// Words that the other side had not taken when it was last [asked](Sender::room).
    #[inline]
    pub fn waiting(&self) -> usize {
        (self.tail - self.head) as usize
    }

    /// Words that were put and that the other side does not know of.
    #[inline]
    pub fn unpublished(&self) -> usize {
        (self.tail - self.published) as usize
    }

    /// Publishes the words put so far. Returns `true` when the other side sleeps and has to be
    /// woken: once for each time it went to sleep.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.published == self.tail {
            return false;
        }
        self.published = self.tail;
        // Release: the words, and the buffers they name, are there.
        self.place.word(self.base + TAIL).store(self.tail, Ordering::Release);
        // Between our position and the look at the flag, as in `Receiver::arm` the other way round.
        // Both fences are of this kind: membarrier(2) reaches threads of one process.
        fence(Ordering::SeqCst);
        let sleeps = self.place.word(self.base + SLEEPS);
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
    }
}

impl<P: RingMemory> Receiver<P> {
    /// As [`Sender::new`].
    pub fn new(place: P, base: usize, cells: u32) -> Receiver<P> {
        assert!(cells.is_power_of_two() && cells <= CELLS_MAX, "ring of {cells} cells");
        Receiver { place, base, cells: cells.into(), head: 0, tail: 0 }
    }

    /// Memory of the ring.
    #[cfg(not(any(loom, miri)))]
    pub(super) fn place(&self) -> &P {
        &self.place
    }

    /// Words that can be taken.
    #[inline]
    pub fn ready(&mut self) -> Result<usize, Broken> {
        // Acquire: the words and the buffers they name were written before.
        let tail = self.place.word(self.base + TAIL).load(Ordering::Acquire);
        if tail < self.tail || tail - self.head > self.cells {
            return Err(Broken);
        }
        self.tail = tail;
        Ok((tail - self.head) as usize)
    }

    /// Takes a word that [`Receiver::ready`] counted.
    #[inline]
    pub fn take(&mut self) -> Option<u64> {
        if self.head == self.tail {
            return None;
        }
        let cell = CELLS + (self.head & (self.cells - 1)) as usize;
        let word = self.place.word(self.base + cell).load(Ordering::Relaxed);
        self.head += 1;
        Some(word)
    }

    /// The cells of the words to come, of which there are as many as [`Receiver::left`] says: they are
    /// taken by [`Receiver::advance`].
    #[inline]
    pub fn cells(&self) -> Cells<'_> {
        Cells::new(&self.place, self.base, self.cells, self.head)
    }

    /// Words that [`Receiver::ready`] counted and that were not taken.
    #[inline]
    pub fn left(&self) -> usize {
        (self.tail - self.head) as usize
    }

    /// Takes words that were read from [`Receiver::cells`].
    #[inline]
    pub fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.left());
        self.head += count as u64;
    }

    /// Returns the cells of the words taken to the other side.
    #[inline]
    pub fn release(&self) {
        self.place.word(self.base + HEAD).store(self.head, Ordering::Release);
    }

    /// Says that this side is going to sleep. It looks at the ring once more after this, and sleeps
    /// only if there is still nothing.
    pub fn arm(&self) {
        self.place.word(self.base + SLEEPS).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// This side is awake.
    pub fn disarm(&self) {
        self.place.word(self.base + SLEEPS).store(0, Ordering::Relaxed);
    }
}
