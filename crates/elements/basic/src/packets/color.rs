//! The colour of the elements that paint and look for paint.

use linerate_graph::Arguments;
use linerate_memory::Meta;

use linerate_kit::annotation_byte::Byte;

/// A colour and where packets have it.
#[derive(Debug, Clone, Copy, Arguments)]
pub(super) struct Color {
    /// the colour
    #[arg(kind = "0 to 255")]
    #[handler(value)]
    color: u8,
    /// the one-byte annotation to use
    #[arg(optional, default = "PAINT")]
    anno: Byte,
}

impl Color {
    /// Whether a packet has it.
    #[inline]
    pub(super) fn is(self, meta: &Meta) -> bool {
        self.anno.get(meta) == self.color
    }

    /// Gives it to a packet.
    #[inline]
    pub(super) fn put(self, meta: &mut Meta) {
        self.anno.set(meta, self.color);
    }
}
