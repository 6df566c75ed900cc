//! Place of a packet's Ethernet header, when an element has marked it.
//!
//! It is kept as the header's place in the buffer, so that it stays true while
//! bytes are stripped from and put in front of the packet.

use linerate_graph::Plan;
use linerate_memory::{Meta, Slot};

/// The class of elements that say so.
pub const MARKS: &str = "MarkMACHeader";

/// Returns true if an element of a graph marks headers.
pub fn are_marked(plan: &Plan) -> bool {
    plan.elements.iter().any(|element| element.class.name == MARKS)
}

/// Returns the distance of a packet's marked header from its start, negative in front of it.
pub fn marked(slot: &Slot, meta: &Meta) -> Option<i32> {
    let place = u16::from_ne_bytes([meta.user[14], meta.user[15]]);
    (place > 0).then(|| i32::from(place) - 1 - slot.headroom() as i32)
}
