//! `cargo xtask bench plan`: what `linerate plan` says of configurations it has never seen, beside what
//! they then reach.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::ours;
use super::undo::{Undo, unique_name};

/// How far off an answer may be.
const ALLOWED: f64 = 0.15;

/// Configurations with their names; sources of packets are `FromDevice`.
const CONFIGURATIONS: &[(&str, &str)] = &[
    ("cross-connect", "FromDevice(a) -> EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(b);"),
    (
        "check and count",
        "FromDevice(a) -> Strip(14) -> CheckIPHeader -> Counter -> DecIPTTL
         -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(b);",
    ),
    (
        "filter",
        "FromDevice(a) -> CheckIPHeader(14)
         -> IPFilter(deny src net 10.0.0.0/8, deny src net 172.16.0.0/12, deny dst port 22, deny dst port 23,
                     deny icmp, allow udp, deny all)
         -> SetIPDSCP(10) -> EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(b);",
    ),
    (
        "few routes",
        "FromDevice(a) -> Strip(14) -> CheckIPHeader
         -> r :: StaticIPLookup(198.19.0.0/22 0, 198.19.4.0/22 1, 198.19.8.0/21 2);
         r[0], r[1], r[2] => Counter, Paint(1), Paint(2) => Null, Null, Null
         -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(b);",
    ),
    (
        "routes by tree",
        "FromDevice(a) -> Strip(14) -> CheckIPHeader
         -> RadixIPLookup(0/0 192.168.0.1 0, 198.19.0.0/24 192.168.0.2 0, 198.19.1.0/24 192.168.0.3 0,
                          198.19.2.0/23 192.168.0.4 0, 198.19.4.0/22 192.168.0.5 0)
         -> IPGWOptions(192.168.0.254) -> FixIPSrc(192.168.0.254) -> DecIPTTL -> IPFragmenter(1500)
         -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(b);",
    ),
    (
        "translation",
        "FromDevice(a) -> Strip(14) -> CheckIPHeader
         -> IPRewriter(pattern 198.51.100.1 1024-65535# - - 0 0)
         -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> ToDevice(b);",
    ),
    (
        "tunnel",
        "FromDevice(a) -> Strip(14) -> UDPIPEncap(192.168.0.1, 4789, 192.168.0.2, 4789)
         -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Counter -> ToDevice(b);",
    ),
    (
        "VLAN",
        "FromDevice(a) -> VLANEncap(7) -> Counter -> VLANDecap -> EtherMirror -> ToDevice(b);",
    ),
    (
        "kinds",
        "FromDevice(a) -> kind :: Classifier(12/0806, 12/86dd, 12/0800, -);
         kind[0] -> Discard; kind[1] -> Discard; kind[3] -> Discard;
         kind[2] -> CheckIPHeader(14)
         -> of :: IPClassifier(tcp dst port 80, udp dst port 53, udp dst port 9, -);
         of[0] -> Discard; of[1] -> Discard; of[3] -> Discard;
         of[2] -> Paint(3) -> EtherMirror -> ToDevice(b);",
    ),
    (
        "checksums",
        "FromDevice(a) -> CheckIPHeader(14) -> SetIPAddress(192.168.0.7) -> SetIPDSCP(46) -> SetIPChecksum
         -> SetUDPChecksum -> ToDevice(b);",
    ),
    (
        "balancer",
        "FromDevice(a) -> CheckIPHeader(14) -> IPRateMonitor(PACKETS, 0, 1) -> s :: HashSwitch(30, 4);
         s[0] -> Counter -> ToDevice(b); s[1] -> EtherMirror -> ToDevice(c);",
    ),
    ("task", "FromDevice(a) -> Strip(14) -> CycleLoad(250) -> Unstrip(14) -> EtherMirror -> ToDevice(b);"),
    (
        "queue",
        "FromDevice(a) -> CheckIPHeader(14) -> Queue(2048) -> Unqueue -> EtherMirror -> ToDevice(b);",
    ),
    (
        "inspection",
        "FromDevice(a) -> Strip(14) -> CheckIPHeader -> CheckUDPHeader -> IPRateMonitor(PACKETS, 0, 1)
         -> Unstrip(14) -> AverageCounter -> ToDevice(b);",
    ),
];

/// Arguments of `cargo xtask bench plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Results that have a calibration: by default elements are measured first, about two minutes.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only these configurations, by name.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How often each is run, in turns. The most it reaches counts: what else a machine does can
    /// only slow it down.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let linerate = ours::linerate()?;
    let own = std::env::temp_dir().join(unique_name());
    let _undo = {
        let own = own.clone();
        Undo::by(move || drop(std::fs::remove_dir_all(own)))
    };
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => {
            let dir = own;
            let status = Command::new(&linerate)
                .args(["lab", "run", "elements", "--dir"])
                .arg(&dir)
                .stdout(Stdio::null())
                .status()
                .context("cannot run linerate")?;
            if !status.success() {
                bail!("the elements were not measured");
            }
            dir
        }
    };
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|one| one == name);
    let mut rows: Vec<(&str, Value)> = Vec::new();
    for round in 1..=args.rounds {
        let chosen = CONFIGURATIONS.iter().filter(|(name, _)| wanted(name));
        for (at, (name, configuration)) in chosen.enumerate() {
            eprintln!("round {round} of {}: planning and measuring {name}", args.rounds);
            let row = checked(&linerate, &dir, configuration)?;
            match rows.get_mut(at) {
                None => rows.push((name, row)),
                Some(best) if reached(&row) > reached(&best.1) => best.1 = row,
                Some(_) => {}
            }
        }
    }
    show(&rows, args.json)
}

