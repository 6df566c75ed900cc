//! `cargo xtask bench`: measurements against other frameworks, interleaved with ours in one run.

#[allow(unsafe_code, reason = "bpf(2) has no safe interface")]
mod live_frames;
mod network;
mod peers;
mod priority;
mod reference;
mod undo;

use anyhow::Result;

/// Debian packages with the frameworks and tools measurements compare with.
const PACKAGES: [&str; 4] = ["dpdk", "libdpdk-dev", "libpcap-dev", "valgrind"];

/// Arguments of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask bench peers      install the frameworks measurements compare with
  cargo xtask bench reference  what DPDK and libpcap reach on this machine")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Install the frameworks measurements compare with: DPDK, libpcap, valgrind.
    Peers,
    /// Measure the peers alone: what DPDK and libpcap reach on this machine.
    Reference(reference::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Peers => crate::peers::install(&PACKAGES),
        Command::Reference(args) => reference::run(args),
    }
}
