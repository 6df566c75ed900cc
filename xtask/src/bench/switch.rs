//! `cargo xtask bench switch`: a switch between four programs, each in a process of its own, beside Open
//! vSwitch with its datapath in user space.
//!
//! The switch has one core, all four programs share the other. They are the same for both switches:
//! clients in shared memory (memif) that send to each other in pairs and count the packets they
//! get, each letting the next one run after every burst. Rates are of packets received. Where the
//! programs are the slower side that says little about a switch, so there is its cost besides: of
//! its core's cycles those in which it had packets, for each packet received.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure as hold};
use serde_json::{Value, json};

use super::baseline::Baseline;
use super::ours::{self, Ours};
use super::peers::{
    FORWARDING_CORE, MAIN_CORE, Memory, OpenVswitch, Peer, Process, ensure, open_vswitch,
};
use super::priority::Priority;
use super::restore::{RestoreOnDrop, unique_name};
use super::results;
use super::row::{Row, row};
use super::tables;
use crate::shell;

/// The programs.
const CLIENTS: usize = 4;
/// Packets that a program sends, and takes, at a time.
const BURST: u32 = 256;
/// Bytes of packets, without checksum.
const SIZES: [u32; 2] = [64, 1500];
/// Time for all to find each other and into their pace.
const SETTLE: Duration = Duration::from_millis(1000);
const PEER: &str = "Open vSwitch";

/// Arguments of `cargo xtask bench switch`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Flow tables: packets of one flow and of many, with rules of several kinds.

Between programs, each at 64 and 1,500 bytes:
  switch    `linerate switch` as it is; wanted: at least 2 times the rate of Open vSwitch
  direct    the same with --direct

Examples:
  cargo xtask bench switch --only tables
  cargo xtask bench switch --json
  cargo xtask bench switch --repetitions 11 --ms 1000")]
pub(crate) struct Args {
    /// How often each case is measured.
    #[arg(long, default_value_t = 5)]
    repetitions: u32,
    /// Length of one measurement in milliseconds.
    #[arg(long, default_value_t = 500)]
    ms: u64,
    /// Have the programs copy what they send and get, instead of sharing the memory their packets
    /// are in with the switch.
    #[arg(long)]
    copying: bool,
    /// Measure one of both alone.
    #[arg(long, value_enum)]
    only: Option<Selection>,
    /// Keep the figures in bench/results, in the file of this processor.
    #[arg(long)]
    keep: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Part that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Selection {
    /// Flow tables.
    Tables,
    /// A switch between four programs.
    Programs,
}

/// Result of one run.
#[derive(Debug, Clone, Copy)]
struct SwitchFigures {
    /// Packets that came to the programs, per second in millions.
    mpps: f64,
    /// Those that they sent.
    sent: f64,
    /// The part of its time that the switch had packets.
    busy: f64,
}

impl SwitchFigures {
    /// Cycles that the switch has spent for each packet that came.
    fn cycles(&self) -> f64 {
        self.busy * linerate_memory::clock::cycles_per_second() / 1e6 / self.mpps
    }
}

/// The measurement in progress.
#[derive(Debug)]
struct Bench<'a> {
    args: &'a Args,
    ours: Ours,
    linerate: PathBuf,
    theirs: PathBuf,
    memory: Memory,
    /// All runs: case, size and result.
    found: Vec<(&'static str, u32, SwitchFigures)>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut report = json!({});
    if args.only != Some(Selection::Programs) {
        let Args { repetitions, ms, json, .. } = *args;
        report["tables"] = tables::run(tables::TableSettings { repetitions, ms, json })?;
    }
    if args.only != Some(Selection::Tables) {
        report["programs"] = run_programs(args)?;
    }
    if args.json {
        println!("{report}");
    }
    Ok(())
}

fn run_programs(args: &Args) -> Result<Value> {
    let (ours, linerate) = (Ours::build()?, ours::linerate()?);
    if let Err(refusal) = ensure(Peer::Dpdk) {
        bail!("{refusal}: there is no switch to measure beside");
    }
    hold!(shell::is_root(), "Open vSwitch makes an interface of its own, which needs root");
    let theirs = open_vswitch::provide()?;
    let _priority = Priority::raise();
    let memory = Memory::reserve_for_two();
    let window = Duration::from_millis(args.ms);
    let mut baseline = Baseline::new(None)?;
    baseline.sample(&memory, args.repetitions, window)?;
    let mut bench = Bench { args, ours, linerate, theirs, memory, found: Vec::new() };
    let mut rows = Vec::new();
    for repetition in 1..=args.repetitions {
        if !args.json {
            eprintln!("measuring, {repetition} of {}", args.repetitions);
        }
        for size in SIZES {
            let theirs = bench.theirs(size)?;
            bench.found.push((PEER, size, theirs));
            for (case, options) in [("switch", &[][..]), ("direct", &["--direct"][..])] {
                let ours = bench.ours(size, options)?;
                bench.found.push((case, size, ours));
                let row = row(&mut rows, format!("{case} {size}"), BURST, PEER);
                row.ours.push(ours.cycles());
                row.theirs.push(theirs.cycles());
                row.rates.push((ours.mpps, theirs.mpps));
            }
        }
    }
    bench.print(&rows, &baseline)
}

impl Bench<'_> {
    /// Open vSwitch, once.
    fn theirs(&self, size: u32) -> Result<SwitchFigures> {
        let sockets = sockets();
        let switch = OpenVswitch::start(&self.theirs, &self.memory, &sockets)?;
        switch.settle()?;
        let mut clients = self.clients(&sockets, size)?;
        switch.clear()?;
        clients.begin()?;
        let (mpps, sent) = clients.finish()?;
        let (busy, packets) = switch.busy()?;
        hold!(packets > 0, "Open vSwitch has received nothing");
        Ok(SwitchFigures { mpps, sent, busy })
    }

