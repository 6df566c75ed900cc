//! A port to receive from and a port to send to, on one thread.
//!
//! In memory frames circulate or come out of nothing, without end. Over veth pairs they are fed
//! from the far end, outside the time that is measured; sent frames arrive in a kernel that has no
//! use for them. The kernel carries a frame across a pair in the sender's time, so each side's cost
//! is whole on its own thread.

use std::time::{Duration, Instant};

use linerate_memory::{Arena, Frame, PoolCache};
use linerate_port::{Context, Direction, OpenError, Port, PortError, Receive, Transmit, open};

use super::{
    Failure,
    network::{IN, IN_FAR, LONGEST, OUT},
};
use crate::{point::Driver, sizes::FCS};

/// Longest time until frames that were fed arrive.
const ARRIVAL: Duration = Duration::from_millis(5);
/// Empty polls between readings of the clock.
const CLOCK_INTERVAL: u32 = 64;

pub(super) struct PortPair {
    pub(super) receive: Box<dyn Receive>,
    pub(super) transmit: Box<dyn Transmit>,
    /// The far end of where frames come from, and a frame.
    far: Option<(Box<dyn Transmit>, Vec<u8>)>,
    /// Frames fed and not received.
    fed: usize,
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Failure {
        Failure::void(error)
    }
}

impl PortPair {
    /// Ports of a driver. `index` tells pairs of one context apart, `slots` are
    /// the places of a ring, all of which are filled.
    pub(super) fn open(
        context: &Context,
        driver: Driver,
        index: usize,
        frame: u32,
        slots: u32,
    ) -> Result<PortPair, Failure> {
        let length = frame as usize - FCS;
        let near = |uri: &str| port(context, uri, Direction::Both);
        match driver {
            Driver::Null => PortPair::from_port(near(&format!("null:?size={length}"))?),
            Driver::Ring => {
                let uri = format!("ring:lane{index}?loop&slots={slots}&seed={slots}&size={length}");
                PortPair::from_port(near(&uri)?)
            }
            Driver::Packet | Driver::Xdp if index > 0 => {
                let reason = format!("{driver} ports are measured one lane at a time");
                Err(Failure::Unsupported(reason))
            }
            Driver::Packet | Driver::Xdp if frame > LONGEST => {
                let reason = format!("frames of {frame} bytes: a veth pair carries {LONGEST}");
                Err(Failure::Unsupported(reason))
            }
            Driver::Packet | Driver::Xdp => {
                let receive = port(context, &format!("{driver}:{IN}"), Direction::Receive)?;
                let transmit = port(context, &format!("{driver}:{OUT}"), Direction::Transmit)?;
                let far = port(context, &format!("packet:{IN_FAR}"), Direction::Transmit)?;
                Ok(PortPair {
                    receive: side(receive, |queue| queue.receive.take())?,
                    transmit: side(transmit, |queue| queue.transmit.take())?,
                    far: Some((side(far, |queue| queue.transmit.take())?, template(length))),
                    fed: 0,
                })
            }
        }
    }

    fn from_port(mut port: Port) -> Result<PortPair, Failure> {
        let queue = &mut port.queues[0];
        let none = || Failure::void("a port without a side");
        Ok(PortPair {
            receive: queue.receive.take().ok_or_else(none)?,
            transmit: queue.transmit.take().ok_or_else(none)?,
            far: None,
            fed: 0,
        })
    }

    /// Returns true if frames come without being fed.
    pub(super) fn is_endless(&self) -> bool {
        self.far.is_none()
    }

    /// Has at least `count` frames waiting, of pairs that are fed.
    pub(super) fn feed(&mut self, pool: &mut PoolCache, count: usize) -> Result<(), Failure> {
        let Some((far, template)) = &mut self.far else { return Ok(()) };
        let mut frame = Frame::new(count.min(linerate_memory::FRAME_LIMIT));
        while self.fed < count {
            let wanted = (count - self.fed).min(frame.limit());
            if pool.take(&mut frame, wanted, template.len()) == 0 {
                return Err(Failure::void("the packet memory ran out"));
            }
            pool.arena().for_each_mut(&mut frame, |bytes| bytes.copy_from_slice(template));
            while !frame.is_empty() {
                self.fed += far.transmit(pool, &mut frame)?;
            }
        }
        while far.flush(pool)? > 0 {}
        Ok(())
    }

    /// Receives a burst of the frames fed, waiting for it; nothing when it got lost.
    pub(super) fn fed(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
    ) -> Result<usize, Failure> {
        let mut empty = 0u32;
        let mut since = None;
        loop {
            let received = self.receive.receive(pool, frame)?;
            self.fed = self.fed.saturating_sub(received);
            if received > 0 || self.fed == 0 {
                return Ok(received);
            }
            empty += 1;
            if empty.is_multiple_of(CLOCK_INTERVAL)
                && since.get_or_insert_with(Instant::now).elapsed() > ARRIVAL
            {
                self.fed = 0;
                return Ok(0);
            }
        }
    }

    /// Frames on their way to [`PortPair::fed`].
    pub(super) fn waiting(&self) -> usize {
        self.fed
    }

    /// Sends all of a frame, however long it takes the port.
    #[inline]
    pub(super) fn send(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<(), Failure> {
        self.transmit.transmit(pool, frame)?;
        while !frame.is_empty() {
            self.transmit.flush(pool)?;
            self.transmit.transmit(pool, frame)?;
        }
        Ok(())
    }

    /// Until nothing is on its way any more.
    pub(super) fn flush(&mut self, pool: &mut PoolCache) -> Result<(), Failure> {
        let end = Instant::now() + ARRIVAL;
        while self.transmit.flush(pool)? > 0 && Instant::now() < end {}
        Ok(())
    }

    /// Gives everything back.
    pub(super) fn close(mut self, pool: &mut PoolCache) {
        self.receive.close(pool);
        self.transmit.close(pool);
    }
}

/// A frame that no host acts on.
fn template(length: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    // IEEE Std 802, 9.2.3: for experiments.
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// Opens a port.
pub(super) fn port(context: &Context, uri: &str, direction: Direction) -> Result<Port, Failure> {
    let uri = uri.parse().map_err(Failure::void)?;
    open(&uri, &context.toward(direction)).map_err(|error| match error {
        OpenError::Unsupported { .. } => Failure::unsupported(error),
        error => Failure::void(error),
    })
}

/// A side of a port's first queue.
pub(super) fn side<S>(
    mut port: Port,
    take: impl Fn(&mut linerate_port::Queue) -> Option<S>,
) -> Result<S, Failure> {
    take(&mut port.queues[0]).ok_or_else(|| Failure::void("a port without that side"))
}

/// A cache that bursts do not exhaust.
pub(super) fn pool(arena: &Arena, burst: usize) -> PoolCache {
    arena.cache((4 * burst).max(512))
}
