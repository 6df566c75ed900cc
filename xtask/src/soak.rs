//! `cargo xtask soak`: listeners under attack for minutes, with honest traffic and honest clients measured beside.
//!
//! Attacks and honest clients are the modules of `linerate_test_support::hostile`, which the test suite runs for some
//! seconds each. The measurement is a program of its own (`tests/support/examples/soak.rs`), built for release with
//! `linerate`, so that neither side is slower than it would be elsewhere.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::{Context, Result, bail};
use linerate_test_support::hostile::{LISTENERS, Latency, Soaked};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::shell;

/// Arguments of `cargo xtask soak`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask soak --list                          the listeners there are
  cargo xtask soak memif-server                    one of them, for ten minutes, as root
  cargo xtask soak memif-server memif-client --minutes 2
  cargo xtask soak all --minutes 1 --json > soak.json

A sixth of the time honest traffic is measured alone, a quarter while the attacks go to a decoy, another process of the
same command, and the rest while they go to the measured one. What hostile clients take of the machine is in both of
the latter; the ratio is that of their 99th percentiles. Then programs are started anew and ended by SIGTERM at random
moments of an attack. The command fails when a datagram was lost, an honest client refused,
memory or descriptors grew beyond their bounds, or a program did not end within a second; latencies are for the reader.
Ctrl-C ends it with what was measured until then.")]
pub(crate) struct Args {
    /// Listeners of --list, or all of them in turn.
    #[arg(value_name = "LISTENER", required_unless_present = "list")]
    listeners: Vec<String>,
    /// How long each listener is measured, without the endings.
    #[arg(long, default_value_t = 10.0, value_parser = parse_minutes)]
    minutes: f64,
    /// Programs that are ended at random moments.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=1000))]
    endings: u32,
    /// Seed of chance.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// List the listeners.
    #[arg(long)]
    list: bool,
    /// Print JSON, an object for each listener, in place of the table.
    #[arg(long)]
    json: bool,
}

fn parse_minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse::<f64>().ok().filter(|minutes| (0.1..=1440.0).contains(minutes));
    minutes.ok_or_else(|| "minutes are between 0.1 and 1440".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.list {
        for listener in LISTENERS {
            println!("{:<24} {}", listener.name, listener.summary);
        }
        return Ok(());
    }
    let listeners = choose(&args.listeners)?;
    if !shell::is_root() {
        bail!("hostile clients run as other users and in network namespaces: run it as root");
    }
    let build = ["build", "--release", "--package"];
    shell::run(shell::cargo(&build).args(["linerate", "--package", "linerate-pcap"]))?;
    shell::run(shell::cargo(&build).args(["linerate-test-support", "--example", "soak"]))?;
    // The measurement gets the signal, too, ends, and reports its figures.
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let programs = shell::root().join("target/release");
    let all = measure(args, &programs, &listeners)?;
    if !args.json {
        print!("{}", table(&all));
    }
    let faults: Vec<String> = all
        .iter()
        .flat_map(|soaked| {
            soaked.faults.iter().map(|fault| format!("{}: {fault}", soaked.listener))
        })
        .collect();
    if !faults.is_empty() {
        bail!("hostile clients did harm\n{}", faults.join("\n"));
    }
    Ok(())
}

/// The listeners of these names.
fn choose(names: &[String]) -> Result<Vec<&'static str>> {
    let all = || LISTENERS.iter().map(|listener| listener.name);
    if names == ["all"] {
        return Ok(all().collect());
    }
    let known = |name: &String| {
        let found = all().find(|known| known == name);
        found.with_context(|| {
            format!(
                "no listener `{name}`; there are: all, {}",
                all().collect::<Vec<_>>().join(", ")
            )
        })
    };
    names.iter().map(known).collect()
}

