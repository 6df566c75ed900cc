//! An endpoint over a port: a worker that receives, lets time pass and sends.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use linerate_memory::{Frame, PoolCache};
use linerate_port::{DRAIN_LIMIT, PortError, Receive, Transmit, Wake, drain};
use linerate_worker::{Idle, Meter, Sleeper, Stage, Stop, UsageReader};

use super::{ConnectionReport, Endpoint};
use crate::clock::now;

/// Interval of publishing the report, in nanoseconds.
const PUBLISH: u64 = 100_000_000;
/// Interval of looking whether frames on the way are gone.
const FLUSH_AGAIN: Duration = Duration::from_millis(1);

/// Reads a worker's report from another thread.
#[derive(Debug, Clone)]
pub struct ConnectionReader {
    published: Arc<Mutex<ConnectionReport>>,
}

impl ConnectionReader {
    /// The report as it was a tenth of a second ago at most; the last one once the worker has
    /// ended.
    pub fn read(&self) -> ConnectionReport {
        self.published.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A worker that runs an endpoint. All receiving queues of a port go to one, since the segments
/// of a connection may come by any.
pub struct ConnectionWorker {
    endpoint: Endpoint,
    receives: Vec<Box<dyn Receive>>,
    transmit: Box<dyn Transmit>,
    pool: PoolCache,
    inbound: Frame,
    outbound: Frame,
    sleeper: Sleeper,
    meter: Meter,
    published: Arc<Mutex<ConnectionReport>>,
    /// Time of the next publishing.
    due: u64,
}

impl ConnectionWorker {
    /// A worker that moves at most `burst` frames at a time.
    ///
    /// # Panics
    ///
    /// When `burst` is not in 1..=[`FRAME_LIMIT`](linerate_memory::FRAME_LIMIT).
    pub fn new(
        endpoint: Endpoint,
        receives: Vec<Box<dyn Receive>>,
        transmit: Box<dyn Transmit>,
        pool: PoolCache,
        burst: usize,
        idle: Idle,
    ) -> ConnectionWorker {
        ConnectionWorker {
            endpoint,
            receives,
            transmit,
            pool,
            inbound: Frame::new(burst),
            outbound: Frame::new(burst),
            sleeper: Sleeper::new(idle),
            meter: Meter::new(),
            published: Arc::default(),
            due: 0,
        }
    }

    /// A handle to the report, for other threads.
    pub fn reader(&self) -> ConnectionReader {
        ConnectionReader { published: Arc::clone(&self.published) }
    }

    /// The worker's cycles, for other threads.
    pub fn usage(&self) -> UsageReader {
        self.meter.reader()
    }

    /// Runs until told to stop, until the endpoint has finished or until the port ends; then resets
    /// the open connections, and gives all buffers back.
    ///
    /// # Errors
    ///
    /// When the port fails.
    pub fn run(mut self, stop: &Stop) -> Result<(), PortError> {
        let outcome = self.converse(stop);
        self.endpoint.abort();
        let said = if outcome.is_ok() { self.send_remaining() } else { Ok(()) };
        let closed = self.close();
        self.publish(now(), true);
        self.meter.finish();
        outcome.and(said).and(closed)
    }

    fn converse(&mut self, stop: &Stop) -> Result<(), PortError> {
        while !stop.is_raised() && !self.is_finished() {
            let measured = self.meter.round();
            let time = now();
            let (mut bursts, mut packets) = (0, 0);
            for queue in 0..self.receives.len() {
                let received = self.receives[queue].receive(&mut self.pool, &mut self.inbound)?;
                if measured {
                    self.meter.stage(Stage::Receive);
                }
                if received == 0 {
                    continue;
                }
                for frame in self.pool.arena().packets(&self.inbound) {
                    self.endpoint.receive(frame, time);
                }
                self.pool.give(&mut self.inbound);
                if measured {
                    self.meter.stage(Stage::Task);
                }
                bursts += 1;
                packets += received;
            }
            self.endpoint.advance(time);
            self.make(time);
            if measured {
                self.meter.stage(Stage::Task);
            }
            let sent = self.offer()?;
            if measured {
                self.meter.stage(Stage::Transmit);
            }
            self.meter.done(bursts + usize::from(sent > 0), packets + sent, measured);
            if time >= self.due {
                self.publish(time, false);
            }
            if packets + sent > 0 {
                self.sleeper.busy();
            } else if self.receives.iter().all(|receive| receive.ended()) {
                break;
            } else {
                self.rest(time)?;
            }
        }
        Ok(())
    }

    /// Returns true if nothing is left to do, with all frames gone.
    fn is_finished(&self) -> bool {
        self.outbound.is_empty() && self.endpoint.is_finished()
    }

    /// Makes the frames that the endpoint has to send, as many as there is room for.
    fn make(&mut self, time: u64) {
        while self.outbound.room() > 0 {
            let Some(outgoing) = self.endpoint.next(time) else { break };
            // Without a buffer it is lost and, where that matters, sent again.
            let Some(mut slot) = self.pool.take_one(outgoing.frame_len()) else { break };
            if let Some(bytes) = self.pool.arena().packet_mut(&mut slot) {
                let written = self.endpoint.write(&outgoing, bytes);
                debug_assert!(written.is_ok(), "{outgoing:?}: {written:?}");
            }
            if let Err(slot) = self.outbound.push(slot) {
                self.pool.give_one(slot);
            }
        }
    }

    /// Offers the frames made; those that the port does not take stay.
    fn offer(&mut self) -> Result<usize, PortError> {
        if self.outbound.is_empty() {
            return Ok(0);
        }
        self.transmit.transmit(&mut self.pool, &mut self.outbound)
    }

    /// Nothing came and nothing was sent.
    fn rest(&mut self, time: u64) -> Result<(), PortError> {
        let outstanding = self.transmit.flush(&mut self.pool)?;
        if !self.sleeper.should_sleep() {
            return Ok(());
        }
        let mut wakes: Vec<Wake<'_>> =
            self.receives.iter_mut().map(|receive| receive.wake()).collect();
        let soon = Instant::now();
        if !self.outbound.is_empty() {
            wakes.push(self.transmit.wake());
        } else if let Some(due) = self.endpoint.wake(time) {
            wakes.push(Wake::At(soon + Duration::from_nanos(due.saturating_sub(time))));
        }
        if outstanding > 0 {
            wakes.push(Wake::At(soon + FLUSH_AGAIN));
        }
        self.sleeper.sleep(&wakes);
        drop(wakes);
        self.meter.slept();
        Ok(())
    }

    /// Sends all that the endpoint still has to say, for as long as a port is waited for when it
    /// is closed.
    fn send_remaining(&mut self) -> Result<(), PortError> {
        let deadline = Instant::now() + DRAIN_LIMIT;
        loop {
            self.make(now());
            if self.outbound.is_empty() || Instant::now() >= deadline {
                return Ok(());
            }
            drain(&mut *self.transmit, &mut self.pool, &mut self.outbound, deadline)?;
        }
    }

    fn close(&mut self) -> Result<(), PortError> {
        let deadline = Instant::now() + DRAIN_LIMIT;
        let drained = drain(&mut *self.transmit, &mut self.pool, &mut self.outbound, deadline);
        self.pool.give(&mut self.outbound);
        // A port that failed may have received something before.
        self.pool.give(&mut self.inbound);
        drained?;
        self.transmit.refresh();
        self.transmit.close(&mut self.pool);
        for receive in &mut self.receives {
            receive.refresh();
            receive.close(&mut self.pool);
        }
        Ok(())
    }

    /// Lets readers see the report. Skipped when one is just reading, unless it must be.
    #[cold]
    fn publish(&mut self, time: u64, must: bool) {
        self.due = time + PUBLISH;
        self.transmit.refresh();
        self.receives.iter_mut().for_each(|receive| receive.refresh());
        let guard = if must {
            Some(self.published.lock().unwrap_or_else(PoisonError::into_inner))
        } else {
            self.published.try_lock().ok()
        };
        if let Some(mut published) = guard {
            published.clone_from(self.endpoint.report());
        }
    }
}

impl std::fmt::Debug for ConnectionWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionWorker")
            .field("counts", &self.endpoint.report().counts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use linerate_memory::{Arena, ArenaOptions};
    use linerate_port::{Context, Port, open};

    use super::{
        super::{
            Group, NextHop,
            tests::{group_of, service},
        },
        *,
    };
    use crate::Pattern;

    fn worker(arena: &Arena, port: &mut Port, endpoint: Endpoint) -> ConnectionWorker {
        let queue = &mut port.queues[0];
        let receives = vec![queue.receive.take().unwrap()];
        let transmit = queue.transmit.take().unwrap();
        ConnectionWorker::new(endpoint, receives, transmit, arena.cache(64), 32, Idle::Adaptive)
    }

    /// Two workers, each on a thread, with a ring between them: all that is opened completes, the
    /// way to the server is found, and all buffers come home.
    #[test]
    fn connections_go_through_a_ring() {
        let options = ArenaOptions { size: 4 << 20, huge: false, ..Default::default() };
        let context = Context::new(options.create().unwrap());
        let uri = "ring:x".parse().unwrap();
        let (mut a, mut b) = (open(&uri, &context).unwrap(), open(&uri, &context).unwrap());
        let group = group_of(false);
        let next_hop = NextHop::Address(group.destinations.at(0));
        let group = Group { next_hop, concurrent: 20, response: 20_000, ..group };
        let client = Endpoint::client(vec![group], Pattern::Constant, 1, Some(200), now()).unwrap();
        let server = Endpoint::server(service(false), Some(200), now()).unwrap();
        let client = worker(&context.arena, &mut a, client);
        let server = worker(&context.arena, &mut b, server);
        let readers = [client.reader(), server.reader()];
        let stop = Stop::new();
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| server.run(&stop));
            client.run(&stop).unwrap();
            serving.join().unwrap().unwrap();
        });
        for reader in readers {
            let counts = reader.read().counts;
            assert_eq!((counts.completed, counts.failed(), counts.open), (200, 0, 0), "{counts:?}");
        }
        drop((a, b));
        assert_eq!(context.arena.accounting().held, 0);
    }

    /// Told to stop, a worker says so to the other side.
    #[test]
    fn open_connections_are_reset_at_the_end() {
        let options = ArenaOptions { size: 4 << 20, huge: false, ..Default::default() };
        let context = Context::new(options.create().unwrap());
        let uri = "ring:x".parse().unwrap();
        let (mut a, mut b) = (open(&uri, &context).unwrap(), open(&uri, &context).unwrap());
        let think = Duration::from_secs(1000);
        let group = Group { think, concurrent: 10, ..group_of(false) };
        let client = Endpoint::client(vec![group], Pattern::Constant, 1, None, now()).unwrap();
        // The server has finished when all that it has begun have ended.
        let server = Endpoint::server(service(false), Some(10), now()).unwrap();
        let client = worker(&context.arena, &mut a, client);
        let server = worker(&context.arena, &mut b, server);
        let readers = [client.reader(), server.reader()];
        let stop = Stop::new();
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| server.run(&Stop::new()));
            let asking = scope.spawn(|| client.run(&stop));
            while readers[1].read().counts.bytes_sent < 10 * 1000 && !serving.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.raise();
            asking.join().unwrap().unwrap();
            serving.join().unwrap().unwrap();
        });
        let [client, server] = readers.map(|reader| reader.read().counts);
        assert_eq!((client.aborted, client.open), (10, 0), "{client:?}");
        assert_eq!((server.failed(), server.open), (10, 0), "{server:?}");
        drop((a, b));
        assert_eq!(context.arena.accounting().held, 0);
    }
}
