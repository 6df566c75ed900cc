//! `AggregateLength` and `AggregatePaint`: group packets by length and paint annotation, without
//! their headers.

use linerate_graph::{
    Arguments, Class, DropReason, ElementBuilder, NoBuffer, Step, Verdict, Writes,
};
use linerate_memory::PacketMut;

use super::FAMILY;
use linerate_element_support::{
    annotations::{aggregate, extra_length, set_aggregate},
    ip::NoHeader,
};

/// Drop reason of `AggregateLength`.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
}

pub(super) const LENGTH: Class = Class {
    name: "AggregateLength",
    family: FAMILY,
    summary: "makes the length of packets their aggregate",
    description: "With what was cut off (the extra length annotation). With `IP` it is counted from \
        the IP header on, which must then be known; packets without it are dropped.",
    ports: "1/1",
    annotates: true,
    cost: "A line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> AggregateLength -> AggregateCounter -> Discard;",
    ..AggregateLength::CLASS
};

pub(super) const PAINT: Class = Class {
    name: "AggregatePaint",
    summary: "makes the paint of packets their aggregate",
    description: "The lowest `BITS` of it.",
    args: AggregatePaint::ARGS,
    drops: NoBuffer::REASONS,
    example: "InfiniteSource(LIMIT 10, STOP true) -> Paint(3) -> AggregatePaint -> AggregateCounter \
        -> Discard;",
    make: AggregatePaint::CLASS.make,
    ..LENGTH
};

#[derive(Arguments)]
struct AggregateLength {
    /// whether to count from the IP header on
    #[arg(name = "IP", keyword, default = false)]
    from_header: bool,
}

impl Step<Writes, Reason> for AggregateLength {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let (length, headroom) = (packet.len() as u32, packet.headroom());
        let meta = packet.meta_mut();
        let offset =
            if self.from_header { meta.network.offset(headroom).ok_or(NoHeader)? } else { 0 };
        let length = length.wrapping_sub(offset as u32);
        set_aggregate(meta, length.wrapping_add(extra_length(meta)));
        Ok(())
    }
}

#[derive(Arguments)]
struct AggregatePaint {
    /// bits of the paint
    #[arg(optional, kind = "1 to 8", shown = "8", with = bits)]
    bits: u32,
    /// appends them to the aggregate there is
    #[arg(keyword, default = false)]
    incremental: bool,
}

fn bits(make: &mut ElementBuilder<'_>, name: &str) -> u32 {
    let bits: i32 = make.or(name, 8);
    if !(1..=8).contains(&bits) {
        make.error("bad number of bits");
    }
    bits.clamp(1, 8).cast_unsigned()
}

impl Step for AggregatePaint {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        let AggregatePaint { bits, incremental } = *self;
        let meta = packet.meta_mut();
        let paint = u32::from(meta.paint) & ((1 << bits) - 1);
        let before = if incremental { aggregate(meta) << bits } else { 0 };
        set_aggregate(meta, before.wrapping_add(paint));
        Ok(())
    }
}
