//! Bursts of packets that a task moves in a turn.

use linerate_graph::Context;
use linerate_memory::Frame;

/// Pulls up to `burst` packets from input 0 and sends them on by output 0, the last of them by leaving
/// them in `frame`; returns how many they are. A burst that the configuration sets (`is_given`) ends
/// with the packets there are.
#[inline]
pub fn move_burst(cx: &mut Context, burst: usize, is_given: bool, frame: &mut Frame) -> usize {
    let mut left = burst;
    loop {
        let asked = left.min(frame.limit());
        let pulled = cx.pull(0, asked, frame);
        left -= pulled;
        // Schedulers give less where the sources might run before the next packet.
        let ended = if is_given { pulled == 0 } else { pulled < asked };
        if left == 0 || ended {
            return burst - left;
        }
        cx.send_on(frame);
    }
}
