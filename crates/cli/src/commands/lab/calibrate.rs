//! `linerate lab calibrate`: from results to the parameters of the model.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use linerate_lab::{calibration, report};
use linerate_linux::files;

use crate::{args::Calibrate, exit::cannot_write};

pub(crate) fn run(args: &Calibrate) -> Result<()> {
    let calibrated = report::calibrated(&args.dir)
        .with_context(|| format!("cannot calibrate {}", args.dir.display()))?;
    let path = args.dir.join(calibration::FILE);
    let text = serde_json::to_string(&calibrated)?;
    let line = text.clone() + "\n";
    files::replace(&path, line.as_bytes()).map_err(|error| cannot_write(&path, error))?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{text}")?;
    } else {
        for table in report::model_tables(&calibrated) {
            writeln!(out, "{}\n{}", table.title, table.text())?;
        }
        writeln!(out, "Written to {}", path.display())?;
    }
    Ok(())
}
