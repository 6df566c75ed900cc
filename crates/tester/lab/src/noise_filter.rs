//! Noise filter: leaves out repetitions that other load disturbed.
//!
//! Repetitions of a point are minutes apart. One that shared its core measured the machine of that
//! moment, not the cost of a packet: it is left out if there are undisturbed ones of its point.

use std::collections::BTreeMap;

use crate::{
    instruments::pace::disturbance,
    point::{Key, Record, Spec, value},
};

/// Quantile of all paces that is the machine's own; the faster ones had a clock that was higher for
/// a moment.
const FASTEST_QUANTILE: f64 = 0.05;

/// Leaves out disturbed repetitions of points that have undisturbed ones too,
/// and says how many those are. Records without figures stay.
pub(crate) fn undisturbed(records: Vec<Record>) -> (Vec<Record>, usize) {
    let Some(fastest) = fastest(&records) else { return (records, 0) };
    let is_calm = |record: &Record| {
        let waited = record.value(value::WAITED).unwrap_or(0.0);
        pace(record).is_none_or(|pace| disturbance(pace, fastest, waited) <= 1.0)
    };
    let mut calm: BTreeMap<Key, bool> = BTreeMap::new();
    for record in records.iter().filter(|record| record.is_measured()) {
        *calm.entry(point_conditions(record)).or_default() |= is_calm(record);
    }
    let all = records.len();
    let stays = |record: &Record| {
        let calmer = calm.get(&point_conditions(record)).is_some_and(|calm| *calm);
        !record.is_measured() || !calmer || is_calm(record)
    };
    let kept: Vec<Record> = records.into_iter().filter(stays).collect();
    let left_out = all - kept.len();
    (kept, left_out)
}

/// The pace of the machine's own, where any is known.
pub(crate) fn fastest(records: &[Record]) -> Option<f64> {
    let mut paces: Vec<f64> = records.iter().filter_map(pace).collect();
    paces.sort_by(f64::total_cmp);
    linerate_model::quantile(&paces, FASTEST_QUANTILE)
}

fn pace(record: &Record) -> Option<f64> {
    record.value(value::PACE).filter(|_| record.is_measured())
}

/// The key that all repetitions of a point share.
fn point_conditions(record: &Record) -> Key {
    Spec { repetition: 0, seed: 0, ..record.spec.clone() }.key()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::{Load, Outcome, Point, Values};

    fn record(cycles: u32, repetition: u32, pace: Option<f64>) -> Record {
        let kind = Point::Load(Load { cycles });
        let spec = Spec { repetition, ..Spec::new(kind) };
        let values = pace.map(|pace| (value::PACE.to_owned(), pace)).into_iter().collect();
        Record::new(spec, "x", "m", (Outcome::Measured, None, values))
    }

    #[test]
    fn disturbed_repetitions_of_calm_points_are_left_out() {
        let records = vec![
            record(1, 0, Some(2.0)),
            record(1, 1, Some(3.0)),
            record(1, 2, Some(2.1)),
            // Never calm: better than nothing.
            record(2, 0, Some(3.0)),
            record(2, 1, Some(3.2)),
        ];
        let (kept, left_out) = undisturbed(records.clone());
        assert_eq!((kept.len(), left_out), (4, 1));
        assert!(!kept.contains(&records[1]));
    }

    #[test]
    fn without_paces_all_is_kept() {
        let mut void = record(2, 0, None);
        (void.outcome, void.values) = (Outcome::Void, Values::new());
        let (kept, left_out) = undisturbed(vec![record(1, 0, None), void]);
        assert_eq!((kept.len(), left_out), (2, 0));
    }
}
