//! `cargo xtask bench`: measurements against other frameworks, interleaved with ours in one run.
//!
//! This folder measures; the measured programs are in the folder `bench`: ours, which [`ours`]
//! builds and runs, and those of others, which [`peers`] gets, builds and runs.
//!
//! - *Commands*, a module each: [`chains`], [`cluster`], [`forward`], [`graph`], [`network`], [`instructions`],
//!   [`openflow`], [`mod@pcap`], [`plan`], [`mod@reference`], [`shared`], [`start`] and [`switch`]. Cases of `network` are [`filter`], [`kernel_router`], [`lookup`], [`routers`] and
//!   [`updates`], and of `switch` [`tables`].
//! - *Sources and sinks of packets*: [`frames`], [`capture`], [`live_frames`], [`veth`].
//! - *Around a measurement*: [`row`] prints, [`priority`] has it go before other programs,
//!   [`restore`] takes back its changes of the machine.
//! - *More than one machine*: [`processor`] says which this is, [`baseline`] measures the unit of
//!   figures, [`results`] keeps and compares them.

mod baseline;
mod capture;
mod chains;
mod cluster;
mod filter;
mod forward;
mod frames;
mod graph;
mod instructions;
mod kernel_router;
mod live_frames;
mod lookup;
mod network;
mod openflow;
mod ours;
mod pcap;
mod peers;
mod plan;
mod priority;
mod processor;
mod reference;
mod restore;
mod results;
mod routers;
mod row;
mod shared;
mod start;
mod switch;
mod tables;
mod updates;
mod veth;
mod workers;

use anyhow::Result;

/// Debian packages with the frameworks and tools measurements compare with.
const PACKAGES: [&str; 4] = ["dpdk-dev", "libdpdk-dev", "libpcap-dev", "valgrind"];

/// Arguments of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask bench forward    ours beside DPDK and libpcap, in turns
  cargo xtask bench forward --only mac --repetitions 11
  cargo xtask bench forward --json
  cargo xtask bench chains     what chains of elements cost, beside Click and FastClick
  cargo xtask bench cluster    packets handed to threads and processes, beside rte_ring and testpmd
  cargo xtask bench compare A B    the figures kept of two processors
  cargo xtask bench graph      what elements and frames cost, beside testpmd
  cargo xtask bench network    tables and network elements, beside DPDK
  cargo xtask bench instructions   instructions per packet, against the recorded ones
  cargo xtask bench openflow   adding and deleting flows, and the memory they take, beside Open vSwitch
  cargo xtask bench pcap       programs on libpcap with our library in its place, and filters
  cargo xtask bench plan       what `linerate plan` says of configurations, and what they reach
  cargo xtask bench plan --public examples
                               of those in a folder or a list, on captures
  cargo xtask bench peers      install the frameworks measurements compare with
  cargo xtask bench reference  what DPDK and libpcap reach on this machine
  cargo xtask bench shared     memory shared with testpmd: ours in the place of another testpmd
  cargo xtask bench start      how long configurations of thousands of elements take to start
  cargo xtask bench switch     flow tables, and a switch between four programs, beside Open vSwitch")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Measure chains of elements, beside Click and FastClick, in turns.
    Chains(chains::Args),
    /// Measure packets handed to another thread and another process, beside DPDK, in turns.
    Cluster(cluster::Args),
    /// Compare the results kept of two processors, as multiples of each one's reference.
    Compare(results::Args),
    /// Measure ours beside testpmd, C loops on DPDK's libraries, and libpcap, in turns.
    Forward(forward::Args),
    /// Measure graphs of elements, beside testpmd, and against the size of frames.
    Graph(graph::Args),
    /// Count instructions per packet under callgrind, and compare with the recorded counts.
    Instructions(instructions::Args),
    /// Measure tables and network elements beside DPDK, in turns.
    Network(network::Args),
    /// Measure how flows are added and deleted, and the memory they take, beside Open vSwitch, in turns.
    Openflow(openflow::Args),
    /// Measure programs on libpcap with our library beside the system's, and filters, in turns.
    Pcap(pcap::Args),
    /// Install the frameworks measurements compare with: DPDK, libpcap, valgrind.
    Peers,
    /// Plan configurations that were never measured, and measure them then.
    Plan(plan::Args),
    /// Measure the peers alone: what DPDK and libpcap reach on this machine.
    Reference(reference::Args),
    /// Measure ports in memory that is shared with another process, beside DPDK's, in turns.
    Shared(shared::Args),
    /// Measure how long configurations of one to forty thousand elements take to start.
    Start(start::Args),
    /// Measure a switch with flow tables, and one between four programs, beside Open vSwitch, in turns.
    Switch(switch::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Chains(args) => chains::run(args),
        Command::Cluster(args) => cluster::run(args),
        Command::Compare(args) => results::run(args),
        Command::Forward(args) => forward::run(args),
        Command::Graph(args) => graph::run(args),
        Command::Instructions(args) => instructions::run(args),
        Command::Network(args) => network::run(args),
        Command::Openflow(args) => openflow::run(args),
        Command::Pcap(args) => pcap::run(args),
        Command::Peers => crate::peers::install(&PACKAGES),
        Command::Plan(args) => plan::run(args),
        Command::Reference(args) => reference::run(args),
        Command::Shared(args) => shared::run(args),
        Command::Start(args) => start::run(args),
        Command::Switch(args) => switch::run(args),
    }
}
