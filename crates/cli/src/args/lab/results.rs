//! Arguments of the commands about results.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Fit the cost model to the results in a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate lab calibrate results
      writes results/calibration.json, which `linerate plan` reads
  linerate lab calibrate results --json | jq .gates
      how well the model predicts points it was not fitted to")]
pub(crate) struct Calibrate {
    /// The directory of `linerate lab run`
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Print the parameters as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make a report of the results in a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate lab report results
      writes results/report.html, one file that needs no network
  linerate lab report results --also markdown,csv,json,svg
      the same as report.md, and figures and tables as files of their own
  linerate lab compare --json > results/compare.json
      forwarders of others, which the report then has a table of
  linerate lab report results --output /tmp/machine.html")]
pub(crate) struct ReportArgs {
    /// The directory of `linerate lab run`
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// The HTML file [default: DIR/report.html]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write it in other forms too, into DIR
    #[arg(long, value_name = "FORMS", value_enum, value_delimiter = ',')]
    pub(crate) also: Vec<Form>,
}

/// A form of a report besides HTML.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// DIR/report.md, with figures as SVG and CSV
    Markdown,
    /// DIR/figures/*.csv and DIR/tables/*.csv
    Csv,
    /// DIR/report.json
    Json,
    /// DIR/figures/*.svg
    Svg,
}
