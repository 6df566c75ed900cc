//! `cargo xtask test`: everything this machine can run, each test once, and an account of the rest.
//!
//! A test that could not run is never passed over in silence: it is named with the reason, counted
//! as skipped, and makes the command fail where completeness is asked for.

mod summary;
mod tally;

use std::env;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Result;

use crate::{loom, outsider, peers, shell};
use summary::{Outcome, Summary};
use tally::Tally;

/// Arguments of `cargo xtask test`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask test                 everything this machine can run
  cargo xtask test --quick         unit, property and documentation tests only
  cargo xtask test --require-all   fail also when something could not run (so does CI=true)

As root on a Debian-like system, missing peer programs are installed first. The end-to-end tests
need root, because they make network namespaces; elsewhere they are reported as not run. They never
touch an existing interface.")]
pub(crate) struct Args {
    /// Only unit, property and documentation tests: no loom models, no root, no peer programs.
    #[arg(long, conflicts_with = "require_all")]
    quick: bool,
    /// Fail when anything was not run. Implied by the environment variable CI=true.
    #[arg(long)]
    require_all: bool,
}

/// Longest time for one test program; the longest takes some two minutes.
const PROGRAM_LIMIT_SECONDS: u32 = 900;

const BUILD: &str = "build";
const PLAIN: &str = "unit, property and documentation tests";
const OUTSIDER: &str = "a project outside the repository";
const LOOM: &str = "loom models";
const ROOT: &str = "end-to-end tests (root)";
const WAITING: &str = "end-to-end tests that wait (root)";
const MEASURING: &str = "end-to-end tests that measure (root)";

/// Parts of the names of root tests that wait for entries to get old, by the clock: they leave the
/// processors alone and want others to, so all of them run at once and nothing beside them.
const WAIT: [&str; 1] = ["expiry"];
/// Parts of the names of those that measure, keep up rates or open all files a process may, each of
/// which has the machine to itself.
const MEASURE: [&str; 7] = [
    "lab::",
    "compare::",
    "hostile::",
    "a_gigabyte",
    "nothing_is_lost_at",
    "a_shaper_holds",
    "so_does_one",
];
/// The others at a time: most of their time they wait for packets.
const SIDE_BY_SIDE: usize = 4;

pub(crate) fn run(args: &Args) -> ExitCode {
    let mut summary = Summary::default();
    if !args.quick {
        provide_peers(&mut summary);
    }
    // Building first keeps compiler output apart from test output, and a workspace that does not
    // build from being reported as one failure per step.
    if !build(&mut summary) {
        return finish(args, &summary);
    }

    // Ignored tests are left for their own passes below, so that no test runs twice.
    cargo_test(&mut summary, PLAIN, shell::cargo(&["test", "--workspace", "--no-fail-fast"]));

    if args.quick {
        summary.not_run(OUTSIDER, "--quick");
        summary.not_run(LOOM, "--quick");
        summary.not_run(ROOT, "--quick");
        return finish(args, &summary);
    }
    outsider_tests(&mut summary);
    match loom::has_models() {
        Ok(true) => cargo_test(&mut summary, LOOM, loom::command()),
        Ok(false) => summary.not_run(LOOM, "the memory crate has none"),
        Err(error) => summary.step(LOOM, Outcome::Broken(format!("{error:#}")), Tally::default()),
    }
    match why_no_root_tests() {
        None => {
            summary.forget_ignored();
            let apart: Vec<_> = WAIT.iter().chain(&MEASURE).copied().collect();
            let others: Vec<_> = apart.iter().flat_map(|part| ["--skip", part]).collect();
            root_tests(&mut summary, ROOT, SIDE_BY_SIDE, &others);
            root_tests(&mut summary, WAITING, usize::from(u8::MAX), &WAIT);
            root_tests(&mut summary, MEASURING, 1, &MEASURE);
        }
        Some(reason) => summary.not_run(ROOT, reason),
    }
    finish(args, &summary)
}

/// Builds and tests the project of an outsider.
fn outsider_tests(summary: &mut Summary) {
    let command = outsider::check_lock()
        .and_then(|()| outsider::cargo("test", &["--locked", "--no-fail-fast"]));
    match command {
        Ok(command) => cargo_test(summary, OUTSIDER, command),
        Err(error) => {
            summary.step(OUTSIDER, Outcome::Broken(format!("{error:#}")), Tally::default());
        }
    }
}

