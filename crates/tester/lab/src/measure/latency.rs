//! Latency of a worker at a share of its highest rate.
//!
//! A worker takes packets from one ring, works, and puts them into another. This thread first
//! measures its rate when there are always more, then sends at a share of that, at random times
//! (Poisson), and takes the time from when a packet was *due* to when it came back: the delay of
//! this thread is part of the latency, and nothing is left out while the worker is held up.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use linerate_linux::machine::pin_current_thread;
use linerate_memory::{
    Frame, PoolCache,
    clock::{cycles, cycles_in, cycles_per_second},
};
use linerate_port::{Context, Direction, PortError, Receive, Transmit};
use linerate_worker::{Idle, Sleeper, Stop};
use rustix::time::{ClockId, clock_gettime};

use super::{
    Bench, Failure, arena, burst,
    port_pair::{pool, port, side},
    work::Work,
};
use crate::{
    instruments::Energy,
    point::{self, Spec, Touch, Values, value},
    rx_queues::Latency,
};

/// Length of a packet, and where the time it was due is in it.
const LENGTH: usize = 60;
const STAMP: std::ops::Range<usize> = 14..22;
/// Windows in which the worker is flooded to find its highest rate.
const WINDOWS: usize = 25;
/// Longest time the worker may take to begin, and to end.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Most by which one packet in a hundred may be late: delays of the sender are not the worker's
/// latency.
const LATE: Duration = Duration::from_millis(1);
/// A window whose mean latency is one of many.
const WINDOW: Duration = Duration::from_millis(1);
/// Most packets sent or received at once by this thread.
const BATCH: usize = 64;

pub(super) fn measure(
    bench: &Bench,
    point: &point::Latency,
    spec: &Spec,
) -> Result<Values, Failure> {
    let cores = bench.cores(2)?;
    let context = Context::new(arena(4 * point.slots as usize + 8192, 64)?);
    let end =
        |name: &str| port(&context, &format!("ring:{name}?slots={}", point.slots), Direction::Both);
    let send = side(end("to")?, |queue| queue.transmit.take())?;
    let take = side(end("to")?, |queue| queue.receive.take())?;
    let give = side(end("from")?, |queue| queue.transmit.take())?;
    let receive = side(end("from")?, |queue| queue.receive.take())?;
    let worker = Worker {
        take,
        give,
        burst: burst(point.burst)?,
        idle: idle(point.idle),
        empty_work: point.burst_work,
        work: Work::new(point.work, point.burst_work, Touch::None),
    };
    let done = WorkerCounts::default();
    let stop = Stop::new();
    let mut tester = Tester {
        pool: pool(&context.arena, BATCH),
        send,
        receive,
        out: Frame::new(BATCH),
        back: Frame::new(BATCH),
    };
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _ = pin_current_thread(cores[1]);
            worker.run(&mut pool(&context.arena, BATCH), &done, &stop)
        });
        let values = tester.test(point, spec, &done);
        stop.raise();
        thread.join().map_err(|_| Failure::void("the worker died"))??;
        tester.receive.close(&mut tester.pool);
        values
    })
}

fn idle(idle: point::Idle) -> Idle {
    match idle {
        point::Idle::Poll => Idle::Poll,
        point::Idle::Adaptive => Idle::Adaptive,
        point::Idle::Block => Idle::Block,
    }
}

/// The device that is tested.
struct Worker {
    take: Box<dyn Receive>,
    give: Box<dyn Transmit>,
    burst: usize,
    idle: Idle,
    empty_work: u32,
    work: Work,
}

/// The worker's counts, for the other thread.
#[derive(Default)]
struct WorkerCounts {
    packets: AtomicU64,
    bursts: AtomicU64,
    /// Processor time, in nanoseconds.
    processor: AtomicU64,
}

impl WorkerCounts {
    fn now(&self) -> [f64; 3] {
        [&self.packets, &self.bursts, &self.processor].map(|count| count.load(Relaxed) as f64)
    }
}

