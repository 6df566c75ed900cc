//! `cargo xtask bench openflow`: time to add and delete flows, and their memory, compared with Open
//! vSwitch.
//!
//! Open vSwitch's own client, `ovs-ofctl`, gives both switches the same file of flows, in turns:
//! one flow after the other, each of which it waits for, or all in one bundle; and then deletes
//! them. Each way begins with a switch that has just been started. Times are the client's, from its
//! start to its end. Memory is the kernel's count of resident pages (`VmRSS`), a second after a
//! command, since both switches give memory back late.
//!
//! Open vSwitch is the installed one without DPDK, with its userspace datapath and null ports; ours
//! is `linerate switch` with null ports. Its packet memory, 96 MiB by default, is resident from the
//! start, so the growth of each switch is reported, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::ours::{self, Ours};
use super::peers::{OpenVswitch, Process};
use super::priority::Priority;
use super::restore::{RestoreOnDrop, unique_name};
use super::row::{best, median};
use super::tables::exact_rules;
use crate::shell;

/// Time in which a switch gives back memory.
const SETTLE: Duration = Duration::from_secs(1);
/// Seconds that a command of the client may take.
const TIMEOUT: &str = "--timeout=900";
const MEGABYTE: f64 = 1e6;

/// Arguments of `cargo xtask bench openflow`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Wanted: at most what Open vSwitch takes, of each.

Examples:
  cargo xtask bench openflow
  cargo xtask bench openflow --flows 10000 --repetitions 5
  cargo xtask bench openflow --only bundle --json")]
pub(crate) struct Args {
    /// How often each is measured.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Flows.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    flows: u32,
    /// Measure one of both ways alone.
    #[arg(long, value_enum)]
    only: Option<AddMode>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// How flows are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AddMode {
    /// One by one.
    Single,
    /// All in one bundle.
    Bundle,
}

impl AddMode {
    const ALL: [AddMode; 2] = [AddMode::Single, AddMode::Bundle];

    fn name(self) -> &'static str {
        match self {
            AddMode::Single => "one by one",
            AddMode::Bundle => "bundle",
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            AddMode::Single => &[],
            AddMode::Bundle => &["--bundle"],
        }
    }
}

/// Name and unit of each figure of a run, in the order of measurement.
const MEASURES: [(&str, &str); 7] = [
    ("add", "s"),
    ("delete", "s"),
    ("memory at start", "MB"),
    ("memory with flows", "MB"),
    ("grown by", "MB"),
    ("memory, deleted", "MB"),
    ("left of it", "MB"),
];
type Figures = [f64; MEASURES.len()];

/// A switch under test, and its OpenFlow address.
struct Subject<'a> {
    address: String,
    process: &'a Process,
}

impl Subject<'_> {
    /// Runs the client, and returns its output.
    fn client(&self, options: &[&str], command: &str, more: &[&str]) -> Result<String> {
        let mut client = Command::new("ovs-ofctl");
        client.args([TIMEOUT, "--no-names", "-O", "OpenFlow14"]).args(options);
        shell::output(client.arg(command).arg(&self.address).args(more))
    }

    /// Seconds that a command of the client takes.
    fn timed(&self, options: &[&str], command: &str, more: &[&str]) -> Result<f64> {
        let began = Instant::now();
        self.client(options, command, more)?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Number of flows in the switch.
    fn flows(&self) -> Result<u64> {
        let text = self.client(&[], "dump-aggregate", &[])?;
        flow_count(&text).with_context(|| format!("no flow_count in: {text}"))
    }

    /// Resident memory in megabytes.
    fn resident(&self) -> Result<f64> {
        sleep(SETTLE);
        Ok(self.process.status_bytes("VmRSS")? as f64 / MEGABYTE)
    }

    /// Adds and deletes flows, and returns the figures.
    fn measure(&self, way: AddMode, file: &Path, count: u32) -> Result<Figures> {
        ensure!(self.flows()? == 0, "a switch has flows that nobody has given it");
        let start = self.resident()?;
        let add = self.timed(way.options(), "add-flows", &[&file.to_string_lossy()])?;
        let there = self.flows()?;
        ensure!(there == u64::from(count), "of {count} flows a switch has {there}");
        let full = self.resident()?;
        let delete = self.timed(&[], "del-flows", &[])?;
        ensure!(self.flows()? == 0, "a switch has flows that were deleted");
        let empty = self.resident()?;
        Ok([add, delete, start, full, full - start, empty, empty - start])
    }
}

/// Parses `flow_count=N` in the output of `ovs-ofctl dump-aggregate`.
fn flow_count(text: &str) -> Option<u64> {
    text.split_whitespace().find_map(|word| word.strip_prefix("flow_count="))?.parse().ok()
}

/// `linerate switch`, under controllers.
#[derive(Debug)]
struct OurSwitch {
    process: Process,
    folder: PathBuf,
    _undo: RestoreOnDrop,
}

