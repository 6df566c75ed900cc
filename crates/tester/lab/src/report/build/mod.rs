//! A results directory as a report.

mod figures;
pub(super) mod names;
mod published;
mod sweep;
mod tables;

use std::{fs, path::Path};

use serde_json::Value;
pub use tables::model as model_tables;

use super::{Report, Table};
use crate::{
    calibration::{Calibrated, CalibrationError, calibrate, forwarder},
    criteria::{Criterion, Verdict, judge},
    experiment::{ExperimentError, kept, roles},
    noise_filter::undisturbed,
    point::{Outcome, Record},
    store::{self, EXPERIMENTS, MACHINE, StoreError},
};

/// Name of the file of a results directory with the output of `lab compare --json`.
pub const PEERS: &str = "compare.json";

/// The reason why a directory cannot be reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// It cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its experiments cannot be read.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// Nothing in it was measured.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
}

/// Fits, judges and draws the results in a directory.
///
/// # Errors
///
/// When it cannot be read, or nothing in it was measured.
pub fn report(dir: &Path) -> Result<(Report, Calibrated), ReportError> {
    let (records, disturbed) = undisturbed(store::read(dir)?);
    let machine = store::read_json(dir, MACHINE)?;
    // Without the file nothing was compared.
    let peers = fs::read_to_string(dir.join(PEERS))
        .map_or_else(|_| Vec::new(), |text| tables::peers(&text));
    let calibrated = of_directory(dir, &records)?;
    let mut report = from_records(&records, &calibrated, &machine, peers);
    if disturbed > 0 {
        report.limitations.push(format!(
            "Others used the machine meanwhile: {disturbed} repetitions of points that were \
             measured undisturbed too are left out."
        ));
    }
    Ok((report, calibrated))
}

/// Fits the results in a directory.
///
/// # Errors
///
/// When it cannot be read, or nothing in it was measured.
pub fn calibrated(dir: &Path) -> Result<Calibrated, ReportError> {
    of_directory(dir, &undisturbed(store::read(dir)?).0)
}

fn of_directory(dir: &Path, records: &[Record]) -> Result<Calibrated, ReportError> {
    // Points measured one by one have no experiments.
    let experiments = if dir.join(EXPERIMENTS).exists() { kept(dir)? } else { Vec::new() };
    Ok(calibrate(records, &roles(&experiments)?)?)
}

fn from_records(
    records: &[Record],
    calibrated: &Calibrated,
    machine: &Value,
    peers: Vec<Table>,
) -> Report {
    let figures = figures::figures(records, calibrated);
    let mut criteria = judge(records, calibrated);
    for criterion in &mut criteria {
        criterion.figure = criterion
            .figure
            .take()
            .filter(|wanted| figures.iter().any(|figure| figure.id == *wanted));
    }
    let count = |outcome: Outcome| records.iter().filter(|one| one.outcome == outcome).count();
    let dates = || records.iter().map(|record| record.time.as_str());
    let (first, last) = (dates().min().unwrap_or(""), dates().max().unwrap_or(""));
    Report {
        title: "What this machine can do with packets".into(),
        made: format!(
            "{} points measured by Linerate {} from {first} to {last}; {} said nothing, {} cannot \
             be measured here.",
            count(Outcome::Measured),
            calibrated.version,
            count(Outcome::Void),
            count(Outcome::Unsupported),
        ),
        summary: summary(&criteria, calibrated),
        machine: tables::machine(machine),
        criteria,
        model: tables::model(calibrated),
        published: tables::published(records, calibrated),
        peers,
        limitations: limitations(records, calibrated),
        commands: commands(records),
        figures,
    }
}

fn summary(criteria: &[Criterion], calibrated: &Calibrated) -> Vec<String> {
    let with = |verdict: Verdict| {
        let numbers: Vec<String> = criteria
            .iter()
            .filter(|one| one.verdict == verdict)
            .map(|one| one.number.to_string())
            .collect();
        (numbers.len(), numbers.join(", "))
    };
    let named = |(count, numbers): (usize, String), what: &str| match (count, what) {
        (0, _) => format!("none {what}"),
        (1, "hold") => format!("1 holds ({numbers})"),
        (1, "do not") => format!("1 does not ({numbers})"),
        _ => format!("{count} {what} ({numbers})"),
    };
    let passed = calibrated.gates.iter().filter(|gate| gate.passes()).count();
    let all = criteria.len();
    let whole = with(Verdict::NotMeasured).0 == 0;
    let verdicts: Vec<String> = [
        (Verdict::Pass, "hold"),
        (Verdict::Fail, "do not"),
        (Verdict::CannotShow, "cannot be shown here"),
    ]
    .into_iter()
    .map(|(verdict, what)| (with(verdict), what))
    .filter(|((count, _), _)| whole || *count > 0)
    .map(|(counted, what)| named(counted, what))
    .collect();
    let verdicts = verdicts.join(", ");
    let mut lines = vec![
        match with(Verdict::NotMeasured).0 {
            0 => format!("Of {all} criteria that any machine must show {verdicts}."),
            missing if missing == all => {
                format!("Nothing was measured that one of {all} criteria could be judged by.")
            }
            missing => format!(
                "Of {all} criteria that any machine must show {} can be judged by what was \
                 measured: {verdicts}.",
                all - missing,
            ),
        },
        match calibrated.gates.len() {
            0 => "No points were held out that the model could be judged by.".into(),
            cases => format!(
                "The model predicts points it was not fitted to within what is allowed in {passed} \
                 of {cases} cases."
            ),
        },
    ];
    if let Some(costs) = calibrated.costs("ring") {
        let cycles = costs.overhead(&forwarder());
        // A figure comes before the judgement of figures.
        lines.insert(0, format!(
            "Input and output over rings in memory cost {:.1} cycles per packet in bursts of 64 at \
             a clock of {}.",
            cycles.get(),
            calibrated.cycles()
        ));
    }
    lines
}

fn limitations(records: &[Record], calibrated: &Calibrated) -> Vec<String> {
    let mut lines = vec![
        "Rings and null ports are memory: no card, no link, no bus is in their figures, and \
         nothing limits them but the processor."
            .to_owned(),
        "Packet and AF_XDP ports were measured over a pair of virtual interfaces, where the \
         kernel takes most of the time."
            .into(),
        "Cycles are ticks of the cycle counter, which runs at one rate whatever the core's clock \
         is."
        .into(),
    ];
    if !records.iter().any(|one| {
        matches!(&one.spec.kind, crate::point::Point::Forward(this) if this.clock_khz > 0)
            && one.is_measured()
    }) {
        lines.push(
            "The clock could not be set: time that no clock shortens is part of the cycles, and \
             the load emulator stands in for the sweep of the clock."
                .into(),
        );
    }
    lines.push(
        "Hits and misses of caches are not counted: the steps of the list walk stand in for them."
            .into(),
    );
    lines.extend(tables::without_figures(records));
    lines.extend(calibrated.missing.iter().map(|line| format!("Not found: {line}")));
    lines
}

fn commands(records: &[Record]) -> String {
    let mut lines = vec![
        "linerate lab run all --dir DIR".to_owned(),
        "linerate lab report DIR".into(),
        String::new(),
        "# a point by itself".into(),
    ];
    lines.extend(records.first().map(|record| record.command.clone()));
    lines.join("\n")
}
