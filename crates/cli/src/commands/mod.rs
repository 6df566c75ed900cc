//! One module per command.

mod call;
mod capture;
mod check;
mod cluster;
mod compile;
mod connections;
mod doctor;
mod documents;
mod elements;
mod flow;
mod forward;
mod generate;
mod lab;
mod pcap;
mod plan;
mod ports;
mod replay;
mod run;
mod sink;
mod switch;

use anyhow::Result;
use linerate_graph::Library;

use crate::args::Command;

/// Runs a command with the elements there are.
pub(crate) fn run(command: Command, library: &Library) -> Result<()> {
    // These start programs, which may use select(2): it knows 1,024 descriptors.
    if !matches!(command, Command::Pcap(_) | Command::Compile(_) | Command::Lab(_)) {
        linerate_linux::descriptors::raise_limit();
    }
    match command {
        Command::Run(args) => run::run(&args, library),
        Command::Check(args) => check::run(&args, library),
        Command::Cluster(args) => cluster::run(&args, library),
        Command::Switch(args) => switch::run(&args, library),
        Command::Compile(args) => compile::run(&args, library),
        Command::Flow(args) => flow::run(&args),
        Command::Elements(args) => elements::run(&args, library),
        Command::Call(args) => call::run(&args),
        Command::Forward(args) => forward::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Sink(args) => sink::run(&args),
        Command::Ports(args) => ports::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Lab(args) => lab::run(&args, library),
        Command::Plan(args) => plan::run(&args, library),
        Command::Capture(args) => capture::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Pcap(args) => pcap::run(&args),
        Command::Completions(args) => documents::completions(&args),
        Command::Man(args) => documents::man(&args),
    }
}
