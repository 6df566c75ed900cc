//! Arguments of `linerate lab`.

mod bench;
mod compare;
mod results;
mod run;

use clap::{Args, Subcommand};

pub(crate) use bench::{
    BackToBack, Bench, Known, LatencyArgs, Loss, Ndr, Output, Preset, Recovery,
};
pub(crate) use compare::Compare;
pub(crate) use results::{Calibrate, Form, ReportArgs};
pub(crate) use run::{LabList, LabPoint, LabRun};

/// Name of the command that [`LabCommand::Measure`] is, which this program gives
/// itself.
pub(crate) const MEASURE: &str = "measure";
/// Name of [`LabCommand::Work`].
pub(crate) const WORK: &str = "work";

/// Measure what this machine and devices can do
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate lab run all --dir results
      every experiment, in under 25 minutes; interrupted, the same command goes on
  linerate lab run burst walk --quick
  linerate lab ndr -e 'FromPort($IN) -> EtherMirror -> ToPort($OUT)'
      what a configuration forwards without loss
  linerate lab loss --tx xdp:eth1 --rx xdp:eth2
      loss against load of a device between two interfaces
  sudo linerate lab compare
      ours beside the forwarders of others that this machine has")]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    Run(LabRun),
    Point(LabPoint),
    /// Measure specs from standard input, for a process that guards this one
    #[command(name = MEASURE, hide = true)]
    Measure,
    /// Be handed packets, by a process that measures that
    #[command(name = WORK, hide = true)]
    Work {
        /// Task, as JSON.
        task: String,
    },
    List(LabList),
    Ndr(Ndr),
    Loss(Loss),
    BackToBack(BackToBack),
    Recovery(Recovery),
    Latency(LatencyArgs),
    Calibrate(Calibrate),
    Report(ReportArgs),
    Compare(Compare),
}
