//! `linerate lab`: one module per subcommand.

mod back_to_back;
mod bench;
mod latency;
mod loss;
mod ndr;
mod recovery;
mod show;

use anyhow::Result;

use crate::args::{Lab, LabCommand};

pub(crate) fn run(args: &Lab) -> Result<()> {
    match &args.command {
        LabCommand::Ndr(args) => ndr::run(args),
        LabCommand::Loss(args) => loss::run(args),
        LabCommand::BackToBack(args) => back_to_back::run(args),
        LabCommand::Recovery(args) => recovery::run(args),
        LabCommand::Latency(args) => latency::run(args),
    }
}
