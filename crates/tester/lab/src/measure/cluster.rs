//! Equal work by workers that do everything, and by workers that are handed packets.
//!
//! Run to completion, each core receives, works and sends. In a pipeline one core receives and
//! hands over to the others, which are threads behind rings, or processes on a cluster. Each core's
//! time is divided at each step: work, which includes receiving and sending; handing over, which is
//! giving packets and taking them; and polling, which is looking in vain, or waiting for room. The
//! counter is read two or three times per burst for that, in all of them.

use std::{
    ffi::OsString,
    io,
    process::{Child, Command, Stdio},
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use linerate_client::Consumer;
use linerate_cluster::{Access, BalancerHandle, Broker, Granted};
use linerate_linux::machine::pin_current_thread;
use linerate_memory::{
    Frame,
    clock::{cycles, cycles_per_second},
};
use linerate_model::{
    cpu_per_gbit,
    units::{Bytes, PacketsPerSecond},
};
use linerate_port::{Context, Direction};
use linerate_worker::Stop;
use serde::{Deserialize, Serialize};

use super::{
    Bench, Failure, arena, burst,
    port_pair::{pool, port, side},
    windows::{self, WARM},
    work::Work,
};
use crate::{
    instruments::Blocks,
    point::{Cluster, Division, Spec, Touch, Values, value},
    sizes::FCS,
};

/// Places in the ring between a receiver and a worker.
const SLOTS: u32 = 1024;
/// Longest time processes may take to attach.
const ATTACH_LIMIT: Duration = Duration::from_secs(10);
const ATTACH_POLL: Duration = Duration::from_millis(1);

/// A core's time by use, in cycles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Account {
    work: u64,
    hand_over: u64,
    polling: u64,
}

impl Account {
    fn all(&self) -> u64 {
        self.work + self.hand_over + self.polling
    }

    fn with(self, other: Account) -> Account {
        Account {
            work: self.work + other.work,
            hand_over: self.hand_over + other.hand_over,
            polling: self.polling + other.polling,
        }
    }
}

/// Takes the time of steps that follow one another.
struct Meter {
    /// Steps that end before are not counted.
    from: u64,
    last: u64,
    account: Account,
}

impl Meter {
    fn new() -> Meter {
        let now = cycles();
        let warm = (WARM.as_secs_f64() * cycles_per_second()) as u64;
        Meter { from: now + warm, last: now, account: Account::default() }
    }

    /// A step has ended.
    #[inline]
    fn lap(&mut self, part: impl FnOnce(&mut Account) -> &mut u64) {
        let now = cycles();
        if now >= self.from {
            *part(&mut self.account) += now.saturating_sub(self.last);
        }
        self.last = now;
    }

    fn worked(&mut self) {
        self.lap(|account| &mut account.work);
    }

    /// A try to give or take packets has ended.
    fn tried(&mut self, moved: usize) {
        self.lap(|account| if moved > 0 { &mut account.hand_over } else { &mut account.polling });
    }
}

/// Configuration and barrier that all cores of a point share.
struct CoreSetup<'a> {
    point: &'a Cluster,
    context: &'a Context,
    burst: usize,
    stop: &'a Stop,
    begin: &'a Barrier,
}

impl CoreSetup<'_> {
    /// Opens ports, and goes on when all cores have: also one that cannot, for which the others would
    /// wait for ever.
    fn together<T>(&self, open: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let opened = open();
        self.begin.wait();
        opened
    }
}

