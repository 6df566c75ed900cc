//! Where the Ethernet header of a packet is, when somebody has said so.
//!
//! It is kept as the header's place in the buffer, so that it stays true while
//! bytes are stripped from and put in front of the packet.

use linerate_graph::Plan;
use linerate_memory::{Meta, Slot};

/// The class of elements that say so.
pub const MARKS: &str = "MarkMACHeader";

/// Whether anybody in a graph marks headers.
pub fn are_marked(plan: &Plan) -> bool {
    plan.elements.iter().any(|element| element.class.name == MARKS)
}

/// How far behind the start of a packet, or before it, its marked header is.
pub fn marked(slot: &Slot, meta: &Meta) -> Option<i32> {
    let place = u16::from_ne_bytes([meta.user[14], meta.user[15]]);
    (place > 0).then(|| i32::from(place) - 1 - slot.headroom() as i32)
}
