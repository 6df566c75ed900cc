//! Result files `bench/results/PROCESSOR.json`, one for each model of processor, and `cargo xtask bench
//! compare`, which compares two of them.
//!
//! A run replaces the cases it has measured, each with the reference measured in that run
//! ([`super::baseline`]); other cases stay. Cases of two processors are compared as multiples of the
//! reference.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::baseline::{Baseline, Figure};
use super::processor::Processor;
use super::row::Row;
use crate::shell;

/// Folder of the results, in the repository.
const FOLDER: &str = "bench/results";

/// Arguments of `cargo xtask bench compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask bench compare amd-epyc-family-25-model-17 amd-epyc-family-26-model-2
  cargo xtask bench compare bench/results/amd-epyc-family-25-model-17.json /tmp/mine.json")]
pub(crate) struct Args {
    /// Results: a file, or the name of one in bench/results.
    a: String,
    /// Results to compare with them.
    b: String,
    /// Only cases whose name contains one of these texts.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// Content of a result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Results {
    processor: Processor,
    cases: BTreeMap<String, StoredCase>,
}

/// Result of a case, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct StoredCase {
    /// TSC cycles per packet or object.
    cycles: Figure,
    /// Cycles of the reference in the same run, if it was measured.
    reference: Option<Figure>,
}

impl StoredCase {
    fn multiple(self) -> Option<Figure> {
        self.reference.map(|reference| self.cycles.over(reference))
    }
}

/// Rounds figures as they are printed, so that files differ only where printed figures do.
fn rounded(figure: Figure) -> Figure {
    let round = |value: f64| (value * 100.0).round() / 100.0;
    Figure { best: round(figure.best), median: round(figure.median) }
}

/// Returns the figures of a command's rows by case name; rows without a finite figure are left out.
pub(super) fn named_figures<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<(String, Figure)> {
    let named = |row: &Row, side: &str| format!("{}, burst {}, {side}", row.case, row.burst);
    let mut cases = BTreeMap::new();
    for row in rows {
        for (side, samples) in [("ours", &row.ours), (row.peer, &row.theirs)] {
            let figure = Figure::from_samples(samples).filter(|figure| figure.best.is_finite());
            // With several peers ours is in several rows, of which the first counts.
            figure.map(|figure| cases.entry(named(row, side)).or_insert(figure));
        }
    }
    cases.into_iter().collect()
}

/// Stores the results of a command in the file of this processor, and prints its path.
pub(super) fn store(
    command: &str,
    cases: impl IntoIterator<Item = (String, Figure)>,
    baseline: &Baseline,
) -> Result<()> {
    let folder = shell::root().join(FOLDER);
    let path = folder.join(baseline.processor().file_name() + ".json");
    let mut results = if path.exists() {
        read(&path)?
    } else {
        Results { processor: baseline.processor().clone(), cases: BTreeMap::new() }
    };
    let reference = baseline.figure().map(rounded);
    for (case, figure) in cases {
        let kept = StoredCase { cycles: rounded(figure), reference };
        results.cases.insert(format!("{command}: {case}"), kept);
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let text = serde_json::to_string_pretty(&results)? + "\n";
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("kept in {}", path.display());
    Ok(())
}

fn read(path: &Path) -> Result<Results> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} has no results in this form", path.display()))
}

/// Returns the path of results by their file or name.
fn results_path(name: &str) -> PathBuf {
    let path = PathBuf::from(name);
    if path.exists() { path } else { shell::root().join(FOLDER).join(format!("{name}.json")) }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let [a, b] = [&args.a, &args.b].map(|name| read(&results_path(name)));
    let (a, b) = (a?, b?);
    let wanted = |case: &str| {
        args.only.is_empty() || args.only.iter().any(|only| case.contains(only.as_str()))
    };
    println!("A: {}\nB: {}", a.processor.describe(), b.processor.describe());
    println!("multiples of each one's testpmd, null ports, burst 32, best / median");
    let (lines, unmatched) = compare(&a, &b, wanted);
    if lines.is_empty() {
        bail!("no case is in both");
    }
    lines.iter().for_each(|line| println!("{line}"));
    if unmatched > 0 {
        println!("{unmatched} cases are in one of them only");
    }
    Ok(())
}