fn measure(args: &Args, programs: &Path, listeners: &[&str]) -> Result<Vec<Soaked>> {
    let seconds = (args.minutes * 60.0).round().to_string();
    let mut command = Command::new(programs.join("examples/soak"));
    command.arg(programs.join("linerate")).arg(seconds);
    command.args([args.endings.to_string(), args.seed.to_string()]).args(listeners);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start the measurement")?;
    let lines = BufReader::new(child.stdout.take().context("its output")?).lines();
    let mut all = Vec::new();
    for line in lines {
        let line = line.context("cannot read what was measured")?;
        let soaked: Soaked = serde_json::from_str(&line).context("what was measured")?;
        if args.json {
            println!("{line}");
        } else {
            eprintln!("{}", if soaked.faults.is_empty() { "unharmed" } else { "HARMED" });
        }
        all.push(soaked);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("the measurement failed ({status})");
    }
    Ok(all)
}

/// A table of the measurements.
fn table(all: &[Soaked]) -> String {
    let mut text = format!(
        "\n{:<24} {:>9} {:>5} {:>15} {:>15} {:>15} {:>6} {:>8} {:>6} {:>8} {:>13}\n",
        "listener",
        "sent",
        "lost",
        "alone p50/p99",
        "decoy p50/p99",
        "attack p50/p99",
        "ratio",
        "refused",
        "+MiB",
        "attacks",
        "SIGTERM max"
    );
    for soaked in all {
        let times = |latency: Latency| format!("{:.0}/{:.0} us", latency.median, latency.p99);
        let outcome = &soaked.outcome;
        let attacks: u64 = outcome.attacks.values().sum();
        let refused: u64 = outcome.clients.iter().map(|client| client.failures).sum();
        let endings = soaked.endings.iter().chain([&outcome.ending]);
        let longest = endings.map(|ending| ending.milliseconds).fold(0.0, f64::max);
        let row = format!(
            "{:<24} {:>9} {:>5} {:>15} {:>15} {:>15} {:>6.2} {:>8} {:>6} {:>8} {:>10.0} ms\n",
            soaked.listener,
            outcome.traffic.sent,
            outcome.traffic.lost(),
            times(soaked.alone.judge()),
            times(soaked.decoy.judge()),
            times(soaked.attacked.judge()),
            soaked.ratio(),
            refused,
            outcome.growth.resident >> 20,
            attacks,
            longest,
        );
        text += &row;
        for client in &soaked.attacked.clients {
            let [alone, decoy] = [&soaked.alone, &soaked.decoy].map(|phase| {
                let without = phase.clients.iter().find(|other| other.name == client.name);
                without.map_or(String::new(), |other| times(other.latency))
            });
            text += &format!(
                "  {}: {} steps, alone {alone}, decoy {decoy}, under attack {}\n",
                client.name,
                client.steps,
                times(client.latency)
            );
        }
        let kinds: Vec<_> =
            outcome.attacks.iter().map(|(name, count)| format!("{name} {count}")).collect();
        text += &format!("  attacks: {}\n", kinds.join(", "));
        let times: Vec<_> =
            soaked.endings.iter().map(|ending| format!("{:.0}", ending.milliseconds)).collect();
        text += &format!("  ends on SIGTERM within, ms: {}\n", times.join(", "));
        if soaked.interrupted {
            text += "  ended early\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_chosen_by_name() {
        let names =
            |names: &[&str]| choose(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["all"]).unwrap().len(), LISTENERS.len());
        assert_eq!(names(&[LISTENERS[0].name]).unwrap(), [LISTENERS[0].name]);
        assert!(names(&["none"]).unwrap_err().to_string().contains(LISTENERS[0].name));
    }

    #[test]
    fn names_are_unique() {
        for (at, listener) in LISTENERS.iter().enumerate() {
            assert!(LISTENERS[..at].iter().all(|other| other.name != listener.name));
        }
    }

    #[test]
    fn minutes_have_a_range() {
        for wrong in ["0", "-1", "NaN", "inf", "1e308", "1441", "", "ten"] {
            assert!(parse_minutes(wrong).is_err(), "{wrong}");
        }
        assert!(parse_minutes("0.5").is_ok() && parse_minutes("1440").is_ok());
    }
}