    /// Ours, once.
    fn ours(&self, size: u32, options: &[&str]) -> Result<SwitchFigures> {
        let sockets = sockets();
        let switch = OurSwitch::start(&self.linerate, &sockets, options)?;
        let mut clients = self.clients(&sockets, size)?;
        let before = switch.cycles()?;
        clients.begin()?;
        let (mpps, sent) = clients.finish()?;
        let after = switch.cycles()?;
        let [work, idle] = [0, 1].map(|at| after[at] - before[at]);
        Ok(SwitchFigures { mpps, sent, busy: work / (work + idle) })
    }

    /// The programs, on their way.
    fn clients(&self, sockets: &[String], size: u32) -> Result<Clients> {
        let mut clients = Vec::new();
        for (number, socket) in sockets.iter().enumerate() {
            let mac = |number: usize| format!("02:00:00:00:00:0{}", number + 1);
            let copies = if self.args.copying { "" } else { "&zero-copy" };
            let mut command = Command::new(self.ours.program());
            command
                .args(["client", &format!("memif:@{socket}?wait=10&queues=2{copies}")])
                .args(["--own", &mac(number), "--to", &mac(number ^ 1)])
                .args(["--size", &size.to_string(), "--burst", &BURST.to_string()])
                .args(["--ms", &self.args.ms.to_string(), "--core", &MAIN_CORE.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            clients.push(Client::start(&mut command)?);
        }
        sleep(SETTLE);
        Ok(Clients(clients))
    }

    fn print(&self, rows: &[Row], baseline: &Baseline) -> Result<Value> {
        if self.args.keep {
            results::store("switch", results::named_figures(rows), baseline)?;
        }
        if self.args.json {
            let run = |(case, size, found): &(&str, u32, SwitchFigures)| {
                json!({
                    "case": case,
                    "bytes": size,
                    "mpps": found.mpps,
                    "sent_mpps": found.sent,
                    "busy": found.busy,
                    "cycles": found.cycles(),
                })
            };
            let runs: Vec<Value> = self.found.iter().map(run).collect();
            let report = json!({
                "machine": self.ours.machine()?,
                "yardstick": baseline.json(),
                "clients": if self.args.copying { "copying" } else { "zero-copy" },
                "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
                "runs": runs,
            });
            return Ok(report);
        }
        let pages = if self.memory.is_huge() { "2 MiB" } else { "4 KiB" };
        println!(
            "TSC cycles of the switch's core for each packet that came, and ratios of rates; {} \
             repetitions of {} ms, {pages} pages for Open vSwitch",
            self.args.repetitions, self.args.ms
        );
        baseline.print();
        Row::print_header();
        rows.iter().for_each(|row| row.print(baseline.figure()));
        println!("runs: came, sent, in Mpps; part of its time that the switch had packets");
        for (case, size, SwitchFigures { mpps, sent, busy }) in &self.found {
            println!("{case:<16} {size:>5} {mpps:>9.2} {sent:>9.2} {busy:>7.2}");
        }
        Ok(Value::Null)
    }
}

/// Names of sockets that no other program has.
fn sockets() -> Vec<String> {
    (0..CLIENTS).map(|_| unique_name()).collect()
}

/// `linerate switch`.
#[derive(Debug)]
struct OurSwitch {
    linerate: PathBuf,
    control: String,
    _process: Process,
    _undo: RestoreOnDrop,
}

impl OurSwitch {
    fn start(linerate: &Path, sockets: &[String], options: &[&str]) -> Result<OurSwitch> {
        let control = std::env::temp_dir().join(unique_name());
        let undo = {
            let control = control.clone();
            // It is killed, which leaves the file.
            RestoreOnDrop::by(move || drop(std::fs::remove_file(control)))
        };
        let control = control.to_string_lossy().into_owned();
        let mut command = Command::new(linerate);
        command
            .args(["switch", "--quiet", "--idle", "poll", "--control", &control])
            .args(["--cores", &FORWARDING_CORE.to_string()])
            .args(options)
            .args(sockets.iter().map(|socket| format!("memif:@{socket}")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = Process::spawn(&mut command, None)?;
        let switch =
            OurSwitch { linerate: linerate.into(), control, _process: process, _undo: undo };
        switch.call(&["--ready"])?;
        Ok(switch)
    }

    fn call(&self, words: &[&str]) -> Result<String> {
        shell::output(Command::new(&self.linerate).args(["call", &self.control]).args(words))
    }

    /// Cycles in which it had packets, and in which it had none.
    fn cycles(&self) -> Result<[f64; 2]> {
        let text = self.call(&["cycles"])?;
        let value = |name: &str| -> Result<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            Ok(line.with_context(|| format!("no {name} in {text}"))?.trim().parse()?)
        };
        Ok([value("io ")? + value("task ")?, value("idle ")?])
    }
}

/// A program at a port.
#[derive(Debug)]
struct Client {
    _process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn start(command: &mut Command) -> Result<Client> {
        let process = Process::spawn(command, None)?;
        let output = BufReader::new(process.output()?);
        let input = process.input()?;
        Ok(Client { _process: process, input, output })
    }
}

#[derive(Debug)]
struct Clients(Vec<Client>);

impl Clients {
    /// Has all measure from now on.
    fn begin(&mut self) -> Result<()> {
        for client in &mut self.0 {
            client.input.write_all(b"\n").context("a program has ended")?;
        }
        Ok(())
    }

    /// Packets that came to all, and that they sent, per second in millions.
    fn finish(&mut self) -> Result<(f64, f64)> {
        let (mut came, mut sent) = (0.0, 0.0);
        for (number, client) in self.0.iter_mut().enumerate() {
            let mut line = String::new();
            client.output.read_line(&mut line)?;
            let found: Value = serde_json::from_str(&line).context("a program has ended")?;
            let value =
                |key: &str| found[key].as_f64().with_context(|| format!("no {key} in {found}"));
            let rate = |key: &str| Ok::<_, anyhow::Error>(value(key)? / value("seconds")? / 1e6);
            hold!(value("received")? > 0.0, "nothing has come to program {number}");
            came += rate("received")?;
            sent += rate("sent")?;
        }
        Ok((came, sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_those_for_packets_that_came() {
        let hz = linerate_memory::clock::cycles_per_second();
        let found = SwitchFigures { mpps: 10.0, sent: 12.0, busy: 0.5 };
        assert!((found.cycles() - hz * 0.5 / 10e6).abs() < 1e-6);
    }
}
