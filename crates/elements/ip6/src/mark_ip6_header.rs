//! `MarkIP6Header`: marks the place of the IPv6 header.

use linerate_graph::{Arguments, Class, ElementBuilder, Step, Verdict};
use linerate_memory::{HeaderStart, PacketMut};

use super::{FAMILY, header::LEAST};

pub(super) const CLASS: Class = Class {
    name: "MarkIP6Header",
    family: FAMILY,
    summary: "says where the IPv6 header is, without looking",
    description: "For packets known to be sound; others see to it with `CheckIP6Header`. What \
        follows the first 40 bytes is taken for the transport header.",
    ports: "1/1",
    annotates: true,
    cost: "Writes a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> MarkIP6Header(14) -> Discard;",
    ..MarkIp6Header::CLASS
};

#[derive(Arguments)]
struct MarkIp6Header {
    /// where the header is
    #[arg(optional, kind = "bytes", shown = "0", with = offset)]
    offset: Option<isize>,
}

fn offset(make: &mut ElementBuilder<'_>, name: &str) -> Option<isize> {
    let offset = make.or::<i32>(name, 0);
    // Offsets are 16 bits long and may be below zero.
    let fits = i16::try_from(offset.saturating_add(LEAST as i32)).is_ok();
    fits.then_some(offset as isize)
}

impl Step for MarkIp6Header {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        let headroom = packet.headroom();
        let start = |offset| HeaderStart::signed(headroom, offset);
        let meta = packet.meta_mut();
        match self.offset {
            Some(offset) => {
                meta.network = start(offset);
                meta.transport = start(offset + LEAST.cast_signed());
            }
            None => meta.forget_headers(),
        }
        Ok(())
    }
}