pub(super) fn measure(bench: &Bench, point: &Cluster, spec: &Spec) -> Result<Values, Failure> {
    let threads = match point.way {
        Division::Completion => point.cores.max(1),
        Division::Threads | Division::Processes => point.cores.max(2),
    };
    let cores = bench.cores(threads as usize)?;
    let burst = burst(point.burst)?;
    let context = Context::new(arena(cores.len() * (SLOTS as usize + 4096), point.frame)?);
    let time = Duration::from_millis(spec.duration_ms);
    let (blocks, account) = match point.way {
        Division::Processes => processes(bench, point, &context, burst, time, &cores)?,
        Division::Completion | Division::Threads => {
            one_process(point, &context, burst, time, &cores)?
        }
    };
    let mut values = blocks.values().ok_or_else(|| Failure::void("no packet came through"))?;
    // Packets are counted at the end of their path: bursts are not.
    values.remove(value::VECTOR);
    let all = account.all();
    if all == 0 {
        return Err(Failure::void("no core's time was taken"));
    }
    let bits = PacketsPerSecond::new(values[value::RATE]).bits(Bytes::new(point.frame.into()));
    let share = |part: u64| part as f64 / all as f64;
    let rho = |share: f64| cpu_per_gbit(share * cores.len() as f64, bits).get();
    for (name, figure) in [
        (value::BUSY, cores.len() as f64),
        (value::POLLING, share(account.polling)),
        (value::HAND_OVER, share(account.hand_over)),
        (value::RHO, rho(1.0)),
        (value::RHO_POLLING, rho(share(account.polling))),
        (value::RHO_HAND_OVER, rho(share(account.hand_over))),
    ] {
        values.insert(name.into(), figure);
    }
    Ok(values)
}

/// All cores are threads of this process; this thread counts.
fn one_process(
    point: &Cluster,
    context: &Context,
    burst: usize,
    time: Duration,
    cores: &[u32],
) -> Result<(Blocks, Account), Failure> {
    let (stop, begin) = (Stop::new(), Barrier::new(cores.len()));
    let place = CoreSetup { point, context, burst, stop: &stop, begin: &begin };
    let counters: Vec<AtomicU64> = cores.iter().map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, (&core, counter)) in cores.iter().zip(&counters).enumerate() {
            let place = &place;
            threads.push(scope.spawn(move || {
                let _ = pin_current_thread(core);
                match (point.way, number) {
                    (Division::Threads, 0) => hand_over(place, cores.len() - 1),
                    (Division::Threads, _) => take_over(place, number - 1, counter),
                    _ => complete(place, counter),
                }
            }));
        }
        let blocks = windows::count(|| sum(&counters), time);
        stop.raise();
        let mut account = Account::default();
        for thread in threads {
            let died = || Err(Failure::void("a thread died"));
            account = account.with(thread.join().unwrap_or_else(|_| died())?);
        }
        Ok((blocks, account))
    })
}

/// Packets of all counters.
fn sum(counters: &[AtomicU64]) -> u64 {
    counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
}

/// A source of the point's frames.
fn source(place: &CoreSetup<'_>) -> Result<Box<dyn linerate_port::Receive>, Failure> {
    let uri = format!("null:?size={}", (place.point.frame as usize).saturating_sub(FCS));
    side(port(place.context, &uri, Direction::Receive)?, |queue| queue.receive.take())
}

/// The end of the packets' path.
fn sink(place: &CoreSetup<'_>) -> Result<Box<dyn linerate_port::Transmit>, Failure> {
    side(port(place.context, "null:", Direction::Transmit)?, |queue| queue.transmit.take())
}

/// Receives, works and sends.
fn complete(place: &CoreSetup<'_>, counter: &AtomicU64) -> Result<Account, Failure> {
    let mut work = Work::new(place.point.work, 0, place.point.touch);
    let mut pool = pool(&place.context.arena, place.burst);
    let mut frame = Frame::new(place.burst);
    let (mut source, mut sink) = place.together(|| Ok((source(place)?, sink(place)?)))?;
    let mut meter = Meter::new();
    while !place.stop.is_raised() {
        let packets = source.receive(&mut pool, &mut frame)?;
        work.apply(&pool, &mut frame);
        sink.transmit(&mut pool, &mut frame)?;
        counter.fetch_add(packets as u64, Ordering::Relaxed);
        meter.worked();
    }
    Ok(meter.account)
}

fn ring(place: &CoreSetup<'_>, worker: usize) -> Result<linerate_port::Port, Failure> {
    let uri = format!("ring:worker{worker}?slots={SLOTS}");
    port(place.context, &uri, Direction::Both)
}

