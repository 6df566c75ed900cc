//! `cargo xtask bench chains`: cost of chains of elements, ours beside Click and FastClick.
//!
//! A configuration runs with one copy of a chain and with eleven, and the difference is
//! divided by ten and by the packets. Source, sink and start are in both and cancel; the rest is
//! the cost that a chain adds behind others.
//!
//! Counted is the processor time of the whole process, which the kernel keeps to the nanosecond, times
//! the rate of the time-stamp counter. It is the same measure for programs that know nothing of each
//! other; unlike ticks around a run it leaves out the time in which another program had the core, and it
//! has the time of all threads. User time alone would be a guess: the kernel tells it from system time by
//! where it finds a program at ticks of its clock.

mod contender;
mod cost;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use linerate_bench_chains::{CHAINS, Chain, Setting};
use linerate_linux::machine::pin_current_thread;
use linerate_memory::clock::cycles_per_second;
use linerate_test_support::programs;
use serde_json::{Value, json};

use self::contender::{Contender, PeerProgram, contenders};
use self::cost::{COPIES, Runs};
use super::baseline::{Baseline, Figure};
use super::peers::{FORWARDING_CORE, Memory};
use super::priority::Priority;
use super::restore::{RestoreOnDrop, unique_name};
use super::{ours, results};

/// Packets of the shorter run under callgrind; the longer has three times as many.
const COUNTED: u64 = 10_240;
/// Length of one measurement of the reference.
const WINDOW: Duration = Duration::from_millis(300);

/// Arguments of `cargo xtask bench chains`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask bench chains                     cycles per packet and chain, of all chains
  cargo xtask bench chains --list              which there are
  cargo xtask bench chains --only ip,router --packets 1000000
  cargo xtask bench chains --peer click=/opt/click --peer fastclick=/opt/fastclick
                                               peers in turns, on the same files
  cargo xtask bench chains --instructions --repetitions 0
                                               instructions only: the same on a busy machine
  cargo xtask bench chains --only ip,router --apart --compiled
                                               beside elements that know nothing of each other, and
                                               programs made by `linerate compile`
  cargo xtask bench chains --only nat --keep-configurations /tmp/nat
  cargo xtask bench chains --keep --json chains.json")]
pub(crate) struct Args {
    /// Only these chains.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// List the chains and end.
    #[arg(long)]
    list: bool,
    /// A user-level program of Click or FastClick to measure in turns; may be given several times.
    #[arg(long, value_name = "NAME=PATH")]
    peer: Vec<PeerProgram>,
    /// Measure ours with each element finding packets and headers for itself, too: `linerate run
    /// --no-surveys`.
    #[arg(long)]
    apart: bool,
    /// Measure what `linerate compile` makes of each, too, for this processor or the one said;
    /// callgrind knows no AVX-512: `--compiled=x86-64-v3` with `--instructions`.
    #[arg(long, value_name = "CPU", num_args = 0..=1, require_equals = true,
          default_missing_value = "native")]
    compiled: Option<String>,
    /// Packets of each run.
    #[arg(long, default_value_t = 3_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    packets: u64,
    /// Packets the source sends at a time, and most in a frame of ours.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1024))]
    burst: u32,
    /// How often each is run; 0: no cycles.
    #[arg(long, default_value_t = 5)]
    repetitions: u32,
    /// Count instructions, too, under callgrind.
    #[arg(long)]
    instructions: bool,
    /// The core all run on.
    #[arg(long, default_value_t = FORWARDING_CORE as u32)]
    core: u32,
    /// Write the results into a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the figures in bench/results, in the file of this processor.
    #[arg(long)]
    keep: bool,
    /// Leave the configurations in a folder.
    #[arg(long, value_name = "FOLDER")]
    keep_configurations: Option<PathBuf>,
}

/// Cost of one chain for one contender.
#[derive(Debug, Default)]
struct Cost {
    cycles: Option<Figure>,
    instructions: Option<f64>,
    /// Reason why there is nothing.
    refused: Option<String>,
}

/// A chain, and its cost for each contender, in their order.
type Measured = (Chain, Vec<Cost>);

