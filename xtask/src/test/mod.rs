//! `cargo xtask test`: every test that this machine can run, once, and a report of the others.
//!
//! Tests that could not run are named with the reason, counted as skipped, and make the command fail
//! where completeness is asked for (`--require-all`).

mod groups;
mod ignored;
mod programs;
mod runner;
mod summary;
mod tally;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::Result;

use crate::{loom, outsider, peers, shell};
use groups::Groups;
use ignored::{IgnoredTests, Pass};
use programs::Program;
use runner::{FinishedJob, Job, Label};
use summary::{Outcome, Summary};
use tally::Tally;

/// Arguments of `cargo xtask test`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask test                 everything this machine can run
  cargo xtask test --quick         unit, property and documentation tests only
  cargo xtask test --jobs 1        one test program after the other
  cargo xtask test --require-all   fail also when something could not run (so does CI=true)

Test programs run side by side, one for each processor, and two tests at a time in each, or as many
as the environment variable RUST_TEST_THREADS says. The output of a program is shown when it has
ended, and one that takes longer than 15 minutes is killed.

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
    /// Test programs at a time [default: the number of processors].
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
}

/// Time limit of a test program; the slowest takes some two minutes.
const PROGRAM_LIMIT: Duration = Duration::from_secs(900);
/// Output limit of a test program, in bytes: none prints a hundredth of it.
const OUTPUT_LIMIT: usize = 64 << 20;

/// Environment variable for the number of tests at a time in a program. Without it libtest takes the
/// number of processors.
const THREADS: &str = "RUST_TEST_THREADS";

const BUILD: &str = "build";
const PLAIN: &str = "unit, property and documentation tests";
const EXAMPLES: &str = "examples in the documentation";
const OUTSIDER: &str = "a project outside the repository";
const LOOM: &str = "loom models";
const ROOT: &str = "end-to-end tests (root)";
const WAITING: &str = "end-to-end tests that wait (root)";
const ALONE: &str = "end-to-end tests, one at a time (root)";

/// Passes over the root tests: step, pass, programs at a time, and tests at a time in each. Ordinary
/// tests wait for packets most of the time, hence several at once.
const PASSES: [(&str, Pass, NonZero<usize>, usize); 3] = [
    (ROOT, Pass::Ordinary, NonZero::new(2).unwrap(), 4),
    (WAITING, Pass::Waits, NonZero::<usize>::MAX, 255),
    (ALONE, Pass::Alone, NonZero::<usize>::MIN, 1),
];

