//! `linerate lab list`: experiments, and the points of some.

use std::io::{self, Write};

use anyhow::Result;
use linerate_lab::{experiment::Experiment, runner::plan};
use serde_json::json;

use crate::args::LabList;

pub(crate) fn run(args: &LabList) -> Result<()> {
    let everything = args.experiments.is_empty();
    let names = if everything { &["all".to_owned()][..] } else { &args.experiments };
    let experiments = super::experiments(names)?;
    let mut out = io::stdout().lock();
    if !args.json && everything {
        let width = experiments.iter().map(|(one, _)| one.name.len()).max().unwrap_or(0);
        writeln!(out, "{:width$}  points  quick  title", "name")?;
        for (experiment, _) in &experiments {
            let count = |quick| experiment.points(quick).map(|points| points.len());
            let Experiment { name, title, .. } = experiment;
            writeln!(out, "{name:width$}  {:6}  {:5}  {title}", count(false)?, count(true)?)?;
        }
        return Ok(());
    }
    if args.json && !everything {
        let experiments: Vec<Experiment> = experiments.into_iter().map(|(one, _)| one).collect();
        // As a run has them: in its order, and each once.
        for planned in plan(&experiments, args.quick)? {
            writeln!(out, "{}", planned.spec.canonical())?;
        }
        return Ok(());
    }
    for (index, (experiment, _)) in experiments.iter().enumerate() {
        if !args.json {
            if index > 0 {
                writeln!(out)?;
            }
            describe(&mut out, experiment, args.quick)?;
            continue;
        }
        let points = experiment.points(args.quick)?.len();
        let Experiment { name, title, about, expect, criteria, .. } = experiment;
        let object = json!({
            "name": name, "title": title, "about": about, "expect": expect,
            "criteria": criteria, "points": points,
        });
        writeln!(out, "{object}")?;
    }
    Ok(())
}

fn describe(out: &mut impl Write, experiment: &Experiment, quick: bool) -> Result<()> {
    let Experiment { name, title, about, expect, .. } = experiment;
    writeln!(out, "{name}: {title}\n\n{about}\n\nExpected: {expect}\n")?;
    let points = experiment.points(quick)?;
    let seconds = points.iter().map(|planned| planned.spec.duration_ms).sum::<u64>() as f64 / 1e3;
    writeln!(out, "{} points, measured for {seconds:.1} s in all", points.len())?;
    Ok(())
}
