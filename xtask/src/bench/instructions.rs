//! `cargo xtask bench instructions`: instructions per packet, counted by callgrind.
//!
//! Each case runs twice, with different numbers of packets, and the difference is divided by that of
//! the packets, so that starting and stopping do not count. The counts are the same every time for
//! the same compiler, but for paths through tables, which hash by numbers that each process draws;
//! those of the repository are in `bench/instructions.json`, and a count that grew by more than the
//! tolerance is an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::filter;
use super::ours::Ours;
use super::restore::{RestoreOnDrop, unique_name};
use super::routers::{self, Finite};
use super::tables;

/// Path of the recorded counts.
const RECORD: &str = "bench/instructions.json";
/// Packets or objects of the shorter run, a multiple of every burst.
const COUNT: u64 = 1 << 16;
/// Allowed growth of a count: another compiler version may cost as much.
const TOLERANCE: f64 = 0.05;

/// Names of the cases, their arguments, and packets moved per packet counted.
const CASES: [(&str, &[&str], u64); 6] = [
    ("null", &["forward", "null:", "null:"], 1),
    ("ring", &["forward", "ring:a?loop&seed=256", "ring:b?loop&seed=256", "--bidirectional"], 2),
    (
        "mac",
        &[
            "forward",
            "ring:a?loop&seed=256",
            "ring:b?loop&seed=256",
            "--bidirectional",
            "--rewrite",
        ],
        2,
    ),
    ("spsc", &["operations", "ring-spsc"], 1),
    ("mpmc", &["operations", "ring-mpmc"], 1),
    ("pool", &["operations", "pool"], 1),
];
const BURSTS: [u32; 3] = [1, 32, 256];

/// The start of every graph of elements, and the element that others are compared with.
const SOURCE: &str = "source";
const DISCARD: &str = "-> end :: Discard";
/// Elements, and the graph behind the source that has the element and nothing else that costs. Of
/// those with several outputs the packets take all in turn where the element lets them. A task that takes
/// packets out of a queue takes as many in a turn (`$BURST`) as the source makes: else it overflows.
const ELEMENTS: [(&str, &str); 24] = [
    ("Null", "-> Null -> end :: Discard"),
    ("Counter", "-> Counter -> end :: Discard"),
    ("AverageCounter", "-> AverageCounter -> end :: Discard"),
    ("Queue, Unqueue", "-> Queue -> Unqueue(BURST $BURST) -> end :: Discard"),
    (
        "Classifier",
        "-> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -)
        => Discard, Discard, (input -> end :: Discard), Discard",
    ),
    ("Paint", "-> Paint(1) -> end :: Discard"),
    ("CheckPaint", "-> CheckPaint(1) -> end :: Discard"),
    ("PaintSwitch", "-> s :: PaintSwitch -> end :: Discard; s [1] -> Discard"),
    ("Strip", "-> Strip(14) -> end :: Discard"),
    ("Strip, Unstrip", "-> Strip(14) -> Unstrip(14) -> end :: Discard"),
    ("Truncate", "-> Truncate(40) -> end :: Discard"),
    ("Pad", "-> Pad(80) -> end :: Discard"),
    ("SetTimestamp", "-> SetTimestamp -> end :: Discard"),
    ("Switch", "-> s :: Switch(1) -> Discard; s [1] -> end :: Discard"),
    ("RoundRobinSwitch", "-> s :: RoundRobinSwitch -> end :: Discard; s [1] -> Discard"),
    ("HashSwitch", "-> s :: HashSwitch(0, 4) -> end :: Discard; s [1] -> Discard"),
    ("RandomSwitch", "-> s :: RandomSwitch -> end :: Discard; s [1] -> Discard"),
    ("StrideSwitch", "-> s :: StrideSwitch(1, 2) -> end :: Discard; s [1] -> Discard"),
    ("RandomSample", "-> RandomSample(0.5) -> end :: Discard"),
    ("Tee", "-> s :: Tee -> end :: Discard; s [1] -> Discard"),
    ("PaintTee", "-> s :: PaintTee(1) -> end :: Discard; s [1] -> Discard"),
    ("Meter", "-> s :: Meter(1000000000) -> end :: Discard; s [1] -> Discard"),
    (
        "Queue, Shaper, Unqueue",
        "-> Queue -> Shaper(1000000000) -> Unqueue(BURST $BURST) -> end :: Discard",
    ),
    (
        "RED, Queue, Unqueue",
        "-> RED(100, 200, 0.1) -> Queue -> Unqueue(BURST $BURST) -> end :: Discard",
    ),
];
/// Graphs whose cost depends on more than packets and elements, and the number of packets in a
/// frame: putting two packets in order must not cost as much as two thousand, and a scheduler's
/// plan must not be walked for each packet.
const GRAPHS: [(&str, &str, u64); 2] = [
    (
        "RoundRobinSwitch, ways that meet",
        "-> s :: RoundRobinSwitch -> Null -> end :: Discard; s [1] -> Null -> end",
        2,
    ),
    (
        "Queue, StrideSched",
        "-> r :: RoundRobinSwitch -> Queue(8) -> [0] s :: StrideSched(10, 20, 70)
        -> end :: Discard(BURST $BURST);
        r [1] -> Queue(8) -> [1] s; r [2] -> Queue(8) -> [2] s",
        24,
    ),
];
/// Paths of `cargo xtask bench network`, of which sources do not count; of `arp` only `ARPQuerier` does.
const PATHS: [&str; 7] = ["ipv4-1", "ipv4-100k", "ipv6", "arp", "switch", "nat", "click-router"];
/// Number of times that captures are read in the shorter and the longer run of a path: tables know
/// all by then, and a flow has had both of its first packets.
const ROUNDS: [u32; 2] = [3, 5];
/// Runs of each graph of a path, of which the one with the fewest instructions counts: more
/// addresses collide by some of the numbers that a table hashes by than by others.
const DRAWS: usize = 3;
/// Rules of the filter that is counted, `IPFilter` alone.
const RULES: usize = 50;
/// Packets of the shorter run with a packet in each frame.
const SINGLE_COUNT: u64 = 1 << 13;
/// Growth of a count that is allowed in any case: some elements look at the clock.
const SLACK: f64 = 0.3;
/// A UDP packet of 64 bytes, as the `DATA` of a source.
const UDP: &str = "\\<00000000 00020000 00000001 08004500 00320000 00004011 66c70a00 00010a00 \
    00020007 0007001e 00000000 00000000 00000000 00000000 00000000 00000000>";

