//! Moving the start of packets, by elements that strip and push bytes.

use linerate_graph::Context;
use linerate_memory::{Frame, Meta, Packet, Slot};

/// Before elements move the starts of packets: those whose header offsets are
/// shared with others are copied, or dropped under `reason` where no buffer is
/// free. Returns whether [`start_moved`] must be called at all.
#[inline]
pub fn moving_starts(cx: &mut Context, frame: &mut Frame, reason: usize) -> bool {
    if !cx.world().annotated {
        return false;
    }
    let arena = cx.pool.arena();
    let marked = |slot: &Slot| {
        let meta = arena.meta(slot);
        meta.network != Meta::UNSET || meta.transport != Meta::UNSET
    };
    if frame.slots().iter().any(|slot| slot.is_shared() && marked(slot)) {
        cx.unshare(frame, reason);
    }
    true
}

/// The start of a packet has moved `by` bytes towards its end: offsets of
/// headers, which are measured from it, follow.
#[inline]
pub fn start_moved(meta: &mut Meta, by: i32) {
    for offset in [&mut meta.network, &mut meta.transport] {
        if let Some(from_start) = from_start(*offset) {
            let moved = (from_start - by) as i16;
            *offset = (moved + (moved >> 15)).cast_unsigned();
        }
    }
}

/// The same of a packet; of a shared one, no header is known.
#[inline(always)]
pub fn packet_moved(packet: &mut Packet<'_>, by: i32) {
    if let Some(packet) = packet.writable() {
        start_moved(packet.meta_mut(), by);
    }
}

/// How far behind the start of a packet a header is, which may have been taken off
/// and lie before it: such offsets are in ones' complement, so that one byte before
/// the start is not [`Meta::UNSET`], of which nothing comes.
#[inline]
pub fn from_start(offset: u16) -> Option<i32> {
    let signed = i32::from(offset.cast_signed());
    (offset != Meta::UNSET).then(|| signed - (signed >> 15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_follow_the_start_and_unknown_ones_stay_unknown() {
        let mut meta = Meta::EMPTY;
        meta.network = 14;
        start_moved(&mut meta, 34);
        assert_eq!((from_start(meta.network), from_start(meta.transport)), (Some(-20), None));
        start_moved(&mut meta, -34);
        assert_eq!(meta.network, 14);
        for by in (-1..=14).chain(0..=34) {
            start_moved(&mut meta, by);
            assert_eq!(from_start(meta.network), Some(14 - by));
            start_moved(&mut meta, -by);
            assert_eq!(meta.network, 14);
        }
    }
}
