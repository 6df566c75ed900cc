//! Drops of packets for want of room or by a rule.

use linerate_graph::{Context, DropReason};
use linerate_memory::Frame;

/// Reports Click's message of a queue that first drops a packet.
#[cold]
pub fn overflow(cx: &Context) {
    let class = cx.plan().elements[cx.element()].class.name;
    cx.console().report(&format!("{} :: {class}: overflow\n", cx.name()));
}

/// Packets that may not go leave by output 1 when it is used, and are dropped
/// otherwise, counted under `reason`.
pub fn reject_frame<R: DropReason>(cx: &mut Context, frame: &mut Frame, reason: R) {
    if cx.out.count() > 1 {
        cx.out.emit_frame(1, frame);
    } else {
        cx.drop_frame(frame, reason);
    }
}
