//! Receiving common to all queues, copied or not: packets, then segments of merged frames.

use linerate_memory::{Frame, PoolCache};

use super::{queue::Fault, unpack::Unpack};
use crate::counters::Counters;

/// A queue that packets are taken out of, one of which may have to be segmented.
pub(super) trait Source {
    fn unpack(&mut self) -> &mut Unpack;

    /// Adds packets to the frame until it is full, there are no more, or one has to be segmented. A
    /// fault that comes behind some packets is found again by the next call.
    fn take_some(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        counters: &Counters,
    ) -> Result<usize, Fault>;
}

/// Adds packets and segments to the frame.
#[inline]
pub(super) fn take_all(
    source: &mut impl Source,
    pool: &mut PoolCache,
    frame: &mut Frame,
    counters: &Counters,
) -> Result<usize, Fault> {
    let mut received = 0;
    loop {
        if source.unpack().has_segments() {
            received += source.unpack().add_segments(pool, frame, counters);
            if source.unpack().has_segments() {
                return Ok(received);
            }
        }
        match source.take_some(pool, frame, counters) {
            Ok(some) => received += some,
            Err(fault) if received == 0 => return Err(fault),
            Err(_) => return Ok(received),
        }
        if !source.unpack().has_segments() {
            return Ok(received);
        }
    }
}
