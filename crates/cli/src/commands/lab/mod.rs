//! `linerate lab`: one module per subcommand.

mod back_to_back;
mod bench;
mod calibrate;
mod compare;
mod latency;
mod list;
mod loss;
mod ndr;
mod point;
mod recovery;
mod report;
mod run;
mod show;

use std::path::Path;

use anyhow::Result;
use linerate_graph::Library;
use linerate_lab::experiment::{Experiment, builtin, find};

use crate::{
    args::{Lab, LabCommand},
    exit::UsageError,
};

pub(crate) fn run(args: &Lab, library: &Library) -> Result<()> {
    match &args.command {
        LabCommand::Ndr(args) => ndr::run(args, library),
        LabCommand::Loss(args) => loss::run(args, library),
        LabCommand::BackToBack(args) => back_to_back::run(args, library),
        LabCommand::Recovery(args) => recovery::run(args, library),
        LabCommand::Latency(args) => latency::run(args, library),
        LabCommand::Run(args) => run::run(args),
        LabCommand::Point(args) => point::run(args),
        LabCommand::Measure => point::answer(library),
        LabCommand::Work { task } => point::work(task),
        LabCommand::List(args) => list::run(args),
        LabCommand::Calibrate(args) => calibrate::run(args),
        LabCommand::Report(args) => report::run(args),
        LabCommand::Compare(args) => compare::run(args),
    }
}

/// Experiments by name or file with their texts, `all` for those that come with
/// the program.
fn experiments(names: &[String]) -> Result<Vec<(Experiment, String)>> {
    let mut found: Vec<(Experiment, String)> = Vec::new();
    for name in names {
        let some = match name.as_str() {
            "all" => builtin().into_iter().map(|(one, text)| (one, text.to_owned())).collect(),
            name if name.ends_with(".toml") => vec![Experiment::open(Path::new(name))?],
            name => find(name).map(|(one, text)| vec![(one, text.to_owned())])?,
        };
        for (experiment, text) in some {
            match found.iter().find(|(known, _)| known.name == experiment.name) {
                None => found.push((experiment, text)),
                // Once, also when it is named beside `all`.
                Some((known, _)) if *known == experiment => {}
                Some(_) => {
                    let reason = "results are kept by name: give one of them another";
                    let name = experiment.name;
                    return Err(
                        UsageError(format!("two experiments are called {name}; {reason}")).into()
                    );
                }
            }
        }
    }
    Ok(found)
}
