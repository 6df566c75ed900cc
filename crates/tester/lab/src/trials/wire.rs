//! A ring that behaves like a wire: frames without room are lost, and not kept.

use std::sync::Arc;

use linerate_memory::{Frame, PoolCache};
use linerate_port::{Counters, PortError, Transmit, Wake};

/// A transmitting side that takes every frame and loses those that the port
/// behind it refuses.
///
/// In front of a device in the same process it stands for the link: a device
/// that is too slow loses frames at its queue, as on hardware, instead of
/// slowing the generator down.
pub struct Wire {
    port: Box<dyn Transmit>,
}

impl Wire {
    /// A wire to this port.
    pub fn new(port: Box<dyn Transmit>) -> Self {
        Wire { port }
    }
}

impl Transmit for Wire {
    fn transmit(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        let sent = frame.len();
        self.port.transmit(pool, frame)?;
        pool.give(frame);
        Ok(sent)
    }

    fn counters(&self) -> &Arc<Counters> {
        self.port.counters()
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<usize, PortError> {
        self.port.flush(pool)
    }

    fn close(&mut self, pool: &mut PoolCache) {
        self.port.close(pool);
    }

    fn wake(&mut self) -> Wake<'_> {
        self.port.wake()
    }

    fn refresh(&mut self) {
        self.port.refresh();
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}
