//! The C programs in `bench/peers`: compiled on this machine, for this machine, then run for short
//! times in turn with ours.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

use super::memory::Memory;
use super::packages::Peer;
use super::process::{Process, command_in};
use super::testpmd::Mode;
use super::{Cycles, FORWARDING_CORE, FilterCycles, LookupCycles, MAIN_CORE, Sample, TableCycles};
use crate::bench::restore::unique_name;
use crate::shell;

/// An operation of DPDK's libraries that `rte_ops` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpCase {
    /// Single-producer single-consumer ring on one core.
    RingSpsc,
    /// Multi-producer multi-consumer ring on one core.
    RingMpmc,
    /// Single-producer single-consumer ring between two cores.
    RingSpscTwoCores,
    /// Multi-producer multi-consumer ring between two cores, one thread on each.
    RingMpmcTwoCores,
    /// The single-producer single-consumer one, with packet buffers that the one core allocates and
    /// the other frees.
    RingMbufTwoCores,
    /// Buffers taken from a pool and put back, with a cache per core.
    Pool,
    /// Packet buffers allocated and freed, their fields reset.
    Mbuf,
}

impl OpCase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            OpCase::RingSpsc => "ring-spsc",
            OpCase::RingMpmc => "ring-mpmc",
            OpCase::RingSpscTwoCores => "ring-spsc-2",
            OpCase::RingMpmcTwoCores => "ring-mpmc-2",
            OpCase::RingMbufTwoCores => "ring-spsc-mbuf-2",
            OpCase::Pool => "pool",
            OpCase::Mbuf => "mbuf",
        }
    }

    fn cores(self) -> &'static [usize] {
        match self {
            OpCase::RingSpscTwoCores | OpCase::RingMpmcTwoCores | OpCase::RingMbufTwoCores => {
                &[FORWARDING_CORE, MAIN_CORE]
            }
            _ => &[FORWARDING_CORE],
        }
    }
}

