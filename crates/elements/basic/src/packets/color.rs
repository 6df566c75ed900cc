//! Colour of the elements that paint and look for paint.

use linerate_graph::Arguments;
use linerate_memory::{Meta, PreservedFields};

use linerate_element_support::annotation_byte::Byte;

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
    /// Returns true if a packet has it.
    #[inline]
    pub(super) fn is(self, meta: &Meta) -> bool {
        self.anno.get(meta) == self.color
    }

    /// Fields that giving it to packets preserves: all but destinations, if it is in one.
    pub(super) fn preserves(self) -> PreservedFields {
        PreservedFields { headers: true, destination: self.is_paint() }
    }

    /// The colour alone.
    pub(super) fn color(self) -> u8 {
        self.color
    }

    /// Returns true if it is where paint usually is.
    #[inline]
    pub(super) fn is_paint(self) -> bool {
        self.anno == Byte::PAINT
    }

    /// Gives it to a packet.
    #[inline]
    pub(super) fn put(self, meta: &mut Meta) {
        self.anno.set(meta, self.color);
    }
}
