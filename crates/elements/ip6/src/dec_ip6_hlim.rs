//! `DecIP6HLIM`: decrements the hop limit.

use linerate_graph::{
    Arguments, Class, Context, DropReason, Exit, NoBuffer, Step, Verdict, Writes,
};
use linerate_memory::{
    Column, Frame, HeaderBatch, HeaderKernel, HeaderLane, HeaderLocation, LANES, PacketMut,
};

use super::{
    FAMILY,
    header::{HOPS, LEAST, NoHeader, known},
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// hop limit reached
    Expired,
}

pub(super) const CLASS: Class = Class {
    name: "DecIP6HLIM",
    family: FAMILY,
    summary: "takes one from the hop limit",
    description: "Packets that may go no further, those with 1 or 0, leave unchanged by output 1, \
        or are dropped where there is none. The IPv6 header must be known (`CheckIP6Header`).",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    cost: "One pass over the packets' headers.",
    example: "InfiniteSource(DATA \\<60000000 0000 3b40 20010db8000000000000000000000001 \
        20010db8000000000000000000000002>, LIMIT 10, STOP true) -> CheckIP6Header -> DecIP6HLIM \
        -> Discard;",
    ..DecIp6Hlim::CLASS
};

#[derive(Arguments)]
struct DecIp6Hlim {
    /// packets that could go no further
    #[handler(count)]
    drops: u64,
}

/// Words of the header up to the one that ends with the hop limit.
const WORDS: usize = HOPS / 4 + 1;
/// One hop in the word of the hop limit.
const HOP: u32 = 1 << 24;

impl Step<Writes, Reason> for DecIp6Hlim {
    #[inline]
    fn pass(&mut self, cx: &mut Context, frame: &mut Frame) {
        cx.process_headers(frame, self);
    }

    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let hops = &mut known(packet)?[HOPS];
        if *hops <= 1 {
            self.drops += 1;
            return Err(Exit::ErrorOutput(Reason::Expired));
        }
        *hops -= 1;
        Ok(())
    }
}

impl HeaderKernel<WORDS> for DecIp6Hlim {
    type Exit = Exit<Reason>;
    type LookResult = ();

    #[inline(always)]
    fn at(&self) -> HeaderLocation {
        HeaderLocation::Network
    }

    #[inline(always)]
    fn look(&self, heads: &mut HeaderBatch<WORDS>) -> (Column, ()) {
        let HeaderBatch { words: [.., words], room } = heads;
        let mut unusual = [0; LANES];
        for lane in 0..LANES {
            // The sign bit is set if this is no whole header.
            let short = room[lane].wrapping_sub(LEAST as u32) & 0x8000_0000;
            unusual[lane] = u32::from(words[lane] < 2 * HOP) | short;
            words[lane] = words[lane].wrapping_sub(HOP);
        }
        (unusual, ())
    }

    #[inline(always)]
    fn finish(
        &mut self,
        heads: &HeaderBatch<WORDS>,
        (): &(),
        lane: usize,
        head: &mut HeaderLane<'_, WORDS>,
    ) {
        head.words()[HOPS / 4] = heads.words[HOPS / 4][lane].to_le_bytes();
    }

    #[inline(always)]
    fn judge(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        self.step(packet)
    }
}