/// The compiled programs.
#[derive(Debug)]
pub(crate) struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Compiles the programs of a peer whose packages are installed.
    pub(crate) fn build(peer: Peer) -> Result<Self> {
        let root = shell::root();
        let sources = root.join("bench/peers");
        let folder = root.join("target/peers");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let (names, compiling, linking): (&[&str], _, _) = match peer {
            Peer::Dpdk => (
                // The last needs nothing of DPDK, and is measured where that is.
                &["rte_exact", "rte_filter", "rte_lookup", "rte_ops", "rte_loop", "packet_fanout"],
                pkg_config("--cflags")?,
                pkg_config("--libs")?,
            ),
            Peer::Libpcap => {
                (&["pcap_forward", "pcap_filter"], Vec::new(), vec!["-lpcap".to_owned()])
            }
        };
        for name in names {
            let output = Command::new("gcc")
                .args(["-std=gnu11", "-Wall", "-Wextra"])
                .args(&compiling)
                // After the packaged flags, which choose a processor of 2008.
                .args(["-O3", "-march=native"])
                .arg(sources.join(name).with_extension("c"))
                .arg("-o")
                .arg(folder.join(name))
                .args(&linking)
                .output()
                .context("cannot start gcc")?;
            if !output.status.success() {
                bail!("cannot compile {name}.c:\n{}", String::from_utf8_lossy(&output.stderr));
            }
        }
        Ok(Programs { folder })
    }

    /// Runs a minimal forwarding loop on DPDK's rings for about `time`.
    pub(crate) fn rte_loop(
        &self,
        memory: &Memory,
        mode: Mode,
        burst: u32,
        time: Duration,
    ) -> Result<Cycles> {
        let case = match mode {
            Mode::Io => "io",
            Mode::Mac => "mac",
        };
        self.cycles("rte_loop", memory, &[FORWARDING_CORE], case, burst, time)
    }

    /// Repeats an operation of DPDK's libraries for about `time`.
    pub(crate) fn rte_ops(
        &self,
        memory: &Memory,
        case: OpCase,
        burst: u32,
        time: Duration,
    ) -> Result<Cycles> {
        self.cycles("rte_ops", memory, case.cores(), case.name(), burst, time)
    }

    /// Fills DPDK's hash table with `keys` keys and looks them up for about `time`.
    pub(crate) fn rte_exact(
        &self,
        memory: &Memory,
        keys: u32,
        burst: u32,
        time: Duration,
    ) -> Result<TableCycles> {
        let keys = keys.to_string();
        self.line("rte_exact", memory, &[FORWARDING_CORE], &["--keys", &keys], burst, time)
    }

    /// Fills DPDK's longest-prefix table from the first file and looks up the addresses of the
    /// second for about `time`; with next hops of so many bytes, and by AVX-512 or not.
    pub(crate) fn rte_lookup(
        &self,
        memory: &Memory,
        case: &str,
        files: &[PathBuf; 2],
        (width, vector): (u32, bool),
        burst: u32,
        time: Duration,
    ) -> Result<LookupCycles> {
        let [routes, addresses] = files.each_ref().map(|file| file.to_string_lossy());
        let width = width.to_string();
        let vector = if vector { "1" } else { "0" };
        let options = ["--case", case, "--routes", &routes, "--addresses", &addresses];
        let options = [&options[..], &["--width", &width, "--vector", vector]].concat();
        self.line("rte_lookup", memory, &[FORWARDING_CORE], &options, burst, time)
    }

    /// Classifies the packets of the second file by the rules of the first for about `time`.
    pub(crate) fn rte_filter(
        &self,
        memory: &Memory,
        [rules, packets]: &[String; 2],
        burst: u32,
        time: Duration,
    ) -> Result<LookupCycles> {
        let options = ["--rules", rules, "--packets", packets];
        self.line("rte_filter", memory, &[FORWARDING_CORE], &options, burst, time)
    }

    fn cycles(
        &self,
        program: &str,
        memory: &Memory,
        cores: &[usize],
        case: &str,
        burst: u32,
        time: Duration,
    ) -> Result<Cycles> {
        self.line(program, memory, cores, &["--case", case], burst, time)
    }

    /// Runs a program with options and returns the line it prints.
    fn line<T: DeserializeOwned>(
        &self,
        program: &str,
        memory: &Memory,
        cores: &[usize],
        options: &[&str],
        burst: u32,
        time: Duration,
    ) -> Result<T> {
        let prefix = unique_name();
        let mut command = Command::new(self.folder.join(program));
        command
            .args(memory.eal_arguments(&prefix, cores))
            .args(["--log-level=error", "--force-max-simd-bitwidth=512", "--"])
            .args(options)
            .args(["--burst", &burst.to_string(), "--ms", &time.as_millis().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let process = Process::spawn(&mut command, Some(&prefix))?;
        let output = process.output()?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("cannot read its result")?;
        let status = process.wait()?;
        if !status.success() {
            bail!("{program} {} --burst {burst} failed ({status})", options.join(" "));
        }
        serde_json::from_str(&line).with_context(|| format!("{program} printed `{line}`"))
    }

    /// Counts for about `time` the packets that arrive at an interface of a namespace, as the only
    /// process of a `PACKET_FANOUT` group; `warm` without measuring first.
    pub(crate) fn packet_fanout(
        &self,
        namespace: &str,
        interface: &str,
        warm: Duration,
        time: Duration,
    ) -> Result<Sample> {
        let mut command = command_in(Some(namespace), self.folder.join("packet_fanout"));
        command
            .args(["--if", interface, "--core", &FORWARDING_CORE.to_string()])
            .args(["--warm", &warm.as_millis().to_string()])
            .args(["--ms", &time.as_millis().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let process = Process::spawn(&mut command, None)?;
        let mut line = String::new();
        BufReader::new(process.output()?).read_line(&mut line).context("cannot read its result")?;
        let status = process.wait()?;
        if !status.success() {
            bail!("packet_fanout failed ({status})");
        }
        let Report { seconds, cpu_seconds, packets } = serde_json::from_str(&line)
            .with_context(|| format!("packet_fanout printed `{line}`"))?;
        Ok(Sample { packets, dropped: 0, seconds, cpu_seconds, busy_cycles: None })
    }

    /// Compiles a filter, writes its program, and runs it on the packets of a capture for about `time`.
    pub(crate) fn pcap_filter(
        &self,
        filter: &str,
        packets: &Path,
        program: &Path,
        time: Duration,
    ) -> Result<FilterCycles> {
        let mut command = Command::new(self.folder.join("pcap_filter"));
        command
            .args(["--filter", filter, "--core", &FORWARDING_CORE.to_string()])
            .arg("--packets")
            .arg(packets)
            .arg("--program")
            .arg(program)
            .args(["--ms", &time.as_millis().to_string()]);
        let line = shell::output(&mut command)?;
        serde_json::from_str(&line).with_context(|| format!("pcap_filter printed `{line}`"))
    }

    /// Starts a program on libpcap, or on its replacement.
    pub(crate) fn pcap_forward(&self, options: &PcapOptions) -> Result<PcapForward> {
        let program = self.folder.join("pcap_forward");
        let mut command = command_in(options.namespace.as_deref(), program);
        if let Some(folder) = &options.library {
            command.env("LD_LIBRARY_PATH", folder);
        }
        match options.task {
            PcapTask::Bridge => command.args(["--do", "bridge"]),
            PcapTask::Circle => command.args(["--do", "bridge", "--both", "1"]),
            PcapTask::Capture => command.args(["--do", "capture"]),
            PcapTask::Inject => command.args(["--do", "inject"]),
        };
        if let Some(filter) = &options.filter {
            command.args(["--filter", filter]);
        }
        command
            .args(["--a", &options.interfaces[0], "--b", &options.interfaces[1]])
            .args(["--ms", &options.limit.as_millis().to_string()])
            .args(["--burst", &options.burst.to_string()])
            .args(["--immediate", if options.immediate { "1" } else { "0" }])
            .args(["--core", &FORWARDING_CORE.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let process = Process::spawn(&mut command, None)?;
        let output = process.output()?;
        let mut forwarder = PcapForward { process, output: BufReader::new(output) };
        forwarder.report()?;
        Ok(forwarder)
    }
}

/// Compiler or linker flags for DPDK.
fn pkg_config(kind: &str) -> Result<Vec<String>> {
    let flags = shell::output(Command::new("pkg-config").args([kind, "libdpdk"]))?;
    Ok(flags.split_whitespace().map(str::to_owned).collect())
}

/// Task of a program on libpcap with two interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PcapTask {
    /// From the first to the second.
    #[default]
    Bridge,
    /// In both directions.
    Circle,
    /// Counts the packets of the first.
    Capture,
    /// Sends to the second.
    Inject,
}

/// Options of a program on libpcap.
#[derive(Debug, Clone, Default)]
pub(crate) struct PcapOptions {
    pub(crate) task: PcapTask,
    /// Filter of the captured packets; all without.
    pub(crate) filter: Option<String>,
    /// The folder of the library that stands for the system's libpcap.
    pub(crate) library: Option<PathBuf>,
    /// Namespace of the interfaces, or the caller's.
    pub(crate) namespace: Option<String>,
    /// The interfaces from which packets come and to which they go.
    pub(crate) interfaces: [String; 2],
    /// Packets handled per call at most.
    pub(crate) burst: u32,
    /// Deliver every packet at once rather than by the block.
    pub(crate) immediate: bool,
    /// It ends by itself after this time.
    pub(crate) limit: Duration,
}

/// A running forwarder on libpcap.
#[derive(Debug)]
pub(crate) struct PcapForward {
    process: Process,
    output: BufReader<ChildStdout>,
}

#[derive(Debug, serde::Deserialize)]
struct Report {
    seconds: f64,
    cpu_seconds: f64,
    packets: u64,
}

impl PcapForward {
    /// Returns the packets it forwards in about `window`.
    pub(crate) fn measure(&mut self, window: Duration) -> Result<Sample> {
        let first = self.ask()?;
        sleep(window);
        let last = self.ask()?;
        Ok(Sample {
            packets: last.packets - first.packets,
            seconds: last.seconds - first.seconds,
            cpu_seconds: last.cpu_seconds - first.cpu_seconds,
            dropped: 0,
            busy_cycles: None,
        })
    }

    fn ask(&mut self) -> Result<Report> {
        let id = i32::try_from(self.process.id())?;
        let id = Pid::from_raw(id).context("no process id")?;
        kill_process(id, Signal::USR1).context("cannot ask pcap_forward")?;
        self.report()
    }

    fn report(&mut self) -> Result<Report> {
        let mut line = String::new();
        self.output.read_line(&mut line).context("cannot read pcap_forward's report")?;
        if line.is_empty() {
            bail!("pcap_forward has ended");
        }
        serde_json::from_str(&line).with_context(|| format!("pcap_forward printed `{line}`"))
    }
}
