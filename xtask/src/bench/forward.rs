//! `cargo xtask bench forward`: our forwarder and the peers, in turns, in one run.
//!
//! Each repetition measures a peer and then us, and a ratio is taken of the two, so that a machine
//! that slows down for a second slows both. The result is the median of those ratios. Cycles are
//! processor time of the forwarding thread in ticks of the TSC.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use super::baseline::Baseline;
use super::live_frames::{Counters, Generator};
use super::ours::Ours;
use super::peers::{
    MAIN_CORE, Memory, Mode, OpCase, PcapOptions, Peer, Ports, Programs, Sample, Testpmd, ensure,
    start_time,
};
use super::priority::Priority;
use super::results;
use super::row::{Row, best, median, row};
use super::veth::{FORWARDER, GENERATOR, Network, SINK};
use crate::shell;

const BURSTS: [u32; 5] = [1, 8, 32, 64, 256];
const OPERATION_BURSTS: [u32; 4] = [1, 8, 32, 256];
const OPERATIONS: [(OpCase, &str, &str); 5] = [
    (OpCase::RingSpsc, "spsc", "rte_ring SP/SC"),
    (OpCase::RingMpmc, "mpmc", "rte_ring MP/MC"),
    (OpCase::RingSpscTwoCores, "spsc, two cores", "rte_ring SP/SC"),
    (OpCase::RingMpmcTwoCores, "mpmc, two cores", "rte_ring MP/MC"),
    (OpCase::Pool, "pool", "rte_mempool"),
];
/// A minimum-size broadcast frame without its checksum.
const FRAME: [u8; 60] = [0xff; 60];
/// Time for a forwarder to get going before the rate is read.
const SETTLE: Duration = Duration::from_millis(300);

/// Arguments of `cargo xtask bench forward`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each case is measured.
    #[arg(long, default_value_t = 7)]
    repetitions: u32,
    /// Length of one measurement in milliseconds.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Only these cases: null, ring, mac, xdp, pool, spsc, mpmc, start.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Give both sides 4 KiB pages even where huge pages can be had.
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
#[derive(Debug)]
struct Bench<'a> {
    args: &'a Args,
    window: Duration,
    memory: Memory,
    ours: Ours,
    rows: Vec<Row>,
    /// Peers that could not be measured, and why.
    missing: Vec<String>,
    baseline: Baseline,
    start: Option<Value>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let ours = Ours::build()?;
    let dpdk = ensure(Peer::Dpdk);
    let libpcap = ensure(Peer::Libpcap);
    let _priority = Priority::raise();
    let memory = if args.no_huge { Memory::small() } else { Memory::reserve() };
    let window = Duration::from_millis(args.ms);
    let mut baseline = Baseline::new(dpdk.as_ref().err().map(ToString::to_string))?;
    baseline.sample(&memory, args.repetitions, window)?;
    let (rows, missing, start) = (Vec::new(), Vec::new(), None);
    let mut bench = Bench { args, window, memory, ours, rows, missing, baseline, start };
    match dpdk {
        Ok(()) => bench.against_dpdk()?,
        Err(refusal) => bench.missing.push(refusal.to_string()),
    }
    if bench.wants("xdp") {
        if !shell::is_root() {
            bench.missing.push("xdp is not measured: network namespaces need root".into());
        } else {
            bench.xdp_against_testpmd()?;
            match libpcap {
                Ok(()) => bench.xdp_against_libpcap()?,
                Err(refusal) => bench.missing.push(refusal.to_string()),
            }
        }
    }
    bench.print()
}