impl Worker {
    fn run(
        mut self,
        pool: &mut PoolCache,
        done: &WorkerCounts,
        stop: &Stop,
    ) -> Result<(), PortError> {
        let mut frame = Frame::new(self.burst);
        let mut sleeper = Sleeper::new(self.idle);
        let mut nothing = Frame::new(1);
        let (mut packets, mut bursts, mut rounds) = (0, 0, 0u32);
        while !stop.is_raised() {
            let received = self.take.receive(pool, &mut frame)?;
            rounds += 1;
            if received == 0 || rounds.is_multiple_of(64) {
                let time = clock_gettime(ClockId::ThreadCPUTime);
                let time = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                done.processor.store(time, Relaxed);
            }
            if received > 0 {
                sleeper.busy();
                self.work.apply(pool, &mut frame);
                while self.give.transmit(pool, &mut frame)? == 0 || !frame.is_empty() {
                    if stop.is_raised() {
                        break;
                    }
                }
                packets += received as u64;
                bursts += 1;
                done.packets.store(packets, Relaxed);
                done.bursts.store(bursts, Relaxed);
            } else if self.idle == Idle::Poll {
                // As long as a round without packets lasts in the model.
                if self.empty_work > 0 {
                    self.work.apply(pool, &mut nothing);
                }
            } else if sleeper.should_sleep() {
                sleeper.sleep(&[self.take.wake()]);
            }
        }
        pool.give(&mut frame);
        self.take.close(pool);
        Ok(())
    }
}

/// This thread: sends, receives, and takes the time.
struct Tester {
    pool: PoolCache,
    send: Box<dyn Transmit>,
    receive: Box<dyn Receive>,
    out: Frame,
    back: Frame,
}

impl Tester {
    fn test(
        &mut self,
        point: &point::Latency,
        spec: &Spec,
        done: &WorkerCounts,
    ) -> Result<Values, Failure> {
        if point.load_percent == 0 {
            return Err(Failure::unsupported("a load of 0 sends nothing"));
        }
        let capacity = self.flood(done)?;
        let rate = capacity * f64::from(point.load_percent) / 100.0;
        let before = done.now();
        let energy = Energy::now();
        let start = Instant::now();
        let found = self.offer(rate, Duration::from_millis(spec.duration_ms), spec.seed)?;
        let seconds = start.elapsed().as_secs_f64();
        let joules = energy.and_then(|before| before.since());
        let [packets, bursts, processor] = {
            let after = done.now();
            [0, 1, 2].map(|index| after[index] - before[index])
        };
        let late = Duration::from_nanos(found.late.percentile(99.0));
        if late > LATE {
            let reason = format!(
                "the sending thread was held up: one packet in a hundred left more than \
                 {} ms late, when others used its core",
                LATE.as_millis()
            );
            return Err(Failure::Void(reason));
        }
        if found.latency.count() == 0 {
            return Err(Failure::void("no packet came back"));
        }
        let nanoseconds = |percent: f64| found.latency.percentile(percent) as f64;
        let mut values = Values::from([
            (value::HIGHEST.into(), capacity),
            (value::OFFERED.into(), rate),
            (value::RATE.into(), found.latency.count() as f64 / seconds),
            (value::LOST.into(), found.lost as f64 / (found.sent + found.lost).max(1) as f64),
            (value::LATENCY_MEAN.into(), found.latency.mean()),
            (value::LATENCY_TYPICAL.into(), found.typical),
            ("latency_min_ns".into(), found.latency.min() as f64),
            (value::LATENCY_P50.into(), nanoseconds(50.0)),
            ("latency_p90_ns".into(), nanoseconds(90.0)),
            (value::LATENCY_P99.into(), nanoseconds(99.0)),
            ("latency_p999_ns".into(), nanoseconds(99.9)),
            ("latency_max_ns".into(), found.latency.max() as f64),
            ("late_p99_ns".into(), found.late.percentile(99.0) as f64),
            ("packets".into(), found.latency.count() as f64),
            (value::VECTOR.into(), packets / bursts.max(1.0)),
            (value::BUSY.into(), processor / 1e9 / seconds),
            ("cpu_ns_per_packet".into(), processor / packets.max(1.0)),
        ]);
        // Of the whole processor, this thread and all others included.
        values.extend(joules.map(|joules| ("joules_per_packet".into(), joules / packets.max(1.0))));
        Ok(values)
    }

    /// The worker's rate when there is always more: packets per second.
    fn flood(&mut self, done: &WorkerCounts) -> Result<f64, Failure> {
        let mut rates = Vec::new();
        let (mut sent, mut received) = (0, 0);
        let start = Instant::now();
        let mut window = (Instant::now(), done.now()[0]);
        // Windows in which the worker did not run say nothing; on a machine that
        // others use there are such.
        while rates.len() < WINDOWS && start.elapsed() < TIMEOUT {
            let room = BATCH - self.out.len();
            self.pool.take(&mut self.out, room, LENGTH);
            sent += self.send.transmit(&mut self.pool, &mut self.out)?;
            received += self.receive.receive(&mut self.pool, &mut self.back)?;
            self.pool.give(&mut self.back);
            if window.0.elapsed() >= WINDOW {
                let now = (Instant::now(), done.now()[0]);
                if now.1 > window.1 {
                    rates.push((now.1 - window.1) / (now.0 - window.0).as_secs_f64());
                }
                window = now;
            }
        }
        self.pool.give(&mut self.out);
        self.drain(sent - received, |_, _| ())?;
        rates.sort_by(f64::total_cmp);
        // Most are whole; an interruption only makes a window slower.
        let at = rates.len() * 3 / 4;
        rates.get(at).copied().ok_or_else(|| Failure::void("the worker did not run"))
    }

