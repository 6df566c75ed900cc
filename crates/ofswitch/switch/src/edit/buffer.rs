//! Packet buffers as seen by header changes.

use linerate_memory::PacketMut;

/// Bytes of a packet, to which headers can be added in front.
pub trait Bytes {
    /// Returns all bytes of the packet.
    fn bytes(&self) -> &[u8];

    /// Returns all bytes of the packet, for writing.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Adds bytes in front, with undefined content. `false`, changing nothing, where there is no
    /// room.
    #[must_use = "without room nothing was added"]
    fn prepend(&mut self, count: usize) -> bool;

    /// Takes bytes away in front. `false`, changing nothing, where it has less.
    #[must_use = "a packet with less bytes was not changed"]
    fn pull(&mut self, count: usize) -> bool;
}

impl Bytes for PacketMut<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        PacketMut::bytes(self)
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        PacketMut::bytes_mut(self)
    }

    #[inline]
    fn prepend(&mut self, count: usize) -> bool {
        PacketMut::prepend(self, count)
    }

    #[inline]
    fn pull(&mut self, count: usize) -> bool {
        PacketMut::pull(self, count)
    }
}

impl Bytes for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }

    fn prepend(&mut self, count: usize) -> bool {
        self.splice(..0, std::iter::repeat_n(0, count));
        true
    }

    fn pull(&mut self, count: usize) -> bool {
        let there = count <= self.len();
        if there {
            self.drain(..count);
        }
        there
    }
}
