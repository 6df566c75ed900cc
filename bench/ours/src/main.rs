//! The measured side of `cargo xtask bench`: runs one case for a while, or for
//! a fixed amount of work, and prints one JSON line.
//!
//! It runs as a process of its own so that it can take turns with a peer's, and
//! so that an instruction counter can be put around it.
#![forbid(unsafe_code)]

mod client;
mod consume;
mod exact;
mod filter;
mod forward;
mod graph;
mod lookup;
mod operations;
mod updates;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Runs one case and prints one JSON line.
#[derive(Debug, Parser)]
#[command(name = "linerate-bench")]
struct Cli {
    #[command(subcommand)]
    case: Case,
}

#[derive(Debug, Subcommand)]
enum Case {
    /// Sends and counts packets as a program on a switch.
    Client(client::Args),
    /// Counts packets as a program on a cluster.
    Consume(consume::Args),
    /// Looks up keys in a table of exact matches.
    Exact(exact::Args),
    /// Runs a filter's program on packets.
    Filter(filter::Args),
    /// Forwards between ports.
    Forward(forward::Args),
    /// Runs a configuration.
    Graph(graph::Args),
    /// Looks addresses up.
    Lookup(lookup::Args),
    /// Repeats operations of rings and pools.
    Operations(operations::Args),
    /// Writes tables of routes, and addresses to look up.
    Tables(lookup::tables::Args),
    /// Forwards while routes are changed.
    Updates(updates::Args),
    /// Says what machine this is.
    Machine,
}

fn main() -> Result<()> {
    let line = match Cli::parse().case {
        Case::Client(args) => client::run(&args)?,
        Case::Consume(args) => consume::run(&args)?,
        Case::Exact(args) => exact::run(&args)?,
        Case::Filter(args) => filter::run(&args)?,
        Case::Forward(args) => forward::run(&args)?,
        Case::Graph(args) => graph::run(&args)?,
        Case::Lookup(args) => lookup::run(&args)?,
        Case::Operations(args) => operations::run(&args)?,
        Case::Tables(args) => lookup::tables::run(&args)?,
        Case::Updates(args) => updates::run(&args)?,
        Case::Machine => serde_json::to_value(linerate_linux::machine::Machine::inspect())?,
    };
    println!("{line}");
    Ok(())
}