/// Arguments of `cargo xtask bench instructions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Record the counts instead of comparing with them.
    #[arg(long)]
    record: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        crate::peers::install(&["valgrind"])?;
    }
    let ours = Ours::build()?;
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    for (case, arguments, factor) in CASES {
        for burst in BURSTS {
            let short = collected(&ours, arguments, burst, COUNT)?;
            let long = collected(&ours, arguments, burst, 3 * COUNT)?;
            let each = (long - short) as f64 / (2 * COUNT * factor) as f64;
            counts.insert(format!("{case}, burst {burst}"), rounded(each));
        }
    }
    for packets in [1, 256] {
        let name = |case: &str| format!("{case}, {packets} per frame");
        let alone = graph(&ours, DISCARD, packets)?;
        counts.insert(name(SOURCE), rounded(alone));
        for (case, text) in ELEMENTS {
            counts.insert(name(case), rounded(graph(&ours, text, packets)? - alone));
        }
    }
    for (case, text, packets) in GRAPHS {
        let each = graph(&ours, text, packets)? - graph(&ours, DISCARD, packets)?;
        counts.insert(format!("{case}, {packets} per frame"), rounded(each));
    }
    paths(&ours, &mut counts)?;
    if args.record {
        fs::write(RECORD, serde_json::to_string_pretty(&counts)? + "\n")?;
    }
    let recorded = fs::read_to_string(RECORD).with_context(|| {
        format!("cannot read {RECORD}; run `cargo xtask bench instructions --record`")
    })?;
    let recorded: BTreeMap<String, f64> = serde_json::from_str(&recorded)?;
    let mut grown = 0;
    println!("{:<32} {:>12} {:>12}", "instructions", "now", "recorded");
    for (case, now) in &counts {
        let before = recorded.get(case).copied();
        let worse = before.is_none_or(|before| *now > before * (1.0 + TOLERANCE) + slack(case));
        grown += u32::from(worse);
        let before = before.map_or("-".into(), |before| format!("{before:.2}"));
        let mark = if worse { "  <- more" } else { "" };
        println!("{case:<32} {now:>12.2} {before:>12}{mark}");
    }
    if grown > 0 {
        bail!("{grown} counts grew by more than {:.0} %", TOLERANCE * 100.0);
    }
    Ok(())
}

