//! The sink: a worker that takes frames, analyses their signatures and gives
//! the buffers back.

use std::sync::{Arc, Mutex, PoisonError};

use linerate_memory::PoolCache;
use linerate_port::{PortError, Receive};
use linerate_worker::{Idle, Meter, Sleeper, Stage, Stop, UsageReader};

use crate::{
    clock::now,
    rx_queues::{Arrivals, RxQueues},
};

/// Interval of publishing, in nanoseconds.
const PUBLISH: u64 = 100_000_000;

/// Reads a sink's arrivals from another thread.
#[derive(Debug, Clone)]
pub struct SinkReader {
    published: Arc<Mutex<Arrivals>>,
}

impl SinkReader {
    /// The arrivals of a tenth of a second ago at most; all once the sink has ended.
    pub fn read(&self) -> Arrivals {
        self.published.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A worker that receives and analyses. All queues of a port go to one sink,
/// since a stream may be spread over them.
pub struct Sink {
    rx_queues: RxQueues,
    sleeper: Sleeper,
    meter: Meter,
    left: Option<u64>,
    published: Arc<Mutex<Arrivals>>,
    /// Time of the next publishing.
    due: u64,
}

impl Sink {
    /// A sink that ends after `count` frames.
    ///
    /// # Panics
    ///
    /// When `burst` is not in 1..=[`FRAME_LIMIT`](linerate_memory::FRAME_LIMIT).
    pub fn new(
        receives: Vec<Box<dyn Receive>>,
        pool: PoolCache,
        burst: usize,
        idle: Idle,
        count: Option<u64>,
    ) -> Sink {
        Sink {
            rx_queues: RxQueues::new(receives, pool, burst),
            sleeper: Sleeper::new(idle),
            meter: Meter::new(),
            left: count,
            published: Arc::default(),
            due: 0,
        }
    }

    /// A handle to the arrivals, for other threads.
    pub fn reader(&self) -> SinkReader {
        SinkReader { published: Arc::clone(&self.published) }
    }

    /// The worker's cycles, for other threads.
    pub fn usage(&self) -> UsageReader {
        self.meter.reader()
    }

    /// Receives until told to stop, until the count is reached or until the
    /// port ends.
    ///
    /// # Errors
    ///
    /// When the port fails.
    pub fn run(mut self, stop: &Stop) -> Result<(), PortError> {
        let outcome = self.receive_all(stop);
        self.rx_queues.close();
        self.publish(now(), true);
        self.meter.finish();
        outcome
    }

    fn receive_all(&mut self, stop: &Stop) -> Result<(), PortError> {
        while !stop.is_raised() && self.left != Some(0) {
            let measured = self.meter.round();
            let (mut bursts, mut packets) = (0, 0);
            for queue in 0..self.rx_queues.queues() {
                if self.left.is_some_and(|left| !self.rx_queues.limit(left)) {
                    break;
                }
                let received = self.rx_queues.receive(queue)?;
                if measured {
                    self.meter.stage(Stage::Receive);
                }
                if received == 0 {
                    continue;
                }
                let time = self.rx_queues.analyse();
                if measured {
                    self.meter.stage(Stage::Task);
                }
                bursts += 1;
                packets += received;
                if let Some(left) = &mut self.left {
                    *left -= received as u64;
                }
                if time >= self.due {
                    self.publish(time, false);
                }
            }
            self.meter.done(bursts, packets, measured);
            if packets > 0 {
                self.sleeper.busy();
            } else if self.rx_queues.ended() {
                break;
            } else if self.sleeper.should_sleep() {
                let wakes = self.rx_queues.wakes();
                self.sleeper.sleep(&wakes);
                drop(wakes);
                self.meter.slept();
                let time = now();
                if time >= self.due {
                    self.publish(time, false);
                }
            }
        }
        Ok(())
    }

    /// Publishes the arrivals. Skipped while a reader has them locked, unless it must be.
    #[cold]
    fn publish(&mut self, time: u64, must: bool) {
        self.due = time + PUBLISH;
        self.rx_queues.refresh();
        let guard = if must {
            Some(self.published.lock().unwrap_or_else(PoisonError::into_inner))
        } else {
            self.published.try_lock().ok()
        };
        if let Some(mut published) = guard {
            published.clone_from(self.rx_queues.arrivals());
        }
    }
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("queues", &self.rx_queues.queues()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use linerate_memory::ArenaOptions;
    use linerate_port::{Context, open};

    use std::time::Duration;

    use super::*;
    use crate::{
        Generator, Latency, Pattern, Protocol, Rate, Schedule, SequenceCounts, Traffic, Values,
    };

    fn traffic(protocol: Protocol, vlan: bool, ipv6: bool) -> Traffic {
        let mut traffic = Traffic::new("128,256".parse().unwrap(), ipv6);
        traffic.protocol = protocol;
        traffic.variation.vlans = vlan.then(|| Values::one(5));
        traffic
    }

    /// Sends `count` frames through a ring and returns the sink's arrivals.
    fn through_a_ring(traffic: &Traffic, rate: Rate, count: u64) -> Arrivals {
        let arena = ArenaOptions { size: 4 << 20, huge: false, ..Default::default() };
        let context = Context::new(arena.create().unwrap());
        let uri = "ring:x".parse().unwrap();
        let (mut a, mut b) = (open(&uri, &context).unwrap(), open(&uri, &context).unwrap());
        let rate = rate.packets_per_second(200.0, None).unwrap();
        let generator = Generator::new(
            traffic.maker(1).unwrap(),
            Schedule::new(rate, Pattern::Constant, 1),
            a.queues[0].transmit.take().unwrap(),
            context.arena.cache(64),
            32,
            Idle::Adaptive,
            Some(count),
        );
        let receive = b.queues[0].receive.take().unwrap();
        let pool = context.arena.cache(64);
        let sink = Sink::new(vec![receive], pool, 32, Idle::Adaptive, Some(count));
        let (progress, reader, stop) = (generator.progress(), sink.reader(), Stop::new());
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| sink.run(&stop));
            generator.run(&stop).unwrap();
            worker.join().unwrap().unwrap();
        });
        let progress = progress.read();
        assert_eq!((progress.offered, progress.accepted), (count, count));
        drop((a, b));
        assert_eq!(context.arena.accounting().held, 0);
        reader.read()
    }

