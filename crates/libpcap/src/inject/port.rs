//! Sending on a port.

use std::time::{Duration, Instant};

use linerate_memory::{Frame, PoolCache};
use linerate_port::{DRAIN_LIMIT, DropReason, PortError, PortFault, Transmit, drain, wait_any};

use super::{HOLD, PacketSink, SendFailure};

/// Shortest frame there is: an Ethernet header.
const SHORTEST: usize = 14;
/// A tag that a frame may have beyond its port's limit.
const TAG: usize = 4;
/// Longest wait for room before the next look.
const LOOK: Duration = Duration::from_millis(10);

/// The transmitting side of a port.
pub(crate) struct PortSink {
    transmit: Box<dyn Transmit>,
    pool: PoolCache,
    /// Packets that have been taken and not been sent.
    frame: Frame,
    longest: usize,
}

impl PortSink {
    pub(crate) fn new(
        transmit: Box<dyn Transmit>,
        pool: PoolCache,
        frame_limit: Option<usize>,
    ) -> PortSink {
        let room = pool.arena().room();
        let longest = frame_limit.map_or(room, |limit| (limit + TAG).min(room));
        PortSink { transmit, pool, frame: Frame::new(HOLD), longest }
    }

    /// Hands over as many packets as it can; packets that were not passed on are an error.
    fn hand_over(&mut self) -> Result<(), SendFailure> {
        let before = self.transmit.counters().read();
        self.transmit.transmit(&mut self.pool, &mut self.frame).map_err(words)?;
        let after = self.transmit.counters().read();
        // They only grow.
        if after.drops.iter().sum::<u64>() == before.drops.iter().sum::<u64>() {
            return Ok(());
        }
        let since = after - before;
        Err(SendFailure::Errno(if since.dropped_for(DropReason::LinkDown) > 0 {
            libc::ENETDOWN
        } else if since.dropped_for(DropReason::TooLong) > 0 {
            libc::EMSGSIZE
        } else {
            libc::ENOBUFS
        }))
    }
}

impl PacketSink for PortSink {
    #[inline]
    fn send(&mut self, packet: &[u8], hold: bool) -> Result<(), SendFailure> {
        if packet.len() < SHORTEST {
            return Err(SendFailure::Errno(libc::EINVAL));
        }
        if packet.len() > self.longest {
            return Err(SendFailure::Errno(libc::EMSGSIZE));
        }
        if self.frame.room() == 0 {
            // Packets that were held back and have had no room.
            self.hand_over()?;
            if self.frame.room() == 0 {
                return Err(SendFailure::Full);
            }
        }
        let Some(mut slot) = self.pool.take_one(packet.len()) else {
            // All are on their way: collects those that have arrived.
            self.transmit.flush(&mut self.pool).map_err(words)?;
            return Err(SendFailure::Full);
        };
        let Some(bytes) = self.pool.arena().packet_mut(&mut slot) else {
            self.pool.give_one(slot);
            return Err(SendFailure::Full);
        };
        bytes.copy_from_slice(packet);
        let _ = self.frame.push(slot).map_err(|slot| self.pool.give_one(slot));
        if hold && self.frame.room() > 0 {
            return Ok(());
        }
        self.hand_over()?;
        if !hold && !self.frame.is_empty() {
            // Ours is the last: a program that is told that it was not sent may send it again.
            if let Some(slot) = self.frame.pop() {
                self.pool.give_one(slot);
            }
            return Err(SendFailure::Full);
        }
        Ok(())
    }

    fn flush(&mut self) -> usize {
        if !self.frame.is_empty() && self.hand_over().is_err() {
            // Counted where they were dropped; a port that has failed takes nothing more.
            self.pool.give(&mut self.frame);
        }
        let _ = self.transmit.flush(&mut self.pool);
        self.frame.len()
    }

    fn wait(&mut self) {
        let _ = wait_any(&[self.transmit.wake()], LOOK);
    }

    fn close(&mut self) {
        let until = Instant::now() + DRAIN_LIMIT;
        let _ = drain(&mut *self.transmit, &mut self.pool, &mut self.frame, until);
        self.pool.give(&mut self.frame);
        self.transmit.close(&mut self.pool);
    }
}

/// libpcap's error where the kernel has one.
#[cold]
fn words(error: PortError) -> SendFailure {
    match error.fault() {
        PortFault::Gone { .. } => SendFailure::Errno(libc::ENXIO),
        _ => SendFailure::Text(error.to_string()),
    }
}
