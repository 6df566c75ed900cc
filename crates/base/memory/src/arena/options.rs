//! Options of an arena, and the layout of its memory.

use std::sync::{Arc, Mutex, atomic::AtomicU32};

#[cfg(debug_assertions)]
use super::track::Tracker;
use super::{
    Arena, Inner, map::Mapping, numbers::Numbers, population::Population, template::Template,
};
use crate::{error::MemoryError, meta::Meta, ring::Mpmc, sync};

/// Options of an arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArenaOptions {
    /// Bytes of memory in all, at least 64 KiB and room for one buffer;
    /// rounded up to whole pages.
    pub size: usize,
    /// Bytes a buffer is to hold, headroom included, 64 to 65,472. Rounded up
    /// to a stride that spreads buffers over the cache's sets, see
    /// [`stride_for`].
    pub buffer_size: usize,
    /// Bytes kept free in front of a packet, less than `buffer_size`.
    pub headroom: usize,
    /// Whether to try for 2 MiB pages.
    pub huge: bool,
    /// NUMA node to take the memory from; the kernel's choice when `None`.
    pub node: Option<u32>,
    /// Whether buffers are populated a piece at a time, whenever none is free, and not all at the
    /// start. For programs that should start and end at once: the caller that takes the first
    /// buffer of a piece waits for the kernel, about half a millisecond. Pages are of 4 KiB then,
    /// and `huge` is ignored.
    pub gradual: bool,
}

impl Default for ArenaOptions {
    fn default() -> ArenaOptions {
        ArenaOptions {
            size: 16 << 20,
            buffer_size: 2112,
            headroom: 128,
            huge: true,
            node: None,
            gradual: false,
        }
    }
}

/// Cache line size the layout is made for.
const LINE: usize = 64;
/// Smallest arena: a few buffers are always there.
const SIZE_MIN: usize = 64 << 10;
/// Largest buffer: offsets and lengths are 16 bits.
pub const BUFFER_MAX: usize = 65_472;
/// Most buffers: their numbers are 30 bits, and several arenas share those.
pub(super) const COUNT_MAX: usize = 1 << 28;
/// Alignment of the first buffer, in bytes.
const PAGE: usize = 4096;

/// Distance between buffers that hold `buffer_size` bytes: an odd number of
/// cache lines, so that the first lines of the packets, which every element
/// touches, fall into all sets of the cache and not just a few of them.
pub const fn stride_for(buffer_size: usize) -> usize {
    (buffer_size.div_ceil(LINE) | 1).saturating_mul(LINE)
}

/// Offsets of an arena's parts: metadata from offset 0, share counts, buffers from a page on.
struct Layout {
    count: usize,
    shares: usize,
    buffers: usize,
}

impl Layout {
    fn new(count: usize) -> Layout {
        let shares = count * size_of::<Meta>();
        let buffers = (shares + count * size_of::<AtomicU32>()).next_multiple_of(PAGE);
        Layout { count, shares, buffers }
    }

    /// The one with most buffers that fits in `len` bytes; it may have none.
    fn fit(len: usize, stride: usize) -> Layout {
        // An upper estimate of the count first, then the count that really fits: the start of the
        // buffers is rounded up by less than a page.
        let per_buffer = stride + size_of::<Meta>() + size_of::<AtomicU32>();
        let mut layout = Layout::new((len / per_buffer).min(COUNT_MAX));
        while layout.buffers + layout.count * stride > len && layout.count > 0 {
            layout = Layout::new(layout.count - 1);
        }
        layout
    }
}

impl ArenaOptions {
    /// Makes the arena. All its pages are populated here, unless they are to come
    /// gradually, so that no later access faults.
    ///
    /// # Errors
    ///
    /// When an option is out of range or the machine has not the memory.
    pub fn create(&self) -> Result<Arena, MemoryError> {
        let bad = |option, value: usize, reason: String| {
            Err(MemoryError::Option { option, value: value as u64, reason })
        };
        if !(LINE..=BUFFER_MAX).contains(&self.buffer_size) {
            return bad("buffer_size", self.buffer_size, format!("choose {LINE} to {BUFFER_MAX}"));
        }
        if self.headroom >= self.buffer_size {
            let reason = format!("must leave room in a buffer of {} bytes", self.buffer_size);
            return bad("headroom", self.headroom, reason);
        }
        let stride = stride_for(self.buffer_size);
        let least = (Layout::new(1).buffers + stride).next_multiple_of(PAGE).max(SIZE_MIN);
        if self.size < least {
            return bad("size", self.size, format!("choose at least {} KiB", least >> 10));
        }
        let mapping = if self.gradual {
            Mapping::unpopulated(self.size, self.node)?
        } else {
            Mapping::new(self.size, self.huge, self.node)?
        };

        let Layout { count, shares, buffers } = Layout::fit(mapping.len(), stride);
        let numbers = Numbers::reserve(count as u32)?;
        let at = |offset: usize| {
            // SAFETY: all three offsets lie inside the mapping.
            unsafe { mapping.start().add(offset) }
        };
        let (tag, mask) = (numbers.tag(), numbers.mask());
        let inner = Inner {
            meta: at(0).cast(),
            shares: at(shares).cast(),
            buffers: at(buffers),
            tag,
            mask,
            stride: stride as u32,
            headroom: self.headroom as u16,
            count: count as u32,
            free: sync::Arc::new(Mpmc::new(count)),
            population: Population::default(),
            caches: Mutex::default(),
            numbers,
            template: Template::default(),
            _own_shares: None,
            #[cfg(debug_assertions)]
            tracker: Tracker::new(count),
            mapping,
            writers: Mutex::default(),
        };
        inner.begin(self.gradual)?;
        Ok(Arena { inner: Arc::new(inner) })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn strides_are_odd_numbers_of_lines_without_overflow() {
        assert_eq!([1, 64, 65, 2048, 2112].map(stride_for), [64, 64, 192, 2112, 2112]);
        assert_eq!(stride_for(BUFFER_MAX), BUFFER_MAX);
        assert_eq!(stride_for(usize::MAX), usize::MAX);
    }

    #[test]
    fn a_layout_uses_the_memory_and_stays_in_it() {
        for len in [0, 4096, 65_536, 65_536 + 4096, 4 << 20, (1 << 30) + 4096] {
            for stride in [64, 192, 2112, BUFFER_MAX] {
                let Layout { count, shares, buffers } = Layout::fit(len, stride);
                assert!(count == 0 || buffers + count * stride <= len, "{len} {stride}");
                assert!(shares + 4 * count <= buffers && buffers % PAGE == 0);
                let next = Layout::new(count + 1);
                assert!(next.buffers + next.count * stride > len, "{len} {stride}");
            }
        }
    }
}
