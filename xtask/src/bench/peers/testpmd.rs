//! DPDK's testpmd: started, given ports to forward between, and read, over its terminal.
//!
//! One process serves many measurements with different modes and bursts; between them its
//! forwarding core sleeps, so that a measurement of ours can run there. Every start of forwarding
//! empties the rings and seeds them again, so the order of measurements does not matter.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::memory::Memory;
use super::process::{Process, command_in};
use super::terminal::Terminal;
use super::{FORWARDING_CORE, MAIN_CORE, Sample};
use crate::bench::restore::unique_name;

const PROGRAM: &str = "dpdk-testpmd";
const PROMPT: &str = "testpmd> ";
/// Starting takes about a third of a second; a busy machine takes longer.
const START_LIMIT: Duration = Duration::from_secs(30);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Forwarding before the first reading, so that caches and page tables are warm.
const SETTLE: Duration = Duration::from_millis(100);
/// Bursts put into each ring before forwarding starts.
const SEED_BURSTS: u32 = 16;

/// The two ports packets are forwarded between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ports {
    /// `net_null` with 64-byte packets that are not copied: each is allocated and freed.
    Null,
    /// `net_ring`: packets circulate.
    Ring,
    /// `net_af_xdp` on two interfaces.
    AfXdp {
        /// Namespace of the interfaces, or the caller's.
        namespace: Option<String>,
        /// The two interfaces.
        interfaces: [String; 2],
        /// Packets per system call of busy polling: none for the driver's default of 64, zero to
        /// turn busy polling off.
        busy_budget: Option<u32>,
    },
    /// Devices in memory that is shared with another process, as `--vdev` has them. A port alone
    /// sends back the packets it receives; two forward to each other.
    Shared(Vec<String>),
}

impl Ports {
    fn devices(&self) -> Vec<String> {
        match self {
            Ports::Null => {
                (0..2).map(|port| format!("--vdev=net_null{port},size=64,copy=0")).collect()
            }
            Ports::Ring => (0..2).map(|port| format!("--vdev=net_ring{port}")).collect(),
            Ports::AfXdp { interfaces, busy_budget, .. } => {
                let budget = busy_budget.map(|n| format!(",busy_budget={n}")).unwrap_or_default();
                let device = |(port, interface)| {
                    format!("--vdev=net_af_xdp{port},iface={interface}{budget}")
                };
                interfaces.iter().enumerate().map(device).collect()
            }
            Ports::Shared(devices) => {
                let device = |device: &String| format!("--vdev={device}");
                // Memory given to another process goes by files: few of them.
                let segments = "--single-file-segments".to_owned();
                devices.iter().map(device).chain([segments]).collect()
            }
        }
    }

    fn namespace(&self) -> Option<&str> {
        match self {
            Ports::AfXdp { namespace, .. } => namespace.as_deref(),
            Ports::Null | Ports::Ring | Ports::Shared(_) => None,
        }
    }

    /// Returns testpmd's own options for them.
    fn options(&self) -> &'static [&'static str] {
        match self {
            Ports::Shared(devices) if devices.len() == 1 => &["--port-topology=loop"],
            _ => &[],
        }
    }
}

/// Treatment of each packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing.
    Io,
    /// Both MAC addresses are overwritten.
    Mac,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Io => "io",
            Mode::Mac => "mac",
        }
    }
}

/// A testpmd waiting at its prompt.
#[derive(Debug)]
pub(crate) struct Testpmd {
    terminal: Terminal,
    process: Process,
    worker: u32,
    ports: Ports,
}

impl Testpmd {
    /// Starts it with these ports, forwarding nothing yet.
    pub(crate) fn start(memory: &Memory, ports: Ports) -> Result<Self> {
        Testpmd::start_on(memory, ports, FORWARDING_CORE)
    }

    /// As `start`, with another core to forward on.
    pub(crate) fn start_on(memory: &Memory, ports: Ports, core: usize) -> Result<Self> {
        let (mut terminal, process) = spawn(memory, &ports, core, &[])?;
        terminal.until_prompt(START_LIMIT).context("testpmd does not start")?;
        let worker = process.thread_named(&format!("rte-worker-{core}"))?;
        Ok(Testpmd { terminal, process, worker, ports })
    }

