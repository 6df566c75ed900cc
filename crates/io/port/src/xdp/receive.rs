//! The receiving side of a queue: the fill ring to the kernel, the receive
//! ring back.

use std::sync::Arc;

use linerate_memory::{Arena, Frame, PoolCache};
use rustix::net::{RecvFlags, sockopt, xdp::XdpStatistics};

use super::{
    PortState,
    deferred_umem_release::Outstanding,
    rings::{Consumer, Descriptor, Producer},
    socket::Socket,
    umem::{BadAddress, KernelOwned},
};
use crate::{
    counters::{Counters, DropReason},
    error::PortError,
    offload::complete_partial,
    port::{Interest, Receive, Wake},
};

/// Buffers given to the kernel at a time, at least.
const FILL_BATCH: usize = 32;
/// Rounds without a packet after which the interface is looked at.
const IDLE_ROUNDS: u32 = 1 << 16;

pub(super) struct XdpReceive {
    // The rings come first: they are unmapped before the socket can close.
    ring: Consumer<Descriptor>,
    fill: Producer<u64>,
    kernel_owned: KernelOwned,
    /// Buffers to keep with the kernel.
    target: usize,
    /// Buffers on their way from the pool to the fill ring.
    scratch: Frame,
    /// Whether there were fewer than the kernel was to have, since its statistics were read.
    starved: bool,
    counters: Arc<Counters>,
    /// Part of the kernel's statistics that has been counted.
    counted: Counted,
    idle_rounds: u32,
    busy_poll: bool,
    /// Whether packets may come with unfinished checksums, to be finished.
    complete: bool,
    socket: Arc<Socket>,
    port: Arc<PortState>,
}

impl XdpReceive {
    pub(super) fn new(
        (ring, fill): (Consumer<Descriptor>, Producer<u64>),
        target: usize,
        busy_poll: bool,
        complete: bool,
        socket: Arc<Socket>,
        port: Arc<PortState>,
    ) -> XdpReceive {
        XdpReceive {
            ring,
            fill,
            kernel_owned: KernelOwned::new(socket.arena()),
            target,
            scratch: Frame::new(linerate_memory::FRAME_DEFAULT),
            starved: false,
            counters: Counters::shared(),
            counted: Counted::default(),
            idle_rounds: 0,
            busy_poll,
            complete,
            socket,
            port,
        }
    }

    /// Brings the kernel's stock of buffers up to the target.
    #[inline]
    pub(super) fn refill(&mut self, pool: &mut PoolCache) {
        let missing = self.target.saturating_sub(self.kernel_owned.count());
        if missing >= FILL_BATCH {
            self.refill_by(pool, missing);
        }
    }

    fn refill_by(&mut self, pool: &mut PoolCache, missing: usize) {
        let mut left = self.fill.free(missing);
        while left > 0 {
            let taken = pool.take(&mut self.scratch, left, 0);
            if taken == 0 {
                self.starved = true;
                break;
            }
            left -= taken;
            let arena: &Arena = self.socket.arena();
            let (fill, owned) = (&mut self.fill, &mut self.kernel_owned);
            self.scratch.drain_front(taken, |slot| {
                let headroom = slot.headroom() as u64;
                match owned.hand_over(arena, slot) {
                    Ok(address) => fill.write(address - headroom),
                    // Fresh from the pool, so not the kernel's.
                    Err(slot) => pool.give_one(slot),
                }
            });
        }
        self.fill.publish();
    }

    /// The ring is empty: does the work that the kernel may be waiting for.
    #[cold]
    #[inline(never)]
    fn idle(&mut self, pool: &mut PoolCache) -> Result<(), PortError> {
        self.refill(pool);
        if self.busy_poll || (self.socket.need_wakeup() && self.fill.wants_wakeup()) {
            // Runs the device's receive work, or tells it to. Its refusals
            // (the link is down, say) are noticed where they matter.
            let _ = rustix::net::recv(self.socket.fd(), &mut [0u8; 0], RecvFlags::DONTWAIT);
        }
        self.idle_rounds += 1;
        if self.idle_rounds >= IDLE_ROUNDS {
            self.idle_rounds = 0;
            self.port.refresh();
        }
        self.port.check()
    }
}

