//! `cargo xtask bench network`: tables and network elements beside DPDK's, in turns, in one run.
//!
//! Each repetition measures the peer and then us, and a ratio is taken of the two; the result is
//! the median of those ratios.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::baseline::Baseline;
use super::filter::Filters;
use super::kernel_router::{self, DriverResult};
use super::lookup::Lookups;
use super::ours::Ours;
use super::peers::{Memory, Peer, Programs, ensure};
use super::priority::Priority;
use super::results;
use super::routers::{self, Router};
use super::row::{Row, row};
use super::updates;
use super::workers::{self, Workers};
use crate::shell;

/// Keys in the table: names of the rows of lookups and of additions, and the number.
const TABLES: [(&str, &str, u32); 4] = [
    ("exact-match 1k", "exact-add 1k", 1_000),
    ("exact-match 64k", "exact-add 64k", 64_000),
    ("exact-match 1M", "exact-add 1M", 1_000_000),
    ("exact-match 4M", "exact-add 4M", 4_000_000),
];
/// Keys looked up at once; DPDK takes no more than 64.
const TABLE_BURSTS: [u32; 2] = [32, 64];

/// Arguments of `cargo xtask bench network`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each case is measured.
    #[arg(long, default_value_t = 7)]
    repetitions: u32,
    /// Length of one measurement in milliseconds.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Only these cases: lookup, exact-match, filter, updates, ipv4-1, ipv4-100k, ipv6, arp, arp-4k,
    /// arp-64k, switch, nat, click-router, click-router-full, workers, router.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Give DPDK 4 KiB pages even where huge pages can be had.
    #[arg(long)]
    no_huge: bool,
    /// Keep the figures in bench/results, in the file of this processor.
    #[arg(long)]
    keep: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The measurement in progress.
struct Bench<'a> {
    args: &'a Args,
    window: Duration,
    memory: Memory,
    ours: Ours,
    rows: Vec<Row>,
    routers: Vec<Router>,
    updates: Vec<Value>,
    workers: Vec<Workers>,
    beside: Vec<DriverResult>,
    missing: Vec<String>,
    baseline: Baseline,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let ours = Ours::build()?;
    let dpdk = ensure(Peer::Dpdk);
    let _priority = Priority::raise();
    let memory =
        if args.no_huge { Memory::small_for_tables() } else { Memory::reserve_for_tables() };
    let window = Duration::from_millis(args.ms);
    let mut baseline = Baseline::new(dpdk.as_ref().err().map(ToString::to_string))?;
    baseline.sample(&memory, args.repetitions, window)?;
    let mut bench = Bench {
        args,
        window,
        memory,
        ours,
        rows: Vec::new(),
        routers: Vec::new(),
        updates: Vec::new(),
        workers: Vec::new(),
        beside: Vec::new(),
        missing: Vec::new(),
        baseline,
    };
    bench.routers()?;
    bench.updates()?;
    bench.workers()?;
    bench.kernel_router()?;
    match dpdk {
        Ok(()) => bench.against_dpdk(&Programs::build(Peer::Dpdk)?)?,
        Err(refusal) => bench.missing.push(refusal.to_string()),
    }
    bench.print()
}

