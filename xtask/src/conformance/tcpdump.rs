//! tcpdump's own suite, run by the installed tcpdump once with the system's libpcap and once with ours in
//! its place. Each case has to end the same way.
//!
//! The suite is in tcpdump's source package (`apt-get source tcpdump`). It wants to know how tcpdump was
//! configured, so `configure` is run there, once.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use linerate_test_support::programs;

use crate::shell;

/// The names that programs ask for libpcap by.
const NAMES: [&str; 3] = ["libpcap.so.0.8", "libpcap.so.1", "libpcap.so"];
/// Number of starts that are timed; the best counts.
const STARTS: usize = 40;

/// Arguments of `cargo xtask conformance tcpdump`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// tcpdump's source, as its package has it
    #[arg(long, value_name = "DIR")]
    source: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let script = args.source.join("tests/TESTrun");
    if !script.exists() {
        bail!("there is no {}: name the folder of tcpdump's source", script.display());
    }
    let tcpdump = programs::find("tcpdump").context("tcpdump is not installed")?;
    if !args.source.join("config.h").exists() {
        shell::run(Command::new("./configure").current_dir(&args.source))?;
    }
    shell::run(&mut shell::cargo(&["build", "--release", "--package", "linerate-pcap"]))?;
    let library = shell::root().join("target/release/liblinerate_pcap.so");
    let library = fs::canonicalize(&library).context("the library that was built")?;
    let folder = tempfile::tempdir()?;
    for name in NAMES {
        symlink(&library, folder.path().join(name))?;
    }
    let theirs = suite(&args.source, &tcpdump, None)?;
    let ours = suite(&args.source, &tcpdump, Some(folder.path()))?;
    let mut differences = 0;
    for name in theirs.keys().chain(ours.keys().filter(|name| !theirs.contains_key(*name))) {
        let (theirs, ours) = (theirs.get(name), ours.get(name));
        if theirs != ours {
            differences += 1;
            println!("{name}: {theirs:?} with the system's libpcap, {ours:?} with ours");
        }
    }
    let passed = |outcomes: &Outcomes| outcomes.values().filter(|said| *said == "passed").count();
    println!(
        "{} cases: {} pass with the system's libpcap, {} with ours; {differences} differ",
        theirs.len(),
        passed(&theirs),
        passed(&ours),
    );
    let (before, with) = (start(&tcpdump, None)?, start(&tcpdump, Some(folder.path()))?);
    println!(
        "a start of tcpdump, the best of {STARTS}: {:.2} ms with the system's libpcap, {:.2} ms with ours",
        before.as_secs_f64() * 1e3,
        with.as_secs_f64() * 1e3,
    );
    if theirs.is_empty() || differences > 0 {
        bail!("ours is not libpcap");
    }
    Ok(())
}

/// Outcome of each case, by its name.
type Outcomes = BTreeMap<String, String>;

fn suite(source: &Path, tcpdump: &Path, library: Option<&Path>) -> Result<Outcomes> {
    let mut command = Command::new("./tests/TESTrun");
    command.current_dir(source).env("TCPDUMP_BIN", tcpdump);
    if let Some(library) = library {
        command.env("LD_LIBRARY_PATH", library);
    }
    // It fails when a case does, which is no failure here.
    let output = command.output().context("cannot run the suite")?;
    Ok(outcomes(&String::from_utf8_lossy(&output.stdout)))
}

/// Of lines as `    name     : passed`, and `FAILED`, or `skipped` with a reason.
fn outcomes(text: &str) -> Outcomes {
    text.lines()
        .filter_map(|line| line.strip_prefix("    ")?.split_once(": "))
        .map(|(name, said)| (name.trim().to_owned(), said.trim().to_owned()))
        .collect()
}

/// Returns the time tcpdump takes to compile a filter and end.
fn start(tcpdump: &Path, library: Option<&Path>) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..STARTS {
        let mut command = Command::new(tcpdump);
        command.args(["-y", "EN10MB", "-d", "tcp port 80"]);
        if let Some(library) = library {
            command.env("LD_LIBRARY_PATH", library);
        }
        let begun = Instant::now();
        let output = command.output()?;
        best = best.min(begun.elapsed());
        if !output.status.success() {
            bail!("tcpdump -d: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_from_what_the_suite_prints() {
        let text = "Running tests from x\n    a-1      : passed\n    b        : skipped (crypto)\n\
                    ------\n   0 tests failed\n 582 tests passed\n";
        let read = outcomes(text);
        let said: Vec<(&str, &str)> = read.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(said, [("a-1", "passed"), ("b", "skipped (crypto)")]);
    }
}
