//! `StripIPHeader`, `UnstripIPHeader`: what the IP packet carries, and back.

use linerate_graph::{Class, Context, Element};
use linerate_memory::{Frame, Meta, Slot};

use super::{
    FAMILY,
    header::{DROPS, NO_BUFFER, NO_HEADER},
};
use crate::packets::{room, start::start_moved};

pub(super) const STRIP: Class = Class {
    name: "StripIPHeader",
    family: FAMILY,
    summary: "takes off the IP header and all in front of it",
    description: "The header must be known (`CheckIPHeader`). It stays in the buffer, and known: \
        `UnstripIPHeader` puts it back.",
    ports: "1/1",
    annotates: true,
    drops: DROPS,
    cost: "Reads and writes a line of annotations per packet.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> StripIPHeader -> Discard;",
    make: |_| Box::new(StripIpHeader { unstrip: false, failed: Vec::new() }),
    ..Class::EMPTY
};

pub(super) const UNSTRIP: Class = Class {
    name: "UnstripIPHeader",
    summary: "puts the IP header back in front",
    description: "Packets then begin with their network header, when it had been taken off; \
        others are left alone.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> StripIPHeader -> UnstripIPHeader -> Discard;",
    make: |_| Box::new(StripIpHeader { unstrip: true, failed: Vec::new() }),
    ..STRIP
};

struct StripIpHeader {
    unstrip: bool,
    failed: Vec<Slot>,
}

impl Element for StripIpHeader {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let arena = cx.pool.arena();
        let moved = |slot: &mut Slot| {
            let Meta { network, transport, .. } = *arena.meta(slot);
            let by = if self.unstrip { network } else { transport };
            if by == Meta::UNSET {
                return false;
            }
            // A header in front of the packet has an offset below zero.
            let by = i32::from(by.cast_signed());
            let moved = match usize::try_from(by) {
                Ok(by) => self.unstrip || slot.pull(by),
                Err(_) => room::push(arena, slot, by.unsigned_abs() as usize),
            };
            if moved
                && (by < 0 || !self.unstrip)
                && let Some(meta) = arena.meta_mut(slot)
            {
                start_moved(meta, by);
            }
            moved
        };
        frame.sift(moved, |slot| self.failed.push(slot));
        self.failed.drain(..).for_each(|slot| cx.drop_packet(slot, NO_HEADER));
    }
}
