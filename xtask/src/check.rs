//! `cargo xtask check`: everything about the sources that needs no test to run.

use std::path::PathBuf;

use anyhow::Result;
use linerate_test_support::programs;

use crate::{clippy, fuzz, licences, outsider, shell, words};

/// Arguments of `cargo xtask check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask check                  all six checks
  cargo xtask check --only licences  one of them
  cargo xtask fmt                    repair what the first complains about")]
pub(crate) struct Args {
    /// Only this check.
    #[arg(long, value_name = "CHECK")]
    only: Option<Check>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Check {
    /// rustfmt finds nothing to change.
    Format,
    /// clippy finds nothing, in libraries, programs, tests and examples, loom models and fuzzers.
    Lints,
    /// The documentation builds without a warning, private items included.
    Documentation,
    /// Every dependency is allowed by deny.toml; lock files agree.
    Licences,
    /// Checks that every advisory on a dependency is listed in deny.toml; needs cargo-deny.
    Advisories,
    /// Summary lines, names of types and functions, and subjects of commits have nouns of the field.
    Words,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let all = [
        Check::Format,
        Check::Words,
        Check::Licences,
        Check::Advisories,
        Check::Lints,
        Check::Documentation,
    ];
    for check in all.into_iter().filter(|check| args.only.is_none_or(|only| only == *check)) {
        match check {
            Check::Format => formatting(true)?,
            Check::Lints => lints()?,
            Check::Documentation => documentation()?,
            Check::Words => words::check()?,
            Check::Advisories => licences::check_advisories(&workspaces())?,
            Check::Licences => {
                outsider::check_lock()?;
                for manifest in workspaces() {
                    licences::check(&manifest)?;
                }
            }
        }
    }
    println!("no complaint");
    Ok(())
}

/// The manifests of the repository's workspaces: the main one, that of the fuzz targets, and that
/// of an outsider.
fn workspaces() -> [PathBuf; 3] {
    [shell::root().join("Cargo.toml"), fuzz::manifest(), outsider::manifest()]
}

/// `cargo xtask fmt`.
pub(crate) fn format() -> Result<()> {
    formatting(false)
}

fn formatting(check: bool) -> Result<()> {
    for manifest in workspaces() {
        let mut command = shell::cargo(&["fmt", "--all", "--manifest-path"]);
        command.arg(manifest);
        if check {
            command.arg("--check");
        }
        shell::run(&mut command)?;
    }
    Ok(())
}

fn lints() -> Result<()> {
    let deny = clippy::ARGUMENTS;
    shell::run(shell::cargo(&["clippy", "--workspace", "--all-targets"]).args(deny))?;
    // The tests of it are wanted anyway: built, not checked, it is compiled once.
    shell::run(&mut outsider::cargo("test", &["--workspace", "--locked", "--no-run"])?)?;
    // Under this flag other code is compiled: the models, and the shims they run on.
    shell::run(
        shell::cargo(&["clippy", "--package", "linerate-memory", "--tests"])
            .args(["--target-dir", "target/loom"])
            .args(deny)
            .env("RUSTFLAGS", "--cfg loom"),
    )?;
    if programs::find("c++").is_none() {
        eprintln!("NOT CHECKED: fuzz targets, which need a C++ compiler (Debian package g++)");
        return Ok(());
    }
    shell::run(fuzz::cargo("clippy", &["--locked", "--all-targets"])?.args(deny))
}

fn documentation() -> Result<()> {
    // Private items are documented too, for their maintainers; links from public to private text
    // are then no error.
    let mut command =
        shell::cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
    command.env("RUSTDOCFLAGS", "--deny warnings --allow rustdoc::private_intra_doc_links");
    // It reads what the lints have checked.
    clippy::compile_with(&mut command)?;
    shell::run(&mut command)
}
