//! `cargo xtask bench`: measurements against other frameworks, interleaved with ours in one run.

use anyhow::Result;

use crate::peers;

/// Debian packages with the frameworks and tools measurements compare with.
const PACKAGES: [&str; 4] = ["dpdk", "libdpdk-dev", "libpcap-dev", "valgrind"];

/// Arguments of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask bench peers      install the frameworks measurements compare with")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Install the frameworks measurements compare with: DPDK, libpcap, valgrind.
    Peers,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match args.command {
        Command::Peers => peers::install(&PACKAGES),
    }
}
