//! `cargo xtask conformance openflow`: os-ken's switch tester for OpenFlow 1.3, with our switch and
//! with Open vSwitch.
//!
//! The tester, its cases and their expected results are not ours, nor is the switch that sends
//! packets and looks at those that come back. A case is passed when the tester says so. Cases are
//! run several at a time, each lot in a network of its own: nearly all the time they take is
//! waiting. Those that send thousands of packets a second run by themselves at the end.
//!
//! Open vSwitch's outcomes are kept in the target folder, by its version.
//!
//! With `--system-traffic` the cases are Open vSwitch's own instead, see [`traffic`].

mod bench;
mod exceptions;
mod outcome;
mod suite;
mod traffic;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};
use linerate_test_support::controllers;
use serde::{Deserialize, Serialize};

use self::bench::Target;
use self::exceptions::Exceptions;
use self::outcome::{Case, Outcome, Outcomes};
use self::suite::File;
use crate::{peers, shell};

/// Arguments of `cargo xtask conformance openflow`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only files of cases whose name has this text: `match`, `action/25`, `39_IPV6`. With --system-traffic,
    /// only the case of this number, or cases whose title has this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    suite: String,
    /// Run only one of the two; of Open vSwitch what is known is shown.
    #[arg(long, value_enum)]
    only: Option<SwitchName>,
    /// How many lots of cases run at a time.
    #[arg(long, default_value_t = 6)]
    jobs: usize,
    /// Our `linerate`, instead of building it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// How many of all cases ours has to pass.
    #[arg(long, value_name = "NUMBER", default_value_t = 800)]
    least: usize,
    /// Ask Open vSwitch again.
    #[arg(long)]
    again: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Instead, compare the two on so many random rule sets with random packets.
    #[arg(long, value_name = "RULE SETS")]
    differential: Option<usize>,
    /// Instead, play the cases of Open vSwitch's `system-traffic.at`: hosts in namespaces that send real packets.
    #[arg(long, conflicts_with = "differential")]
    system_traffic: bool,
    /// A clone of Open vSwitch with its tags, or a checkout of the version that is installed, for
    /// --system-traffic.
    #[arg(long, value_name = "DIR", requires = "system_traffic")]
    sources: Option<PathBuf>,
    /// Where randomness begins, for --differential.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SwitchName {
    Ours,
    Ovs,
}

/// A case with its outcomes.
#[derive(Debug, Serialize)]
struct Row {
    file: String,
    #[serde(skip)]
    number: usize,
    case: String,
    /// The reason, where it failed; nothing where it was not run.
    open_vswitch: Option<Outcome>,
    ours: Option<Outcome>,
    /// Reason why ours fails.
    exception: Option<String>,
}

/// Open vSwitch's outcomes, as they are kept.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StoredOutcomes(Vec<(Case, Outcome)>);

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(sets) = args.differential {
        return differential(sets, args.seed);
    }
    if args.system_traffic {
        return traffic::run(args);
    }
    ensure!(shell::is_root(), "the cases need network namespaces: run this as root");
    let missing = peers::provide()?;
    ensure!(missing.is_empty(), "{}", peers::advice(&missing));
    let python = controllers::python().context("there are no controllers: cargo xtask peers")?;
    let root = suite::folder(&python)?;
    let mut files = suite::files(&root)?;
    files.retain(|file| file.name.contains(&args.suite));
    if files.is_empty() {
        bail!("no file of the suite has `{}` in its name", args.suite);
    }
    let exceptions = Exceptions::load()?;
    let theirs = theirs(args, &files)?;
    let ours = match args.only {
        Some(SwitchName::Ovs) => Outcomes::new(),
        _ => {
            let program = match &args.program {
                Some(program) => program.canonicalize()?,
                None => super::build(&["linerate"])?.join("linerate"),
            };
            let target = Target::Ours(&program);
            let mut ours = all(target, &files, args.jobs)?;
            again(target, &files, &exceptions, &mut ours)?;
            ours
        }
    };
    let rows = rows(&files, &theirs, &ours, &exceptions);
    report(args, &rows, &exceptions)
}

