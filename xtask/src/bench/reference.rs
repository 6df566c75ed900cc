//! `cargo xtask bench reference`: figures that the peers alone reach on this machine.
//!
//! Their figures differ by a factor of two between processors, so it is worth knowing them before
//! reading any ratio. Cycles are those of the forwarding thread's processor time, so that other
//! programs on the machine do not show.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::live_frames::{Counters, Generator, Sink};
use super::peers::{
    Cycles, MAIN_CORE, Memory, Mode, OpCase, PcapOptions, Peer, Ports, Programs, Sample, Testpmd,
    ensure, start_time,
};
use super::priority::Priority;
use super::veth::{FORWARDER, GENERATOR, Network, SINK};
use crate::shell;

const BURSTS: [u32; 5] = [1, 8, 32, 64, 256];
const OPERATIONS: [(OpCase, &str); 6] = [
    (OpCase::RingSpsc, "rte_ring SP/SC, one core"),
    (OpCase::RingMpmc, "rte_ring MP/MC, one core"),
    (OpCase::RingSpscTwoCores, "rte_ring SP/SC, two cores"),
    (OpCase::RingMpmcTwoCores, "rte_ring MP/MC, two cores"),
    (OpCase::Pool, "rte_mempool get and put"),
    (OpCase::Mbuf, "rte_mbuf alloc and free"),
];
/// A minimum-size broadcast frame without its checksum.
const FRAME: [u8; 60] = [0xff; 60];
const MODES: [(Mode, &str); 2] = [(Mode::Io, "io"), (Mode::Mac, "mac")];

/// Arguments of `cargo xtask bench reference`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each case is measured.
    #[arg(long, default_value_t = 7)]
    repetitions: u32,
    /// Length of one measurement in milliseconds.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Only cases whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Give DPDK 4 KiB pages even where huge pages can be had.
    #[arg(long)]
    no_huge: bool,
}

/// Measured values, by case and burst, in the order of first appearance.
#[derive(Debug, Default)]
struct Table {
    order: Vec<(String, u32)>,
    values: BTreeMap<(String, u32), Vec<f64>>,
}

impl Table {
    fn add(&mut self, case: &str, burst: u32, value: f64) {
        let key = (case.to_owned(), burst);
        if !self.values.contains_key(&key) {
            self.order.push(key.clone());
        }
        self.values.entry(key).or_default().push(value);
    }

    fn print(&mut self) {
        println!("{:<40} {:>5} {:>12} {:>12}", "case", "burst", "lowest", "median");
        for (case, burst) in &self.order {
            let values = self.values.get_mut(&(case.clone(), *burst));
            let values = values.expect("every key in the order has values");
            values.sort_by(f64::total_cmp);
            let (lowest, median) = (values[0], values[values.len() / 2]);
            println!("{case:<40} {burst:>5} {lowest:>12.2} {median:>12.2}");
        }
    }
}

/// The measurement in progress.
#[derive(Debug)]
struct Reference<'a> {
    args: &'a Args,
    window: Duration,
    memory: Memory,
    table: Table,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let _priority = Priority::raise();
    let memory = if args.no_huge { Memory::small() } else { Memory::reserve() };
    println!(
        "TSC cycles per packet or object; DPDK on {} pages",
        if memory.is_huge() { "huge" } else { "4 KiB" }
    );
    let window = Duration::from_millis(args.ms);
    let mut reference = Reference { args, window, memory, table: Table::default() };
    let networks = shell::is_root();
    if !networks {
        println!("net_af_xdp and libpcap are not available: network namespaces need root");
    }
    if networks && reference.wants("generator") {
        reference.generator()?;
    }
    match ensure(Peer::Dpdk) {
        Ok(()) => {
            reference.in_memory()?;
            if networks {
                reference.af_xdp()?;
            }
        }
        Err(refusal) => println!("{refusal}"),
    }
    if networks {
        match ensure(Peer::Libpcap) {
            Ok(()) => reference.libpcap()?,
            Err(refusal) => println!("{refusal}"),
        }
    }
    reference.table.print();
    Ok(())
}