fn rounded(count: f64) -> f64 {
    (count * 100.0).round() / 100.0
}

/// Growth of a count that is allowed besides the tolerance.
fn slack(case: &str) -> f64 {
    if case.ends_with("per frame") { SLACK } else { 0.0 }
}

/// Instructions per packet of a graph behind a source that puts so many packets into a frame.
fn graph(ours: &Ours, behind: &str, packets: u64) -> Result<f64> {
    let behind = behind.replace("$BURST", &packets.to_string());
    let text =
        format!("InfiniteSource(DATA {UDP}, LIMIT $COUNT, BURST {packets}, STOP true) {behind}");
    let arguments = ["graph", "--no-cycles", "-e", &text];
    let count = if packets == 1 { SINGLE_COUNT } else { COUNT };
    let short = collected(ours, &arguments, 256, count)?;
    let long = collected(ours, &arguments, 256, 3 * count)?;
    Ok((long - short) as f64 / (2 * count) as f64)
}

/// Counts the instructions of the paths of a network per packet, less those of the rest.
fn paths(ours: &Ours, counts: &mut BTreeMap<String, f64>) -> Result<()> {
    let folder = std::env::temp_dir().join(unique_name());
    let _undo = {
        let folder = folder.clone();
        RestoreOnDrop::by(move || drop(fs::remove_dir_all(folder)))
    };
    ours.tables(&folder)?;
    for case in PATHS {
        let finite = |rounds| routers::finite(&folder, case, rounds);
        counts.insert(format!("{case}, path"), path(ours, &folder, finite)?);
    }
    for case in tables::counted() {
        let finite = |rounds| tables::finite(&folder, case, rounds);
        counts.insert(format!("flow tables: {case}"), path(ours, &folder, finite)?);
    }
    let finite = |rounds| filter::finite(&folder, RULES, rounds);
    counts.insert(format!("filter {RULES}, path"), path(ours, &folder, finite)?);
    Ok(())
}

/// Instructions per packet of a configuration beside another that every packet goes through, too.
fn path(ours: &Ours, folder: &Path, finite: impl Fn(u32) -> Result<[Finite; 2]>) -> Result<f64> {
    let mut runs = Vec::new();
    for rounds in ROUNDS {
        for Finite { text, at } in finite(rounds)? {
            let file = folder.join("counted.click");
            fs::write(&file, text)?;
            let file = file.to_string_lossy();
            // Time stands still: timers, and entries that are old, do not count.
            let arguments = ["graph", "--no-cycles", "--simulated", "--at", at, &file];
            let mut fewest = callgrind(ours, &arguments, 256, 0)?;
            for _ in 1..DRAWS {
                let run = callgrind(ours, &arguments, 256, 0)?;
                if run.instructions < fewest.instructions {
                    fewest = run;
                }
            }
            runs.push(fewest);
        }
    }
    let [short, short_without, long, long_without] = &runs[..] else { unreachable!("two of two") };
    let packets = long_without.packets()? - short_without.packets()?;
    let more = (long.instructions - short.instructions) as f64;
    let without = (long_without.instructions - short_without.instructions) as f64;
    Ok(rounded((more - without) / packets))
}

/// All instructions of a run.
fn collected(ours: &Ours, arguments: &[&str], burst: u32, count: u64) -> Result<u64> {
    Ok(callgrind(ours, arguments, burst, count)?.instructions)
}

/// A run under callgrind: all its instructions, and its own output.
struct Run {
    instructions: u64,
    said: String,
}

impl Run {
    /// Packets that it has counted.
    fn packets(&self) -> Result<f64> {
        let said: Value = serde_json::from_str(&self.said)?;
        said["packets"].as_f64().with_context(|| format!("no packets: {}", self.said))
    }
}

fn callgrind(ours: &Ours, arguments: &[&str], burst: u32, count: u64) -> Result<Run> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(ours.program())
        .args(arguments)
        .args(["--burst", &burst.to_string(), "--count", &count.to_string()])
        .output()
        .context("cannot run valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("valgrind failed:\n{text}");
    }
    let line = text.lines().find_map(|line| line.split_once("Collected :")).map(|(_, n)| n.trim());
    let instructions = line.and_then(|n| n.parse().ok());
    let instructions = instructions.with_context(|| format!("callgrind said:\n{text}"))?;
    Ok(Run { instructions, said: String::from_utf8(output.stdout)? })
}