impl Bench<'_> {
    fn wants(&self, case: &str) -> bool {
        let base = case.split(',').next().unwrap_or(case);
        self.args.only.is_empty() || self.args.only.iter().any(|only| only == base)
    }

    /// Prints the progress for the user while it runs.
    fn progress(&self, text: &str) {
        if !self.args.json {
            eprintln!("measuring {text}");
        }
    }

    fn row(&mut self, case: &'static str, burst: u32, peer: &'static str) -> &mut Row {
        row(&mut self.rows, case, burst, peer)
    }

    fn against_dpdk(&mut self) -> Result<()> {
        if self.wants("null") {
            self.progress("null: against testpmd on net_null");
            let mut testpmd = Testpmd::start(&self.memory, Ports::Null)?;
            self.in_turns(&mut testpmd, "null", Mode::Io)?;
        }
        if self.wants("ring") || self.wants("mac") {
            self.progress("rings against testpmd on net_ring");
            let mut testpmd = Testpmd::start(&self.memory, Ports::Ring)?;
            for (case, mode) in [("ring", Mode::Io), ("mac", Mode::Mac)] {
                if self.wants(case) {
                    self.in_turns(&mut testpmd, case, mode)?;
                }
            }
        }
        let programs = Programs::build(Peer::Dpdk)?;
        for (case, mode) in [("ring", Mode::Io), ("mac", Mode::Mac)] {
            if !self.wants(case) {
                continue;
            }
            self.progress(&format!("{case} against a C loop on rte_ring"));
            for _ in 0..self.args.repetitions {
                for burst in BURSTS {
                    // The C loop has 512 packets in circulation.
                    let theirs = programs.rte_loop(&self.memory, mode, burst, self.window)?;
                    let ours = self.rings(mode, 256, |ports, flags| {
                        self.ours.forward_in_blocks(ports, flags, burst, self.window)
                    })?;
                    let row = self.row(case, burst, "C loop on rte_ring");
                    row.theirs.push(theirs.median);
                    row.ours.push(ours);
                }
            }
        }
        for (operation, case, peer) in OPERATIONS {
            if !self.wants(case) {
                continue;
            }
            self.progress(&format!("{case} against {peer}"));
            for _ in 0..self.args.repetitions {
                for burst in OPERATION_BURSTS {
                    let theirs = programs.rte_ops(&self.memory, operation, burst, self.window)?;
                    let ours = self.ours.operation(operation, burst, self.window)?;
                    let row = self.row(case, burst, peer);
                    row.theirs.push(theirs.median);
                    row.ours.push(ours.median);
                }
            }
        }
        if self.wants("start") {
            self.start_times()?;
        }
        Ok(())
    }

    /// A case against testpmd, burst by burst.
    fn in_turns(&mut self, testpmd: &mut Testpmd, case: &'static str, mode: Mode) -> Result<()> {
        let rate = linerate_memory::clock::cycles_per_second();
        for _ in 0..self.args.repetitions {
            for burst in BURSTS {
                let theirs = testpmd.measure(mode, burst, self.window)?.cpu_cycles(rate);
                let ours = match case {
                    "null" => {
                        let ports = ["null:?size=64", "null:?size=64"];
                        self.ours.forward(None, ports, &[], burst, self.window)?.cpu_cycles(rate)
                    }
                    // As many as testpmd's `start tx_first 16` puts into each ring.
                    _ => self.rings(mode, (16 * burst).min(1023), |ports, flags| {
                        let sample = self.ours.forward(None, ports, flags, burst, self.window)?;
                        Ok(sample.cpu_cycles(rate))
                    })?,
                };
                let row = self.row(case, burst, "testpmd");
                row.theirs.push(theirs);
                row.ours.push(ours);
            }
        }
        Ok(())
    }

    /// Measures two looped rings with `seed` packets in each, joined in both directions.
    fn rings(
        &self,
        mode: Mode,
        seed: u32,
        measure: impl Fn([&str; 2], &[&str]) -> Result<f64>,
    ) -> Result<f64> {
        let ports = ["a", "b"].map(|name| format!("ring:{name}?loop&size=64&seed={seed}"));
        let mut flags = vec!["--bidirectional"];
        if mode == Mode::Mac {
            flags.push("--rewrite");
        }
        measure([&ports[0], &ports[1]], &flags)
    }

    fn start_times(&mut self) -> Result<()> {
        self.progress("time from start to first packet");
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..self.args.repetitions {
            theirs.push(start_time(&self.memory)?.first_packet.as_secs_f64() * 1e3);
            let start = Instant::now();
            let status = std::process::Command::new(self.ours.program())
                .args(["forward", "null:", "null:", "--count", "1"])
                .stdout(std::process::Stdio::null())
                .status()?;
            anyhow::ensure!(status.success(), "linerate-bench failed");
            ours.push(start.elapsed().as_secs_f64() * 1e3);
        }
        self.start = Some(json!({
            "unit": "ms",
            "best": best(&ours),
            "median": median(&ours),
            "peer": "testpmd",
            "peer_best": best(&theirs),
            "peer_median": median(&theirs),
        }));
        Ok(())
    }

    fn xdp_against_testpmd(&mut self) -> Result<()> {
        if ensure(Peer::Dpdk).is_err() {
            return Ok(());
        }
        self.progress("xdp: over veth against testpmd on net_af_xdp");
        for _ in 0..self.args.repetitions {
            let network = Network::new()?;
            let ports = Ports::AfXdp {
                namespace: Some(network.namespace().to_owned()),
                interfaces: FORWARDER.map(str::to_owned),
                busy_budget: None,
            };
            let window = self.window;
            let mut testpmd = Testpmd::start(&self.memory, ports)?;
            let theirs = over(&network, || testpmd.measure(Mode::Mac, 32, window))?;
            drop((testpmd, network));
            self.add_xdp("testpmd net_af_xdp", theirs)?;
        }
        Ok(())
    }

    fn xdp_against_libpcap(&mut self) -> Result<()> {
        self.progress("xdp: over veth against a libpcap loop");
        let programs = Programs::build(Peer::Libpcap)?;
        for _ in 0..self.args.repetitions {
            let network = Network::new()?;
            network.receive_by_polling(true)?;
            let mut forwarder = programs.pcap_forward(&PcapOptions {
                namespace: Some(network.namespace().to_owned()),
                interfaces: FORWARDER.map(str::to_owned),
                burst: 32,
                immediate: true,
                limit: self.window * 10 + Duration::from_secs(10),
                ..PcapOptions::default()
            })?;
            let window = self.window;
            let theirs = over(&network, || forwarder.measure(window))?;
            drop((forwarder, network));
            self.add_xdp("libpcap", theirs)?;
        }
        Ok(())
    }

    /// Measures ours in a network of its own, right after the peer.
    fn add_xdp(&mut self, peer: &'static str, theirs: (Sample, f64)) -> Result<()> {
        let network = Network::new()?;
        let namespace = network.namespace().to_owned();
        let ports = FORWARDER.map(|interface| format!("xdp:{interface}"));
        let ports = [&*ports[0], &*ports[1]];
        let window = self.window + SETTLE;
        let ours = over(&network, || {
            self.ours.forward(Some(&namespace), ports, &["--rewrite"], 32, window)
        })?;
        let rate = linerate_memory::clock::cycles_per_second();
        let row = self.row("xdp", 32, peer);
        row.ours.push(ours.0.cpu_cycles(rate));
        row.theirs.push(theirs.0.cpu_cycles(rate));
        row.rates.push((ours.0.mpps(), theirs.0.mpps()));
        Ok(())
    }

    fn print(&self) -> Result<()> {
        if self.args.keep {
            results::store("forward", results::named_figures(&self.rows), &self.baseline)?;
        }
        if self.args.json {
            let report = json!({
                "machine": self.ours.machine()?,
                "yardstick": self.baseline.json(),
                "rows": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
                "start": self.start,
                "missing": self.missing,
            });
            println!("{report}");
            return Ok(());
        }
        let pages = if self.memory.is_huge() { "2 MiB" } else { "4 KiB" };
        println!(
            "TSC cycles per packet or object, {} repetitions of {} ms, {pages} pages for DPDK",
            self.args.repetitions, self.args.ms
        );
        self.baseline.print();
        Row::print_header();
        let reference = self.baseline.figure();
        self.rows.iter().for_each(|row| row.print(reference));
        if let Some(start) = &self.start {
            println!(
                "start to first packet: {:.1} ms best, {:.1} median; testpmd {:.0} best, {:.0} median",
                start["best"].as_f64().unwrap_or(f64::NAN),
                start["median"].as_f64().unwrap_or(f64::NAN),
                start["peer_best"].as_f64().unwrap_or(f64::NAN),
                start["peer_median"].as_f64().unwrap_or(f64::NAN),
            );
        }
        self.missing.iter().for_each(|missing| println!("NOT MEASURED: {missing}"));
        Ok(())
    }
}

/// One measurement while frames arrive as fast as the kernel makes them; with the rate at the sink.
fn over(network: &Network, measure: impl FnOnce() -> Result<Sample>) -> Result<(Sample, f64)> {
    let namespace = Some(network.namespace());
    let generator = Generator::start(namespace, GENERATOR, MAIN_CORE, &FRAME)?;
    sleep(SETTLE);
    let (start, before) = (Instant::now(), Counters::read(namespace, SINK)?.received);
    let sample = measure()?;
    let arrived = Counters::read(namespace, SINK)?.received - before;
    let rate = arrived as f64 / start.elapsed().as_secs_f64() / 1e6;
    generator.stop()?;
    Ok((sample, rate))
}