    /// Forwards for about `window` and returns the result.
    pub(crate) fn measure(&mut self, mode: Mode, burst: u32, window: Duration) -> Result<Sample> {
        self.begin(mode, burst)?;
        let sample = self.sample(window)?;
        self.command("stop")?;
        Ok(sample)
    }

    /// Forwards from now on, as fast as it can.
    pub(crate) fn begin(&mut self, mode: Mode, burst: u32) -> Result<()> {
        self.command(&format!("set fwd {}", mode.name()))?;
        self.command(&format!("set burst {burst}"))?;
        // Reading the time-stamp counter twice per burst would slow the fast ports down.
        let counts_cycles = matches!(self.ports, Ports::AfXdp { .. } | Ports::Shared(_));
        self.command(&format!(
            "set record-core-cycles {}",
            if counts_cycles { "on" } else { "off" }
        ))?;
        if self.ports == Ports::Ring {
            self.command(&format!("start tx_first {SEED_BURSTS}"))?;
        } else {
            self.command("start")?;
        }
        Ok(())
    }

    /// Returns the result of forwarding for about `window`, once it has settled.
    pub(crate) fn sample(&mut self, window: Duration) -> Result<Sample> {
        sleep(SETTLE);
        let before = self.read()?;
        sleep(window);
        let after = self.read()?;
        Ok(before.until(&after))
    }

    fn command(&mut self, line: &str) -> Result<String> {
        self.terminal.type_line(line)?;
        self.terminal.until_prompt(ANSWER_LIMIT).with_context(|| format!("testpmd: `{line}`"))
    }

    fn read(&mut self) -> Result<Reading> {
        read(&mut self.terminal, &self.process, self.worker)
    }
}

/// Cost of starting testpmd.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Startup {
    /// From starting the process to its first forwarded packet.
    pub(crate) first_packet: Duration,
    /// Memory it has resident then, in bytes, huge pages not included.
    pub(crate) resident: u64,
    /// Huge pages it holds, in bytes.
    pub(crate) huge: u64,
    /// Shared libraries it has loaded.
    pub(crate) libraries: usize,
}

/// Starts testpmd between in-memory ports and measures the time.
///
/// It forwards as soon as it can and answers only later, so the time of the first packet is
/// extrapolated: the time of a reading, less the packets read at the rate between two readings.
pub(crate) fn start_time(memory: &Memory) -> Result<Startup> {
    let start = Instant::now();
    let options = ["--auto-start", "--forward-mode=io", "--burst=32"];
    let (mut terminal, process) = spawn(memory, &Ports::Null, FORWARDING_CORE, &options)?;
    terminal.until_prompt(START_LIMIT).context("testpmd does not start")?;
    let worker = process.thread_named(&format!("rte-worker-{FORWARDING_CORE}"))?;
    let first = read(&mut terminal, &process, worker)?;
    sleep(SETTLE);
    let second = read(&mut terminal, &process, worker)?;
    let rate =
        (second.counts.sent - first.counts.sent) as f64 / (second.at - first.at).as_secs_f64();
    let forwarding = Duration::from_secs_f64(first.counts.sent as f64 / rate);
    Ok(Startup {
        first_packet: (first.at - start).saturating_sub(forwarding),
        resident: process.status_bytes("VmRSS")?,
        huge: process.status_bytes("HugetlbPages")?,
        libraries: process.libraries()?,
    })
}

