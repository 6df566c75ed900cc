//! Running single cases of Click's suite with the checkout's own `clicktest`.
//!
//! A case is a `.clicktest` file: shell commands with the files they need and the output they must
//! have. `PATH` decides which programs the commands call; the tools we have no counterpart of are
//! always Click's. As root every case runs in a network namespace of its own, so that none meets an
//! interface, a socket or a route of this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::leftovers::Mark;
use crate::shell;

/// The programs of ours that stand in for Click's.
pub(super) const PROGRAMS: [&str; 2] = ["click", "click-flatten"];

/// Shell script that `unshare` runs: multicast leaves by a veth link, as on a connected machine;
/// the peer end receives it and sends nothing.
const NAMESPACE: &str = "ip link set lo up && ip link add out type veth peer name end && \
    ip address add 192.0.2.1/24 dev out && ip link set out up && ip link set end up && \
    ip route add 224.0.0.0/4 dev out && exec \"$@\"";

/// Outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Passed,
    /// With the first complaint.
    Failed(String),
    /// With the requirement that is not met.
    Skipped(String),
}

/// A configured checkout of Click.
#[derive(Debug)]
pub(super) struct Checkout {
    directory: PathBuf,
    /// Whether Click's own programs are there.
    pub(super) built: bool,
}

impl Checkout {
    pub(super) fn open(directory: &Path) -> Result<Checkout> {
        let shown = directory.display();
        let Ok(directory) = directory.canonicalize() else { bail!("there is no {shown}") };
        if !directory.join("test/clicktest").exists() {
            bail!(
                "{shown} is no checkout of Click, it has no test/clicktest; get one by \
                 `git clone https://github.com/kohler/click` and name it with --click"
            );
        }
        for file in ["bin/click-buildtool", "share/click/elementmap.xml"] {
            if !directory.join(file).exists() {
                bail!(
                    "{shown} has no {file}: in it, run `./configure --disable-linuxmodule \
                     --enable-all-elements && make && make share/click/elementmap.xml`"
                );
            }
        }
        let built = PROGRAMS.iter().all(|name| directory.join("bin").join(name).exists());
        Ok(Checkout { directory, built })
    }

