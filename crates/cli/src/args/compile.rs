//! Arguments of `linerate compile`.

use std::path::PathBuf;

use clap::Args;

use crate::options::Configuration;

/// Make a program of a configuration, for this processor, with the Rust toolchain that is here
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate compile router.click -o router
  ./router --duration 10s
      the options are those of `linerate run`
  linerate compile router.click DEV0=eth1 -o router
      with the variable $DEV0 set; ./router DEV0=eth2 sets it again
  linerate compile router.click -o router --target-cpu x86-64-v3
      for every x86-64 processor that has AVX2
  linerate compile router.click -o router --keep router-crate
      to read what is generated, and to build it yourself

The configuration is checked first, as by `linerate check`; no device is opened, so it may be for
another machine. Then a small crate is written and built by cargo, with those crates of elements
that the configuration needs. What was built is kept in $XDG_CACHE_HOME/linerate (~/.cache/linerate)
for the next time; it can be removed at any time. Cargo needs the network only for what it has never
fetched.")]
pub(crate) struct Compile {
    #[command(flatten)]
    pub(crate) configuration: Configuration,

    /// The program to write [default: the name of FILE without .click, here]
    #[arg(long, short = 'o', value_name = "PROGRAM")]
    pub(crate) output: Option<PathBuf>,

    /// The processor it is for, as `rustc --print target-cpus` has them
    #[arg(long, value_name = "CPU", default_value = "native", help_heading = "Building")]
    pub(crate) target_cpu: String,

    /// Where the source of Linerate is: a folder, or the address of a git repository [default: what
    /// the variable `LINERATE_SOURCE` says, else the folder this program was built in, while it is
    /// there, else its repository]
    #[arg(long, value_name = "DIR | URL", help_heading = "Building")]
    pub(crate) source: Option<String>,

    /// Link all elements there are, for a program whose configuration is replaced as it runs
    #[arg(long, help_heading = "Building")]
    pub(crate) all_elements: bool,

    /// Build sooner and without optimisation, for a program that is slow
    #[arg(long, help_heading = "Building")]
    pub(crate) unoptimized: bool,

    /// Keep the generated crate in this folder
    #[arg(long, value_name = "DIR", help_heading = "Building")]
    pub(crate) keep: Option<PathBuf>,

    /// Use no network: all that is needed has been fetched before
    #[arg(long, help_heading = "Building")]
    pub(crate) offline: bool,

    /// Show what cargo says
    #[arg(long, short = 'v', conflicts_with = "quiet", help_heading = "Building")]
    pub(crate) verbose: bool,

    /// Say nothing unless something is wrong
    #[arg(long, short = 'q', help_heading = "Building")]
    pub(crate) quiet: bool,
}
