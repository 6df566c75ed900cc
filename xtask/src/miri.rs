//! `cargo xtask miri`: the crates that packets and tables lie in, interpreted by Miri.
//!
//! Miri executes the tests instruction by instruction and stops at undefined behaviour: accesses
//! outside an allocation or after its end, uninitialised reads, references that alias, data races,
//! and orderings weaker than some processor has. It is a component of the nightly toolchain, which
//! is installed when it is missing; it shares nothing with the toolchain the repository is built by.
//!
//! It interprets Rust and knows few system calls. `linerate-memory` therefore takes its memory from
//! the allocator there (`crates/base/memory/src/pages.rs`), and vector instructions, the cycle counter
//! and membarrier(2) are replaced by the code for other processors and kernels; rings, pools,
//! slots, frames and tables are the code that ships. Being a thousand times slower, it gets few
//! cases of each property, and tests that need many say `#[cfg_attr(miri, ignore = ...)]`.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

const TOOLCHAIN: &str = "nightly";

/// The crates, and which of their tests. Integration tests of the packet crate compare it with other
/// implementations; it has no unsafe code that they would reach and its own tests do not.
const PACKAGES: [(&str, &[&str]); 3] = [
    ("linerate-memory", &["--lib", "--tests"]),
    ("linerate-packet", &["--lib"]),
    ("linerate-tables", &["--lib"]),
];

/// Arguments of `cargo xtask miri`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask miri                              memory, packet and lookup
  cargo xtask miri --package linerate-memory    one of them
  cargo xtask miri -- ring                      only tests with `ring` in their name")]
pub(crate) struct Args {
    /// One of the packages; all when not given.
    #[arg(long, value_name = "NAME", value_parser = PACKAGES.map(|(name, _)| name))]
    package: Option<String>,
    /// Cases of each property, unless the test says how many.
    #[arg(long, value_name = "N", default_value_t = 4)]
    cases: u32,
    /// Arguments for the test programs.
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    install()?;
    let chosen = |name: &str| args.package.as_deref().is_none_or(|one| one == name);
    for (package, tests) in PACKAGES.into_iter().filter(|(name, _)| chosen(name)) {
        let mut command = miri(&["test", "--package", package]);
        command.args(tests).args(["--no-fail-fast", "--target-dir", "target/miri"]);
        // The tests read /proc, and proptest where it is. RUSTFLAGS would be the caller's.
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env_remove("RUSTFLAGS");
        command.env("PROPTEST_CASES", args.cases.to_string());
        // Of the panics that tests expect: to find the names takes Miri a minute each.
        command.env("RUST_BACKTRACE", "0");
        shell::run(command.arg("--").args(&args.arguments))?;
    }
    println!("no finding of Miri's");
    Ok(())
}

/// `cargo miri` of the nightly toolchain.
fn miri(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", TOOLCHAIN, "cargo", "miri"]).args(arguments).current_dir(shell::root());
    // These say which toolchain this program was started by.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

/// Makes Miri and the library sources it interprets available.
fn install() -> Result<()> {
    if miri(&["--version"]).output().is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let mut command = Command::new("rustup");
    command.args(["toolchain", "install", TOOLCHAIN, "--profile", "minimal"]);
    command.args(["--component", "miri", "--component", "rust-src"]);
    shell::run(&mut command).context("Miri is a component of Rust's nightly toolchain, by rustup")
}
