//! `linerate switch`: ports of programs and machines that do not trust each other, joined by a
//! learning switch; and asking one that runs.

mod ask;
mod client;
mod configuration;
mod export;
mod open_flow;
mod port;
mod supervisor;

use anyhow::Result;
use linerate_graph::Library;

use crate::args::{Switch, SwitchCommand};

pub(in crate::commands) use supervisor::NAME;

pub(crate) fn run(args: &Switch, library: &Library) -> Result<()> {
    match &args.command {
        None => supervisor::run(&args.serve, library),
        Some(SwitchCommand::Add(args)) => client::add(args),
        Some(SwitchCommand::Remove(args)) => client::remove(args),
        Some(SwitchCommand::List(args)) => client::list(args),
        Some(SwitchCommand::Show(args)) => client::show(args),
    }
}
