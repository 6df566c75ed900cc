//! `linerate lab loss`: frame loss against load.

use anyhow::Result;
use linerate_graph::Library;
use linerate_lab::procedures;
use linerate_model::units::Seconds;
use serde_json::json;

use super::{bench::TestBed, show::table};
use crate::{args::Loss, units::with_unit};

pub(super) fn run(args: &Loss, library: &Library) -> Result<()> {
    let mut bed = TestBed::open(&args.bench, library, "lab loss", &[])?;
    let (highest, time) = (bed.highest, Seconds::new(args.trial.as_secs_f64()));
    let points = bed.run(|runner, trial_options, observe| {
        procedures::loss(runner, highest, args.step, time, trial_options, observe)
    })?;
    let Some(found) = points else { return Ok(()) };
    if found.interrupted {
        bed.show().broken_off()?;
    }
    let points = &found.points;
    let rows: Vec<Vec<String>> = points
        .iter()
        .map(|point| {
            let limited = if point.generator_limited { "generator" } else { "" };
            vec![
                with_unit(point.load.get(), "pps"),
                with_unit(point.sent.get(), "pps"),
                format!("{:.4} %", point.loss_ratio * 100.0),
                limited.into(),
            ]
        })
        .collect();
    let lines = table(&["load", "sent", "lost", "limit"], &rows);
    bed.show().result(
        &lines,
        json!({
            "points": points,
            "interrupted": found.interrupted,
            "platform": bed.platform,
        }),
    )
}
