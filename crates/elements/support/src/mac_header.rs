//! Place of a packet's Ethernet header, when an element has marked it, or of the first byte that an
//! element has taken off the packet's front.
//!
//! It is a place in the buffer, in bytes 14 and 15 of [`Meta::user`]: it stays true while bytes
//! are stripped from and put in front of the packet. Buffers are used again, so in front of a packet
//! that was made in one are bytes of earlier packets: an element that looks there asks this place
//! first. Makers of packets reset it with all of their metadata.

use linerate_graph::{Context, Plan};
use linerate_memory::{Frame, HeaderStart, Meta, Slot};

/// The class of elements that say so.
pub const MARKS: &str = "MarkMACHeader";

/// Returns true if an element of a graph marks headers.
pub fn are_marked(plan: &Plan) -> bool {
    plan.elements.iter().any(|element| element.class.name == MARKS)
}

/// Whether an element of a graph looks for an Ethernet header among the bytes that were taken off
/// packets.
pub fn are_looked_for(plan: &Plan) -> bool {
    plan.elements.iter().any(|element| match element.class.name {
        "EnsureEther" => true,
        "IPClassifier" | "IPFilter" => element.config.to_ascii_lowercase().contains("ether"),
        _ => false,
    })
}

/// Returns the place of the header, or of the first byte taken off. The number noted is one more, so that
/// zero is none.
fn place(meta: &Meta) -> HeaderStart {
    let behind = u16::from_ne_bytes([meta.user[14], meta.user[15]]);
    HeaderStart::signed(0, behind as isize - 1)
}

/// Says where the header begins.
#[inline]
pub fn mark(meta: &mut Meta, start: HeaderStart) {
    let behind = start.offset(0).map_or(0, |place| place as u16 + 1);
    meta.user[14..16].copy_from_slice(&behind.to_ne_bytes());
}

/// Returns the distance of a packet's marked header from its start, negative in front of it.
pub fn marked(slot: &Slot, meta: &Meta) -> Option<i32> {
    place(meta).offset(slot.headroom()).map(|offset| offset as i32)
}

/// Whether the `count` bytes in front of a packet were its own before they were taken off.
pub fn has_taken_off(slot: &Slot, meta: &Meta, count: usize) -> bool {
    place(meta).offset(slot.headroom()).is_some_and(|place| place <= -count.cast_signed())
}

/// Changes the place when a packet's bytes and metadata were copied behind another headroom: a header
/// among the bytes moves with them, and one in front of them is no longer known.
pub fn copied(meta: &mut Meta, from: usize, to: usize) {
    let among = place(meta).offset(from).and_then(|offset| usize::try_from(offset).ok());
    mark(meta, among.map_or(HeaderStart::UNKNOWN, |offset| HeaderStart::new(to, offset)));
}

/// Notes where packets begin, for elements that take bytes off their front; only in graphs in which an
/// element looks for an Ethernet header there. In all others it costs a branch per frame.
#[derive(Debug, Clone, Copy)]
pub struct Starts {
    wanted: bool,
    /// Headers may begin behind the start, where an element has said so.
    marked: bool,
}

impl Starts {
    /// Whether they are to be noted in this graph.
    pub fn of(plan: &Plan) -> Starts {
        Starts { wanted: are_looked_for(plan), marked: are_marked(plan) }
    }

    /// Notes where packets begin. A packet that others hold as well gets a buffer of its own; where
    /// there is none, nothing is noted.
    #[inline]
    pub fn note(self, cx: &mut Context, frame: &mut Frame) {
        if self.wanted {
            self.note_each(cx, frame);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_each(self, cx: &mut Context, frame: &mut Frame) {
        for slot in frame.slots_mut() {
            let known = marked(slot, cx.arena().meta(slot));
            if known.is_some_and(|start| start <= 0 || self.marked) || !cx.unshare_one(slot) {
                continue;
            }
            let start = HeaderStart::new(slot.headroom(), 0);
            if let Some(meta) = cx.arena().meta_mut(slot) {
                mark(meta, start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_of_the_buffer() {
        let mut meta = Meta { user: [7; 24], ..Meta::EMPTY };
        for (start, known) in [
            (HeaderStart::new(0, 0), Some(0)),
            (HeaderStart::new(128, 14), Some(142)),
            (HeaderStart::new(65_000, 534), Some(65_534)),
            (HeaderStart::UNKNOWN, None),
        ] {
            mark(&mut meta, start);
            assert_eq!((place(&meta), place(&meta).offset(0)), (start, known));
        }
        assert!(meta.user[..14] == [7; 14] && meta.user[16..] == [7; 8]);
        assert_eq!(place(&Meta::EMPTY), HeaderStart::UNKNOWN);
    }

    #[test]
    fn the_header_in_front_of_a_copy_is_unknown() {
        let mut meta = Meta::EMPTY;
        mark(&mut meta, HeaderStart::new(100, 3));
        copied(&mut meta, 100, 0);
        copied(&mut meta, 0, 64);
        assert_eq!(place(&meta).offset(64), Some(3));
        copied(&mut meta, 68, 64);
        assert_eq!(place(&meta), HeaderStart::UNKNOWN);
    }
}
