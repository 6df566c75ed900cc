//! `MarkIP6Header`: says where the IPv6 header is.

use linerate_graph::{Arg, Class, Context, Element};
use linerate_memory::{Frame, Meta};

use super::{
    FAMILY,
    header::{LEAST, annotate, mark},
};

pub(super) const CLASS: Class = Class {
    name: "MarkIP6Header",
    family: FAMILY,
    summary: "says where the IPv6 header is, without looking",
    description: "For packets known to be sound; others see to it with `CheckIP6Header`. What \
        follows the first 40 bytes is taken for the transport header.",
    ports: "1/1",
    args: &[Arg::optional("OFFSET", "bytes", "0", "where the header is")],
    annotates: true,
    drops: &["no buffer"],
    cost: "Writes a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> MarkIP6Header(14) -> Discard;",
    make: |make| {
        let offset = make.or::<i32>("OFFSET", 0);
        // Offsets are 16 bits long and may be below zero.
        let fits = i16::try_from(offset.saturating_add(LEAST as i32)).is_ok();
        Box::new(MarkIp6Header(fits.then_some(offset as usize)))
    },
    ..Class::here()
};

struct MarkIp6Header(Option<usize>);

impl Element for MarkIp6Header {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        annotate(cx, frame, |_, meta| match self.0 {
            Some(offset) => mark(meta, offset),
            None => (meta.network, meta.transport) = (Meta::UNSET, Meta::UNSET),
        });
    }
}