impl OurSwitch {
    fn start(linerate: &Path) -> Result<OurSwitch> {
        let folder = std::env::temp_dir().join(unique_name());
        fs::create_dir(&folder)?;
        let undo = {
            let folder = folder.clone();
            RestoreOnDrop::by(move || drop(fs::remove_dir_all(folder)))
        };
        let name = |file: &str| folder.join(file).to_string_lossy().into_owned();
        let control = name("control");
        let mut command = Command::new(linerate);
        command
            .args(["switch", "--quiet", "--no-huge", "--control", &control])
            .args(["--openflow", &format!("punix:{}", name("openflow"))])
            // Two ports do not lead to the same.
            .args(["a=null:?count=0", "b=null:?count=0&size=128"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = Process::spawn(&mut command, None)?;
        shell::output(Command::new(linerate).args(["call", &control, "--ready"]))?;
        Ok(OurSwitch { process, folder, _undo: undo })
    }

    fn address(&self) -> String {
        format!("unix:{}", self.folder.join("openflow").display())
    }
}

/// Figures of one way to add flows, per repetition.
#[derive(Debug)]
struct ModeFigures {
    way: AddMode,
    ours: Vec<Figures>,
    theirs: Vec<Figures>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (ours, linerate) = (Ours::build()?, ours::linerate()?);
    let file = std::env::temp_dir().join(unique_name());
    let _undo = {
        let file = file.clone();
        RestoreOnDrop::by(move || drop(fs::remove_file(file)))
    };
    fs::write(&file, exact_rules(args.flows as usize))?;
    let _priority = Priority::raise();
    let wanted = |way: &AddMode| args.only.is_none_or(|only| only == *way);
    let mut found: Vec<ModeFigures> = AddMode::ALL
        .into_iter()
        .filter(wanted)
        .map(|way| ModeFigures { way, ours: Vec::new(), theirs: Vec::new() })
        .collect();
    for repetition in 1..=args.repetitions {
        if !args.json {
            eprintln!("measuring, {repetition} of {}", args.repetitions);
        }
        for ModeFigures { way, ours, theirs } in &mut found {
            let switch = OurSwitch::start(&linerate)?;
            let subject = Subject { address: switch.address(), process: &switch.process };
            ours.push(subject.measure(*way, &file, args.flows).context("linerate switch")?);
            drop(switch);
            let switch = OpenVswitch::without_dpdk(2)?;
            let subject = Subject { address: switch.bridge(), process: switch.process() };
            theirs.push(subject.measure(*way, &file, args.flows).context("Open vSwitch")?);
        }
    }
    let lines: Vec<OutputRow> = found.iter().flat_map(lines).collect();
    if args.json {
        let lines: Vec<Value> = lines.iter().map(OutputRow::json).collect();
        println!(
            "{}",
            json!({"machine": ours.machine()?, "flows": args.flows, "repetitions": args.repetitions, "rows": lines})
        );
        return Ok(());
    }
    println!(
        "{} flows by ovs-ofctl, {} repetitions; memory is what is resident",
        args.flows, args.repetitions
    );
    OutputRow::print_header();
    lines.iter().for_each(OutputRow::print);
    Ok(())
}

/// A row of the output: one figure of one way to add flows, for both switches.
#[derive(Debug)]
struct OutputRow {
    way: &'static str,
    measure: &'static str,
    unit: &'static str,
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

fn lines(found: &ModeFigures) -> impl Iterator<Item = OutputRow> {
    MEASURES.iter().enumerate().map(move |(at, &(measure, unit))| {
        let of = |runs: &[Figures]| runs.iter().map(|figures| figures[at]).collect();
        OutputRow {
            way: found.way.name(),
            measure,
            unit,
            ours: of(&found.ours),
            theirs: of(&found.theirs),
        }
    })
}

impl OutputRow {
    /// The median over repetitions of ours divided by theirs.
    fn ratio(&self) -> f64 {
        let ratios: Vec<f64> =
            self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect();
        median(&ratios)
    }

    fn json(&self) -> Value {
        json!({
            "way": self.way,
            "measure": self.measure,
            "unit": self.unit,
            "best": best(&self.ours),
            "median": median(&self.ours),
            "peer": "Open vSwitch",
            "peer_best": best(&self.theirs),
            "peer_median": median(&self.theirs),
            "ratio_median": self.ratio(),
        })
    }

    fn print_header() {
        println!(
            "{:<12} {:<18} {:>4} {:>9} {:>9}   {:<12} {:>9} {:>9} {:>7}",
            "way", "measure", "unit", "best", "median", "peer", "best", "median", "ratio"
        );
    }

    fn print(&self) {
        println!(
            "{:<12} {:<18} {:>4} {:>9.2} {:>9.2}   {:<12} {:>9.2} {:>9.2} {:>7.2}",
            self.way,
            self.measure,
            self.unit,
            best(&self.ours),
            median(&self.ours),
            "Open vSwitch",
            best(&self.theirs),
            median(&self.theirs),
            self.ratio(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_counted_as_the_client_prints_them() {
        let text = "OFPST_AGGREGATE reply (OF1.4) (xid=0x4): packet_count=0 byte_count=0 \
                    flow_count=100000\n";
        assert_eq!(flow_count(text), Some(100_000));
        assert_eq!(flow_count("OFPT_ERROR (OF1.4) (xid=0x4): OFPBRC_BAD_TYPE"), None);
    }

    #[test]
    fn lines_are_of_one_measure_each() {
        let figures = |add: f64| [add, 1.0, 10.0, 40.0, 30.0, 20.0, 10.0];
        let found = ModeFigures {
            way: AddMode::Bundle,
            ours: vec![figures(2.0), figures(6.0), figures(3.0)],
            theirs: vec![figures(4.0), figures(4.0), figures(4.0)],
        };
        let lines: Vec<OutputRow> = lines(&found).collect();
        assert_eq!(lines.len(), MEASURES.len());
        let add = lines[0].json();
        assert_eq!((&add["measure"], &add["unit"]), (&json!("add"), &json!("s")));
        assert_eq!((&add["best"], &add["median"]), (&json!(2.0), &json!(3.0)));
        assert_eq!(add["ratio_median"], json!(0.75));
        assert_eq!(lines[3].json()["median"], json!(40.0));
    }
}