    #[test]
    fn every_kind_of_frame_is_recognised_and_in_order() {
        for protocol in [Protocol::Udp, Protocol::Tcp, Protocol::Icmp, Protocol::Raw(0x88b5)] {
            for (vlan, ipv6) in [(false, false), (true, false), (false, true), (true, true)] {
                let arrivals = through_a_ring(&traffic(protocol, vlan, ipv6), Rate::Max, 500);
                assert_eq!((arrivals.frames, arrivals.unsigned), (500, 0), "{protocol:?}");
                let expected = SequenceCounts { received: 500, ..Default::default() };
                assert_eq!(arrivals.total(), expected, "{protocol:?}");
                assert_eq!(arrivals.latency.count(), 500);
            }
        }
    }

    #[test]
    fn a_rate_is_kept_and_nothing_is_lost() {
        let traffic = traffic(Protocol::Udp, false, false);
        let start = std::time::Instant::now();
        let arrivals = through_a_ring(&traffic, Rate::Packets(10_000.0), 500);
        // It cannot be faster than the schedule; slower is the machine's fault.
        assert!(start.elapsed() >= Duration::from_millis(45));
        assert_eq!(arrivals.total().received, 500);
    }

    #[test]
    fn foreign_frames_are_counted_as_unsigned() {
        let arena = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let context = Context::new(arena.create().unwrap());
        let mut port = open(&"null:?copy&count=77".parse().unwrap(), &context).unwrap();
        let receive = port.queues[0].receive.take().unwrap();
        let sink = Sink::new(vec![receive], context.arena.cache(64), 32, Idle::Poll, None);
        let reader = sink.reader();
        sink.run(&Stop::new()).unwrap();
        assert_eq!((reader.read().frames, reader.read().unsigned), (77, 77));
    }

    #[test]
    fn a_count_is_exact_over_all_queues() {
        for count in [1, 10, 32, 33, 100] {
            let arena = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
            let context = Context::new(arena.create().unwrap());
            let mut port = open(&"null:?queues=3".parse().unwrap(), &context).unwrap();
            let receives: Vec<_> =
                port.queues.iter_mut().filter_map(|queue| queue.receive.take()).collect();
            let counters: Vec<_> =
                receives.iter().map(|receive| Arc::clone(receive.counters())).collect();
            let sink = Sink::new(receives, context.arena.cache(64), 32, Idle::Poll, Some(count));
            let reader = sink.reader();
            sink.run(&Stop::new()).unwrap();
            let taken: u64 = counters.iter().map(|counters| counters.read().packets).sum();
            assert_eq!((reader.read().frames, taken), (count, count));
            assert_eq!(context.arena.accounting().held, 0);
        }
    }

    #[test]
    fn percentiles() {
        let mut latency = Latency::default();
        (1..=1000).for_each(|n| latency.record(n * 1000));
        assert_eq!((latency.count(), latency.min()), (1000, 1000));
        let within = |value: u64, expected: u64| value.abs_diff(expected) <= expected / 500;
        assert!(within(latency.percentile(50.0), 500_000), "{}", latency.percentile(50.0));
        assert!(within(latency.percentile(99.0), 990_000));
        assert!(within(latency.max(), 1_000_000));
    }
}
