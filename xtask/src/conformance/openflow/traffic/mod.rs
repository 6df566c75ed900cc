//! `cargo xtask conformance openflow --system-traffic`: Open vSwitch's system-traffic tests, run
//! with `linerate switch` and with Open vSwitch's userspace datapath.
//!
//! Test cases, expected results, database, `ovs-vsctl` and `ovs-ofctl` are Open vSwitch's own.
//! `programs.py` replaces the other programs: it starts the switches that the database configures,
//! and answers `ovs-appctl` by handlers of ours. Each case has network, mount and PID namespaces of
//! its own, which the kernel ends with this program.
//!
//! Open vSwitch's outcomes are cached in the target folder by version, with the logs of both.

mod play;
mod suite;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use linerate_test_support::programs;
use serde::Serialize;

use self::play::{Outcome, Switch, play};
use self::suite::{Case, Suite};
use super::{Args, SwitchName};
use crate::{peers, shell};

/// Longest time of a case. Its own waits end after 30 s each.
const LIMIT: Duration = Duration::from_secs(240);

/// Debian packages that the suite needs, each with a program it provides.
const PACKAGES: [(&str, &str); 8] = [
    ("autom4te", "autoconf"),
    ("nc", "netcat-openbsd"),
    ("wget", "wget"),
    ("netstat", "net-tools"),
    ("ethtool", "ethtool"),
    ("tcpdump", "tcpdump"),
    ("setpriv", "util-linux"),
    ("ovs-vswitchd", "openvswitch-switch"),
];

type Outcomes = BTreeMap<usize, Outcome>;

/// A case with its outcomes.
#[derive(Debug, Serialize)]
struct Row {
    number: usize,
    case: String,
    /// `None` if the case was not run.
    open_vswitch: Option<Outcome>,
    ours: Option<Outcome>,
    /// The known reason why ours does not pass.
    exception: Option<String>,
}

impl Row {
    /// Returns true if Open vSwitch passes and ours does not.
    fn is_worse(&self) -> bool {
        self.counts() && self.ours.as_ref().is_some_and(|ours| *ours != Outcome::Passed)
    }

    fn counts(&self) -> bool {
        self.open_vswitch == Some(Outcome::Passed)
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    ensure!(shell::is_root(), "the cases need network namespaces: run this as root");
    provide()?;
    let sources = args.sources.as_ref().context(
        "--system-traffic needs --sources DIR: a clone of https://github.com/openvswitch/ovs with its tags, or a \
         checkout of the version that is installed",
    )?;
    let version = version()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder =
        shell::root().join(target).join("openflow").join(format!("system-traffic-{version}"));
    let suite = Suite::prepare(sources, &version, &folder.join("suite"))?;
    let cases: Vec<Case> =
        suite.cases.iter().filter(|case| case.is_like(&args.suite)).cloned().collect();
    if cases.is_empty() {
        bail!("no case is number, or has in its title, `{}`", args.suite);
    }
    let exceptions: BTreeMap<String, String> =
        toml::from_str(include_str!("exceptions.toml")).context("exceptions.toml is not valid")?;
    let logs = folder.join("logs");
    fs::create_dir_all(&logs)?;
    let theirs = theirs(args, &suite, &cases, &folder, &logs)?;
    let ours = match args.only {
        Some(SwitchName::Ovs) => Outcomes::new(),
        _ => {
            let program = match &args.program {
                Some(program) => program.canonicalize()?,
                None => crate::conformance::build(&["linerate"])?.join("linerate"),
            };
            // Cases that Open vSwitch does not pass here are no measure of ours.
            let counts = |case: &&Case| {
                !args.suite.is_empty() || theirs.get(&case.number) == Some(&Outcome::Passed)
            };
            let cases: Vec<Case> = cases.iter().filter(counts).cloned().collect();
            all(&suite, &cases, Switch::Ours(&program), args.jobs, &logs)?
        }
    };
    let rows: Vec<Row> = cases
        .iter()
        .map(|case| Row {
            number: case.number,
            case: case.title.clone(),
            open_vswitch: theirs.get(&case.number).cloned(),
            ours: ours.get(&case.number).cloned(),
            exception: exceptions.get(&case.title).cloned(),
        })
        .collect();
    report(args, &rows, &logs)
}

/// Installs missing packages, if possible.
fn provide() -> Result<()> {
    let missing = || PACKAGES.iter().filter(|(name, _)| programs::find(name).is_none());
    let packages: Vec<&str> = missing().map(|(_, package)| *package).collect();
    if !packages.is_empty() && programs::find("apt-get").is_some() {
        peers::install(&packages)?;
    }
    let names: Vec<&str> = missing().map(|(name, _)| *name).collect();
    ensure!(
        names.is_empty(),
        "missing programs: {}. As root: apt-get install {}",
        names.join(", "),
        packages.join(" ")
    );
    Ok(())
}

/// The version of the Open vSwitch that is installed.
fn version() -> Result<String> {
    let said = shell::output(Command::new("ovs-vswitchd").arg("--version"))?;
    let version = said.split_whitespace().nth(3);
    Ok(version.context("ovs-vswitchd --version does not name its version")?.to_owned())
}

/// Outcomes of Open vSwitch, cached from earlier runs.
fn theirs(
    args: &Args,
    suite: &Suite,
    cases: &[Case],
    folder: &Path,
    logs: &Path,
) -> Result<Outcomes> {
    let path = folder.join("open-vswitch.json");
    let mut known = Outcomes::new();
    if let Ok(text) = fs::read(&path) {
        known = serde_json::from_slice(&text)?;
    }
    let wanted: Vec<Case> = match args.only {
        Some(SwitchName::Ours) => Vec::new(),
        _ => {
            cases.iter().filter(|c| args.again || !known.contains_key(&c.number)).cloned().collect()
        }
    };
    if !wanted.is_empty() {
        known.extend(all(suite, &wanted, Switch::OpenVswitch, args.jobs, logs)?);
        fs::write(&path, serde_json::to_vec(&known)?)?;
    }
    Ok(known)
}

/// Runs cases in parallel, and failed ones once more one at a time: their time limits assume an
/// idle machine.
fn all(
    suite: &Suite,
    cases: &[Case],
    switch: Switch<'_>,
    jobs: usize,
    logs: &Path,
) -> Result<Outcomes> {
    let mut outcomes = some(suite, cases, switch, jobs, logs)?;
    if jobs > 1 {
        let failed = |case: &&Case| matches!(outcomes.get(&case.number), Some(Outcome::Failed(_)));
        let failed: Vec<Case> = cases.iter().filter(failed).cloned().collect();
        eprintln!("{} that failed are played again, one at a time", failed.len());
        outcomes.extend(some(suite, &failed, switch, 1, logs)?);
    }
    Ok(outcomes)
}

fn some(
    suite: &Suite,
    cases: &[Case],
    switch: Switch<'_>,
    jobs: usize,
    logs: &Path,
) -> Result<Outcomes> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Outcomes::new()));
    let who = if switch == Switch::OpenVswitch { "ovs" } else { "ours" };
    let work = || -> Result<()> {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (outcome, log) = play(suite, case, switch, LIMIT)?;
            eprintln!("{who} {} {}: {}", case.number, case.title, word(Some(&outcome)));
            fs::write(logs.join(format!("{}.{who}", case.number)), log)?;
            outcomes.lock().map_err(|_| anyhow!("a case failed"))?.insert(case.number, outcome);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let running: Vec<_> =
            (0..jobs.clamp(1, cases.len().max(1))).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => bail!("a case could not be played"),
        })
    })?;
    outcomes.into_inner().map_err(|_| anyhow!("a case failed"))
}