pub(crate) fn run(args: &Args) -> Result<()> {
    let chains = wanted(&args.only)?;
    if args.list {
        chains.iter().for_each(|chain| println!("{:<14} {}", chain.name, chain.about));
        return Ok(());
    }
    if args.keep && args.repetitions == 0 {
        bail!("--keep keeps cycles, and --repetitions 0 measures none");
    }
    if args.instructions && Command::new("valgrind").arg("--version").output().is_err() {
        crate::peers::install(&["valgrind"])?;
    }
    let contenders =
        contenders(&ours::linerate()?, args.apart, args.compiled.as_deref(), &args.peer)?;
    let _priority = Priority::raise();
    // Instructions are the same on every processor.
    let mut baseline = match args.repetitions {
        0 => None,
        _ => Some(Baseline::new(no_reference())?),
    };
    let memory = if no_reference().is_some() { Memory::small() } else { Memory::reserve() };
    let (folder, _undo) = folder(args)?;
    // Those this one starts run where it does.
    pin_current_thread(args.core).with_context(|| format!("cannot run on core {}", args.core))?;
    let mut measured: Vec<Measured> = Vec::new();
    for chain in chains {
        let costs = measure(args, &chain, &contenders, &folder)?;
        if let Some(baseline) = &mut baseline {
            baseline.sample(&memory, 1, WINDOW)?;
        }
        measured.push((chain, costs));
    }
    report(args, &contenders, &measured, baseline.as_ref())
}

fn wanted(only: &[String]) -> Result<Vec<Chain>> {
    let known = |name: &String| CHAINS.iter().any(|chain| chain.name == name);
    if let Some(unknown) = only.iter().find(|name| !known(name)) {
        bail!("no chain is called {unknown}; --list says which there are");
    }
    let wants = |chain: &&Chain| only.is_empty() || only.iter().any(|name| name == chain.name);
    Ok(CHAINS.iter().filter(wants).copied().collect())
}

/// Returns the reason why there is no reference: its program is measured where it is, and not
/// installed for this.
fn no_reference() -> Option<String> {
    let missing = programs::find("dpdk-testpmd").is_none();
    missing.then(|| "dpdk-testpmd is not installed, run `cargo xtask bench peers`".into())
}

