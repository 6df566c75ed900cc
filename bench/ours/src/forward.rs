//! Forwarding as `linerate forward` does it, and the processor time it takes.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use linerate_linux::machine::pin_current_thread;
use linerate_memory::{ArenaOptions, clock::cycles};
use linerate_packet::MacAddr;
use linerate_port::{Context, Counters, Direction, Port, PortUri, Receive, Transmit, open};
use linerate_worker::{Forwarder, Idle, Path, Rewrite, Stop};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// How often the counters are looked at: as much time as the blocks take that
/// the peers' loops are timed in.
const BLOCK: Duration = Duration::from_micros(500);

/// Buffers in the worker's cache, as `linerate forward` has them.
const CACHE: usize = 512;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Port to take packets from.
    from: PortUri,
    /// Port to give them to: the same, when none is named.
    to: Option<PortUri>,
    /// Forward back as well.
    #[arg(long)]
    bidirectional: bool,
    /// Write both Ethernet addresses of every packet.
    #[arg(long)]
    rewrite: bool,
    /// Most packets at once.
    #[arg(long, default_value_t = 32)]
    burst: usize,
    /// How long to run.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Measure from when a line comes on standard input: a peer may have to be started first.
    #[arg(long)]
    on_line: bool,
    /// Packets to forward in each direction instead.
    #[arg(long)]
    count: Option<u64>,
    /// Core to run on.
    #[arg(long)]
    core: Option<u32>,
    /// Memory for packets in MiB.
    #[arg(long, default_value_t = 16)]
    arena: usize,
}

pub(crate) fn run(args: &Args) -> Result<Value> {
    let options = ArenaOptions { size: args.arena << 20, ..ArenaOptions::default() };
    let context = Context::new(options.create()?);
    let pages = context.arena.pages();
    let mut from = open(&args.from, &context.toward(Direction::Both))?;
    let to = args.to.as_ref().map(|to| open(to, &context.toward(Direction::Both))).transpose()?;
    let mut sent = Vec::new();
    let mut paths = Vec::new();
    if let Some(mut to) = to {
        paths.push(path(args, &mut from, &mut to, &mut sent)?);
        if args.bidirectional {
            paths.push(path(args, &mut to, &mut from, &mut sent)?);
        }
    } else {
        let queue = from.queues.first_mut().context("the port has no queue")?;
        paths.push(joined(args, queue.receive.take(), queue.transmit.take(), &mut sent)?);
    }
    // The sides not used must not keep a ring's other end waiting.
    drop(from);
    let forwarder = Forwarder::new(paths, context.arena.cache(CACHE), Idle::Poll);
    let usage = forwarder.usage();
    let stop = Stop::new();
    let (core, timer) = (args.core, stop.clone());
    let worker = thread::spawn(move || -> Result<(f64, f64)> {
        if let Some(core) = core {
            pin_current_thread(core)?;
        }
        let before = (seconds(ClockId::Monotonic), seconds(ClockId::ThreadCPUTime));
        forwarder.run(&stop)?;
        let wall = seconds(ClockId::Monotonic) - before.0;
        Ok((wall, seconds(ClockId::ThreadCPUTime) - before.1))
    });
    let count = || sent.iter().map(|counters| counters.read().packets).sum::<u64>();
    let dropped = || sent.iter().map(|counters| counters.read().dropped()).sum::<u64>();
    let mut blocks = Vec::new();
    if args.on_line {
        std::io::stdin().read_line(&mut String::new())?;
    }
    let before = (usage.read().work, count(), dropped());
    let window = args.count.is_none().then(|| {
        let started = seconds(ClockId::Monotonic);
        blocks = watch(Duration::from_millis(args.ms), count);
        let window = (seconds(ClockId::Monotonic) - started, count() - before.1);
        let work = (usage.read().work - before.0, dropped() - before.2);
        timer.raise();
        // The worker then waits for what is on its way: not a part of the rate.
        (window, work)
    });
    let (wall, processor) = worker.join().expect("the worker does not panic")?;
    let ((wall, packets), (work, dropped)) =
        window.unwrap_or_else(|| ((wall, count()), (usage.read().work, dropped())));
    let rate = linerate_memory::clock::cycles_per_second();
    Ok(json!({
        "packets": packets,
        "dropped": dropped,
        "seconds": wall,
        "cpu_seconds": processor,
        "cycles": processor * rate / packets as f64,
        "work_cycles": work,
        "cycles_best": blocks.first(),
        "cycles_median": blocks.get(blocks.len() / 2),
        "tsc_hz": rate,
        "pages": pages.to_string(),
    }))
}

/// Looks at the count of packets for a while, from another thread than the one
/// that forwards them; returns the TSC cycles per packet of each block, fewest
/// first.
fn watch(time: Duration, count: impl Fn() -> u64) -> Vec<f64> {
    let end = Instant::now() + time;
    let mut blocks = Vec::new();
    let mut before = (cycles(), count());
    while Instant::now() < end {
        thread::sleep(BLOCK);
        let after = (cycles(), count());
        let packets = after.1 - before.1;
        if packets > 0 {
            blocks.push((after.0 - before.0) as f64 / packets as f64);
        }
        before = after;
    }
    blocks.sort_by(f64::total_cmp);
    blocks
}

fn path(
    args: &Args,
    from: &mut Port,
    to: &mut Port,
    sent: &mut Vec<Arc<Counters>>,
) -> Result<Path> {
    let (receive, transmit) = (from.queues[0].receive.take(), to.queues[0].transmit.take());
    joined(args, receive, transmit, sent)
}

fn joined(
    args: &Args,
    receive: Option<Box<dyn Receive>>,
    transmit: Option<Box<dyn Transmit>>,
    sent: &mut Vec<Arc<Counters>>,
) -> Result<Path> {
    let receive = receive.context("the port cannot receive")?;
    let transmit = transmit.context("the port cannot send")?;
    sent.push(Arc::clone(transmit.counters()));
    let rewrite = if args.rewrite {
        Rewrite::Set {
            destination: Some(MacAddr([2, 0, 0, 0, 0, 9])),
            source: Some(MacAddr([2, 0, 0, 0, 0, 8])),
        }
    } else {
        Rewrite::None
    };
    Ok(Path::new(vec![receive], transmit, args.burst, args.count).rewriting(rewrite))
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
