//! A figure as data, to be drawn, listed in tables and exported.

use serde::{Deserialize, Serialize};

use crate::notation::Unit;

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name in links and file names: lower case, hyphens.
    pub id: String,
    /// Its subject, in a line.
    pub title: String,
    /// How to read it, and its limits.
    pub caption: String,
    /// The command that measures its points.
    pub command: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The drawn series.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// Layout of values.
    pub scale: Scale,
    /// Format of values.
    pub unit: Unit,
}

/// Layout of values on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Evenly, from zero where that is near.
    Linear,
    /// By their logarithm, marked at powers of two.
    Log2,
    /// By their logarithm, marked at powers of ten.
    Log10,
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Source of its values.
    pub kind: SeriesSource,
    /// In the order of `x`.
    pub points: Vec<Mark>,
}

/// Source of a series' values, which decides how it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeriesSource {
    /// Measured here: marks with error bars, joined.
    Measured,
    /// Measured here, and in no order that a line would show: marks alone.
    Scattered,
    /// Calculated by the model: a broken line.
    Fitted,
    /// Published by others: a broken line with marks.
    Published,
    /// A part of a whole, drawn as an area on top of the parts before it.
    Stacked,
}

/// A value at a place.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Position.
    pub x: f64,
    /// The value: the median where there are several.
    pub y: f64,
    /// The lowest of them.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// Number of values.
    pub samples: usize,
}

impl Mark {
    /// A mark of one value.
    pub fn new(x: f64, y: f64) -> Mark {
        Mark { x, y, low: y, high: y, samples: 1 }
    }

    /// The median of several, with their range; `None` without any.
    pub fn from_values(x: f64, mut values: Vec<f64>) -> Option<Mark> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let y = linerate_model::quantile(&values, 0.5)?;
        Some(Mark { x, y, low: values[0], high: values[values.len() - 1], samples: values.len() })
    }
}

impl Axis {
    /// An axis with decimal numbers.
    pub fn decimal(label: &str, scale: Scale) -> Axis {
        Axis { label: label.into(), scale, unit: Unit::Decimal }
    }

    /// An axis with sizes of memory.
    pub fn bytes(label: &str) -> Axis {
        Axis { label: label.into(), scale: Scale::Log2, unit: Unit::Bytes }
    }

    /// An axis with shares from 0 to 1.
    pub fn share(label: &str) -> Axis {
        Axis { label: label.into(), scale: Scale::Linear, unit: Unit::Share }
    }
}

impl Series {
    /// Groups values by `x`.
    pub fn grouped(
        name: &str,
        kind: SeriesSource,
        values: impl IntoIterator<Item = (f64, f64)>,
    ) -> Series {
        let mut values: Vec<(f64, f64)> = values.into_iter().collect();
        values.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let points = values
            .chunk_by(|(one, _), (other, _)| one == other)
            .filter_map(|same| {
                Mark::from_values(same[0].0, same.iter().map(|&(_, value)| value).collect())
            })
            .collect();
        Series { name: name.into(), kind, points }
    }

    /// Values in the order given.
    pub fn line(
        name: &str,
        kind: SeriesSource,
        values: impl IntoIterator<Item = (f64, f64)>,
    ) -> Series {
        let points = values.into_iter().map(|(x, y)| Mark::new(x, y)).collect();
        Series { name: name.into(), kind, points }
    }
}

impl Figure {
    /// Returns true if there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }

    /// Its numbers in a sentence: each measured series at its last place, with the range of repetitions.
    pub fn numbers(&self) -> String {
        let measured = |series: &&Series| {
            matches!(series.kind, SeriesSource::Measured | SeriesSource::Scattered)
        };
        let values = self.series.iter().filter(measured).filter_map(|series| {
            let mark = series.points.last()?;
            let write = |value| self.y.unit.write(value);
            let (value, low, high) = (write(mark.y), write(mark.low), write(mark.high));
            let range = if low == high { String::new() } else { format!(" ({low} to {high})") };
            Some(format!("{}: {value}{range} at {}", series.name, self.x.unit.write(mark.x)))
        });
        values.collect::<Vec<_>>().join("; ")
    }

    /// The values as a table: one line for each mark.
    pub fn csv(&self) -> String {
        let mut text = String::from("series,kind,x,y,low,high,samples\n");
        for series in &self.series {
            let kind = match series.kind {
                SeriesSource::Measured | SeriesSource::Scattered | SeriesSource::Stacked => {
                    "measured"
                }
                SeriesSource::Fitted => "fitted",
                SeriesSource::Published => "published",
            };
            for Mark { x, y, low, high, samples } in &series.points {
                let name = field(&series.name);
                text.push_str(&format!("{name},{kind},{x},{y},{low},{high},{samples}\n"));
            }
        }
        text
    }
}

/// A field of a CSV file (RFC 4180).
pub(super) fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_become_one_mark() {
        let values = [(2.0, 5.0), (1.0, 3.0), (2.0, 7.0), (2.0, 6.0), (2.0, f64::NAN)];
        let series = Series::grouped("a", SeriesSource::Measured, values);
        let two = Mark { x: 2.0, y: 6.0, low: 5.0, high: 7.0, samples: 3 };
        assert_eq!(series.points, [Mark::new(1.0, 3.0), two]);
    }

    #[test]
    fn numbers_are_of_the_last_place() {
        let values = [(32.0, 8e6), (64.0, 9e6), (64.0, 10e6), (64.0, 11e6)];
        let figure = Figure {
            id: "bursts".into(),
            title: String::new(),
            caption: String::new(),
            command: String::new(),
            x: Axis::decimal("burst", Scale::Log2),
            y: Axis::decimal("rate", Scale::Log10),
            series: vec![
                Series::grouped("ring", SeriesSource::Measured, values),
                Series::line("ring, model", SeriesSource::Fitted, [(64.0, 12e6)]),
                Series::line("null", SeriesSource::Measured, [(64.0, 80e6)]),
            ],
        };
        assert_eq!(figure.numbers(), "ring: 10 M (9 M to 11 M) at 64; null: 80 M at 64");
    }

    #[test]
    fn tables_quote_commas_and_quotes() {
        assert_eq!(field("plain"), "plain");
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("say \"x\""), "\"say \"\"x\"\"\"");
    }
}
