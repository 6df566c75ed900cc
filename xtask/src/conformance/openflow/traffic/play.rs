//! Runs a case in namespaces of its own, which end with the case.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use linerate_test_support::wait_until;
use serde::{Deserialize, Serialize};

use super::suite::{Case, Suite};

/// Outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Passed,
    /// A requirement of the case is missing.
    Skipped(String),
    Failed(String),
}

/// The switch that a case runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch<'a> {
    OpenVswitch,
    /// `linerate switch`, with the path of the program.
    Ours(&'a Path),
}

/// Runs a case; returns its outcome and its log.
pub(super) fn play(
    suite: &Suite,
    case: &Case,
    switch: Switch<'_>,
    limit: Duration,
) -> Result<(Outcome, String)> {
    // When this program ends, however it does, the kernel ends the first process of the namespaces, and with
    // it all others.
    let words =
        "--pdeathsig KILL unshare --net --mount --pid --fork --kill-child --mount-proc bash";
    let mut command = Command::new("setpriv");
    command.args(words.split(' ')).arg(suite.folder.join("case.sh")).arg(case.number.to_string());
    command.env("SUITE", &suite.folder).env_remove("PROGRAMS").env_remove("OVS_RUNDIR");
    if let Switch::Ours(program) = switch {
        command.env("PROGRAMS", suite.folder.join("programs")).env("LINERATE", program);
    }
    let (mut said, writer) = io::pipe().context("cannot create a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().context("cannot start setpriv (of util-linux)")?;
    // The command holds the write end of the pipe.
    drop(command);
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        // Output read before an error is kept.
        let _ = said.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let has_ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
    let ended = wait_until(|| has_ended(&mut child), limit);
    if !ended {
        child.kill()?;
    }
    child.wait()?;
    let log = reader.join().unwrap_or_default();
    let outcome = match outcome(&log, case.number) {
        Some(Outcome::Skipped(place)) => Outcome::Skipped(suite.line(&place).unwrap_or(place)),
        Some(outcome) => outcome,
        None if ended => Outcome::Failed("it did not come to its end".into()),
        None => Outcome::Failed(format!("it was not over after {} s", limit.as_secs())),
    };
    Ok((outcome, log))
}

/// Parses the suite's line of a case: number, title and result. A skip has its place in the source,
/// a failure its place and the first differences.
fn outcome(log: &str, number: usize) -> Option<Outcome> {
    let start = format!("{number}: ");
    let line = log.lines().find(|line| line.trim_start().starts_with(&start))?.trim_end();
    if line.ends_with(" ok") {
        return Some(Outcome::Passed);
    }
    let place = |word: &str| {
        let (_, behind) = line.rsplit_once(word)?;
        Some(behind.strip_prefix(" (")?.strip_suffix(')')?.to_owned())
    };
    if let Some(place) = place(" skipped") {
        return Some(Outcome::Skipped(place));
    }
    let place = place(" FAILED")?;
    let differs = |line: &&str| {
        let other = line.starts_with('+') || line.starts_with('-');
        other && line.len() > 1 && !line.starts_with("+++ ") && !line.starts_with("---")
    };
    let begin = log.find(&format!("{place}: exit code was"));
    let complaint = log.lines().filter(differs).take(4).collect::<Vec<_>>().join(" | ");
    let code = begin.and_then(|at| log[at..].lines().next()).unwrap_or_default();
    let why = if complaint.is_empty() { code } else { &complaint };
    Some(Outcome::Failed(format!("{place}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_suite_says_is_read() {
        assert_eq!(outcome("  1: ping two                ok\n", 1), Some(Outcome::Passed));
        assert_eq!(outcome("  1: ping two                ok\n", 2), None);
        let said = " 14: ping over gre tunnel    skipped (system-traffic.at:429)\n";
        assert_eq!(outcome(said, 14), Some(Outcome::Skipped("system-traffic.at:429".into())));
        let said = "  4: a title that is so long that it leaves no room FAILED (system-traffic.at:83)\n\
                    --- log ---\n--- /dev/null x\n+++ stderr y\n@@ -0,0 +1 @@\n+Error: Unknown device type.\n\
                    ./system-traffic.at:83: exit code was 2, expected 0\n";
        let reason = "system-traffic.at:83: +Error: Unknown device type.".to_owned();
        assert_eq!(outcome(said, 4), Some(Outcome::Failed(reason)));
        let said = "  4: title   FAILED (system-traffic.at:83)\nsystem-traffic.at:83: exit code was 2, expected 0\n";
        let reason = "system-traffic.at:83: system-traffic.at:83: exit code was 2, expected 0";
        assert_eq!(outcome(said, 4), Some(Outcome::Failed(reason.into())));
        assert_eq!(outcome("  4: title   ", 4), None);
    }
}