fn spawn(
    memory: &Memory,
    ports: &Ports,
    core: usize,
    options: &[&str],
) -> Result<(Terminal, Process)> {
    let prefix = unique_name();
    // The core where it waits for input.
    let other = if core == MAIN_CORE { FORWARDING_CORE } else { MAIN_CORE };
    let (terminal, theirs) = Terminal::open(PROMPT)?;
    let [input, output, errors] = Terminal::streams(theirs)?;
    let mut command: Command = command_in(ports.namespace(), PROGRAM);
    command
        .args(memory.eal_arguments(&prefix, &[other, core]))
        .args(ports.devices())
        .args(["--", "--interactive", "--nb-cores=1", "--total-num-mbufs=16384"])
        .args(ports.options())
        .args(options)
        .stdin(input)
        .stdout(output)
        .stderr(errors);
    let process = Process::spawn(&mut command, Some(&prefix))?;
    Ok((terminal, process))
}

/// The counters at one moment.
#[derive(Debug)]
struct Reading {
    at: Instant,
    counts: Counts,
    cpu: Duration,
}

/// Its counts of all ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    sent: u64,
    dropped: u64,
    /// Cycles spent on packets where they are counted.
    cycles: Option<u64>,
}

impl Reading {
    fn until(&self, later: &Reading) -> Sample {
        let cycles = later.counts.cycles.zip(self.counts.cycles);
        Sample {
            packets: later.counts.sent - self.counts.sent,
            dropped: later.counts.dropped - self.counts.dropped,
            seconds: (later.at - self.at).as_secs_f64(),
            cpu_seconds: (later.cpu.saturating_sub(self.cpu)).as_secs_f64(),
            busy_cycles: cycles.map(|(later, earlier)| later - earlier),
        }
    }
}

fn read(terminal: &mut Terminal, process: &Process, worker: u32) -> Result<Reading> {
    terminal.type_line("show fwd stats all")?;
    // It reads its counters just before it writes this line; the rest of its output takes longer.
    terminal.until("Forward statistics", ANSWER_LIMIT).context("testpmd: reading counters")?;
    let at = Instant::now();
    let cpu = process.cpu_time(Some(worker))?;
    let text = terminal.until_prompt(ANSWER_LIMIT).context("testpmd: reading counters")?;
    let counts =
        parse(&text).with_context(|| format!("testpmd printed no counters, but:\n{text}"))?;
    Ok(Reading { at, counts, cpu })
}

fn parse(text: &str) -> Option<Counts> {
    let (_, all) = text.split_once("Accumulated forward statistics")?;
    Some(Counts {
        sent: number_after(all, "TX-packets:")?,
        dropped: number_after(all, "TX-dropped:")?,
        cycles: number_after(all, "total cycles="),
    })
}

fn number_after(text: &str, label: &str) -> Option<u64> {
    let (_, rest) = text.split_once(label)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "\
  ---------------------- Forward statistics for port 1  ----------------------\r
  RX-packets: 48741696       RX-dropped: 0             RX-total: 48741696\r
  TX-packets: 48741696       TX-dropped: 0             TX-total: 48741696\r
  ----------------------------------------------------------------------------\r
\r
  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++\r
  RX-packets: 97476352       RX-dropped: 0             RX-total: 97476352\r
  TX-packets: 97476320       TX-dropped: 32            TX-total: 97476352\r
  ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++\r
";

    #[test]
    fn counters_of_all_ports_are_read() {
        let counts = Counts { sent: 97_476_320, dropped: 32, cycles: None };
        assert_eq!(parse(ANSWER), Some(counts));
        assert_eq!(parse("Bad arguments\r\n"), None);
    }

    #[test]
    fn cycles_are_read_where_counted() {
        let answer = format!(
            "{ANSWER}\r\n  CPU cycles/packet=51.75 (total cycles=5044399515 / \
             total RX packets=97476352) at 2600 MHz Clock\r\n"
        );
        assert_eq!(parse(&answer).and_then(|counts| counts.cycles), Some(5_044_399_515));
    }

    #[test]
    fn devices_of_af_xdp_ports() {
        let ports = Ports::AfXdp {
            namespace: None,
            interfaces: ["a".into(), "b".into()],
            busy_budget: Some(0),
        };
        assert_eq!(
            ports.devices(),
            [
                "--vdev=net_af_xdp0,iface=a,busy_budget=0",
                "--vdev=net_af_xdp1,iface=b,busy_budget=0"
            ]
        );
    }
}