/// Packets per second.
fn reached(row: &Value) -> Option<f64> {
    row["measured_pps"].as_f64()
}

/// The answer to a configuration, and what it reached.
fn checked(linerate: &Path, dir: &Path, configuration: &str) -> Result<Value> {
    let output = Command::new(linerate)
        .arg("plan")
        .arg(dir)
        .args(["--measure", "--check", "--format", "json", "-e", configuration])
        .output()
        .context("cannot run linerate")?;
    if !output.status.success() {
        bail!("linerate plan: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("linerate plan printed no JSON")
}

fn show(rows: &[(&str, Value)], as_json: bool) -> Result<()> {
    let error = |row: &Value| row["error"].as_f64().context("an answer without its error");
    let errors = rows.iter().map(|(_, row)| error(row)).collect::<Result<Vec<f64>>>()?;
    let within = errors.iter().filter(|error| error.abs() <= ALLOWED).count();
    if as_json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|(name, row)| {
                json!({
                    "configuration": name,
                    "predicted_pps": row["throughput_pps"],
                    "measured_pps": row["measured_pps"],
                    "error": row["error"],
                })
            })
            .collect();
        println!("{}", json!({ "configurations": rows, "allowed": ALLOWED, "within": within }));
        return Ok(());
    }
    println!(
        "{:<16} {:>10} {:>22} {:>10} {:>8}",
        "configuration", "plan Mpps", "90 %", "reached", "error"
    );
    for ((name, row), error) in rows.iter().zip(&errors) {
        let mega = |value: &Value| value.as_f64().unwrap_or(f64::NAN) / 1e6;
        let plan = &row["throughput_pps"];
        let interval = format!("{:.1} to {:.1}", mega(&plan["low"]), mega(&plan["high"]));
        println!(
            "{name:<16} {:>10.2} {interval:>22} {:>10.2} {:>+6.1} %",
            mega(&plan["value"]),
            mega(&row["measured_pps"]),
            error * 100.0
        );
    }
    println!("{within} of {} within {:.0} %", rows.len(), ALLOWED * 100.0);
    Ok(())
}