/// Receives, and hands bursts over to threads, one after the other.
fn hand_over(place: &CoreSetup<'_>, workers: usize) -> Result<Account, Failure> {
    let mut pool = pool(&place.context.arena, place.burst);
    let mut frame = Frame::new(place.burst);
    let way = |worker| side(ring(place, worker)?, |queue| queue.transmit.take());
    let (mut source, mut rings) = place
        .together(|| Ok((source(place)?, (0..workers).map(way).collect::<Result<Vec<_>, _>>()?)))?;
    let mut meter = Meter::new();
    // Asked here too: a ring whose worker has ended takes all packets.
    'run: while !place.stop.is_raised() {
        for ring in &mut rings {
            source.receive(&mut pool, &mut frame)?;
            meter.worked();
            while !frame.is_empty() {
                let moved = ring.transmit(&mut pool, &mut frame)?;
                meter.tried(moved);
                if place.stop.is_raised() {
                    break 'run;
                }
            }
        }
    }
    pool.give(&mut frame);
    Ok(meter.account)
}

/// Takes packets from a receiver, works and sends.
fn take_over(
    place: &CoreSetup<'_>,
    worker: usize,
    counter: &AtomicU64,
) -> Result<Account, Failure> {
    let mut work = Work::new(place.point.work, 0, place.point.touch);
    let mut pool = pool(&place.context.arena, place.burst);
    let mut frame = Frame::new(place.burst);
    let way = || side(ring(place, worker)?, |queue| queue.receive.take());
    let (mut ring, mut sink) = place.together(|| Ok((way()?, sink(place)?)))?;
    let mut meter = Meter::new();
    while !place.stop.is_raised() {
        let packets = ring.receive(&mut pool, &mut frame)?;
        meter.tried(packets);
        if packets > 0 {
            work.apply(&pool, &mut frame);
            sink.transmit(&mut pool, &mut frame)?;
            counter.fetch_add(packets as u64, Ordering::Relaxed);
            meter.worked();
        }
    }
    ring.close(&mut pool);
    Ok(meter.account)
}

/// Task of a worker process.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    socket: String,
    name: String,
    core: u32,
    burst: usize,
    work: u32,
    touch: Touch,
}

/// A process that works. Dropping it ends it.
struct Worker(Child);

