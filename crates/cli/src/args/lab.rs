//! Arguments of `linerate lab`.

mod bench;

use clap::{Args, Subcommand};

pub(crate) use bench::{BackToBack, Bench, Format, LatencyArgs, Loss, Ndr, Preset, Recovery};

/// Measure what devices and this machine can do
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate lab ndr -e 'FromPort($IN) -> EtherMirror -> ToPort($OUT)'
      what a configuration forwards without loss
  linerate lab loss --tx xdp:eth1 --rx xdp:eth2
      loss against load of a device between two interfaces")]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    Ndr(Ndr),
    Loss(Loss),
    BackToBack(BackToBack),
    Recovery(Recovery),
    Latency(LatencyArgs),
}
