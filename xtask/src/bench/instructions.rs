//! `cargo xtask bench instructions`: how many instructions a packet costs, counted by callgrind.
//!
//! Each case runs twice, with different numbers of packets, and the difference is divided by that of
//! the packets, so that starting and stopping do not count. The counts are the same every time for
//! the same compiler; those of the repository are in `bench/instructions.json`, and a count that grew
//! by more than the tolerance is an error.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::ours::Ours;

/// Where the counts are recorded.
const RECORD: &str = "bench/instructions.json";
/// Packets or objects of the shorter run, a multiple of every burst.
const COUNT: u64 = 1 << 16;
/// How much a count may grow: another compiler version may cost as much.
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
            counts.insert(format!("{case}, burst {burst}"), (each * 100.0).round() / 100.0);
        }
    }
    if args.record {
        fs::write(RECORD, serde_json::to_string_pretty(&counts)? + "\n")?;
    }
    let recorded = fs::read_to_string(RECORD).with_context(|| {
        format!("cannot read {RECORD}; run `cargo xtask bench instructions --record`")
    })?;
    let recorded: BTreeMap<String, f64> = serde_json::from_str(&recorded)?;
    let mut grown = 0;
    println!("{:<18} {:>12} {:>12}", "instructions", "now", "recorded");
    for (case, now) in &counts {
        let before = recorded.get(case).copied();
        let worse = before.is_none_or(|before| *now > before * (1.0 + TOLERANCE));
        grown += u32::from(worse);
        let before = before.map_or("-".into(), |before| format!("{before:.2}"));
        let mark = if worse { "  <- more" } else { "" };
        println!("{case:<18} {now:>12.2} {before:>12}{mark}");
    }
    if grown > 0 {
        bail!("{grown} counts grew by more than {:.0} %", TOLERANCE * 100.0);
    }
    Ok(())
}

/// All instructions of a run.
fn collected(ours: &Ours, arguments: &[&str], burst: u32, count: u64) -> Result<u64> {
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
    line.and_then(|n| n.parse().ok()).with_context(|| format!("callgrind said:\n{text}"))
}
