//! `linerate lab run`: points of experiments into a results directory.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::{Duration, Instant},
};

use anyhow::Result;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use linerate_lab::{
    experiment::{Experiment, Planned},
    machine::Description,
    point::{Outcome, Record, value},
    runner::{RunSummary, Step, plan, run as run_points},
    store::Store,
};
use serde_json::json;

use crate::{
    args::LabRun,
    session::stop_on_signals,
    terminal,
    units::{grouped, with_unit},
};

/// Time between two lines of progress where there is no terminal.
const SAY: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &LabRun) -> Result<()> {
    let found = super::experiments(&args.experiments)?;
    let experiments: Vec<Experiment> = found.iter().map(|(one, _)| one.clone()).collect();
    let plan = plan(&experiments, args.quick)?;
    let stop = stop_on_signals()?;
    let machine = Description::here();
    let mut store = Store::open(&args.dir)?;
    machine.keep(&store)?;
    for (experiment, text) in &found {
        experiment.keep(text, &store)?;
    }
    let mut shown = RunProgress::new(args, &plan, &machine);
    let mut guarded = super::point::guarded()?;
    let measure = |planned: &Planned| guarded.measure(&planned.spec, || stop.is_raised());
    let ran = run_points(&plan, &mut store, &machine.id, measure, |step| shown.step(step))?;
    shown.end(args, &ran)?;
    match ran.left {
        0 => super::report::after_run(&args.dir),
        _ => Ok(()),
    }
}

/// Progress of a run, as it is shown.
struct RunProgress {
    bar: ProgressBar,
    terminal: bool,
    json: bool,
    started: Instant,
    said: Instant,
    /// Reasons of points without figures, whether it was tried, and how many
    /// there are.
    reasons: BTreeMap<(bool, String), usize>,
    broken: io::Result<()>,
}

impl RunProgress {
    fn new(args: &LabRun, plan: &[Planned], machine: &Description) -> RunProgress {
        let moves = terminal::moves();
        let bar = ProgressBar::with_draw_target(
            Some(plan.len() as u64),
            if moves { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() },
        );
        let colours = if terminal::colours() { ":.cyan/dim" } else { "" };
        let style = ProgressStyle::with_template(&format!(
            "{{wide_bar{colours}}} {{pos}}/{{len}} points, {{prefix}} left  {{msg}}",
        ));
        bar.set_style(style.expect("the template is one").progress_chars("━━─"));
        eprintln!(
            "{} points on {}, {} cores; results in {}",
            grouped(plan.len() as u64),
            machine.model,
            machine.cores,
            args.dir.display()
        );
        let now = Instant::now();
        RunProgress {
            bar,
            terminal: moves,
            json: args.json,
            started: now,
            said: now,
            reasons: BTreeMap::new(),
            broken: Ok(()),
        }
    }

    fn step(&mut self, step: &Step<'_>) {
        let record = step.record;
        if !record.is_measured() {
            let tried = record.outcome == Outcome::Void;
            let reason = record.reason.clone().unwrap_or_default();
            *self.reasons.entry((tried, reason)).or_insert(0) += 1;
        }
        if self.json && self.broken.is_ok() {
            self.broken = print(record);
        }
        let left = HumanDuration(Duration::from_secs(step.left.as_secs()));
        self.bar.set_position(step.done as u64);
        self.bar.set_prefix(left.to_string());
        self.bar.set_message(headline(record));
        if !self.terminal && self.said.elapsed() >= SAY {
            self.said = Instant::now();
            eprintln!("{} of {} points, {left} left", step.done, step.total);
        }
    }

    fn end(self, args: &LabRun, ran: &RunSummary) -> Result<()> {
        self.bar.finish_and_clear();
        self.broken?;
        let seconds = self.started.elapsed().as_secs_f64();
        let (mut void, mut unsupported) = (0, 0);
        for ((tried, reason), count) in &self.reasons {
            *(if *tried { &mut void } else { &mut unsupported }) += count;
            eprintln!("{count} {}: {reason}", if *tried { "void" } else { "unsupported" });
        }
        if self.json {
            return Ok(writeln!(
                io::stdout(),
                "{}",
                json!({
                    "done": ran.measured, "skipped": ran.skipped, "left": ran.left,
                    "void": void, "unsupported": unsupported, "seconds": seconds,
                    "dir": args.dir,
                })
            )?);
        }
        let mut out = io::stdout().lock();
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        write!(
            out,
            "{} point{} in {}",
            grouped(ran.measured as u64),
            plural(ran.measured),
            HumanDuration(Duration::from_secs_f64(seconds))
        )?;
        if ran.skipped > 0 {
            write!(out, ", {} were there", grouped(ran.skipped as u64))?;
        }
        writeln!(out, ": {}", args.dir.display())?;
        if ran.left > 0 {
            writeln!(
                out,
                "interrupted, {} left: the same command goes on",
                grouped(ran.left as u64)
            )?;
        }
        Ok(())
    }
}

/// A record in a line.
pub(super) fn print(record: &Record) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, record)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// The experiment and the first of the figures people look for.
fn headline(record: &Record) -> String {
    let units = [(value::RATE, "pps"), (value::CYCLES, " cycles"), (value::ACCESS, " ns")];
    let figure = units
        .iter()
        .find_map(|(name, unit)| record.value(name).map(|figure| with_unit(figure, unit)));
    let what = figure.unwrap_or_else(|| match record.outcome {
        Outcome::Unsupported => "unsupported".into(),
        Outcome::Void => "void".into(),
        Outcome::Measured => String::new(),
    });
    format!("{} {what}", record.experiment)
}