/// The folder of the configurations; removed again unless they are wanted.
fn folder(args: &Args) -> Result<(PathBuf, Option<RestoreOnDrop>)> {
    let kept = args.keep_configurations.clone();
    let folder = kept.clone().unwrap_or_else(|| std::env::temp_dir().join(unique_name()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let undo = kept.is_none().then(|| {
        let folder = folder.clone();
        RestoreOnDrop::by(move || drop(fs::remove_dir_all(folder)))
    });
    Ok((folder, undo))
}

/// Measures a chain with all contenders in turns.
fn measure(
    args: &Args,
    chain: &Chain,
    contenders: &[Contender],
    folder: &Path,
) -> Result<Vec<Cost>> {
    let write = |copies: u32, packets: u64| -> Result<PathBuf> {
        let file = folder.join(format!("{}-{copies}-{packets}.click", chain.name));
        let setting = Setting { copies, packets, burst: args.burst };
        fs::write(&file, chain.configuration(setting))?;
        Ok(file)
    };
    let least = |copies: u32, packets: u64| packets.saturating_sub(u64::from(copies) * chain.holds);
    let mut costs: Vec<Cost> = contenders.iter().map(|_| Cost::default()).collect();
    let mut runs = vec![Runs::default(); contenders.len()];
    for repetition in 1..=args.repetitions {
        eprintln!("{}: run {repetition} of {}", chain.name, args.repetitions);
        for ((contender, cost), runs) in contenders.iter().zip(&mut costs).zip(&mut runs) {
            for (copies, cycles) in [(1, &mut runs.one), (COPIES, &mut runs.many)] {
                let file = write(copies, args.packets)?;
                let mut command = contender.command(&file, args.burst)?;
                let least = least(copies, args.packets);
                match contender::processor_seconds(&mut command, least) {
                    _ if cost.refused.is_some() => {}
                    Ok(seconds) => cycles.push(seconds * cycles_per_second()),
                    Err(error) => cost.refuse(chain, contender, &error),
                }
            }
        }
    }
    for (cost, runs) in costs.iter_mut().zip(&runs).filter(|(cost, _)| cost.refused.is_none()) {
        cost.cycles = runs.figure(args.packets);
    }
    if !args.instructions {
        return Ok(costs);
    }
    for (contender, cost) in contenders.iter().zip(&mut costs) {
        if cost.refused.is_some() {
            continue;
        }
        eprintln!("{}: instructions of {}", chain.name, contender.name);
        let count = |copies: u32, packets: u64| {
            let command = contender.command(&write(copies, packets)?, args.burst)?;
            contender::instructions(&command, least(copies, packets))
        };
        let both = |copies: u32| Ok([count(copies, COUNTED)?, count(copies, 3 * COUNTED)?]);
        match both(1).and_then(|one| Ok((one, both(COPIES)?))) {
            Ok((one, many)) => {
                cost.instructions = Some(cost::instructions(one, many, 2 * COUNTED));
            }
            Err(error) => cost.refuse(chain, contender, &error),
        }
    }
    Ok(costs)
}

impl Cost {
    fn refuse(&mut self, chain: &Chain, contender: &Contender, error: &anyhow::Error) {
        eprintln!("{}: {}: {error:#}", chain.name, contender.name);
        self.refused = Some(format!("{error:#}"));
    }

    fn json(&self, name: &str, ours: &Cost, reference: Option<Figure>) -> Value {
        let over = |reference: Figure| self.cycles.map(|cycles| cycles.over(reference));
        json!({
            "name": name,
            "cycles": self.cycles,
            "multiple": reference.and_then(over),
            "ours_over": ours.cycles.zip(self.cycles).map(|(ours, other)| ours.over(other)),
            "instructions": self.instructions,
            "ours_over_instructions":
                ours.instructions.zip(self.instructions).map(|(ours, other)| ours / other),
            "refused": self.refused,
        })
    }
}

fn report(
    args: &Args,
    contenders: &[Contender],
    measured: &[Measured],
    baseline: Option<&Baseline>,
) -> Result<()> {
    let names: Vec<&str> = contenders.iter().map(|contender| contender.name.as_str()).collect();
    let reference = baseline.and_then(Baseline::figure);
    if let Some(baseline) = baseline {
        baseline.print();
        println!(
            "\nTSC cycles per packet and chain, best / median of {}, {} packets, {} at a time",
            args.repetitions, args.packets, args.burst
        );
        println!("{}", cycles_header(&names, reference.is_some()));
        for (chain, costs) in measured {
            println!("{}", cycles_line(chain.name, costs, reference));
        }
    }
    if args.instructions {
        println!("\ninstructions per packet and chain, {} at a time", args.burst);
        println!("{}", instructions_header(&names));
        for (chain, costs) in measured {
            println!("{}", instructions_line(chain.name, costs));
        }
    }
    for (chain, costs) in measured {
        for (name, cost) in names.iter().zip(costs) {
            if let Some(reason) = &cost.refused {
                println!("NOT MEASURED: {}, {name}: {reason}", chain.name);
            }
        }
    }
    if let Some(path) = &args.json {
        let chains: Vec<Value> = measured
            .iter()
            .map(|(chain, costs)| {
                let each = names.iter().zip(costs);
                let costs: Vec<_> =
                    each.map(|(name, cost)| cost.json(name, &costs[0], reference)).collect();
                json!({ "chain": chain.name, "elements": chain.about, "contenders": costs })
            })
            .collect();
        let report = json!({
            "yardstick": baseline.map(Baseline::json),
            "packets": args.packets,
            "burst": args.burst,
            "repetitions": args.repetitions,
            "chains": chains,
        });
        let text = serde_json::to_string_pretty(&report)? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(baseline) = baseline.filter(|_| args.keep) {
        let cases = measured.iter().flat_map(|(chain, costs)| {
            let figures = names.iter().zip(costs);
            figures.filter_map(|(name, cost)| {
                Some((format!("{}, burst {}, {name}", chain.name, args.burst), cost.cycles?))
            })
        });
        results::store("chains", cases, baseline)?;
    }
    Ok(())
}

/// `first` of each contender, and of each but the first our figure as a multiple of it.
fn columns<'a>(
    first: impl Fn(usize) -> String + 'a,
    ratio: impl Fn(usize) -> String + 'a,
    contenders: usize,
) -> String {
    (0..contenders)
        .map(|at| match at {
            0 => format!(" {:>15}", first(at)),
            _ => format!(" {:>17} {:>13}", first(at), ratio(at)),
        })
        .collect()
}

fn cycles_header(names: &[&str], reference: bool) -> String {
    let multiple = if reference { "of reference" } else { "" };
    let columns = columns(|at| names[at].into(), |at| format!("ours/{}", names[at]), names.len());
    format!("{:<14}{columns} {multiple:>13}", "chain").trim_end().to_owned()
}

fn cycles_line(name: &str, costs: &[Cost], reference: Option<Figure>) -> String {
    let ours = costs[0].cycles;
    let ratio = |of: Option<Figure>| pair(ours.zip(of).map(|(ours, of)| ours.over(of)), 2);
    let columns =
        columns(|at| pair(costs[at].cycles, 1), |at| ratio(costs[at].cycles), costs.len());
    let multiple = if reference.is_some() { ratio(reference) } else { String::new() };
    format!("{name:<14}{columns} {multiple:>13}").trim_end().to_owned()
}

fn instructions_header(names: &[&str]) -> String {
    let columns = columns(|at| names[at].into(), |at| format!("ours/{}", names[at]), names.len());
    format!("{:<14}{columns}", "chain")
}

fn instructions_line(name: &str, costs: &[Cost]) -> String {
    let shown = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let ratio = |at: usize| {
        let both = costs[0].instructions.zip(costs[at].instructions);
        shown(both.map(|(ours, other)| ours / other), 2)
    };
    let columns = columns(|at| shown(costs[at].instructions, 1), ratio, costs.len());
    format!("{name:<14}{columns}")
}

fn pair(figure: Option<Figure>, digits: usize) -> String {
    figure.map_or_else(
        || "-".to_owned(),
        |Figure { best, median }| format!("{best:.digits$} / {median:.digits$}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(best: f64, median: f64, instructions: f64) -> Cost {
        let cycles = Some(Figure { best, median });
        Cost { cycles, instructions: Some(instructions), refused: None }
    }

    #[test]
    fn names_are_chosen_and_unknown_ones_refused() {
        let names = |only: &[&str]| -> Result<Vec<&str>> {
            let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
            Ok(wanted(&only)?.iter().map(|chain| chain.name).collect())
        };
        assert_eq!(names(&["router", "ip"]).unwrap(), ["ip", "router"]);
        let mut all = names(&[]).unwrap();
        assert_eq!(all.len(), CHAINS.len());
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), CHAINS.len(), "two chains have one name");
        assert!(names(&["ip", "unknown"]).is_err());
    }

    #[test]
    fn tables_have_ratios_to_each_peer() {
        let refused = Cost { refused: Some("no such element".into()), ..Cost::default() };
        let costs = [cost(10.0, 12.0, 100.0), cost(20.0, 48.0, 400.0), refused];
        let words = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = words(cycles_line("ip", &costs, Some(Figure { best: 20.0, median: 20.0 })));
        assert_eq!(line, "ip 10.0 / 12.0 20.0 / 48.0 0.50 / 0.25 - - 0.50 / 0.60");
        assert_eq!(words(cycles_line("ip", &costs[..1], None)), "ip 10.0 / 12.0");
        assert_eq!(words(instructions_line("ip", &costs)), "ip 100.0 400.0 0.25 - -");
        assert_eq!(words(cycles_header(&["ours", "click"], false)), "chain ours click ours/click");
        let json = costs[1].json("click", &costs[0], None);
        assert_eq!(json["ours_over"], json!({ "best": 0.5, "median": 0.25 }));
        assert_eq!((&json["multiple"], &json["refused"]), (&Value::Null, &Value::Null));
    }
}
