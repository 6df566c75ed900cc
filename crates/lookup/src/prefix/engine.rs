//! What a lookup structure of either family does.

use std::io;

use linerate_memory::Generation;

use super::{NextHop, Prefix, rib::Segment};

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

    /// Lookups are done inside [`Generation::read`] of this.
    fn generation(&self) -> &Generation;

    /// The answers for some addresses; the slices are of equal length.
    fn lookup(&self, addresses: &[A], hops: &mut [NextHop]);

    /// Makes `segments` the answers for the addresses of `prefix`, each from
    /// the old answer to the new one at once. Without room nothing is changed.
    fn update(
        &self,
        writer: &mut Self::Writer,
        prefix: Prefix<A>,
        segments: &[Segment<A>],
    ) -> Result<(), NoRoom>;

    /// Bytes taken so far.
    fn bytes(&self, writer: &Self::Writer) -> usize;
}
