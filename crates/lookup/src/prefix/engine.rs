//! What a lookup structure of either family does.

use std::io;

use linerate_memory::Generation;

use super::{NextHop, Prefix, rib::Segment};

/// Bytes of the smallest page of memory.
pub(super) const PAGE: usize = 4096;

/// There is no room for what was to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

/// A structure that is read by many while one writer changes it.
pub trait Engine<A>: Send + Sync + Sized {
    /// What only the writer needs.
    type Writer: Send;

    /// Without routes. What grows with the routes takes at most about `memory`
    /// bytes, and takes them as it grows.
    fn new(memory: usize) -> io::Result<(Self, Self::Writer)>;

    /// The answers for some addresses; the slices are of equal length. Done
    /// inside [`Generation::read`].
    fn lookup(&self, addresses: &[A], hops: &mut [NextHop]);

    /// Makes `segments` the answers for the addresses of `prefix`, each from
    /// the old answer to the new one at once. Without room nothing is changed.
    /// What is reused for it is announced by `generation`.
    fn update(
        &self,
        writer: &mut Self::Writer,
        generation: &Generation,
        prefix: Prefix<A>,
        segments: &[Segment<A>],
    ) -> Result<(), NoRoom>;

    /// Goes back to no routes and gives the memory back. Who still looks must
    /// have been told to look again.
    fn clear(&self, writer: &mut Self::Writer);

    /// Has the pages there that any lookup may touch, so that no reader waits
    /// for the kernel.
    fn touch(&self);

    /// Bytes taken so far.
    fn bytes(&self, writer: &Self::Writer) -> usize;
}
