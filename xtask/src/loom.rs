//! `cargo xtask loom`: every interleaving of the lock-free structures, within a bound.
//!
//! Built with `--cfg loom` into `target/loom`, so that the ordinary build stays as it is. Only the
//! memory crate has such models: files `tests/loom*.rs`, each of which is empty without that flag.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

const PACKAGE: &str = "linerate-memory";
const TESTS: &str = "crates/memory/tests";

/// Preemptions per execution in the bounded run. Loom's authors found two or three to uncover
/// nearly all errors; the number of executions grows steeply with it.
const BOUND: u32 = 2;

/// Arguments of `cargo xtask loom`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask loom                   the bounded run that `cargo xtask test` does
  cargo xtask loom --preemptions 4   deeper
  cargo xtask loom --exhaustive      without a bound: may take hours
  cargo xtask loom -- spsc           only models with `spsc` in their name")]
pub(crate) struct Args {
    /// Preemptions explored per execution.
    #[arg(long, default_value_t = BOUND, value_name = "N")]
    preemptions: u32,
    /// Explore without a bound on preemptions.
    #[arg(long, conflicts_with = "preemptions")]
    exhaustive: bool,
    /// Arguments for the test programs.
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if !has_models()? {
        bail!("{TESTS} holds no loom*.rs: there is no model to run");
    }
    let bound = (!args.exhaustive).then_some(args.preemptions);
    shell::run(command(bound).arg("--").args(&args.arguments))
}

/// The bounded run, as part of the whole test.
pub(crate) fn bounded() -> Command {
    command(Some(BOUND))
}

/// Whether the memory crate has loom models at all.
pub(crate) fn has_models() -> Result<bool> {
    let directory = shell::root().join(TESTS);
    if !directory.exists() {
        return Ok(false);
    }
    for entry in fs::read_dir(&directory).with_context(|| format!("cannot read {TESTS}"))? {
        let name = entry.with_context(|| format!("cannot read {TESTS}"))?.file_name();
        if name.to_string_lossy().starts_with("loom") {
            return Ok(true);
        }
    }
    Ok(false)
}

fn command(bound: Option<u32>) -> Command {
    let mut command = shell::cargo(&["test", "--package", PACKAGE, "--test", "loom*"]);
    command.args(["--no-fail-fast", "--target-dir", "target/loom"]);
    command.env("RUSTFLAGS", "--cfg loom");
    match bound {
        Some(bound) => command.env("LOOM_MAX_PREEMPTIONS", bound.to_string()),
        None => command.env_remove("LOOM_MAX_PREEMPTIONS"),
    };
    command
}
