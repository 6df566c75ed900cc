//! Longest-prefix matches, as `bench/peers/rte_lookup.c` does DPDK's: the same
//! tables and addresses, blocks of the same length.

pub(crate) mod tables;

use std::{
    hint::black_box,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use linerate_linux::machine::pin_current_thread;
use linerate_memory::clock::{cycles, cycles_per_second};
use linerate_tables::prefix::{NextHop, PrefixTable};
use serde_json::{Value, json};
use tables::{InFile, read_addresses, read_routes};

/// Addresses in a sample.
const BLOCK: usize = 1 << 16;
/// Samples taken at most.
const SAMPLES: usize = 4096;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The routes, as `linerate-bench tables` writes them.
    routes: PathBuf,
    /// The addresses, likewise.
    addresses: PathBuf,
    /// Routes and addresses are of IPv6.
    #[arg(long)]
    ipv6: bool,
    /// Addresses at once.
    #[arg(long, default_value_t = 256)]
    burst: usize,
    /// How long to run.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Core to run on.
    #[arg(long)]
    core: Option<u32>,
    /// Add the routes one by one, in the order of the file, instead of all at once.
    #[arg(long)]
    one_by_one: bool,
}

pub(crate) fn run(args: &Args) -> Result<Value> {
    ensure!(BLOCK.is_multiple_of(args.burst), "--burst {}: choose a power of two", args.burst);
    if let Some(core) = args.core {
        pin_current_thread(core)?;
    }
    if args.ipv6 { measure::<u128>(args) } else { measure::<u32>(args) }
}

fn measure<A: InFile>(args: &Args) -> Result<Value> {
    let mut routes = read_routes::<A>(&args.routes)?;
    let addresses = read_addresses::<A>(&args.addresses)?;
    ensure!(
        !addresses.is_empty() && addresses.len().is_multiple_of(BLOCK),
        "addresses are to be a multiple of {BLOCK}"
    );
    if !args.one_by_one {
        fastrand::Rng::with_seed(2).shuffle(&mut routes);
    }
    let mut table = PrefixTable::<A>::new()?;
    let begun = Instant::now();
    if args.one_by_one {
        routes.iter().try_for_each(|(prefix, hop)| table.add(*prefix, *hop))?;
    } else {
        table.load(routes)?;
    }
    let inserted = begun.elapsed();

    let reader = table.reader();
    let mut hops = vec![NextHop::NONE; args.burst];
    let mut sum = 0;
    for burst in addresses.chunks(args.burst) {
        reader.lookup_many(burst, &mut hops);
        sum += hops.iter().map(|hop| hop.index() as u64).sum::<u64>();
    }
    let mut samples = Vec::with_capacity(SAMPLES);
    let end = Instant::now() + Duration::from_millis(args.ms);
    for block in addresses.chunks(BLOCK).cycle().take(SAMPLES) {
        let start = cycles();
        for burst in block.chunks(args.burst) {
            reader.lookup_many(burst, &mut hops);
            black_box(&mut hops);
        }
        samples.push((cycles() - start) as f64 / BLOCK as f64);
        if Instant::now() >= end {
            break;
        }
    }
    samples.sort_by(f64::total_cmp);
    Ok(json!({
        "burst": args.burst,
        "cycles_best": samples[0],
        "cycles_median": samples[samples.len() / 2],
        "samples": samples.len(),
        "tsc_hz": cycles_per_second(),
        "sum": sum,
        "insert_seconds": inserted.as_secs_f64(),
        "routes": table.len(),
        "bytes": table.bytes(),
    }))
}
