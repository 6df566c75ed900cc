//! `linerate lab compare`: forwarders in turns, and ratios between them.

use anyhow::{Context as _, Result};
use linerate_lab::{
    Rate, Traffic,
    compare::{CompareOptions, Contender, Quartiles, Row, Turn, TurnError, contenders, rows, turn},
    trials::RunError,
};
use linerate_linux::machine::{Cpu, parse_cores, pin_current_thread};
use linerate_memory::ArenaOptions;
use linerate_model::units::{PacketsPerSecond, Seconds};
use serde_json::json;

use super::show::{Show, table};
use crate::{args::Compare, exit::UsageError, session, units::short};

pub(super) fn run(args: &Compare) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let advice = "network namespaces need root: sudo linerate lab compare";
        return Err(anyhow::Error::from(denied).context(advice));
    }
    let stop = session::stop_on_signals()?;
    let show = Show::new(args.output);
    let [own, core] = cores(args)?;
    let program = std::env::current_exe().context("this program has no path")?;
    let (found, mut missing) = contenders(&program, core, own);
    let mut found: Vec<Contender> = wanted(found, &args.only);
    missing.retain(|(name, _)| args.only.is_empty() || named(name, &args.only));
    pin_current_thread(own)?;
    let arena = ArenaOptions::default().create()?;
    let options = CompareOptions {
        driver: args.driver.clone(),
        traffic: Traffic::new(args.size.clone(), false),
        burst: args.burst.into(),
        window: Seconds::new(args.window.as_secs_f64()),
        calm: calm(args)?,
        stop,
    };
    let names: Vec<&str> = found.iter().map(Contender::name).collect();
    show.start(
        &[format!(
            "{} round{} of {}",
            args.rounds,
            if args.rounds == 1 { "" } else { "s" },
            names.join(", ")
        )],
        &json!({
            "command": "lab compare",
            "forwarders": names,
            "rounds": args.rounds,
            "window_s": args.window.as_secs_f64(),
            "sizes": args.size.to_string(),
            "driver": args.driver,
            "cores": [own, core],
        }),
    )?;
    let mut turns: Vec<Turn> = Vec::new();
    let mut interrupted = false;
    'rounds: for round in 0..args.rounds.into() {
        let mut failed = Vec::new();
        for place in 0..found.len() {
            // Another begins each round.
            let contender = &found[(place + round) % found.len()];
            match turn(contender, round, &arena, &options) {
                Ok(turn) => {
                    show.turn(&turn)?;
                    turns.push(turn);
                }
                Err(TurnError::Run(RunError::Interrupted)) => {
                    interrupted = true;
                    break 'rounds;
                }
                Err(error) => failed.push((contender.name(), error.to_string())),
            }
        }
        found.retain(|contender| failed.iter().all(|(name, _)| *name != contender.name()));
        missing.extend(failed);
    }
    let rows = rows(&names, &turns);
    let mut lines = lines(&rows);
    for (name, reason) in &missing {
        lines.push(format!("NOT MEASURED: {name}: {reason}"));
    }
    if interrupted {
        lines.push("interrupted: these are the turns until then".into());
    }
    let missing: Vec<_> =
        missing.iter().map(|(name, reason)| json!({ "name": name, "reason": reason })).collect();
    show.result(
        &lines,
        json!({ "rows": rows, "missing": missing, "interrupted": interrupted, "turns": turns }),
    )
}

/// The contenders asked for; the first, which the others are compared with, always.
fn wanted(found: Vec<Contender>, only: &[String]) -> Vec<Contender> {
    let keep = |(index, contender): &(usize, Contender)| {
        *index == 0 || only.is_empty() || named(contender.name(), only)
    };
    found.into_iter().enumerate().filter(keep).map(|(_, contender)| contender).collect()
}

fn named(name: &str, only: &[String]) -> bool {
    let name = name.to_lowercase();
    only.iter().any(|part| name.contains(&part.to_lowercase()))
}

/// The tester's core and the forwarders'.
fn cores(args: &Compare) -> Result<[u32; 2]> {
    let Some(text) = &args.cores else {
        // Not all of a machine's cores need be this process's.
        let allowed = Cpu::inspect().allowed;
        let [first, last] =
            [allowed.first(), allowed.last()].map(|core| core.copied().unwrap_or(0));
        return Ok([first, last]);
    };
    let wrong = |why: String| UsageError(format!("--cores {text}: {why}"));
    let cores = parse_cores(text).map_err(|error| wrong(error.to_string()))?;
    match cores[..] {
        [own, forwarder] => Ok([own, forwarder]),
        _ => Err(wrong("name two".into()).into()),
    }
}

fn calm(args: &Compare) -> Result<PacketsPerSecond> {
    let mean = args.size.mean();
    let rate = match args.calm {
        Rate::Max => Err("say how much".into()),
        rate => rate.packets_per_second(mean, None),
    };
    let rate = rate.map_err(|reason| UsageError(format!("--calm {}: {reason}", args.calm)))?;
    Ok(PacketsPerSecond::new(rate.unwrap_or(0.0)))
}

fn lines(rows: &[Row]) -> Vec<String> {
    let quartiles = |found: Quartiles, text: fn(f64) -> String| {
        format!("{} ({} to {})", text(found.median), text(found.low), text(found.high))
    };
    let titles =
        ["forwarder", "rounds", "forwarded pps", "ours / theirs", "lost", "us median", "99 %", ""];
    let microseconds =
        |found: Option<f64>| found.map_or("-".into(), |ns| format!("{:.1}", ns / 1e3));
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.name.clone(),
                row.rounds.to_string(),
                quartiles(row.forwarded_pps, short),
                row.ratio
                    .map_or("-".into(), |ratio| quartiles(ratio, |ratio| format!("{ratio:.2}"))),
                format!("{:.1} %", row.loss_ratio * 100.0),
                microseconds(row.latency_p50_ns),
                microseconds(row.latency_p99_ns),
                if row.generator_limited { "generator's limit" } else { "" }.into(),
            ]
        })
        .collect();
    table(&titles, &cells)
}
