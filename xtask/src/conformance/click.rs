//! `cargo xtask conformance click`: Click's own suite, run with our programs.
//!
//! Each case runs with Click's programs first, where they are built, and then with ours. Only cases
//! that Click passes count, and of those the ones that call a program we have. `exceptions.toml`
//! says where ours is the better behaviour.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::cases::{Checkout, Outcome, PROGRAMS};
use crate::shell;

/// Arguments of `cargo xtask conformance click`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A checkout of Click; where it is built, its programs run beside ours.
    #[arg(long, value_name = "DIR")]
    click: PathBuf,
    /// The folder with our `click` and `click-flatten`, instead of building them.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Only cases whose name contains this text.
    #[arg(long, value_name = "PATTERN", default_value = "")]
    only: String,
    /// How many of the cases Click passes we must pass, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 98.0)]
    least: f64,
    /// How many seconds a case may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 45)]
    timeout: u32,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// A case and its outcomes.
#[derive(Debug, Serialize)]
struct Row {
    case: String,
    /// Nothing where Click is not built.
    click: Option<Outcome>,
    ours: Outcome,
    /// Reason why ours is the better behaviour.
    exception: Option<String>,
}

impl Row {
    /// Returns true if Click passes, or would be expected to where it was not asked.
    fn counts(&self) -> bool {
        match &self.click {
            Some(click) => *click == Outcome::Passed,
            None => !matches!(self.ours, Outcome::Skipped(_)),
        }
    }

    /// Returns the reason why the case counts against us, or does not count.
    fn reason(&self) -> &str {
        match (&self.exception, &self.ours, &self.click) {
            (_, Outcome::Passed, _) => "",
            (Some(reason), ..) => reason,
            (None, Outcome::Failed(reason) | Outcome::Skipped(reason), _) => reason,
        }
    }
}

/// The sums below the table.
#[derive(Debug, PartialEq, Serialize)]
struct Totals {
    cases: usize,
    click_passes: usize,
    /// Of those that Click passes.
    we_pass: usize,
    percent: f64,
    /// Cases that count against us although no exception explains them.
    unexplained: Vec<String>,
    /// Exceptions without a case that needs them.
    outdated: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let checkout = Checkout::open(&args.click)?;
    let exceptions: BTreeMap<String, String> =
        toml::from_str(include_str!("exceptions.toml")).context("exceptions.toml is not valid")?;
    let folder = tempfile::tempdir().context("cannot make a directory for the cases")?;
    let ours = folder.path().join("ours");
    link(args.programs.as_deref(), &ours)?;
    let mut cases = checkout.cases()?;
    cases.retain(|case| case.contains(&args.only));
    if cases.is_empty() {
        bail!("no case has `{}` in its name", args.only);
    }
    if !checkout.built {
        eprintln!("Click is not built in {}: ours runs alone", args.click.display());
    }
    if !shell::is_root() {
        eprintln!("not root: the cases run without a network namespace of their own");
    }
    let mut rows = Vec::new();
    for (number, case) in (1..).zip(&cases) {
        eprintln!("{number}/{} {case}", cases.len());
        if !checkout.concerns_us(case)? {
            continue;
        }
        let run = |first| checkout.run(case, first, folder.path(), args.timeout);
        let click = if checkout.built { Some(run(None)?) } else { None };
        let ours = run(Some(&ours))?;
        rows.push(Row {
            case: case.clone(),
            click,
            ours,
            exception: exceptions.get(case).cloned(),
        });
    }
    let totals = totals(&rows);
    if args.json {
        let all = serde_json::json!({ "cases": rows, "totals": totals });
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        print(&rows, &totals);
    }
    if totals.percent < args.least {
        bail!("we pass {:.1} % of what Click passes, not {} %", totals.percent, args.least);
    }
    Ok(())
}

/// Makes a folder with our programs and nothing else, to stand in front of Click's.
fn link(programs: Option<&Path>, folder: &Path) -> Result<()> {
    let programs = match programs {
        Some(folder) => folder.to_owned(),
        None => build(&PROGRAMS)?,
    };
    std::fs::create_dir(folder).context("cannot make a directory for our programs")?;
    for name in PROGRAMS {
        let program = programs.join(name);
        let program =
            program.canonicalize().with_context(|| format!("there is no {}", program.display()))?;
        if name == "click" {
            as_click(&program, &folder.join(name))
        } else {
            symlink(program, folder.join(name))
        }
        .context("cannot link to our programs")?;
    }
    Ok(())
}

