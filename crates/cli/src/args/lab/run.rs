//! Arguments of the commands about experiments and their points.

use std::path::PathBuf;

use clap::Args;

/// Measure the points of experiments, and keep what comes of them
#[derive(Debug, Args)]
#[command(
    name = "run",
    after_help = "\
Examples:
  linerate lab run all
      every experiment: under 25 minutes on two cores
  linerate lab run all --quick
      fewer points, each measured once: under 4 minutes
  linerate lab run io-cost burst --dir results
  linerate lab run my-experiment.toml --json

Every point is kept as a line of DIR/points.jsonl as soon as it is measured. Points that have
figures there are not measured again, so a run that was interrupted goes on when the same
command is given. Points that come to nothing are kept as `void`, and those this machine
cannot do as `unsupported`; the next run tries both again. Ports of the kernel's are measured
over interfaces in a network namespace of their own, which needs root."
)]
pub(crate) struct LabRun {
    /// Experiments: names (see `linerate lab list`), files ending in .toml, or all
    #[arg(value_name = "NAME | FILE.toml | all", required = true)]
    pub(crate) experiments: Vec<String>,

    /// Directory of the results
    #[arg(long, short = 'd', value_name = "DIR", default_value = "lab-results")]
    pub(crate) dir: PathBuf,

    /// Fewer points, each once and for a shorter time
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print the points as they are measured as JSON on standard output, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure one point and print its record, a JSON object in one line
#[derive(Debug, Args)]
#[command(
    name = "point",
    after_help = "\
Examples:
  linerate lab point '{\"kind\": \"walk\", \"bytes\": 1048576}'
  linerate lab point spec.json --dir results
      measures it unless its figures are there, and keeps it

The same spec always has the same key, whichever machine or process measures it: a job
engine can give each process one spec and put the lines together."
)]
pub(crate) struct LabPoint {
    /// The spec: JSON, a file that holds it, or - for standard input
    #[arg(value_name = "SPEC")]
    pub(crate) spec: String,

    /// Directory of results to look it up in and to keep it in
    #[arg(long, short = 'd', value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// List the experiments there are, or the points of some
#[derive(Debug, Args)]
#[command(
    name = "list",
    after_help = "\
Examples:
  linerate lab list
  linerate lab list burst
      what it is about and what is expected
  linerate lab list burst --json
      every point of it, a spec per line for `linerate lab point`"
)]
pub(crate) struct LabList {
    /// Experiments: names or files ending in .toml [default: the names of all]
    #[arg(value_name = "NAME | FILE.toml | all")]
    pub(crate) experiments: Vec<String>,

    /// The points of a quick run
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}
