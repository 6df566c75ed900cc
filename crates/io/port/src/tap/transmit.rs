//! The transmitting side of a queue.

use std::{
    os::fd::AsFd,
    sync::Arc,
    time::{Duration, Instant},
};

use linerate_memory::{Frame, PoolCache};
use rustix::io::Errno;

use super::device::Device;
use crate::{
    counters::{Counters, DropReason},
    error::{PortError, PortFault},
    port::{Interest, Transmit, Wake},
    uri::PortUri,
};

/// Interval of retries while the kernel has no memory, which gives no event when it has.
const MEMORY_RETRY: Duration = Duration::from_micros(50);

/// The transmitting side of a queue.
pub(super) struct TapTransmit {
    uri: PortUri,
    device: Arc<Device>,
    counters: Arc<Counters>,
    full: Full,
    /// Whether the interface was found deleted.
    gone: bool,
}

/// Reason why the last packet offered was not taken.
#[derive(PartialEq, Eq)]
enum Full {
    No,
    Queue,
    Memory,
}

impl TapTransmit {
    pub(super) fn new(uri: &PortUri, device: Arc<Device>) -> TapTransmit {
        TapTransmit {
            uri: uri.clone(),
            device,
            counters: Counters::shared(),
            full: Full::No,
            gone: false,
        }
    }
}

impl Transmit for TapTransmit {
    fn transmit(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        let (mut done, mut packets, mut bytes) = (0, 0, 0);
        let mut gone = false;
        self.full = Full::No;
        for slot in frame.slots() {
            let Err(errno) = self.device.write(pool.arena().packet(slot)) else {
                packets += 1;
                bytes += slot.len() as u64;
                done += 1;
                continue;
            };
            let left = frame.len() - done;
            let (reason, count) = match errno {
                Errno::INTR => break,
                Errno::AGAIN => {
                    self.full = Full::Queue;
                    break;
                }
                Errno::NOBUFS | Errno::NOMEM => {
                    self.full = Full::Memory;
                    break;
                }
                // The interface is down, and will be for the next packet.
                Errno::IO => (DropReason::LinkDown, left),
                Errno::BADFD | Errno::NODEV => {
                    gone = true;
                    (DropReason::LinkDown, left)
                }
                // Shorter than an Ethernet header.
                Errno::INVAL => (DropReason::Malformed, 1),
                _ => (DropReason::Refused, 1),
            };
            self.counters.dropped(reason, count);
            done += count;
            if count == left {
                break;
            }
        }
        if packets > 0 {
            self.counters.passed(packets, bytes);
        }
        pool.give_front(frame, done);
        if gone { Err(PortFault::Gone { port: self.uri.to_string() }.into()) } else { Ok(done) }
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Everything was sent when it was taken. A port that has nothing to send
    /// learns here that it no longer can.
    fn flush(&mut self, _: &mut PoolCache) -> Result<usize, PortError> {
        if self.gone { Err(PortFault::Gone { port: self.uri.to_string() }.into()) } else { Ok(0) }
    }

    fn refresh(&mut self) {
        self.gone = self.device.gone();
    }

    fn wake(&mut self) -> Wake<'_> {
        match self.full {
            Full::No => Wake::Now,
            Full::Queue => Wake::Fd(self.device.as_fd(), Interest::Write),
            Full::Memory => Wake::At(Instant::now() + MEMORY_RETRY),
        }
    }
}
