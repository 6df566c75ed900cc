//! Interface of a structure for longest-prefix matches, of either family.

use std::io;

use linerate_memory::Generation;

use super::{NextHop, Prefix, rib::Segment};

/// Bytes of the smallest page of memory.
pub(super) const PAGE: usize = 4096;

/// There is no room for the addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

/// A structure for longest-prefix matches (a FIB), read by many while one writer
/// changes it.
pub trait Lpm<A>: Send + Sync + Sized {
    /// State that only the writer needs.
    type Writer: Send;

    /// Without routes. Parts that grow with the routes take at most about `memory` bytes, and take
    /// them as they grow.
    fn new(memory: usize) -> io::Result<(Self, Self::Writer)>;

    /// The answers for some addresses; the slices are of equal length. Done
    /// inside [`Generation::read`].
    fn lookup(&self, addresses: &[A], hops: &mut [NextHop]);

    /// Makes `segments` the answers for the addresses of `prefix`; each address
    /// goes from the old answer to the new one in one store. Without room nothing
    /// is changed. Advances `generation` before it reuses what it has retired.
    fn update(
        &self,
        writer: &mut Self::Writer,
        generation: &Generation,
        prefix: Prefix<A>,
        segments: &[Segment<A>],
    ) -> Result<(), NoRoom>;

    /// Goes back to no routes and gives the memory back. Readers that are still
    /// inside must have been made to retry: `generation` has flipped.
    fn clear(&self, writer: &mut Self::Writer);

    /// Faults in the pages that any lookup may touch, so that no reader does.
    fn prefault(&self);

    /// Bytes taken so far.
    fn bytes(&self, writer: &Self::Writer) -> usize;
}
