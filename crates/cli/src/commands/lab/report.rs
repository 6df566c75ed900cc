//! `linerate lab report`: results as something to read.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use linerate_lab::{
    calibration,
    criteria::Criterion,
    report::{self, Report, ReportError},
};
use linerate_linux::files;

use crate::{
    args::{Form, ReportArgs},
    exit::cannot_write,
};

pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    let (made, calibrated) = report::report(&args.dir)
        .with_context(|| format!("cannot report {}", args.dir.display()))?;
    let mut files = Files::default();
    let page = args.output.clone().unwrap_or_else(|| args.dir.join("report.html"));
    files.write(&page, &report::html(&made)?)?;
    files.write(&args.dir.join(calibration::FILE), &serde_json::to_string(&calibrated)?)?;
    let wants = |form| args.also.contains(&form);
    if wants(Form::Markdown) {
        files.write(&args.dir.join("report.md"), &made.markdown())?;
    }
    if wants(Form::Json) {
        files.write(&args.dir.join("report.json"), &serde_json::to_string_pretty(&made)?)?;
    }
    let figures = args.dir.join("figures");
    for figure in &made.figures {
        if wants(Form::Svg) || wants(Form::Markdown) {
            files.write(&figures.join(format!("{}.svg", figure.id)), &report::svg(figure)?)?;
        }
        if wants(Form::Csv) || wants(Form::Markdown) {
            files.write(&figures.join(format!("{}.csv", figure.id)), &figure.csv())?;
        }
    }
    if wants(Form::Csv) {
        for table in made.tables() {
            let file = args.dir.join("tables").join(format!("{}.csv", table.id));
            files.write(&file, &table.csv())?;
        }
    }
    show(&made, &files)
}

/// The report and the calibration of a run that has ended; nothing where no
/// point has figures.
pub(super) fn after_run(dir: &Path) -> Result<()> {
    let (made, calibrated) = match report::report(dir) {
        Ok(made) => made,
        Err(ReportError::Calibration(error)) => {
            eprintln!("no report: {error}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let mut files = Files::default();
    files.write(&dir.join("report.html"), &report::html(&made)?)?;
    files.write(&dir.join(calibration::FILE), &serde_json::to_string(&calibrated)?)?;
    made.summary.iter().chain(&[String::new()]).for_each(|line| eprintln!("{line}"));
    files.0.iter().for_each(|file| eprintln!("Written to {}", file.display()));
    Ok(())
}

/// Prints the criteria, and the files written.
fn show(made: &Report, files: &Files) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in &made.summary {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    for Criterion { number, text, verdict, evidence, .. } in made.judged() {
        writeln!(out, "{number:2}  {verdict:20}  {text}\n{:26}{evidence}", "")?;
    }
    if made.is_partial() {
        writeln!(out, "{}", made.not_judged())?;
    }
    writeln!(out)?;
    for file in &files.0 {
        writeln!(out, "Written to {}", file.display())?;
    }
    Ok(())
}

/// Files that have been written.
#[derive(Default)]
struct Files(Vec<PathBuf>);

impl Files {
    fn write(&mut self, path: &Path, text: &str) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| cannot_write(folder, error))?;
        }
        files::replace(path, text.as_bytes()).map_err(|error| cannot_write(path, error))?;
        self.0.push(path.into());
        Ok(())
    }
}