    /// Receives all that is still on its way.
    fn drain(&mut self, mut left: usize, mut each: impl FnMut(u64, u64)) -> Result<(), Failure> {
        let end = Instant::now() + TIMEOUT;
        while left > 0 {
            left = left.saturating_sub(self.take_back(&mut each)?);
            if Instant::now() > end {
                return Err(Failure::void(format!("{left} packets did not come back")));
            }
        }
        Ok(())
    }

    /// Receives the packets that are there; `each` gets when one was due and when it came.
    fn take_back(&mut self, mut each: impl FnMut(u64, u64)) -> Result<usize, Failure> {
        let received = self.receive.receive(&mut self.pool, &mut self.back)?;
        if received > 0 {
            let now = cycles();
            self.pool.arena().for_each(&self.back, |bytes| {
                let stamp = bytes[STAMP].first_chunk().map_or(now, |due| u64::from_ne_bytes(*due));
                each(stamp, now);
            });
            self.pool.give(&mut self.back);
        }
        Ok(received)
    }

    /// Sends at random times at this rate, and takes the time of the packets that come back.
    fn offer(&mut self, rate: f64, time: Duration, seed: u64) -> Result<LoadResult, Failure> {
        let mut random = fastrand::Rng::with_seed(seed);
        let gap = cycles_per_second() / rate;
        let nanoseconds = 1e9 / cycles_per_second();
        // 1 - f64() is never zero.
        let mut draw = || -(1.0 - random.f64()).ln() * gap;
        let start = cycles();
        let (end, window) = (start + cycles_in(time), cycles_in(WINDOW) as f64);
        let mut due = start as f64 + draw();
        let mut found = LoadResult::default();
        let mut means = Means::new(start as f64, window);
        let mut received = 0;
        loop {
            let now = cycles();
            if now >= end {
                break;
            }
            while due <= now as f64 && self.out.room() > 0 {
                let Some(mut slot) = self.pool.take_one(LENGTH) else { break };
                if let Some(bytes) = self.pool.arena().packet_mut(&mut slot) {
                    bytes[STAMP].copy_from_slice(&(due as u64).to_ne_bytes());
                }
                let _ = self.out.push(slot);
                found.late.record(((now as f64 - due) * nanoseconds) as u64);
                due += draw();
            }
            if !self.out.is_empty() {
                found.sent += self.send.transmit(&mut self.pool, &mut self.out)? as u64;
                // The queue is full: a device drops packets without a place.
                found.lost += self.out.len() as u64;
                self.pool.give(&mut self.out);
            }
            let latency = &mut found.latency;
            received += self.take_back(|due, now| {
                let took = now.saturating_sub(due) as f64 * nanoseconds;
                latency.record(took as u64);
                means.add(now as f64, took);
            })?;
        }
        let latency = &mut found.latency;
        self.drain(found.sent as usize - received, |due, now| {
            latency.record((now.saturating_sub(due) as f64 * nanoseconds) as u64);
        })?;
        found.typical = means.median().unwrap_or(found.latency.mean());
        Ok(found)
    }
}

/// Counts and latencies under an offered load.
#[derive(Default)]
struct LoadResult {
    sent: u64,
    lost: u64,
    latency: Latency,
    /// Delays of sending.
    late: Latency,
    /// The median of the windows' means.
    typical: f64,
}

/// Means of windows, of which interruptions spoil some.
struct Means {
    end: f64,
    window: f64,
    sum: f64,
    count: f64,
    means: Vec<f64>,
}

impl Means {
    fn new(start: f64, window: f64) -> Means {
        Means { end: start + window, window, sum: 0.0, count: 0.0, means: Vec::new() }
    }

    fn add(&mut self, now: f64, value: f64) {
        if now >= self.end {
            if self.count > 0.0 {
                self.means.push(self.sum / self.count);
            }
            (self.sum, self.count) = (0.0, 0.0);
            self.end = now + self.window;
        }
        self.sum += value;
        self.count += 1.0;
    }

    fn median(mut self) -> Option<f64> {
        self.means.sort_by(f64::total_cmp);
        self.means.get(self.means.len() / 2).copied()
    }
}
