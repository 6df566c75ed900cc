//! Both sides of a queue of the port, in either role.

use std::{
    os::fd::AsFd,
    sync::Arc,
    time::{Duration, Instant},
};

use linerate_memory::{Frame, PoolCache};

use super::{negotiator::PortHandle, queue_slot::TxResult};
use crate::{
    counters::{Counters, DropReason},
    error::PortError,
    port::{Interest, Receive, Transmit, Wake},
};

/// Interval of looks at a full queue, which gives no event.
const FULL_RETRY: Duration = Duration::from_micros(50);
/// Interval of looks at a place that was locked.
const RETRY: Duration = Duration::from_millis(1);

/// The receiving side of a queue.
pub(super) struct VhostReceive {
    port: Arc<PortHandle>,
    queue: usize,
    counters: Arc<Counters>,
}

impl VhostReceive {
    pub(super) fn new(port: &Arc<PortHandle>, queue: usize) -> VhostReceive {
        VhostReceive { port: Arc::clone(port), queue, counters: Counters::shared() }
    }
}

impl Receive for VhostReceive {
    #[inline]
    fn receive(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        let Some(mut state) = self.port.places.rx[self.queue].try_lock() else { return Ok(0) };
        let Some(queue) = state.usable() else { return Ok(0) };
        match queue.burst(pool, frame, &self.counters) {
            Ok(received) => Ok(received),
            Err(fault) => {
                self.counters.dropped(DropReason::Malformed, 1);
                state.fail(fault, &self.port.places.control);
                Ok(0)
            }
        }
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn wake(&mut self) -> Wake<'_> {
        let place = &self.port.places.rx[self.queue];
        let Some(mut state) = place.try_lock() else { return Wake::At(Instant::now() + RETRY) };
        // Events set before do not count; packets behind `arm` set one.
        place.events().forget();
        if state.usable().is_some_and(super::queue_slot::RxQueue::arm) {
            return Wake::Now;
        }
        drop(state);
        Wake::Fd(place.events().as_fd(), Interest::Read)
    }
}

/// The transmitting side of a queue.
pub(super) struct VhostTransmit {
    port: Arc<PortHandle>,
    queue: usize,
    full: bool,
    counters: Arc<Counters>,
}

impl VhostTransmit {
    pub(super) fn new(port: &Arc<PortHandle>, queue: usize) -> VhostTransmit {
        VhostTransmit { port: Arc::clone(port), queue, full: false, counters: Counters::shared() }
    }
}

impl Transmit for VhostTransmit {
    #[inline]
    fn transmit(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        let places = &self.port.places;
        let Some(mut state) = places.tx[places.tx_of(self.queue)].try_lock() else {
            self.full = true;
            return Ok(0);
        };
        let sent = match state.usable() {
            Some(queue) => queue.burst(pool, frame, &self.counters),
            None => TxResult::nowhere(pool, frame, &self.counters),
        };
        if let Some(fault) = sent.fault {
            state.fail(fault, &places.control);
        }
        drop(state);
        self.full = sent.full;
        Ok(sent.done)
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn flush(&mut self, pool: &mut PoolCache) -> Result<usize, PortError> {
        let places = &self.port.places;
        let state = places.tx[places.tx_of(self.queue)].try_lock();
        Ok(state.map_or(0, |mut state| state.usable().map_or(0, |queue| queue.on_the_way(pool))))
    }

    fn wake(&mut self) -> Wake<'_> {
        if self.full { Wake::At(Instant::now() + FULL_RETRY) } else { Wake::Now }
    }
}
