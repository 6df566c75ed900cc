//! Ring and pool operations, as `bench/peers/rte_ops.c` does DPDK's: the same
//! loops, the same ring size, blocks of the same length.

use std::{
    hint::{black_box, spin_loop},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use linerate_linux::machine::pin_current_thread;
use linerate_memory::{
    ArenaOptions, Frame,
    clock::{cycles, cycles_per_second},
    ring::{Mpmc, spsc},
};
use serde_json::{Value, json};

/// Elements of the rings.
const RING: usize = 1024;
/// Objects in a sample on one core, and on two.
const BLOCK: usize = 1 << 17;
const BLOCK_2: usize = 1 << 18;
/// Buffers in the worker's cache.
const CACHE: usize = 256;
/// Samples taken at most.
const SAMPLES: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Operation {
    /// Single-producer single-consumer ring, one core.
    RingSpsc,
    /// Multi-producer multi-consumer ring, one core.
    RingMpmc,
    /// Single-producer single-consumer ring between two cores.
    #[value(name = "ring-spsc-2")]
    RingSpscTwo,
    /// Multi-producer multi-consumer ring between two cores.
    #[value(name = "ring-mpmc-2")]
    RingMpmcTwo,
    /// Buffers taken from a pool and given back.
    Pool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Operation that is repeated.
    operation: Operation,
    /// Objects at once.
    #[arg(long, default_value_t = 32)]
    burst: usize,
    /// How long to run.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Objects to move instead.
    #[arg(long)]
    count: Option<usize>,
    /// Core to run on.
    #[arg(long)]
    core: Option<u32>,
    /// Core of the producer, where there are two.
    #[arg(long)]
    producer_core: Option<u32>,
}

pub(crate) fn run(args: &Args) -> Result<Value> {
    ensure!((1..=256).contains(&args.burst), "--burst {}: choose 1 to 256", args.burst);
    if let Some(core) = args.core {
        pin_current_thread(core)?;
    }
    let arena = ArenaOptions { size: 40 << 20, ..ArenaOptions::default() }.create()?;
    let mut pool = arena.cache(CACHE);
    let mut frame = Frame::new(args.burst);
    let elements = &mut [0; 256][..args.burst];
    let samples = match args.operation {
        // As there: the calls for one object where there is one.
        Operation::Pool if args.burst == 1 => {
            let round = || {
                if let Some(slot) = pool.take_one(60) {
                    pool.give_one(black_box(slot));
                }
            };
            sample(args, BLOCK, round)
        }
        Operation::Pool => {
            let round = || {
                pool.take(&mut frame, args.burst, 60);
                pool.give(&mut frame);
            };
            sample(args, BLOCK, round)
        }
        Operation::RingSpsc => {
            let (mut producer, mut consumer) = spsc::<u64>(RING);
            let round = move || {
                producer.push_slice(elements);
                consumer.pop_slice(elements);
            };
            sample(args, BLOCK, round)
        }
        Operation::RingMpmc => {
            let ring = Mpmc::<u64>::new(RING);
            let round = move || {
                ring.push_slice(elements);
                ring.pop_slice(elements);
            };
            sample(args, BLOCK, round)
        }
        Operation::RingSpscTwo => {
            let (mut producer, mut consumer) = spsc::<u64>(RING);
            let push = |elements: &[u64]| producer.push_slice(elements);
            two_cores(args, push, |to| consumer.pop_slice(to))?
        }
        Operation::RingMpmcTwo => {
            let ring = Mpmc::<u64>::new(RING);
            two_cores(args, |elements| ring.push_slice(elements), |to| ring.pop_slice(to))?
        }
    };
    let (best, median) = (samples[0], samples[samples.len() / 2]);
    Ok(json!({
        "case": args.operation.to_possible_value().map(|value| value.get_name().to_string()),
        "burst": args.burst,
        "cycles_best": best,
        "cycles_median": median,
        "samples": samples.len(),
        "tsc_hz": cycles_per_second(),
    }))
}

/// Cycles per object of one round, sorted, from blocks of `block` objects.
fn sample(args: &Args, block: usize, mut round: impl FnMut()) -> Vec<f64> {
    let rounds = block / args.burst;
    let mut run = |rounds: usize| (0..rounds).for_each(|_| round());
    if let Some(count) = args.count {
        run(count / args.burst);
        return vec![f64::NAN];
    }
    run(rounds);
    let mut samples = Vec::with_capacity(SAMPLES);
    let end = Instant::now() + Duration::from_millis(args.ms);
    while samples.len() < SAMPLES && (samples.is_empty() || Instant::now() < end) {
        let start = cycles();
        run(rounds);
        samples.push((cycles() - start) as f64 / (rounds * args.burst) as f64);
    }
    samples.sort_by(f64::total_cmp);
    samples
}

/// A producer that always pushes on another thread; this one is the consumer.
fn two_cores(
    args: &Args,
    mut push: impl FnMut(&[u64]) -> usize + Send,
    mut pop: impl FnMut(&mut [u64]) -> usize,
) -> Result<Vec<f64>> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let producer = scope.spawn(|| -> Result<()> {
            if let Some(core) = args.producer_core {
                pin_current_thread(core)?;
            }
            let elements = [0; 256];
            while !stop.load(Ordering::Relaxed) {
                if push(&elements[..args.burst]) == 0 {
                    spin_loop();
                }
            }
            Ok(())
        });
        let mut elements = [0; 256];
        let round = || {
            let mut left = args.burst;
            while left > 0 {
                let got = pop(&mut elements[..left]);
                if got == 0 {
                    spin_loop();
                }
                left -= got;
            }
        };
        let samples = sample(args, BLOCK_2, round);
        stop.store(true, Ordering::Relaxed);
        producer.join().expect("the producer does not panic")?;
        Ok(samples)
    })
}
