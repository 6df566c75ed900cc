//! One module per command.

mod call;
mod capture;
mod check;
mod doctor;
mod documents;
mod elements;
mod forward;
mod generate;
mod lab;
mod plan;
mod ports;
mod replay;
mod run;
mod sink;

use anyhow::Result;

use crate::args::Command;

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Elements(args) => elements::run(&args),
        Command::Call(args) => call::run(&args),
        Command::Forward(args) => forward::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Sink(args) => sink::run(&args),
        Command::Ports(args) => ports::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Completions(args) => documents::completions(&args),
        Command::Man(args) => documents::man(&args),
    }
}
