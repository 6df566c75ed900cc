//! Lookups in tables of exact matches, as `bench/peers/rte_exact.c` does DPDK's: the same keys in
//! the same order, eight bytes of data with each, the data part of the answer.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use linerate_linux::machine::pin_current_thread;
use linerate_memory::clock::{cycles, cycles_per_second};
use linerate_tables::exact::{Backing, Table};
use serde_json::{Value, json};

/// Lookups in a sample.
const BLOCK: usize = 1 << 15;
/// Keys looked up in turn, when the table has fewer.
const FEWEST_QUERIES: usize = 1 << 14;
/// Samples taken at most.
const SAMPLES: usize = 4096;

/// As an IPv4 5-tuple with its VLAN.
type Key = [u64; 2];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keys in the table.
    #[arg(long, default_value_t = 65_536)]
    keys: usize,
    /// Keys looked up at once.
    #[arg(long, default_value_t = 32)]
    burst: usize,
    /// How long to run.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Core to run on.
    #[arg(long)]
    core: Option<u32>,
    /// Time every insertion into a table that grows, instead.
    #[arg(long)]
    pauses: bool,
}

pub(crate) fn run(args: &Args) -> Result<Value> {
    ensure!((1..=256).contains(&args.burst), "--burst {}: choose 1 to 256", args.burst);
    ensure!((1..=1 << 26).contains(&args.keys), "--keys {}: choose 1 to 2^26", args.keys);
    if let Some(core) = args.core {
        pin_current_thread(core)?;
    }
    let mut state = 1;
    let keys: Vec<Key> = (0..args.keys).map(|_| [next(&mut state), next(&mut state)]).collect();
    if args.pauses {
        return Ok(json!({
            "ready": pauses(&keys, Backing::Ready)?,
            "on_demand": pauses(&keys, Backing::OnDemand)?,
        }));
    }
    let query = |_| keys[(next(&mut state) % args.keys as u64) as usize];
    let queries: Vec<Key> = (0..args.keys.max(FEWEST_QUERIES)).map(query).collect();

    let mut table = Table::new(args.keys, Backing::Ready)?;
    let start = cycles();
    for (&key, data) in keys.iter().zip(0u64..) {
        table.insert(key, data)?;
    }
    let adding = (cycles() - start) as f64 / args.keys as f64;

    let samples = sample(args, &table, &queries)?;
    Ok(json!({
        "case": "exact-match",
        "burst": args.burst,
        "cycles_best": samples[0],
        "cycles_median": samples[samples.len() / 2],
        "samples": samples.len(),
        "tsc_hz": cycles_per_second(),
        "keys": args.keys,
        "add_cycles": adding,
        "bytes_per_key": table.memory() as f64 / args.keys as f64,
    }))
}

/// Cycles per key, sorted.
fn sample(args: &Args, table: &Table<Key, u64>, queries: &[Key]) -> Result<Vec<f64>> {
    let mut found = [None; 256];
    let found = &mut found[..args.burst];
    let mut bursts = queries.chunks_exact(args.burst).cycle();
    let mut samples = Vec::with_capacity(SAMPLES);
    let end = Instant::now() + Duration::from_millis(args.ms);
    let (rounds, mut sum) = (BLOCK / args.burst, 0u64);
    while samples.len() < SAMPLES && (samples.is_empty() || Instant::now() < end) {
        let start = cycles();
        let mut hits = 0;
        for burst in bursts.by_ref().take(rounds) {
            table.lookup_many(burst, found);
            for data in found.iter().filter_map(|&entry| table.get(entry?)) {
                sum = sum.wrapping_add(*data);
                hits += 1;
            }
        }
        samples.push((cycles() - start) as f64 / hits as f64);
        ensure!(hits == rounds * args.burst, "{hits} of {} found", rounds * args.burst);
    }
    ensure!(sum != 0 || args.keys == 1, "no data");
    samples.sort_by(f64::total_cmp);
    Ok(samples)
}

/// Nanoseconds of single insertions while a table grows from nothing, beside those of reading the
/// clock, which show what the machine itself interrupts for.
fn pauses(keys: &[Key], backing: Backing) -> Result<Value> {
    let mut table = Table::new(keys.len(), backing)?;
    let each = |mut work: Box<dyn FnMut(Key) -> Result<()> + '_>| -> Result<Value> {
        let mut times = Vec::with_capacity(keys.len());
        for &key in keys {
            let start = cycles();
            work(key)?;
            times.push(cycles() - start);
        }
        times.sort_unstable();
        let rate = cycles_per_second() as f64 / 1e9;
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] as f64 / rate;
        Ok(json!({
            "median": at(0.5),
            "99.9%": at(0.999),
            "99.99%": at(0.9999),
            "99.999%": at(0.99999),
            "worst": at(1.0),
        }))
    };
    let insertion = each(Box::new(|key| {
        table.insert(key, 0u64)?;
        Ok(())
    }))?;
    let nothing = each(Box::new(|_| Ok(())))?;
    Ok(json!({ "keys": keys.len(), "insertion_ns": insertion, "nothing_ns": nothing }))
}

/// `SplitMix64`, as the peer has it.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