pub(crate) fn run(args: &Args) -> ExitCode {
    let groups = match Groups::with_signal_handler() {
        Ok(groups) => groups,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let mut summary = Summary::default();
    if !args.quick {
        provide_peers(&mut summary);
    }
    // Build first: compiler output stays apart from test output, and a workspace that does not build
    // is one failure instead of one per step.
    let Some(programs) = build(&mut summary) else { return finish(args, &summary) };

    // Ignored tests are left for their own passes below, so that no test runs twice.
    unprivileged_tests(args, &mut summary, &programs, &groups);
    if args.quick {
        summary.not_run(OUTSIDER, "--quick");
        summary.not_run(LOOM, "--quick");
        summary.not_run(ROOT, "--quick");
        return finish(args, &summary);
    }
    match why_no_root_tests() {
        None => root_tests(args, &mut summary, &programs, &groups),
        Some(reason) => summary.not_run(ROOT, reason),
    }
    finish(args, &summary)
}

/// Runs all tests that are not ignored. Steps that compile run beside the test programs, most of which
/// wait most of the time.
fn unprivileged_tests(args: &Args, summary: &mut Summary, programs: &[Program], groups: &Groups) {
    let mut steps = vec![PLAIN];
    let examples = shell::cargo(&["test", "--workspace", "--doc", "--no-fail-fast"]);
    let mut compiling = vec![(PLAIN, EXAMPLES, examples)];
    if !args.quick {
        steps.extend([OUTSIDER, LOOM]);
        match outsider_tests() {
            Ok(command) => compiling.push((OUTSIDER, OUTSIDER, command)),
            Err(error) => summary.broken(OUTSIDER, &error),
        }
        compiling.push((LOOM, LOOM, loom::command()));
    }
    let compiling =
        compiling.into_iter().map(|(step, title, command)| cargo_job(step, title, command));
    let compiling = match compiling.collect::<Result<Vec<_>>>() {
        Ok(compiling) => compiling,
        Err(error) => return summary.broken(PLAIN, &error),
    };
    let processors = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let at_a_time = args.jobs.unwrap_or(processors);
    let threads = env::var_os(THREADS)
        .unwrap_or_else(|| processors.get().div_ceil(at_a_time.get()).max(2).to_string().into());
    let jobs = programs.iter().map(|program| {
        let mut job = job(PLAIN, program, &[]);
        job.command.env(THREADS, &threads);
        job
    });
    side_by_side(summary, &steps, compiling, jobs.collect(), at_a_time, groups);
}

/// Builds and tests the project of an outsider.
fn outsider_tests() -> Result<Command> {
    outsider::check_lock()?;
    outsider::cargo("test", &["--workspace", "--locked", "--no-fail-fast"])
}

/// Runs the ignored tests, in their passes.
fn root_tests(args: &Args, summary: &mut Summary, programs: &[Program], groups: &Groups) {
    summary.forget_ignored();
    let ignored: Result<Vec<_>> = programs.iter().map(IgnoredTests::list).collect();
    let ignored = match ignored {
        Ok(ignored) => ignored,
        Err(error) => return summary.broken(ROOT, &error),
    };
    for (step, pass, at_a_time, tests_at_a_time) in PASSES {
        let jobs = ignored.iter().filter_map(|tests| {
            let arguments = tests.arguments(pass, tests_at_a_time)?;
            Some(job(step, tests.program, &arguments))
        });
        let at_a_time = args.jobs.map_or(at_a_time, |jobs| jobs.min(at_a_time));
        side_by_side(summary, &[step], Vec::new(), jobs.collect(), at_a_time, groups);
    }
}

fn job(step: &'static str, program: &Program, arguments: &[String]) -> Job {
    let mut command = program.command();
    command.args(arguments);
    let ignored = if arguments.is_empty() { "" } else { " -- --ignored" };
    let rerun = format!("cargo test {}{ignored}", program.options);
    let label = Label { title: program.source.clone(), step, rerun, is_cargo: false };
    Job { label, command, time: Some(PROGRAM_LIMIT), output: OUTPUT_LIMIT }
}

/// Makes a job of a cargo command, without escape sequences in its output. `timeout` ends a test
/// program that hangs, which libtest does not; by then libtest has named the slow test. With
/// `--foreground` Ctrl-C still reaches all processes.
fn cargo_job(step: &'static str, title: &str, mut command: Command) -> Result<Job> {
    let triple = shell::host_triple()?.to_uppercase().replace('-', "_");
    let limit = PROGRAM_LIMIT.as_secs();
    let runner = format!("timeout --foreground --kill-after=5 {limit}");
    command.env(format!("CARGO_TARGET_{triple}_RUNNER"), runner).env("CARGO_TERM_COLOR", "never");
    let rerun = shell::describe(&command);
    let label = Label { title: title.to_owned(), step, rerun, is_cargo: true };
    Ok(Job { label, command, time: None, output: OUTPUT_LIMIT })
}

/// Runs programs side by side, shows each when it has ended, and enters their tests into the
/// summary, by steps.
fn side_by_side(
    summary: &mut Summary,
    steps: &[&'static str],
    compiling: Vec<Job>,
    jobs: Vec<Job>,
    at_a_time: NonZero<usize>,
    groups: &Groups,
) {
    println!("\n== {}: {} programs ==", steps.join(", "), compiling.len() + jobs.len());
    let mut tallies = BTreeMap::<&str, (Instant, Instant, Tally)>::new();
    runner::run(compiling, jobs, at_a_time, groups, |finished| {
        show(&finished);
        let now = Instant::now();
        let began = now.checked_sub(finished.time).unwrap_or(now);
        let (first, last, tally) =
            tallies.entry(finished.label.step).or_insert((began, now, Tally::default()));
        (*first, *last) = ((*first).min(began), now);
        tally.add(Tally::read(&finished));
    });
    groups.stop_if_interrupted();
    for step in steps {
        // A step that could not be set up is in the summary already.
        if let Some((first, last, tally)) = tallies.remove(step) {
            summary.step(step, Outcome::Ran(last - first), tally);
        }
    }
}

fn show(finished: &FinishedJob) {
    let FinishedJob { label, output, time, end } = finished;
    println!("\n     Ran {} in {:.1} s", label.title, time.as_secs_f64());
    println!("{}", output.trim_end());
    if !end.is_success() {
        println!("\n{} failed ({end}); to run it alone: {}", label.title, label.rerun);
    }
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

fn build(summary: &mut Summary) -> Option<Vec<Program>> {
    let start = Instant::now();
    let result = programs::build();
    let outcome = match &result {
        Ok(_) => Outcome::Ran(start.elapsed()),
        Err(error) => Outcome::Broken(format!("{error:#}")),
    };
    summary.step(BUILD, outcome, Tally::default());
    result.ok()
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
