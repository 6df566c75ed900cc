//! `linerate flow`: the flows of a switch that speaks OpenFlow, ours or another.

mod ask;
mod change;
mod connection;
mod connections;
mod dump;
mod groups;
mod monitor;
mod ports;
mod replace;
mod texts;
mod top;

use anyhow::Result;

use crate::args::{Flow, FlowCommand};

pub(in crate::commands) use connection::open_flow_socket;

pub(crate) fn run(args: &Flow) -> Result<()> {
    let at = &args.at;
    match &args.command {
        FlowCommand::Add(args) => change::add(at, args),
        FlowCommand::Mod(args) => change::modify(at, args),
        FlowCommand::Del(args) => change::delete(at, args),
        FlowCommand::Replace(args) => replace::run(at, args),
        FlowCommand::Dump(args) => dump::run(at, args),
        FlowCommand::Trace(args) => ask::trace(at, args),
        FlowCommand::Groups(args) => groups::groups(at, args),
        FlowCommand::Meters(args) => groups::meters(at, args),
        FlowCommand::Tables(args) => ports::tables(at, args),
        FlowCommand::Ports(_) => ports::ports(at),
        FlowCommand::Cache(args) => ask::cache(at, args),
        FlowCommand::Connections(args) => connections::run(at, args),
        FlowCommand::Monitor(args) => monitor::run(at, args),
        FlowCommand::Top(args) => top::run(at, args),
    }
}