/// Returns Open vSwitch's outcomes, from before where they are known.
fn theirs(args: &Args, files: &[File]) -> Result<Outcomes> {
    let version = shell::output(Command::new("ovs-vswitchd").arg("--version"))?;
    let version = version.split_whitespace().nth(3).unwrap_or("unknown");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = shell::root().join(target).join("openflow");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("open-vswitch-{version}.json"));
    let mut known = Outcomes::new();
    if let Ok(text) = fs::read(&path) {
        let kept: StoredOutcomes = serde_json::from_slice(&text)?;
        known.extend(kept.0);
    }
    let is_known = |file: &File| {
        known.keys().filter(|case| case.file == file.title).count() == file.cases.len()
    };
    let wanted: Vec<File> = match args.only {
        Some(SwitchName::Ours) => Vec::new(),
        _ => files.iter().filter(|file| args.again || !is_known(file)).cloned().collect(),
    };
    if !wanted.is_empty() {
        let found = all(Target::OpenVswitch, &wanted, args.jobs)?;
        known.retain(|case, _| !wanted.iter().any(|file| file.title == case.file));
        known.extend(found);
        let kept = StoredOutcomes(known.clone().into_iter().collect());
        fs::write(&path, serde_json::to_vec(&kept)?)?;
    }
    Ok(known)
}

/// Runs all files, several lots of them at a time.
fn all(target: Target<'_>, files: &[File], jobs: usize) -> Result<Outcomes> {
    let (light, heavy) = suite::divide(files, jobs);
    let outcomes = Mutex::new(Outcomes::new());
    for lots in [light, heavy] {
        thread::scope(|scope| {
            let running: Vec<_> = lots
                .iter()
                .map(|lot| {
                    scope.spawn(|| -> Result<()> {
                        let found = bench::run(target, lot)?;
                        outcomes.lock().map_err(|_| anyhow!("a lot failed"))?.extend(found);
                        Ok(())
                    })
                })
                .collect();
            // A lab that cannot be set up panics with the reason.
            running.into_iter().try_for_each(|lot| match lot.join() {
                Ok(result) => result,
                Err(_) => bail!("a lot of cases could not be run"),
            })
        })?;
    }
    outcomes.into_inner().map_err(|_| anyhow!("a lot failed"))
}

/// Runs files anew, each by itself, that the tester did not come to the end of, and, up to twice,
/// those that measure rates and have cases that fail without a known reason: with others beside it
/// the tester, a program in Python, sends fewer packets than it says. The case passes that passes
/// once. A case that a packet of its own decides is tried once.
fn again(
    target: Target<'_>,
    files: &[File],
    exceptions: &Exceptions,
    outcomes: &mut Outcomes,
) -> Result<()> {
    for _ in 0..2 {
        let unknown = |file: &&File| {
            let mut cases = outcomes.iter().filter(|(case, _)| case.file == file.title);
            let missing = cases.clone().count() < file.cases.len();
            let fails = |(case, outcome): (&Case, &Outcome)| {
                outcome.is_err() && exceptions.reason(&case.file, case.number).is_none()
            };
            missing || file.measures && cases.any(fails)
        };
        let files: Vec<File> = files.iter().filter(unknown).cloned().collect();
        for file in files {
            eprintln!("again: {}", file.title);
            for (case, outcome) in bench::run(target, &[file])? {
                if outcome.is_ok() || !outcomes.contains_key(&case) {
                    outcomes.insert(case, outcome);
                }
            }
        }
    }
    Ok(())
}

fn rows(files: &[File], theirs: &Outcomes, ours: &Outcomes, exceptions: &Exceptions) -> Vec<Row> {
    let mut rows = Vec::new();
    for file in files {
        for (number, name) in (1..).zip(&file.cases) {
            let case = Case { file: file.title.clone(), number, name: name.clone() };
            rows.push(Row {
                file: file.title.clone(),
                number,
                case: format!("#{number} {name}"),
                open_vswitch: theirs.get(&case).cloned(),
                ours: ours.get(&case).cloned(),
                exception: exceptions.reason(&file.title, number).map(str::to_owned),
            });
        }
    }
    rows
}