impl Receive for XdpReceive {
    #[inline]
    fn receive(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        let room = frame.room();
        let mut ready = self.ring.ready(room);
        if ready == 0 {
            self.idle(pool)?;
            ready = self.ring.ready(room);
            if ready == 0 {
                return Ok(0);
            }
        }
        self.idle_rounds = 0;
        let (mut passed, mut bytes) = (0, 0);
        for _ in 0..ready {
            let Descriptor { address, length, .. } = self.ring.read();
            match self.kernel_owned.take_back(address, length) {
                Ok(slot) => match frame.push(slot) {
                    Ok(()) => {
                        passed += 1;
                        bytes += u64::from(length);
                    }
                    Err(slot) => pool.give_one(slot),
                },
                Err(bad) => {
                    self.counters.dropped(DropReason::Malformed, 1);
                    if let BadAddress::OutOfChunk(slot) = bad {
                        pool.give_one(slot);
                    }
                }
            }
        }
        self.ring.release();
        if self.complete {
            let first = frame.len() - passed;
            for slot in &mut frame.slots_mut()[first..] {
                if let Some(bytes) = pool.arena().packet_mut(slot) {
                    complete_partial(bytes);
                }
            }
        }
        self.counters.passed(passed, bytes);
        self.refill(pool);
        Ok(passed)
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn wake(&mut self) -> Wake<'_> {
        Wake::Fd(self.socket.fd(), Interest::Read)
    }

    fn refresh(&mut self) {
        if let Ok(now) = sockopt::xdp_statistics(self.socket.fd()) {
            let starved = std::mem::take(&mut self.starved);
            self.counted.add(&now, starved, &self.counters);
        }
        self.port.refresh();
    }
}

impl Drop for XdpReceive {
    fn drop(&mut self) {
        self.socket.keep_outstanding(Outstanding::Receive(std::mem::take(&mut self.kernel_owned)));
    }
}

/// Statistics that the kernel has reported and we have counted.
#[derive(Debug, Default)]
struct Counted {
    empty: u64,
    other: u64,
    overrun: u64,
    malformed: u64,
}

impl Counted {
    /// Counts the increase of the kernel's statistics.
    ///
    /// In copy mode `rx_dropped` counts packets longer than a buffer and those
    /// that found the fill ring empty; only the latter show in
    /// `rx_fill_ring_empty_descs` too. A zero-copy device asks an empty fill
    /// ring without having a packet, which drops nothing. Unless the pool was empty (`starved`), the
    /// buffers that the rings have room for were all received into, and not taken out yet.
    fn add(&mut self, now: &XdpStatistics, starved: bool, counters: &Counters) {
        let empty = now.rx_fill_ring_empty_descs.unwrap_or(0).min(now.rx_dropped);
        let other = now.rx_dropped - empty;
        let count = |reason, now: u64, counted: &mut u64| {
            counters.dropped(reason, now.saturating_sub(*counted) as usize);
            *counted = now.max(*counted);
        };
        let reason = if starved { DropReason::NoBuffer } else { DropReason::Overrun };
        count(reason, empty, &mut self.empty);
        count(DropReason::TooLong, other, &mut self.other);
        count(DropReason::Overrun, now.rx_ring_full.unwrap_or(0), &mut self.overrun);
        count(DropReason::Malformed, now.rx_invalid_descs, &mut self.malformed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_drop_of_the_kernel_is_counted_once_under_its_reason() {
        let counters = Counters::default();
        let mut counted = Counted::default();
        let mut now = XdpStatistics {
            rx_dropped: 7,
            rx_invalid_descs: 1,
            tx_invalid_descs: 0,
            rx_ring_full: Some(3),
            rx_fill_ring_empty_descs: Some(5),
            tx_ring_empty_descs: Some(9),
        };
        counted.add(&now, true, &counters);
        counted.add(&now, true, &counters);
        let counts = counters.read();
        assert_eq!(counts.dropped_for(DropReason::NoBuffer), 5);
        assert_eq!(counts.dropped_for(DropReason::TooLong), 2);
        assert_eq!(counts.dropped_for(DropReason::Overrun), 3);
        assert_eq!(counts.dropped_for(DropReason::Malformed), 1);
        now.rx_dropped = 8;
        counted.add(&now, true, &counters);
        assert_eq!(counters.read().dropped(), 12);
        // All buffers of the rings were in use, while others were free.
        (now.rx_dropped, now.rx_fill_ring_empty_descs) = (18, Some(15));
        counted.add(&now, false, &counters);
        let counts = counters.read();
        assert_eq!(counts.dropped_for(DropReason::NoBuffer), 5);
        assert_eq!(counts.dropped_for(DropReason::Overrun), 13);
    }
}
