//! `cargo xtask conformance`: our programs beside Click's, on configurations written for Click, and
//! our filters beside tcpdump's, on public captures; tcpdump's own suite with our library in the
//! place of libpcap; and a tester of OpenFlow switches, and Open vSwitch's cases with real hosts,
//! with ours and with Open vSwitch.
//!
//! Nothing is fetched: a checkout is named on the command line, and missing parts of it are
//! reported. Expected differences are checked in as data beside the code, each with its reason.
//!
//! The judge is never our own code. Cases run by the checkout's own `clicktest` with our programs
//! first in the path, so Click decides which cases pass; cases that call none of our programs do
//! not count. Public configurations are compared in simulated time with captures for devices:
//! timing is then no excuse. Click's own `click-flatten` reads them and a small scanner replaces
//! the devices, so that our parser is not its own judge. Filters are judged by tcpdump itself, and
//! the library by its suite.

mod cases;
mod click;
mod filter;
mod leftovers;
mod openflow;
mod public;
mod tcpdump;

use anyhow::Result;

pub(crate) use click::build;
pub(crate) use public::{captures, devices, text, traffic};

/// Arguments of `cargo xtask conformance`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask conformance click --click ~/click               Click's own test suite
  cargo xtask conformance click --click ~/click --only Queue  the cases with this in their names
  cargo xtask conformance click --click ~/click --json
  cargo xtask conformance public --click ~/click --configurations ~/public
                                                              configurations of others
  cargo xtask conformance public --click ~/click --configurations ~/public --run
                                                              and on the same packets
  cargo xtask conformance filter --captures ~/captures        filters on captures of others
  cargo xtask conformance filter --captures ~/captures --all
                                                              whatever captures there are
  cargo xtask conformance tcpdump --source ~/tcpdump-4.99.3   tcpdump's suite on our libpcap
  cargo xtask conformance openflow                            a tester of OpenFlow switches
  cargo xtask conformance openflow --differential 2000        random rules, beside Open vSwitch
  cargo xtask conformance openflow --system-traffic --sources ~/ovs
                                                              Open vSwitch's cases with real hosts
  cargo xtask conformance openflow --system-traffic --sources ~/ovs --suite 'conntrack - ct_mark'
                                                              those with this in their titles")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run the cases of Click's own suite with our programs, beside Click's.
    Click(click::Args),
    /// Try configurations of public repositories with Click and with us.
    Public(public::Args),
    /// Run tcpdump's own suite with our library in the place of libpcap, beside the system's.
    Tcpdump(tcpdump::Args),
    /// Run os-ken's switch tester for OpenFlow 1.3 with our switch and with Open vSwitch.
    Openflow(openflow::Args),
    /// Choose packets of public captures by many expressions, with tcpdump and with us.
    Filter(filter::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Click(args) => click::run(args),
        Command::Public(args) => public::run(args),
        Command::Filter(args) => filter::run(args),
        Command::Tcpdump(args) => tcpdump::run(args),
        Command::Openflow(args) => openflow::run(args),
    }
}
