//! The colour of the elements that paint and look for paint.

use linerate_graph::{Arg, Handler, HandlerError, Make};
use linerate_memory::Meta;

use linerate_kit::{annotation_byte::Byte, written::byte};

/// A colour and the annotation it is in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Color {
    value: u8,
    anno: Byte,
}

impl Color {
    pub(super) const ARGS: &[Arg] = &[
        Arg::required("COLOR", "0 to 255", "the colour"),
        Arg::optional("ANNO", "annotation", "PAINT", "the one-byte annotation to use"),
    ];
    pub(super) const HANDLERS: &[Handler] = &[Handler::value("color", "the colour")];

    pub(super) fn from_args(make: &mut Make<'_>) -> Color {
        Color { value: make.need("COLOR"), anno: Byte::from_args(make) }
    }

    /// From the arguments of `SetAnnoByte`.
    pub(super) fn of_any_byte(make: &mut Make<'_>) -> Color {
        Color { value: make.need("VALUE"), anno: Byte::from_args(make) }
    }

    /// Whether a packet has it.
    #[inline]
    pub(super) fn is(self, meta: &Meta) -> bool {
        self.anno.get(meta) == self.value
    }

    /// Gives it to a packet.
    #[inline]
    pub(super) fn put(self, meta: &mut Meta) {
        self.anno.set(meta, self.value);
    }

    pub(super) fn read(self, handler: &str) -> Result<String, HandlerError> {
        match handler {
            "color" | "value" => Ok(self.value.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    pub(super) fn write(&mut self, handler: &str, value: &str) -> Result<String, HandlerError> {
        match handler {
            "color" | "value" => self.value = byte(value)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}