fn report(args: &Args, rows: &[Row], exceptions: &Exceptions) -> Result<()> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(rows)?);
    } else {
        print(rows);
    }
    let passed = |outcome: &Option<Outcome>| matches!(outcome, Some(Ok(())));
    let count = |of: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| of(row)).count();
    let theirs = count(&|row| passed(&row.open_vswitch));
    let ours = count(&|row| passed(&row.ours));
    eprintln!("of {} cases Open vSwitch passes {theirs}, ours {ours}", rows.len());
    if args.only == Some(SwitchName::Ovs) {
        return Ok(());
    }
    let failed = |row: &&Row| !passed(&row.ours);
    let only_theirs: Vec<_> =
        rows.iter().filter(failed).filter(|r| passed(&r.open_vswitch)).collect();
    let unexplained: Vec<_> =
        rows.iter().filter(failed).filter(|r| r.exception.is_none()).collect();
    let cases = rows.iter().map(|row| (row.file.as_str(), row.number, passed(&row.ours)));
    let outdated = exceptions.outdated(cases);
    if !outdated.is_empty() {
        eprintln!("exceptions that are not needed: {outdated:?}");
    }
    ensure!(
        only_theirs.is_empty(),
        "{} cases that Open vSwitch passes fail with ours",
        only_theirs.len()
    );
    ensure!(unexplained.is_empty(), "{} cases fail without a known reason", unexplained.len());
    if args.suite.is_empty() {
        ensure!(ours >= args.least, "ours passes {ours} cases, not {}", args.least);
    }
    Ok(())
}

/// Prints how many cases of each file pass, and each case of which the two make something different,
/// or which ours fails.
fn print(rows: &[Row]) {
    let word = |outcome: &Option<Outcome>| match outcome {
        None => "-",
        Some(Ok(())) => "passes",
        Some(Err(_)) => "FAILS",
    };
    let mut files: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for row in rows {
        let [cases, theirs, ours] = files.entry(&row.file).or_default();
        *cases += 1;
        *theirs += usize::from(matches!(row.open_vswitch, Some(Ok(()))));
        *ours += usize::from(matches!(row.ours, Some(Ok(()))));
    }
    println!("{:<40} {:>5} {:>12} {:>5}", "file", "cases", "Open vSwitch", "ours");
    for (file, [cases, theirs, ours]) in files {
        println!("{file:<40} {cases:>5} {theirs:>12} {ours:>5}");
    }
    let ran = rows.iter().any(|row| row.ours.is_some());
    println!("\n{:<8} {:<8} case and reason", "theirs", "ours");
    for row in rows {
        let differ = word(&row.ours) != word(&row.open_vswitch);
        let fails = !matches!(row.ours, Some(Ok(())));
        if !ran || !(differ || fails) {
            continue;
        }
        println!("{:<8} {:<8} {} {}", word(&row.open_vswitch), word(&row.ours), row.file, row.case);
        let reason = match (&row.exception, &row.ours, &row.open_vswitch) {
            (_, Some(Ok(())), Some(Err(theirs))) => format!("theirs: {theirs}"),
            (Some(reason), Some(Err(said)), _) => format!("{reason} [{said}]"),
            (None, Some(Err(said)), _) => said.clone(),
            _ => "not run".into(),
        };
        println!("{:18}{reason}", "");
    }
}

/// Runs the comparison with Open vSwitch that the tests of the flow switch do a part of.
fn differential(sets: usize, seed: u64) -> Result<()> {
    let words =
        "test --release --package linerate-ofswitch --test differential -- --ignored --nocapture";
    let words: Vec<&str> = words.split(' ').collect();
    let mut cargo = shell::cargo(&words);
    cargo.env("LINERATE_DIFFERENTIAL", format!("{seed}:{sets}"));
    shell::run(&mut cargo)
}
