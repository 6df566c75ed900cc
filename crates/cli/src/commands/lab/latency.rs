//! `linerate lab latency`: latency against load.

use anyhow::Result;
use linerate_graph::Library;
use linerate_lab::procedures;
use linerate_model::units::Seconds;
use serde_json::json;

use super::{bench::TestBed, show::table};
use crate::{args::LatencyArgs, units::with_unit};

pub(super) fn run(args: &LatencyArgs, library: &Library) -> Result<()> {
    let mut bed = TestBed::open(&args.bench, library, "lab latency", &[])?;
    let Some(throughput) = bed.throughput(&args.known)? else { return Ok(()) };
    let time = Seconds::new(args.trial.as_secs_f64());
    let points = bed.run(|runner, trial_options, observe| {
        procedures::latency(runner, throughput, &args.shares, time, trial_options, observe)
    })?;
    let Some(found) = points else { return Ok(()) };
    if found.interrupted {
        bed.show().broken_off()?;
    }
    let points = &found.points;
    let titles = ["share", "load", "min us", "median", "99 %", "99.9 %", "max", "lost", "limit"];
    let rows: Vec<Vec<String>> = points
        .iter()
        .map(|point| {
            let at = |of: fn(&linerate_lab::trials::LatencyFigures) -> u64| {
                point.latency.as_ref().map_or("-".into(), |l| format!("{:.1}", of(l) as f64 / 1e3))
            };
            vec![
                format!("{:.0} %", point.share * 100.0),
                with_unit(point.load.get(), "pps"),
                at(|l| l.min_ns),
                at(|l| l.p50_ns),
                at(|l| l.p99_ns),
                at(|l| l.p999_ns),
                at(|l| l.max_ns),
                format!("{:.4} %", point.loss_ratio * 100.0),
                if point.generator_limited { "generator" } else { "" }.into(),
            ]
        })
        .collect();
    bed.show().result(
        &table(&titles, &rows),
        json!({
            "throughput_pps": throughput,
            "points": points,
            "interrupted": found.interrupted,
            "platform": bed.platform,
        }),
    )
}