impl Bench<'_> {
    fn wants(&self, case: &str) -> bool {
        self.args.only.is_empty() || self.args.only.iter().any(|only| only == case)
    }

    /// Prints the progress for the user while it runs.
    fn progress(&self, text: &str) {
        if !self.args.json {
            eprintln!("measuring {text}");
        }
    }

    /// The paths of packets through routers.
    fn routers(&mut self) -> Result<()> {
        self.progress("routers");
        let wants = |case: &str| self.wants(case);
        let found = routers::measure(&self.ours, self.window, self.args.repetitions, wants)?;
        self.routers = found;
        Ok(())
    }

    /// Tables that are written while a worker forwards by them.
    fn updates(&mut self) -> Result<()> {
        if self.wants("updates") {
            self.progress("updates");
            self.updates = updates::measure(&self.ours, self.window)?;
        }
        Ok(())
    }

    /// Paths on two workers.
    fn workers(&mut self) -> Result<()> {
        if self.wants("workers") {
            self.progress("two workers");
            self.workers = workers::measure(&self.ours, self.window, self.args.repetitions)?;
        }
        Ok(())
    }

    /// The example router beside Linux.
    fn kernel_router(&mut self) -> Result<()> {
        if !self.wants(kernel_router::CASE) {
            return Ok(());
        }
        if !shell::is_root() {
            self.missing.push("router is not measured: network namespaces need root".into());
            return Ok(());
        }
        self.progress("router against Linux");
        self.beside = kernel_router::measure(self.window, self.args.repetitions)?;
        Ok(())
    }

    fn against_dpdk(&mut self, programs: &Programs) -> Result<()> {
        if self.wants("lookup") {
            self.progress("lookup against rte_fib");
            let lookups = Lookups {
                ours: &self.ours,
                programs,
                memory: &self.memory,
                window: self.window,
                repetitions: self.args.repetitions,
            };
            lookups.measure(&mut self.rows)?;
        }
        if self.wants("filter") {
            self.progress("filter against rte_acl");
            let filters = Filters {
                ours: &self.ours,
                programs,
                memory: &self.memory,
                window: self.window,
                repetitions: self.args.repetitions,
            };
            filters.measure(&mut self.rows)?;
        }
        if self.wants("exact-match") {
            self.progress("exact-match against rte_hash");
            self.exact_match(programs)?;
        }
        Ok(())
    }

    /// All keys looked up are there, in random order.
    fn exact_match(&mut self, programs: &Programs) -> Result<()> {
        for _ in 0..self.args.repetitions {
            for (lookup, add, keys) in TABLES {
                for burst in TABLE_BURSTS {
                    let theirs = programs.rte_exact(&self.memory, keys, burst, self.window)?;
                    let ours = self.ours.exact(keys, burst, self.window)?;
                    let lookups = row(&mut self.rows, lookup, burst, "rte_hash");
                    lookups.theirs.push(theirs.lookup.median);
                    lookups.ours.push(ours.lookup.median);
                    let additions = row(&mut self.rows, add, 1, "rte_hash");
                    additions.theirs.push(theirs.add);
                    additions.ours.push(ours.add);
                }
            }
        }
        Ok(())
    }

    fn print(&self) -> Result<()> {
        if self.args.keep {
            let routers = self.routers.iter().filter_map(Router::kept);
            results::store(
                "network",
                results::named_figures(&self.rows).into_iter().chain(routers),
                &self.baseline,
            )?;
        }
        if self.args.json {
            println!(
                "{}",
                json!({
                    "machine": self.ours.machine()?,
                    "yardstick": self.baseline.json(),
                    "rows": json_rows(&self.rows, &self.routers),
                    "updates": self.updates,
                    "workers": self.workers.iter().map(Workers::json).collect::<Vec<_>>(),
                    "beside": self.beside.iter().map(DriverResult::json).collect::<Vec<_>>(),
                    "missing": self.missing,
                })
            );
            return Ok(());
        }
        let pages = if self.memory.is_huge() { "2 MiB" } else { "4 KiB" };
        println!(
            "TSC cycles per packet, address or key, {} repetitions of {} ms, {pages} pages for DPDK",
            self.args.repetitions, self.args.ms
        );
        self.baseline.print();
        Row::print_header();
        let reference = self.baseline.figure();
        self.rows.iter().for_each(|row| row.print(reference));
        self.routers.iter().for_each(|router| router.print(reference));
        self.updates.iter().for_each(updates::print);
        self.workers.iter().for_each(Workers::print);
        self.beside.iter().for_each(DriverResult::print);
        self.missing.iter().for_each(|missing| println!("NOT MEASURED: {missing}"));
        Ok(())
    }
}

/// A row for every case: those without a peer, the paths, have null in its place.
fn json_rows(rows: &[Row], routers: &[Router]) -> Vec<Value> {
    rows.iter().map(Row::json).chain(routers.iter().map(Router::json)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_without_a_peer_have_rows_too() {
        let mut rows = Vec::new();
        let beside = row(&mut rows, "filter", 32, "rte_acl");
        (beside.ours, beside.theirs) = (vec![1.0], vec![2.0]);
        let rows = json_rows(&rows, &[Router::with_cycles("nat", 30.0)]);
        let cases: Vec<_> = rows.iter().map(|row| (&row["case"], &row["peer"])).collect();
        assert_eq!(cases[0], (&json!("filter"), &json!("rte_acl")));
        assert_eq!(cases[1], (&json!("nat"), &Value::Null));
        for key in ["case", "burst", "cycles_best", "cycles_median", "ratio_median"] {
            assert!(rows.iter().all(|row| row.get(key).is_some()), "{key}: {rows:?}");
        }
    }
}
