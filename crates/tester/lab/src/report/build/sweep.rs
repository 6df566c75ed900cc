//! Records as series of a figure.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    point::{Point, Record},
    report::{Axis, Figure, Series, SeriesSource},
};

/// A figure that is being made of records.
pub(super) struct Sweep<'a> {
    records: &'a [Record],
    figure: Figure,
    experiments: BTreeSet<&'a str>,
    /// Fewest points of a series.
    least: usize,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(records: &'a [Record], id: &str, title: &str, x: Axis, y: Axis) -> Sweep<'a> {
        let figure = Figure {
            id: id.into(),
            title: title.into(),
            caption: String::new(),
            command: String::new(),
            x,
            y,
            series: Vec::new(),
        };
        Sweep { records, figure, experiments: BTreeSet::new(), least: 2 }
    }

    /// Keeps series of one point too.
    pub(super) fn with_single_points(self) -> Sweep<'a> {
        Sweep { least: 1, ..self }
    }

    /// Adds a series for each name that `key` gives points of, with their `x`;
    /// the value is `name`'s, after `change`.
    pub(super) fn measured(
        &mut self,
        name: &str,
        kind: SeriesSource,
        key: impl Fn(&Point) -> Option<(String, f64)>,
        change: impl Fn(&Record, f64) -> f64,
    ) {
        let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for record in self.records.iter().filter(|record| record.is_measured()) {
            let (Some((group, x)), Some(value)) = (key(&record.spec.kind), record.value(name))
            else {
                continue;
            };
            if !record.experiment.is_empty() {
                self.experiments.insert(&record.experiment);
            }
            series.entry(group).or_default().push((x, change(record, value)));
        }
        let made = series.into_iter().map(|(group, values)| Series::grouped(&group, kind, values));
        self.figure.series.extend(made.filter(|series| series.points.len() >= self.least));
    }

    /// As [`Sweep::measured`], of the figure as it is.
    pub(super) fn plain(&mut self, name: &str, key: impl Fn(&Point) -> Option<(String, f64)>) {
        self.measured(name, SeriesSource::Measured, key, |_, value| value);
    }

    /// Returns true if nothing was measured.
    pub(super) fn is_empty(&self) -> bool {
        self.figure.is_empty()
    }

    /// The values of `x` of a series.
    pub(super) fn places(&self, series: &str) -> Vec<f64> {
        let found = self.figure.series.iter().find(|one| one.name == series);
        found.map_or_else(Vec::new, |one| one.points.iter().map(|mark| mark.x).collect())
    }

    pub(super) fn add(&mut self, series: Series) {
        self.figure.series.push(series);
    }

    /// The figure; `None` when nothing was measured for it.
    pub(super) fn done(mut self, caption: &str) -> Option<Figure> {
        if self.is_empty() {
            return None;
        }
        self.figure.caption = caption.into();
        let names: Vec<&str> = self.experiments.into_iter().collect();
        self.figure.command = match names.as_slice() {
            [] => "linerate lab run all".into(),
            names => names
                .iter()
                .map(|name| format!("linerate lab run {name}"))
                .collect::<Vec<_>>()
                .join(" && "),
        };
        Some(self.figure)
    }
}