/// Runs the root tests that libtest's arguments choose, so many at a time.
fn root_tests(summary: &mut Summary, title: &'static str, at_a_time: usize, chosen: &[&str]) {
    // Without --doc: rustdoc would take examples marked `ignore` for ignored tests.
    let mut command = shell::cargo(&["test", "--workspace", "--lib", "--bins", "--tests"]);
    command.args(["--no-fail-fast", "--", "--ignored"]);
    command.arg(format!("--test-threads={at_a_time}")).args(chosen);
    cargo_test(summary, title, command);
}

fn provide_peers(summary: &mut Summary) {
    match peers::provide() {
        Ok(missing) if missing.is_empty() => {}
        Ok(missing) => summary.notice(peers::advice(&missing)),
        Err(error) => summary.notice(format!(
            "installing the peer programs failed ({error:#}); tests that need them will fail"
        )),
    }
}

fn build(summary: &mut Summary) -> bool {
    let start = Instant::now();
    let result = shell::run(&mut shell::cargo(&["test", "--workspace", "--no-run", "--quiet"]));
    let outcome = match &result {
        Ok(()) => Outcome::Ran(start.elapsed()),
        Err(error) => Outcome::Broken(format!("{error:#}")),
    };
    summary.step(BUILD, outcome, Tally::default());
    result.is_ok()
}

/// Runs one `cargo test` and enters its tests into the summary.
fn cargo_test(summary: &mut Summary, title: &'static str, mut command: Command) {
    let start = Instant::now();
    let mut tally = Tally::default();
    // The lines are read by a program: no escape sequences in them.
    command.env("CARGO_TERM_COLOR", "never");
    let result = limit_programs(&mut command)
        .and_then(|()| shell::run_watched(&mut command, |line| tally.line(line)));
    tally.end();
    let outcome = match result {
        Ok(status) if status.success() || !tally.failed.is_empty() => Outcome::Ran(start.elapsed()),
        Ok(status) => Outcome::Broken(format!(
            "`{}` failed without a failed test ({status})",
            shell::describe(&command)
        )),
        Err(error) => Outcome::Broken(format!("{error:#}")),
    };
    summary.step(title, outcome, tally);
}

/// Ends a test program that hangs, which libtest does not; it has named the test by then. In the
/// foreground, so that Ctrl-C still comes to all.
fn limit_programs(command: &mut Command) -> Result<()> {
    let triple = shell::host_triple()?.to_uppercase().replace('-', "_");
    let runner = format!("timeout --foreground --kill-after=5 {PROGRAM_LIMIT_SECONDS}");
    command.env(format!("CARGO_TARGET_{triple}_RUNNER"), runner);
    Ok(())
}

/// Returns the reason why the tests that need root cannot run here, if they cannot.
fn why_no_root_tests() -> Option<&'static str> {
    if !shell::is_root() {
        return Some("not root: sudo --preserve-env=PATH,HOME cargo xtask test");
    }
    // In a container, root may lack the rights for `ip netns`: network and mount namespaces.
    let probe = Command::new("unshare").args(["--net", "--mount", "true"]).output();
    match probe {
        Ok(output) if output.status.success() => None,
        _ => Some("root may not make network namespaces here (a container without CAP_SYS_ADMIN?)"),
    }
}

fn finish(args: &Args, summary: &Summary) -> ExitCode {
    let complete = args.require_all || env::var_os("CI").is_some_and(|value| value == "true");
    print!("{}", summary.render(complete && !args.quick));
    if summary.success(complete && !args.quick) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test that has another name now would run beside others and fail now and then.
    #[test]
    fn tests_that_run_apart_are_there() {
        let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates");
        let is_there = |part: &str| {
            let name = part.trim_end_matches(':');
            let found = Command::new("grep")
                .args(["--recursive", "--quiet", "--extended-regexp", "--include=*.rs"])
                .args([&format!("^ *(fn|mod) {name}"), crates])
                .status();
            found.expect("grep runs").success()
        };
        for part in WAIT.iter().chain(&MEASURE) {
            assert!(is_there(part), "no test is called {part}");
        }
        assert!(!is_there("this_is_no_test"));
    }
}
