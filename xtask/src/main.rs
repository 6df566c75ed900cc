//! Developer commands: `cargo xtask help` lists them.
//!
//! Everything a contributor or a build machine does with this repository is a command here, so that
//! there is one place that knows how. It needs nothing but the Rust toolchain; a command installs
//! its further programs itself when it may, or names them.
#![forbid(unsafe_code)]

mod apart;
mod bench;
mod check;
mod clippy;
mod compiled;
mod conformance;
mod dist;
mod documents;
#[cfg(test)]
mod families;
mod fuzz;
mod layers;
mod licences;
mod loom;
mod miri;
mod outsider;
mod peers;
mod reference;
mod sanitize;
mod shell;
mod soak;
mod test;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of Linerate.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "Examples:
  cargo xtask test                      everything this machine can run
  cargo xtask test --quick              unit, property and documentation tests only
  cargo xtask check                     formatting, lints, documentation, licences
  cargo xtask fuzz headers --seconds 60
  cargo xtask sanitize address
  cargo xtask help test                 more about one command"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the tests: unit, property, documentation, loom models and, as root, end to end.
    Test(test::Args),
    /// Check formatting, lints, documentation and licences.
    #[command(visible_alias = "lint")]
    Check(check::Args),
    /// Format every source file.
    Fmt,
    /// Explore the interleavings of the lock-free structures with loom.
    Loom(loom::Args),
    /// Fuzz a target, or all of them, with libFuzzer on the stable toolchain.
    Fuzz(fuzz::Args),
    /// Run the tests of the crates with unsafe code under a sanitizer.
    Sanitize(sanitize::Args),
    /// Run the tests of packet memory, headers and lookup tables under Miri.
    Miri(miri::Args),
    /// Install the Debian packages whose programs the tests are checked against.
    Peers(peers::Args),
    /// Write the guide's book, with a page for each element and each port, to target/book.
    Reference,
    /// Write the generated parts of ARCHITECTURE.md anew.
    Documents,
    /// Run what others wrote for Click, and captured, with our programs, beside Click and tcpdump.
    Conformance(conformance::Args),
    /// Run examples as programs that `linerate compile` has made, beside `linerate run`.
    Compiled(compiled::Args),
    /// Attack listeners for minutes, and measure honest traffic and honest clients beside it.
    Soak(soak::Args),
    /// Measure against other frameworks.
    Bench(bench::Args),
    /// Make what people install: a Debian package, a static tarball, a container image.
    Dist(dist::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        // Its last line is its verdict: nothing may follow.
        Command::Test(args) => return test::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Fmt => check::format(),
        Command::Loom(args) => loom::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Sanitize(args) => sanitize::run(&args),
        Command::Miri(args) => miri::run(&args),
        Command::Peers(args) => peers::run(&args),
        Command::Reference => reference::run(),
        Command::Documents => documents::run(),
        Command::Conformance(args) => conformance::run(&args),
        Command::Compiled(args) => compiled::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Dist(args) => dist::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