impl Reference<'_> {
    fn wants(&self, case: &str) -> bool {
        case.contains(&self.args.only)
    }

    /// Measures the rate at which live frames are made and taken by an interface that drops them.
    fn generator(&mut self) -> Result<()> {
        let network = Network::new()?;
        let namespace = Some(network.namespace());
        let _sink = Sink::attach(namespace, FORWARDER[0])?;
        for _ in 0..self.args.repetitions {
            let generator = Generator::start(namespace, GENERATOR, MAIN_CORE, &FRAME)?;
            let (start, before) = (Instant::now(), Counters::read(namespace, FORWARDER[0])?);
            sleep(self.window);
            let (end, after) = (Instant::now(), Counters::read(namespace, FORWARDER[0])?);
            let received = (after.received - before.received) as f64;
            let mpps = received / (end - start).as_secs_f64() / 1e6;
            self.table.add("generator, Mpps received", 256, mpps);
            generator.stop()?;
        }
        Ok(())
    }

    fn in_memory(&mut self) -> Result<()> {
        let programs = Programs::build(Peer::Dpdk)?;
        for (ports, name) in [(Ports::Null, "net_null"), (Ports::Ring, "net_ring")] {
            if self.wants(&format!("testpmd {name}")) {
                self.testpmd(ports, name)?;
            }
        }
        for _ in 0..self.args.repetitions {
            for burst in BURSTS {
                self.c_programs(&programs, burst)?;
            }
            if self.wants("testpmd start") {
                let start = start_time(&self.memory)?;
                self.table.add("testpmd start, ms", 32, start.first_packet.as_secs_f64() * 1e3);
                self.table.add("testpmd resident, MB", 32, start.resident as f64 / 1e6);
                self.table.add("testpmd huge pages, MB", 32, start.huge as f64 / 1e6);
                self.table.add("testpmd libraries", 32, start.libraries as f64);
            }
        }
        Ok(())
    }

    fn testpmd(&mut self, ports: Ports, name: &str) -> Result<()> {
        let mut testpmd = Testpmd::start(&self.memory, ports)?;
        for _ in 0..self.args.repetitions {
            for (mode, mode_name) in MODES {
                for burst in BURSTS {
                    let sample = testpmd.measure(mode, burst, self.window)?;
                    let rate = linerate_memory::clock::cycles_per_second();
                    let case = format!("testpmd {name} {mode_name}");
                    self.table.add(&case, burst, sample.cpu_cycles(rate));
                }
            }
        }
        Ok(())
    }

    fn c_programs(&mut self, programs: &Programs, burst: u32) -> Result<()> {
        for (mode, name) in MODES {
            let case = format!("C loop on rte_ring, {name}");
            if self.wants(&case) {
                let cycles = programs.rte_loop(&self.memory, mode, burst, self.window)?;
                self.add_cycles(&case, burst, &cycles);
            }
        }
        for (operation, case) in OPERATIONS {
            if self.wants(case) {
                let cycles = programs.rte_ops(&self.memory, operation, burst, self.window)?;
                self.add_cycles(case, burst, &cycles);
            }
        }
        Ok(())
    }

    fn add_cycles(&mut self, case: &str, burst: u32, cycles: &Cycles) {
        self.table.add(case, burst, cycles.median);
    }

    fn af_xdp(&mut self) -> Result<()> {
        for (busy_budget, name) in [(None, "default"), (Some(0), "busy_budget=0")] {
            let case = format!("testpmd net_af_xdp {name}");
            if !self.wants(&case) {
                continue;
            }
            let network = Network::new()?;
            let ports = Ports::AfXdp {
                namespace: Some(network.namespace().to_owned()),
                interfaces: FORWARDER.map(str::to_owned),
                busy_budget,
            };
            let mut testpmd = Testpmd::start(&self.memory, ports)?;
            for _ in 0..self.args.repetitions {
                let window = self.window;
                self.over_network(&network, &case, 32, || testpmd.measure(Mode::Mac, 32, window))?;
            }
        }
        Ok(())
    }

    fn libpcap(&mut self) -> Result<()> {
        let programs = Programs::build(Peer::Libpcap)?;
        for (immediate, name) in [(true, "immediate"), (false, "by the block")] {
            let case = format!("libpcap {name}");
            if !self.wants(&case) {
                continue;
            }
            let network = Network::new()?;
            network.receive_by_polling(true)?;
            for _ in 0..self.args.repetitions {
                for burst in [32, 256] {
                    let mut forwarder = programs.pcap_forward(&PcapOptions {
                        namespace: Some(network.namespace().to_owned()),
                        interfaces: FORWARDER.map(str::to_owned),
                        burst,
                        immediate,
                        limit: self.window * 10 + Duration::from_secs(10),
                        ..PcapOptions::default()
                    })?;
                    let window = self.window;
                    self.over_network(&network, &case, burst, || forwarder.measure(window))?;
                }
            }
        }
        Ok(())
    }

    /// One measurement of a forwarder while frames arrive as fast as the kernel makes them.
    fn over_network(
        &mut self,
        network: &Network,
        case: &str,
        burst: u32,
        measure: impl FnOnce() -> Result<Sample>,
    ) -> Result<()> {
        let namespace = Some(network.namespace());
        let generator = Generator::start(namespace, GENERATOR, MAIN_CORE, &FRAME)?;
        let offered = Counters::read(namespace, FORWARDER[0])?;
        let arrived = Counters::read(namespace, SINK)?;
        let started = Instant::now();
        let sample = measure()?;
        let seconds = started.elapsed().as_secs_f64();
        let offered = Counters::read(namespace, FORWARDER[0])?.received - offered.received;
        let arrived = Counters::read(namespace, SINK)?.received - arrived.received;
        generator.stop()?;
        let rate = linerate_memory::clock::cycles_per_second();
        self.table.add(&format!("{case}, Mpps"), burst, sample.mpps());
        self.table.add(&format!("{case}, offered Mpps"), burst, offered as f64 / seconds / 1e6);
        self.table.add(&format!("{case}, at sink Mpps"), burst, arrived as f64 / seconds / 1e6);
        self.table.add(&format!("{case}, cpu"), burst, sample.cpu_cycles(rate));
        if let Some(cycles) = sample.busy_cycles() {
            self.table.add(&format!("{case}, busy"), burst, cycles);
        }
        Ok(())
    }
}