/// A script that runs our `click` with control sockets as Click has them: its suite writes handlers
/// through them without a token.
fn as_click(program: &Path, script: &Path) -> std::io::Result<()> {
    let program = program.display().to_string().replace('\'', r"'\''");
    let text = format!("#!/bin/bash\nexec -a click '{program}' --insecure-control \"$@\"\n");
    std::fs::write(script, text)?;
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755))
}

/// Builds our programs; the folder they are in.
pub(crate) fn build(programs: &[&'static str]) -> Result<PathBuf> {
    let bins = programs.iter().flat_map(|name| ["--bin", name]);
    let words: Vec<&str> =
        ["build", "--release", "--package", "linerate"].into_iter().chain(bins).collect();
    let mut cargo: Command = shell::cargo(&words);
    shell::run(&mut cargo)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(shell::root().join(target).join("release"))
}

fn totals(rows: &[Row]) -> Totals {
    let counted: Vec<&Row> = rows.iter().filter(|row| row.counts()).collect();
    let passed = |row: &&&Row| row.ours == Outcome::Passed;
    let we_pass = counted.iter().filter(passed).count();
    let names = |keep: &dyn Fn(&&Row) -> bool| {
        counted.iter().copied().filter(keep).map(|row| row.case.clone()).collect()
    };
    Totals {
        cases: rows.len(),
        click_passes: counted.len(),
        we_pass,
        percent: 100.0 * we_pass as f64 / counted.len().max(1) as f64,
        unexplained: names(&|row| row.ours != Outcome::Passed && row.exception.is_none()),
        outdated: names(&|row| row.ours == Outcome::Passed && row.exception.is_some()),
    }
}

fn print(rows: &[Row], totals: &Totals) {
    let word = |outcome: &Outcome| match outcome {
        Outcome::Passed => "passes",
        Outcome::Failed(_) => "FAILS",
        Outcome::Skipped(_) => "skipped",
    };
    println!("{:<40} {:<8} {:<8} reason", "case", "Click", "ours");
    for row in rows {
        let click = row.click.as_ref().map_or("-", word);
        println!("{:<40} {click:<8} {:<8} {}", row.case, word(&row.ours), row.reason());
    }
    println!(
        "\nof {} cases that call our programs Click passes {}; of those we pass {} ({:.1} %)",
        totals.cases, totals.click_passes, totals.we_pass, totals.percent
    );
    if !totals.unexplained.is_empty() {
        println!("without a known reason: {}", totals.unexplained.join(", "));
    }
    if !totals.outdated.is_empty() {
        println!("exceptions that are not needed: {}", totals.outdated.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(click: Option<Outcome>, ours: Outcome, exception: bool) -> Row {
        let exception = exception.then(|| "better".to_owned());
        Row { case: "a/b-01".into(), click, ours, exception }
    }

    #[test]
    fn only_what_click_passes_counts() {
        let failed = || Outcome::Failed("no".into());
        let rows = [
            row(Some(Outcome::Passed), Outcome::Passed, false),
            row(Some(Outcome::Passed), failed(), false),
            row(Some(Outcome::Passed), failed(), true),
            row(Some(Outcome::Passed), Outcome::Passed, true),
            row(Some(failed()), Outcome::Passed, false),
            row(Some(Outcome::Skipped("x".into())), failed(), false),
        ];
        let totals = totals(&rows);
        assert_eq!((totals.cases, totals.click_passes, totals.we_pass), (6, 4, 2));
        assert_eq!(totals.percent, 50.0);
        assert_eq!((totals.unexplained.len(), totals.outdated.len()), (1, 1));
        assert_eq!(rows[1].reason(), "no");
        assert_eq!(rows[2].reason(), "better");
    }

    #[test]
    fn without_click_all_that_ran_counts() {
        let rows = [
            row(None, Outcome::Passed, false),
            row(None, Outcome::Skipped("x".into()), false),
            row(None, Outcome::Failed("no".into()), false),
        ];
        let totals = totals(&rows);
        assert_eq!((totals.click_passes, totals.we_pass), (2, 1));
    }
}
