//! Shape criteria: relations between points that a correct measurement shows on any machine,
//! whatever its figures.

mod latency;
mod memory;
mod placement;
mod rates;
mod vectors;

use std::{cell::Cell, collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{
    calibration::Calibrated,
    notation::Unit,
    point::{Point, Record, value},
};

/// Most times that the highest rate of a point's repetitions may be the lowest. Beyond it a run
/// measured something else than the point.
const SPREAD: f64 = 10.0;

/// A criterion and its verdict on the points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    /// Its number, from 1.
    pub number: u32,
    /// The expectation.
    pub text: String,
    /// The verdict of the points.
    pub verdict: Verdict,
    /// The figures it was judged by, or why it could not be.
    pub evidence: String,
    /// The figure that shows it.
    pub figure: Option<String>,
}

/// Verdict on a criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The criterion holds.
    Pass,
    /// The criterion does not hold.
    Fail,
    /// This machine cannot show it.
    CannotShow,
    /// No points say anything to it.
    NotMeasured,
}

/// Explanation where there are no points.
const NOT_MEASURED: &str = "not measured";

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::CannotShow => "cannot be shown here",
            Verdict::NotMeasured => NOT_MEASURED,
        })
    }
}

/// Judges all criteria by the records.
pub fn judge(records: &[Record], calibrated: &Calibrated) -> Vec<Criterion> {
    let evidence = Evidence { records, calibrated, spread: Cell::default() };
    let criteria = [
        rates::bursts,
        rates::load,
        rates::clock,
        memory::steps,
        vectors::mean_vector,
        vectors::limits,
        latency::knee,
        rates::frames,
        rates::workers,
        placement::handover,
        placement::inspection,
    ];
    let judged = criteria.into_iter().map(|criterion| {
        let criterion = criterion(&evidence);
        match evidence.spread.take() {
            Some(spread) if criterion.verdict != Verdict::NotMeasured => spread.void(criterion),
            _ => criterion,
        }
    });
    judged.collect()
}

/// Lowest and highest rate of a point whose repetitions differ too much.
#[derive(Clone, Copy)]
struct Spread {
    low: f64,
    high: f64,
}

impl Spread {
    /// A criterion that nothing is said about by such a point.
    fn void(self, criterion: Criterion) -> Criterion {
        let [low, high] = [self.low, self.high].map(|rate| Unit::Decimal.write(rate));
        let reason = format!(
            "repetitions of a point differ from {low}pps to {high}pps: measure it again on a machine \
             that has nothing else to do"
        );
        let figure = criterion.figure.clone();
        Criterion { figure, ..cannot_show(criterion.number, &criterion.text, reason) }
    }
}

/// Records and calibration that criteria are judged by.
struct Evidence<'a> {
    records: &'a [Record],
    calibrated: &'a Calibrated,
    /// A point that a criterion was judged by and that says nothing.
    spread: Cell<Option<Spread>>,
}

impl Evidence<'_> {
    /// The median of a figure by a key, of the records that have both.
    fn medians<K: Ord>(&self, name: &str, key: impl Fn(&Point) -> Option<K>) -> BTreeMap<K, f64> {
        let mut values: BTreeMap<K, Vec<f64>> = BTreeMap::new();
        for record in self.records.iter().filter(|record| record.is_measured()) {
            if let (Some(key), Some(value)) = (key(&record.spec.kind), record.value(name)) {
                values.entry(key).or_default().push(value);
            }
        }
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            let (low, high) = (*values.first()?, *values.last()?);
            if name == value::RATE && high > SPREAD * low {
                self.spread.set(Some(Spread { low, high }));
            }
            linerate_model::quantile(&values, 0.5)
        };
        values
            .into_iter()
            .filter_map(|(key, values)| median(values).map(|median| (key, median)))
            .collect()
    }

    /// The reason why points of a kind have no figures: that of the first which is void or
    /// unsupported.
    fn reason(&self, wanted: impl Fn(&Point) -> bool) -> String {
        let failed =
            self.records.iter().find(|record| !record.is_measured() && wanted(&record.spec.kind));
        let reason = failed.and_then(|record| record.reason.clone());
        reason.unwrap_or_else(|| NOT_MEASURED.into())
    }
}

/// Findings that are all to hold.
struct Judgement {
    holds: bool,
    lines: Vec<String>,
}

impl Judgement {
    fn new() -> Judgement {
        Judgement { holds: true, lines: Vec::new() }
    }

    /// Adds one that counts.
    fn must(&mut self, holds: bool, line: String) {
        self.holds &= holds;
        self.lines.push(if holds { line } else { format!("not so: {line}") });
    }

    /// Adds one that only informs.
    fn note(&mut self, line: String) {
        self.lines.push(line);
    }

    fn criterion(self, number: u32, text: &str, figure: &str) -> Criterion {
        Criterion {
            number,
            text: text.into(),
            verdict: if self.holds { Verdict::Pass } else { Verdict::Fail },
            evidence: self.lines.join("; ") + ".",
            figure: Some(figure.into()),
        }
    }
}

fn cannot_show(number: u32, text: &str, reason: String) -> Criterion {
    let tried = !reason.contains(NOT_MEASURED);
    let verdict = if tried { Verdict::CannotShow } else { Verdict::NotMeasured };
    Criterion { number, text: text.into(), verdict, evidence: format!("{reason}."), figure: None }
}

/// A share as people read it.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
