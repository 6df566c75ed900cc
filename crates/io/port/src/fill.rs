//! Frames that are filled by copying packets out of a peer's memory, one behind the other.

use linerate_memory::{Frame, PoolCache};

use crate::counters::{Counters, DropReason};

/// Result of asking for the next packet.
pub(crate) enum FillResult {
    /// A packet of that length, now in the buffer.
    Packet(usize),
    /// One that cannot be passed on.
    Dropped(DropReason),
    /// None.
    End,
}

/// Adds at most `count` packets to the frame and counts them: `next` copies each into a buffer, until
/// there are no more. Without a buffer it is not asked, so that nothing is lost.
#[inline]
pub(crate) fn fill(
    pool: &mut PoolCache,
    frame: &mut Frame,
    counters: &Counters,
    count: usize,
    mut next: impl FnMut(&mut [u8]) -> FillResult,
) -> usize {
    let before = frame.len();
    let taken = pool.take(frame, count, pool.arena().room());
    let (mut filled, mut bytes) = (0, 0);
    let slots = &mut frame.slots_mut()[before..];
    while let Some(slot) = slots.get_mut(filled) {
        let Some(buffer) = pool.arena().packet_mut(slot) else { break };
        match next(buffer) {
            FillResult::Packet(len) => {
                slot.truncate(len);
                bytes += len as u64;
                filled += 1;
            }
            FillResult::Dropped(reason) => counters.dropped(reason, 1),
            FillResult::End => break,
        }
    }
    for _ in filled..taken {
        if let Some(slot) = frame.pop() {
            pool.give_one(slot);
        }
    }
    counters.passed(filled, bytes);
    filled
}

#[cfg(test)]
mod tests {
    use linerate_memory::ArenaOptions;

    use super::*;

    #[test]
    fn dropped_packets_take_no_place_and_absent_ones_no_buffer() {
        let options = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let arena = options.create().unwrap();
        let (mut pool, counters) = (arena.cache(16), Counters::default());
        let mut frame = Frame::new(8);
        assert_eq!(pool.take(&mut frame, 1, 60), 1);
        let mut coming = [
            FillResult::Packet(64),
            FillResult::Dropped(DropReason::Malformed),
            FillResult::Packet(70),
        ]
        .into_iter();
        let filled = fill(&mut pool, &mut frame, &counters, 5, |buffer| {
            buffer.fill(7);
            coming.next().unwrap_or(FillResult::End)
        });
        let lengths: Vec<usize> = frame.slots().iter().map(|slot| slot.len()).collect();
        assert_eq!((filled, lengths), (2, vec![60, 64, 70]));
        let counts = counters.read();
        assert_eq!((counts.packets, counts.bytes, counts.dropped()), (2, 134, 1));
        assert_eq!(arena.accounting().held, 3);
        pool.give(&mut frame);
    }
}
