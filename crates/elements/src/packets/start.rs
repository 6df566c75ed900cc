//! Moving the start of packets, by elements that strip and push bytes.

use linerate_graph::Context;
use linerate_memory::{Frame, Meta, Slot};

/// Before elements move the starts of packets: those whose header offsets are
/// shared with others are copied, or dropped under `reason` where no buffer is
/// free. Returns whether [`start_moved`] must be called at all.
#[inline]
pub(crate) fn moving_starts(cx: &mut Context, frame: &mut Frame, reason: usize) -> bool {
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
/// headers, which are measured from it, follow. A header may come to lie before
/// the start; its offset is then negative, in two's complement.
#[inline]
pub(crate) fn start_moved(meta: &mut Meta, by: i32) {
    for offset in [&mut meta.network, &mut meta.transport] {
        if *offset != Meta::UNSET {
            *offset = offset.wrapping_sub(by as u16);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_follow_the_start_and_unknown_ones_stay_unknown() {
        let mut meta = Meta::EMPTY;
        meta.network = 14;
        start_moved(&mut meta, 34);
        assert_eq!((meta.network as i16, meta.transport), (-20, Meta::UNSET));
        start_moved(&mut meta, -34);
        assert_eq!(meta.network, 14);
    }
}