    /// The names of all cases, which are their paths below `test` without the extension, sorted.
    pub(super) fn cases(&self) -> Result<Vec<String>> {
        let test = self.directory.join("test");
        let mut names = Vec::new();
        let mut folders = vec![test.clone()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder)
                .with_context(|| format!("cannot read {}", folder.display()))?;
            for entry in entries {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "clicktest") {
                    let name = path.strip_prefix(&test)?.with_extension("");
                    names.push(name.to_string_lossy().into_owned());
                }
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Whether a case calls a program that we have.
    pub(super) fn concerns_us(&self, case: &str) -> Result<bool> {
        let file = self.file(case);
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(calls_ours(&String::from_utf8_lossy(&bytes)))
    }

    fn file(&self, case: &str) -> PathBuf {
        self.directory.join("test").join(format!("{case}.clicktest"))
    }

    /// Runs a case, in `folder`, with the programs of `first` in front of Click's.
    pub(super) fn run(
        &self,
        case: &str,
        first: Option<&Path>,
        folder: &Path,
        seconds: u32,
    ) -> Result<Outcome> {
        let mut words: Vec<String> = Vec::new();
        if shell::is_root() {
            words.extend(["unshare", "--net", "sh", "-c", NAMESPACE, "sh"].map(String::from));
        }
        let directory = self.directory.display();
        words.extend(["perl".into(), format!("{directory}/test/clicktest"), "-V".into()]);
        let folders = first.into_iter().map(|path| path.display().to_string());
        for path in folders.chain([format!("{directory}/bin"), format!("{directory}/test")]) {
            words.extend(["-p".into(), path]);
        }
        words.extend([
            format!("--timeout={seconds}"),
            format!("CLICKPATH={directory}:"),
            // Click is not installed but run from its checkout.
            "CLICKTEST_PREINSTALL=1".into(),
            self.file(case).display().to_string(),
        ]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(folder);
        let mark = Mark::set(&mut command);
        let output = command.output();
        mark.kill_all();
        let output = output.with_context(|| format!("cannot start {}", words[0]))?;
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        outcome(&format!("{out}{err}"))
            .with_context(|| format!("clicktest said of {case}: {}", err.trim()))
    }
}

/// Reads the output of `clicktest`: complaints, each behind the place it is about, and a last line
/// with the numbers of successes, failures and tests that were skipped.
fn outcome(said: &str) -> Option<Outcome> {
    let counts = said.lines().rev().find_map(counts)?;
    let complaints: Vec<&str> = said.lines().filter_map(complaint).collect();
    Some(match counts {
        [_, 0, 0] => Outcome::Passed,
        [0, 0, _] => Outcome::Skipped(complaints.first().copied().unwrap_or_default().into()),
        // The outcome of the place that the first line names is in the lines behind it.
        _ => Outcome::Failed(complaints.iter().copied().take(3).collect::<Vec<_>>().join("; ")),
    })
}

/// The three numbers of `clicktest: 1 success, 0 failures, 2 skipped`.
fn counts(line: &str) -> Option<[u32; 3]> {
    let parts: Vec<_> = line.strip_prefix("clicktest: ")?.split(", ").collect();
    let words = [["success", "successes"], ["failure", "failures"], ["skipped", "skipped"]];
    let parts: [&str; 3] = parts.try_into().ok()?;
    let mut counts = [0; 3];
    for ((part, words), count) in parts.iter().zip(words).zip(&mut counts) {
        let (number, word) = part.split_once(' ')?;
        *count = number.parse().ok().filter(|_| words.contains(&word))?;
    }
    Some(counts)
}

/// Returns the complaint of a line about a place `FILE.clicktest:LINE`.
fn complaint(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(".clicktest:")?;
    let (number, text) = rest.split_once(": ")?;
    number.parse::<u32>().ok()?;
    Some(text.trim())
}

/// Returns true if the script of a case, or a file that it may run, has the name of a program of
/// ours where a command can be.
fn calls_ours(text: &str) -> bool {
    let mut script = false;
    text.lines().any(|line| {
        if let Some(section) = line.strip_prefix('%') {
            let section = section.split_whitespace().next();
            script = matches!(section, Some("script" | "file"));
        }
        let mut words = line.split(|c: char| c.is_whitespace() || "();|&`\"'".contains(c));
        script && words.any(|word| PROGRAMS.contains(&word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        assert_eq!(
            outcome("/x/Queue-01.clicktest: Success!\nclicktest: 1 success, 0 failures, 0 skipped"),
            Some(Outcome::Passed)
        );
        let said = "/x/a-1.clicktest:7: file OUT has unexpected value starting at line 2\n\
            /x/a-1.clicktest:7: OUT:2: expected 'true'\n\
            clicktest: 0 successes, 1 failure, 0 skipped\n";
        let reason = "file OUT has unexpected value starting at line 2; OUT:2: expected 'true'";
        assert_eq!(outcome(said), Some(Outcome::Failed(reason.into())));
        let said = "/x/a-1.clicktest:2: requirement failure at 'false'\n\
            clicktest: requirement failures blocked 1 test, use '-V' for details\n\
            clicktest: 0 successes, 0 failures, 1 skipped\n";
        let reason = "requirement failure at 'false'";
        assert_eq!(outcome(said), Some(Outcome::Skipped(reason.into())));
        assert_eq!(outcome("perl: not found"), None);
    }

    #[test]
    fn who_is_called_is_seen() {
        assert!(calls_ours("%info\nx\n%script\n$VALGRIND click -e 'Idle'\n"));
        assert!(calls_ours("%script\n(click CONFIG; true)\n%file CONFIG\n"));
        assert!(calls_ours("%script\nclick-align X | click-flatten\n"));
        assert!(calls_ours("%script\nsh THING\n%file THING\nclick -e 'Idle'\n"));
        assert!(!calls_ours("%script\nclick-align X\n%info\nclick is not run\n"));
    }
}
