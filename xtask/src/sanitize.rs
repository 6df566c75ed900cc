//! `cargo xtask sanitize`: the crates with unsafe code under a sanitizer.
//!
//! The stable toolchain ships the sanitizer run-times but hides the flag that enables them;
//! `RUSTC_BOOTSTRAP=1` unhides it, for these builds only. The standard library is not rebuilt: an
//! error inside it is seen only where it calls an intercepted C function. False reports of the
//! thread sanitizer because of that are listed in `tsan.suppressions`. It cannot see a contended
//! `std::sync::Mutex` order anything, so a report of two accesses under one such lock is false;
//! tests meant for it use atomics, rings and thread joins.

use std::ffi::OsString;

use anyhow::Result;

use crate::shell;

/// The crates with unsafe code.
const PACKAGES: [&str; 3] = ["linerate-memory", "linerate-linux", "linerate-port"];

/// Which sanitizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sanitizer {
    /// Out-of-bounds accesses, use after free, leaks.
    Address,
    /// Data races.
    Thread,
}

/// Arguments of `cargo xtask sanitize`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask sanitize                             both, one after the other
  cargo xtask sanitize thread                      data races only
  cargo xtask sanitize address -- --include-ignored   also the tests that need root")]
pub(crate) struct Args {
    /// The sanitizer; both when not given.
    sanitizer: Option<Sanitizer>,
    /// Arguments for the test programs.
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let host = shell::host_triple()?;
    let both = [Sanitizer::Address, Sanitizer::Thread];
    for sanitizer in both.into_iter().filter(|each| args.sanitizer.is_none_or(|one| one == *each)) {
        let (flags, directory) = match sanitizer {
            Sanitizer::Address => ("-Zsanitizer=address", "target/asan"),
            // std is built without the sanitizer's ABI; mixing the two is accepted knowingly.
            Sanitizer::Thread => {
                ("-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer", "target/tsan")
            }
        };
        // Documentation tests are left out: rustdoc would need the same flags by another route, and
        // they exercise nothing the other tests do not.
        let mut command = shell::cargo(&["test", "--lib", "--tests", "--no-fail-fast"]);
        for package in PACKAGES {
            command.args(["--package", package]);
        }
        command.args(["--target", &host, "--target-dir", directory]);
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags);
        let suppressions = shell::root().join("xtask/tsan.suppressions");
        command.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
        if sanitizer == Sanitizer::Thread {
            // Tests side by side share state of the test libraries behind std's own locks, which
            // the sanitizer cannot see. Accesses of the tests' own threads are seen all the same.
            command.env("RUST_TEST_THREADS", "1");
        }
        shell::run(command.arg("--").args(&args.arguments))?;
    }
    println!("no sanitizer finding");
    Ok(())
}
