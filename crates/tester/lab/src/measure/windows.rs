//! Counts of packets that other threads move.

use std::{thread, time::Duration};

use linerate_memory::clock::cycles;

use crate::instruments::Blocks;

/// A window in which packets are counted.
const WINDOW: Duration = Duration::from_millis(2);
/// Time for which all run before anything counts.
pub(super) const WARM: Duration = Duration::from_millis(10);

/// Cycles that pass for each packet, window by window, for so long; `packets` says how many there were so far.
pub(super) fn count(packets: impl Fn() -> u64, time: Duration) -> Blocks {
    let now = || (cycles(), packets());
    thread::sleep(WARM);
    let mut blocks = Blocks::new();
    let mut before = now();
    for _ in 0..(time.as_millis() / WINDOW.as_millis()).max(1) {
        thread::sleep(WINDOW);
        let after = now();
        blocks.add(after.0 - before.0, after.1 - before.1, 0);
        before = after;
    }
    blocks
}