impl Worker {
    fn start(words: &[OsString], task: &Task) -> Result<Worker, Failure> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(Failure::unsupported("it is not known what program is a worker"));
        };
        let task = serde_json::to_string(task).map_err(Failure::void)?;
        let mut command = Command::new(program);
        command.args(arguments).arg(task).stdin(Stdio::null()).stdout(Stdio::piped());
        let started = command.spawn();
        started.map(Worker).map_err(|error| Failure::void(format!("starting a worker: {error}")))
    }

    /// Its time by use; it has ended then, as its server has.
    fn finish(mut self) -> Result<Account, Failure> {
        let void = |error: &dyn std::fmt::Display| Failure::void(format!("a worker: {error}"));
        let mut text = String::new();
        if let Some(mut output) = self.0.stdout.take() {
            io::Read::read_to_string(&mut output, &mut text).map_err(|error| void(&error))?;
        }
        serde_json::from_str(&text).map_err(|error| void(&error))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This process receives, and hands over to others.
fn processes(
    bench: &Bench,
    point: &Cluster,
    context: &Context,
    burst: usize,
    time: Duration,
    cores: &[u32],
) -> Result<(Blocks, Account), Failure> {
    let socket = format!("@linerate-lab-{}-{}", std::process::id(), cycles());
    let broker = Broker::open(&socket, &context.arena).map_err(Failure::void)?;
    let writes = point.touch == Touch::Mac;
    let access = if writes { Access::Write } else { Access::Read };
    let names: Vec<(String, u32)> =
        (1..cores.len()).map(|number| (format!("worker{number}"), 1)).collect();
    let granted = Granted { access, cells: SLOTS };
    let balancer = BalancerHandle::new(&broker, "workers", &names, granted, false);
    let balancer = balancer.map_err(Failure::void)?;
    let mut workers = Vec::new();
    for ((name, _), &core) in names.iter().zip(&cores[1..]) {
        let (socket, name) = (socket.clone(), name.clone());
        let task = Task { socket, name, core, burst, work: point.work, touch: point.touch };
        workers.push(Worker::start(&bench.worker, &task)?);
    }
    let until = Instant::now() + ATTACH_LIMIT;
    while !names.iter().all(|(name, _)| broker.dispatcher().is_attached(name)) {
        if Instant::now() > until {
            return Err(Failure::void("the workers did not attach"));
        }
        thread::sleep(ATTACH_POLL);
    }
    let (stop, begin, counter) = (Stop::new(), Barrier::new(1), [AtomicU64::new(0)]);
    let place = CoreSetup { point, context, burst, stop: &stop, begin: &begin };
    let (blocks, account) = thread::scope(|scope| {
        let (place, counter) = (&place, &counter);
        let (broker, balancer) = (&broker, balancer.balancer());
        let receiver = scope.spawn(move || {
            let _ = pin_current_thread(cores[0]);
            lend(place, broker, balancer, &counter[0])
        });
        let blocks = windows::count(|| sum(counter), time);
        stop.raise();
        let died = || Err(Failure::void("a thread died"));
        Ok::<_, Failure>((blocks, receiver.join().unwrap_or_else(|_| died())?))
    })?;
    // Workers end with it.
    drop(balancer);
    drop(broker);
    let mut all = account;
    for worker in workers {
        all = all.with(worker.finish()?);
    }
    Ok((blocks, all))
}

/// Receives, and lends packets to processes, by turns.
fn lend(
    place: &CoreSetup<'_>,
    broker: &Broker,
    balancer: usize,
    counter: &AtomicU64,
) -> Result<Account, Failure> {
    let mut source = source(place)?;
    let mut pool = pool(&place.context.arena, place.burst);
    let (mut frame, mut absent) = (Frame::new(place.burst), Frame::new(place.burst));
    let mut meter = Meter::new();
    while !place.stop.is_raised() {
        if frame.is_empty() {
            source.receive(&mut pool, &mut frame)?;
            meter.worked();
        }
        let before = frame.len();
        broker.dispatcher().share_out(&[balancer], &[], true, &mut pool, &mut frame, &mut absent);
        if !absent.is_empty() {
            pool.give(&mut absent);
            return Err(Failure::void("a worker has ended"));
        }
        let moved = before - frame.len();
        counter.fetch_add(moved as u64, Ordering::Relaxed);
        meter.tried(moved);
    }
    pool.give(&mut frame);
    Ok(meter.account)
}

/// Runs the worker process of a point in another process, told by `task`; returns the text to be
/// printed. Ends with the other.
///
/// # Errors
///
/// When the task cannot be read, or no cluster hands packets over.
pub fn work(task: &str) -> io::Result<String> {
    let Task { socket, name, core, burst, work, touch } =
        serde_json::from_str(task).map_err(io::Error::other)?;
    let _ = pin_current_thread(core);
    let mut consumer = Consumer::attach(&socket, &name).map_err(io::Error::other)?;
    let mut work = Work::new(work, 0, touch);
    let pool = consumer.arena().cache(2);
    let mut frame = Frame::new(burst.clamp(1, linerate_memory::FRAME_LIMIT));
    // From the first packet to the last: threads begin and end together, too.
    let mut meter: Option<Meter> = None;
    let mut account = Account::default();
    loop {
        let taken = match consumer.receive_into(&mut frame) {
            Ok(taken) => taken,
            Err(error) if error.is_end() => break,
            Err(error) => return Err(io::Error::other(error)),
        };
        if taken == 0 {
            meter.iter_mut().for_each(|meter| meter.tried(0));
            std::hint::spin_loop();
            continue;
        }
        let meter = meter.get_or_insert_with(Meter::new);
        meter.tried(taken);
        work.apply(&pool, &mut frame);
        meter.worked();
        if let Err(error) = consumer.release(&mut frame) {
            if error.is_end() {
                break;
            }
            return Err(io::Error::other(error));
        }
        meter.tried(taken);
        account = meter.account;
    }
    Ok(serde_json::to_string(&account)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_charged_to_its_use() {
        let mut meter = Meter { from: 0, ..Meter::new() };
        meter.worked();
        let before = meter.account;
        assert!(before.work > 0 && before.hand_over + before.polling == 0);
        meter.tried(0);
        meter.tried(3);
        let Account { work, hand_over, polling } = meter.account;
        assert_eq!(work, before.work);
        assert!(hand_over > 0 && polling > 0);
        assert_eq!(meter.account.with(before).all(), 2 * work + hand_over + polling);
        meter.from = u64::MAX;
        let before = meter.account;
        meter.worked();
        assert_eq!(meter.account, before, "what ends before is not counted");
    }
}