fn word(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        None => "-",
        Some(Outcome::Passed) => "passes",
        Some(Outcome::Skipped(_)) => "skips",
        Some(Outcome::Failed(_)) => "FAILS",
    }
}

/// Returns the reason why a case does not pass.
fn reason(outcome: Option<&Outcome>) -> &str {
    match outcome {
        Some(Outcome::Skipped(reason) | Outcome::Failed(reason)) => reason,
        None | Some(Outcome::Passed) => "",
    }
}

fn report(args: &Args, rows: &[Row], logs: &Path) -> Result<()> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(rows)?);
    } else {
        print(rows);
    }
    let theirs = rows.iter().filter(|row| row.counts()).count();
    let both = |row: &&Row| row.counts() && row.ours == Some(Outcome::Passed);
    let ours = rows.iter().filter(both).count();
    eprintln!("of {} cases Open vSwitch passes {theirs}, and ours {ours} of these", rows.len());
    eprintln!("logs are in {}", logs.display());
    if args.only == Some(SwitchName::Ovs) {
        return Ok(());
    }
    let outdated: Vec<usize> =
        rows.iter().filter(|r| both(r) && r.exception.is_some()).map(|r| r.number).collect();
    if !outdated.is_empty() {
        eprintln!("exceptions that are not needed: {outdated:?}");
    }
    let unexplained: Vec<usize> =
        rows.iter().filter(|r| r.is_worse() && r.exception.is_none()).map(|r| r.number).collect();
    ensure!(
        unexplained.is_empty(),
        "cases that Open vSwitch passes do not pass with ours, without a known reason: {unexplained:?}"
    );
    Ok(())
}

fn print(rows: &[Row]) {
    println!("{:<8} {:<8} case", "theirs", "ours");
    for row in rows {
        let (theirs, ours) = (row.open_vswitch.as_ref(), row.ours.as_ref());
        println!("{:<8} {:<8} {:>3} {}", word(theirs), word(ours), row.number, row.case);
        let exception = row.exception.as_deref().filter(|_| row.is_worse());
        for text in [exception.unwrap_or_default(), reason(ours), reason(theirs)] {
            if !text.is_empty() {
                println!("{:22}{text}", "");
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(open_vswitch: Option<Outcome>, ours: Option<Outcome>) -> Row {
        Row { number: 1, case: "a".into(), open_vswitch, ours, exception: None }
    }

    #[test]
    fn only_what_open_vswitch_passes_counts() {
        let (passed, failed) = (Some(Outcome::Passed), Some(Outcome::Failed("x".into())));
        let skipped = Some(Outcome::Skipped("x".into()));
        assert!(row(passed.clone(), failed.clone()).is_worse());
        assert!(row(passed.clone(), skipped.clone()).is_worse());
        for (theirs, ours) in [
            (failed.clone(), failed.clone()),
            (skipped, failed.clone()),
            (None, failed),
            (passed.clone(), None),
            (passed.clone(), passed),
        ] {
            assert!(!row(theirs, ours).is_worse());
        }
    }

    #[test]
    fn the_exceptions_are_valid() {
        let read: Result<BTreeMap<String, String>, _> =
            toml::from_str(include_str!("exceptions.toml"));
        read.expect("valid");
    }
}