/// Returns a header and a line for each case that both have, and the number of cases that only one
/// has.
fn compare(a: &Results, b: &Results, wanted: impl Fn(&str) -> bool) -> (Vec<String>, usize) {
    let names = a.cases.keys().chain(b.cases.keys().filter(|name| !a.cases.contains_key(*name)));
    let mut lines = Vec::new();
    let mut unmatched = 0;
    for name in names.filter(|name| wanted(name)) {
        let (Some(one), Some(other)) = (a.cases.get(name), b.cases.get(name)) else {
            unmatched += 1;
            continue;
        };
        let ratio = one.multiple().zip(other.multiple()).map(|(one, other)| other.over(one));
        let [one, other, ratio] = [one.multiple(), other.multiple(), ratio].map(format_figure);
        lines.push(format!("{name:<48} {one:>15} {other:>15} {ratio:>15}"));
    }
    if !lines.is_empty() {
        lines.insert(0, format!("{:<48} {:>15} {:>15} {:>15}", "case", "A", "B", "B / A"));
    }
    (lines, unmatched)
}

fn format_figure(figure: Option<Figure>) -> String {
    figure.map_or_else(
        || "no reference".into(),
        |Figure { best, median }| format!("{best:.2} / {median:.2}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::processor::tests::zen4;
    use crate::bench::row::row;

    fn results(cases: &[(&str, f64, Option<f64>)]) -> Results {
        let figure = |best: f64| Figure { best, median: best * 1.5 };
        let cases = cases.iter().map(|(name, cycles, reference)| {
            let kept = StoredCase { cycles: figure(*cycles), reference: reference.map(figure) };
            ((*name).to_owned(), kept)
        });
        Results { processor: zen4(), cases: cases.collect() }
    }

    #[test]
    fn two_processors_are_compared_by_multiples_of_their_references() {
        let a = results(&[("nat", 36.0, Some(18.0)), ("arp", 9.0, None), ("here", 1.0, None)]);
        let b = results(&[("nat", 27.0, Some(27.0)), ("arp", 9.0, Some(9.0))]);
        let (lines, unmatched) = compare(&a, &b, |_| true);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(unmatched, 1);
        assert_eq!(words(&lines[1])[1..4], ["no", "reference", "1.00"]);
        assert_eq!(words(&lines[2]).join(" "), "nat 2.00 / 2.00 1.00 / 1.00 0.50 / 0.50");
        assert_eq!(compare(&a, &b, |name| name == "nat").0.len(), 2);
        assert_eq!(compare(&a, &b, |name| name == "none"), (Vec::new(), 0));
    }

    #[test]
    fn results_are_read_as_they_are_written() {
        let written = results(&[("nat", 36.0, Some(18.0)), ("arp", 9.0, None)]);
        let text = serde_json::to_string(&written).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), written);
    }

    #[test]
    fn rows_are_kept_for_ours_and_for_each_peer() {
        let mut rows = Vec::new();
        for (peer, theirs) in [("testpmd", 4.0), ("a C loop", f64::NAN)] {
            let row = row(&mut rows, "ring", 32, peer);
            (row.ours, row.theirs) = (vec![2.0, 3.0, 4.0], vec![theirs]);
        }
        let cases = named_figures(&rows);
        let figure = |best, median| Figure { best, median };
        assert_eq!(cases[0], ("ring, burst 32, ours".into(), figure(2.0, 3.0)));
        assert_eq!(cases[1], ("ring, burst 32, testpmd".into(), figure(4.0, 4.0)));
        assert_eq!(cases.len(), 2);
    }
}
