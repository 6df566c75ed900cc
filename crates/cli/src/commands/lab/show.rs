//! Output of benchmarks of a device: trials as they go by, on standard error for people, and
//! results on standard output; all as JSON for machines.

use std::io::{self, Write};

use anyhow::Result;
use linerate_lab::{
    Progress,
    compare::Turn,
    procedures::{Platform, Report, TrialStatus},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    args::Output,
    terminal,
    units::{grouped, with_unit},
};

/// Prints as asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Show {
    json: bool,
    quiet: bool,
    terminal: bool,
}

impl Show {
    pub(super) fn new(output: Output) -> Show {
        Show { json: output.json, quiet: output.quiet, terminal: terminal::moves() }
    }

    /// Something that happened: lines for people, an object for machines.
    pub(super) fn event(
        self,
        event: &str,
        lines: &[String],
        object: &impl Serialize,
    ) -> Result<()> {
        let mut out = io::stdout().lock();
        if self.json {
            let mut object = serde_json::to_value(object)?;
            object["event"] = event.into();
            writeln!(out, "{object}")?;
        } else {
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        Ok(out.flush()?)
    }

    /// Announces the measurement.
    pub(super) fn start(self, lines: &[String], object: &Value) -> Result<()> {
        if self.quiet && !self.json {
            return Ok(());
        }
        self.event("start", lines, object)
    }

    /// Prints the limits of generator and sink by themselves, or by way of a device that cannot be
    /// left out.
    pub(super) fn platform(self, platform: &Platform, by_themselves: bool) -> Result<()> {
        let who = if by_themselves {
            "generator and sink by themselves"
        } else {
            "generator and sink by way of the device"
        };
        let unloaded = platform.limits.unloaded;
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let mut lines = vec![format!(
            "{who}: {}, spread {}, drift {}; {} lost at {}",
            with_unit(unloaded.median, "pps"),
            percent(unloaded.spread),
            percent(unloaded.drift),
            percent(platform.limits.own_loss),
            with_unit(platform.slow.get(), "pps"),
        )];
        if !platform.steady {
            let text = "this platform is not steady: repeat what matters, and compare only what \
                        was measured in turns";
            lines.push(text.into());
        }
        self.event("platform", &lines, platform)
    }

    /// Prints a trial whose result is only part of the platform's limits.
    pub(super) fn preparation(self, report: &Report) -> Result<()> {
        if self.json { self.trial(report) } else { Ok(()) }
    }

    /// A trial that has ended.
    pub(super) fn trial(self, report: &Report) -> Result<()> {
        if self.quiet {
            return Ok(());
        }
        if self.json {
            return self.event("trial", &[], report);
        }
        let load = report.load.map_or("at most speed".into(), |load| with_unit(load.get(), "pps"));
        let time = report.duration.map_or(String::new(), |time| format!(" for {time}"));
        let frames = &report.frames;
        let verdict = match report.taken {
            TrialStatus::Counted => "",
            TrialStatus::Void => "; void: the generator did not send all",
            TrialStatus::GeneratorLimit => "; the generator cannot send this load",
        };
        self.line(&format!(
            "{load:>12}{time}: {} sent of {}, {} back, {:.4} % lost{verdict}\n",
            grouped(frames.accepted),
            grouped(frames.intended),
            grouped(frames.received),
            report.loss_ratio * 100.0,
        ));
        Ok(())
    }

    /// A forwarder's turn that has ended.
    pub(super) fn turn(self, turn: &Turn) -> Result<()> {
        if self.quiet {
            return Ok(());
        }
        if self.json {
            return self.event("turn", &[], turn);
        }
        let [forwarded, sent] =
            [turn.forwarded_pps, turn.sent_pps].map(|rate| with_unit(rate, "pps"));
        let line = format!("{}. {}: {forwarded} of {sent}\n", turn.round + 1, turn.name);
        self.line(&line);
        Ok(())
    }

    /// Prints the progress of a trial.
    pub(super) fn progress(self, progress: &Progress) {
        if self.terminal && !self.quiet && !self.json {
            self.line(&format!("  {} frames sent", grouped(progress.accepted)));
        }
    }

    /// Writes over the line of progress.
    fn line(self, text: &str) {
        let begin = if self.terminal { "\r\x1b[K" } else { "" };
        // Standard error that is gone is no reason to stop measuring.
        let _ = write!(io::stderr(), "{begin}{text}");
    }

    /// Results, in an object of one name.
    pub(super) fn result(self, lines: &[String], object: Value) -> Result<()> {
        self.event("result", lines, &object)
    }

    /// Broken off by the user, with results all the same.
    pub(super) fn broken_off(self) -> Result<()> {
        self.event("interrupted", &["interrupted; what was found so far:".into()], &json!({}))
    }

    /// Broken off by the user.
    pub(super) fn interrupted(self) -> Result<()> {
        self.event("interrupted", &["interrupted: no result".into()], &json!({}))
    }
}

/// A table: titles, and rows of as many cells.
pub(super) fn table(titles: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([titles[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join("  ")
    };
    let rows = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(line(titles.to_vec())).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["1".into(), "long".into()], vec!["100".into(), "x".into()]];
        assert_eq!(table(&["n", "b"], &rows), ["  n     b", "  1  long", "100     x"]);
    }
}
