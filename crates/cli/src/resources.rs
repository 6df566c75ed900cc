//! Resources of a command: packet memory, and cores for its workers.

use std::{fmt::Display, panic, thread};

use anyhow::Result;
use linerate_linux::machine::{parse_cores, pin_current_thread};
use linerate_memory::{Arena, ArenaOptions, MemoryError, Meta, PageKind, stride_for};

use crate::{exit::UsageError, options::Memory};

/// Packet memory when nothing is said about it.
const ARENA: usize = 16 << 20;
/// Packets in queues it has room for as it is.
const QUEUES_FREE: usize = 2000;
/// Most packet memory that is taken unasked because queues may need it.
const ARENA_UNASKED: usize = 1 << 30;

/// Makes the packet memory: of the size asked for, else of a default.
pub(crate) fn arena(args: &Memory) -> Result<Arena> {
    arena_for(args, 0)
}

/// As [`arena`], with room for queues that hold so many packets, unless a size
/// was asked for or the machine has not that much.
pub(crate) fn arena_for(args: &Memory, packets: usize) -> Result<Arena> {
    let default = ArenaOptions::default();
    let options = |size| ArenaOptions {
        size,
        buffer_size: args.buffer_size.unwrap_or(default.buffer_size),
        huge: !args.no_huge,
        node: args.numa_node,
        ..default
    };
    Ok(match args.arena {
        Some(size) => options(size).create()?,
        None => create_with_queues(options, ARENA, packets)?,
    })
}

/// Makes packet memory of `least` bytes and those for `packets` in queues, up to a bound; where
/// there is not that much, of `least` bytes. Queues it does not suffice for stay short of full.
pub(crate) fn create_with_queues(
    options: impl Fn(usize) -> ArenaOptions,
    least: usize,
    packets: usize,
) -> Result<Arena, MemoryError> {
    let more = with_queues(least, options(least).buffer_size, packets);
    match options(more).create() {
        Err(MemoryError::TooLarge { .. }) if more > least => options(least).create(),
        other => other,
    }
}

/// Size of packet memory.
#[cfg(feature = "commands")]
pub(crate) struct Needs {
    pub(crate) bytes: usize,
    pub(crate) buffers: u64,
    pub(crate) buffer_size: usize,
}

/// Size that [`arena_for`] would make, where the machine has that much.
#[cfg(feature = "commands")]
pub(crate) fn precompute(args: &Memory, packets: usize) -> Needs {
    let buffer_size = args.buffer_size.unwrap_or(ArenaOptions::default().buffer_size);
    let bytes = args.arena.unwrap_or_else(|| with_queues(ARENA, buffer_size, packets));
    let buffers = bytes / bytes_of(buffer_size);
    Needs { bytes, buffers: buffers as u64, buffer_size: stride_for(buffer_size) }
}

/// Packet memory for so many packets, up to the most that is taken unasked.
#[cfg(feature = "commands")]
pub(crate) fn bytes_for(args: &Memory, packets: usize) -> usize {
    let buffer_size = args.buffer_size.unwrap_or(ArenaOptions::default().buffer_size);
    packets.saturating_mul(bytes_of(buffer_size)).min(ARENA_UNASKED)
}

/// Bytes of a buffer, with its annotations and its place in a queue.
fn bytes_of(buffer_size: usize) -> usize {
    stride_for(buffer_size) + size_of::<Meta>() + size_of::<u32>()
}

fn with_queues(least: usize, buffer_size: usize, packets: usize) -> usize {
    let more = least.saturating_add(packets.saturating_mul(bytes_of(buffer_size)));
    // Queues of a default size need nothing besides.
    if packets <= QUEUES_FREE { least } else { more.min(ARENA_UNASKED.max(least)) }
}

/// Kind and size of the memory, with advice when it is not the best.
pub(crate) fn describe_arena(arena: &Arena, args: &Memory) -> String {
    let advice = match arena.pages() {
        PageKind::Huge => "",
        _ if args.no_huge => "",
        _ => " (reserve 2 MiB pages with `sysctl vm.nr_hugepages=N` for fewer TLB misses)",
    };
    format!(
        "packet memory: {} MiB in {}, {} buffers of {} bytes{advice}",
        arena.size() >> 20,
        arena.pages(),
        arena.count(),
        arena.buffer_size()
    )
}

/// The cores of a list, each of which this process may use.
pub(crate) fn usable_cores(text: &str) -> Result<Vec<u32>, UsageError> {
    let wrong = |error: &dyn Display| UsageError(format!("--cores {text}: {error}"));
    let cores = parse_cores(text).map_err(|error| wrong(&error))?;
    // The cores that a thread may be put on are not those it may run on now: it is tried, on one
    // that ends.
    let tried = thread::scope(|scope| {
        scope.spawn(|| cores.iter().try_for_each(|core| pin_current_thread(*core))).join()
    });
    let tried = tried.unwrap_or_else(|cause| panic::resume_unwind(cause));
    tried.map_err(|error| wrong(&error))?;
    Ok(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_get_memory_within_bounds() {
        let size = |packets| with_queues(16 << 20, 2112, packets);
        assert_eq!(size(1000), 16 << 20);
        let large = ArenaOptions { size: size(50_000), huge: false, ..ArenaOptions::default() };
        assert!(large.create().unwrap().count() > 50_000);
        assert_eq!(size(usize::MAX), 1 << 30);
        assert_eq!(with_queues(2 << 30, 2112, 5000), 2 << 30);
    }
}
