//! `cargo xtask loom`: every interleaving of the lock-free structures, within bounds.
//!
//! Built with `--cfg loom` into `target/loom`, so that the ordinary build stays as it is. Only the
//! memory crate has such models: files `tests/loom*.rs`, each of which is empty without that flag.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

const PACKAGE: &str = "linerate-memory";
const TESTS: &str = "crates/base/memory/tests";

/// Arguments of `cargo xtask loom`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask loom                   each model within its own bound, as `cargo xtask test` does
  cargo xtask loom --preemptions 6   all models deeper: may take long
  cargo xtask loom -- spsc           only models with `spsc` in their name")]
pub(crate) struct Args {
    /// Preemptions explored per execution, in place of each model's own bound.
    #[arg(long, value_name = "N")]
    preemptions: Option<u32>,
    /// Arguments for the test programs.
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if !has_models()? {
        bail!("{TESTS} holds no loom*.rs: there is no model to run");
    }
    let mut command = command();
    if let Some(bound) = args.preemptions {
        command.env("LOOM_MAX_PREEMPTIONS", bound.to_string());
    }
    shell::run(command.arg("--").args(&args.arguments))
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

/// The run within each model's own bound.
pub(crate) fn command() -> Command {
    let mut command = shell::cargo(&["test", "--package", PACKAGE, "--test", "loom*"]);
    command.args(["--no-fail-fast", "--target-dir", "target/loom"]);
    command.env("RUSTFLAGS", "--cfg loom").env_remove("LOOM_MAX_PREEMPTIONS");
    command
}
