//! Figures drawn as SVG, by plotters.
//!
//! The colours are fixed ones on white, so that a saved file looks right by
//! itself; the report's style sheet replaces each of them where the reader's
//! screen is dark.

use std::ops::Range;

use plotters::{
    coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter},
    prelude::*,
};

use super::figure::{Axis, Figure, Mark, Scale, Series, SeriesSource};
use crate::notation::Unit;

const WIDTH: u32 = 720;
const PLOT: u32 = 380;
const LEGEND_LINE: u32 = 20;
const FONT: &str = "sans-serif";
/// Width of a letter of the legend, near enough: no font is measured here.
const LETTER: f64 = 6.9;

/// Text and axes.
pub(super) const INK: RGBColor = RGBColor(32, 33, 36);
/// Lines of the grid.
pub(super) const GRID: RGBColor = RGBColor(222, 222, 222);
/// Colours that people with any colour vision tell apart (after Okabe and
/// Ito), darkened until lines of them stand out from white three to one.
pub(super) const SERIES: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 138, 100),
    RGBColor(176, 86, 138),
    RGBColor(166, 118, 0),
    RGBColor(27, 140, 170),
    RGBColor(107, 76, 154),
    RGBColor(110, 110, 110),
];

/// A figure cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("figure {figure} cannot be drawn: {reason}")]
pub struct PlotError {
    /// Its figure.
    pub figure: String,
    /// The reason.
    pub reason: String,
}

/// Draws a figure. Marks that are not finite, or not positive on a logarithmic
/// axis, are left out.
///
/// # Errors
///
/// Where nothing is left to draw.
pub fn svg(figure: &Figure) -> Result<String, PlotError> {
    let failed = |reason: String| PlotError { figure: figure.id.clone(), reason };
    let series: Vec<Series> = figure.series.iter().map(|one| drawable(figure, one)).collect();
    let series = stacked(series);
    let marks = || series.iter().flat_map(|(_, marks)| marks);
    if marks().next().is_none() {
        return Err(failed("no values".into()));
    }
    let x = Coordinate::new(&figure.x, marks().flat_map(|mark| [mark.x, mark.x]));
    let y = Coordinate::new(&figure.y, marks().flat_map(|mark| [mark.low, mark.high]));
    let rows = legend_rows(series.iter().map(|(series, _)| series.name.as_str()));
    let lines = rows.last().map_or(0, |&(line, _)| line + 1);
    let height = PLOT + lines * LEGEND_LINE + 8;
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        let (plot, legend) = area.split_vertically(PLOT);
        draw(&plot, figure, &series, x, y).map_err(|error| failed(error.to_string()))?;
        for (index, ((one, _), &(line, left))) in series.iter().zip(&rows).enumerate() {
            key(&legend, one, index, line, left).map_err(|error| failed(error.to_string()))?;
        }
        area.present().map_err(|error| failed(error.to_string()))?;
    }
    Ok(text)
}

fn drawable(figure: &Figure, series: &Series) -> Series {
    let fits =
        |axis: &Axis, value: f64| value.is_finite() && (axis.scale == Scale::Linear || value > 0.0);
    let whole = |mark: &&Mark| {
        fits(&figure.x, mark.x)
            && fits(&figure.y, mark.y)
            && fits(&figure.y, mark.low)
            && fits(&figure.y, mark.high)
    };
    Series { points: series.points.iter().filter(whole).copied().collect(), ..series.clone() }
}

/// Each series with the marks where they are drawn: parts of a whole one on
/// the other, `low` being where each begins.
fn stacked(series: Vec<Series>) -> Vec<(Series, Vec<Mark>)> {
    let mut below: Vec<(f64, f64)> = Vec::new();
    let placed = |series: Series| {
        if series.kind != SeriesSource::Stacked {
            let marks = series.points.clone();
            return (series, marks);
        }
        let marks = series.points.iter().map(|mark| {
            let base = match below.iter_mut().find(|(x, _)| *x == mark.x) {
                Some((_, base)) => base,
                None => {
                    below.push((mark.x, 0.0));
                    &mut below.last_mut().expect("just pushed").1
                }
            };
            let low = *base;
            *base += mark.y;
            Mark { y: *base, low, high: *base, ..*mark }
        });
        let marks = marks.collect();
        (series, marks)
    };
    series.into_iter().map(placed).collect()
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn draw(
    area: &Area<'_>,
    figure: &Figure,
    series: &[(Series, Vec<Mark>)],
    x: Coordinate,
    y: Coordinate,
) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(20)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(x, y)?;
    let writing = (FONT, 13).into_font().color(&INK);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(0)
        .axis_style(INK)
        .label_style(writing.clone())
        .axis_desc_style(writing)
        .x_desc(&*figure.x.label)
        .y_desc(&*figure.y.label)
        .bold_line_style(GRID)
        .x_labels(9)
        .y_labels(8)
        .x_label_formatter(&|value| figure.x.unit.write(*value))
        .y_label_formatter(&|value| figure.y.unit.write(*value))
        .draw()?;
    for (index, (series, marks)) in series.iter().enumerate() {
        let colour = SERIES[index % SERIES.len()];
        let places = || marks.iter().map(|mark| (mark.x, mark.y));
        match series.kind {
            SeriesSource::Stacked => {
                let under = marks.iter().rev().map(|mark| (mark.x, mark.low));
                let outline: Vec<_> = places().chain(under).collect();
                chart.draw_series([Polygon::new(outline, colour.mix(0.75))])?;
                continue;
            }
            SeriesSource::Measured => {
                chart.draw_series([PathElement::new(
                    places().collect::<Vec<_>>(),
                    colour.stroke_width(2),
                )])?;
            }
            SeriesSource::Fitted | SeriesSource::Published => {
                let style = colour.stroke_width(2);
                let (size, gap) = if series.kind == SeriesSource::Fitted { (8, 5) } else { (2, 4) };
                chart.draw_series(DashedLineSeries::new(places(), size, gap, style))?;
            }
            SeriesSource::Scattered => {}
        }
        if matches!(series.kind, SeriesSource::Measured | SeriesSource::Scattered) {
            let bars = marks.iter().filter(|mark| mark.high > mark.low);
            chart.draw_series(bars.map(|mark| {
                PathElement::new(vec![(mark.x, mark.low), (mark.x, mark.high)], colour)
            }))?;
        }
        if series.kind != SeriesSource::Fitted {
            chart.draw_series(places().map(|at| {
                EmptyElement::at(at)
                    + shape((0, 0), index, colour, series.kind == SeriesSource::Published)
            }))?;
        }
    }
    Ok(())
}

/// The mark of a series: shapes differ too, for readers and printers without
/// colours.
fn shape((x, y): (i32, i32), index: usize, colour: RGBColor, hollow: bool) -> Polygon<(i32, i32)> {
    let outline: &[(f64, f64)] = match index % 4 {
        0 => &[
            (4.0, 0.0),
            (2.8, 2.8),
            (0.0, 4.0),
            (-2.8, 2.8),
            (-4.0, 0.0),
            (-2.8, -2.8),
            (0.0, -4.0),
            (2.8, -2.8),
        ],
        1 => &[(-3.6, -3.6), (3.6, -3.6), (3.6, 3.6), (-3.6, 3.6)],
        2 => &[(0.0, -4.6), (4.4, 3.2), (-4.4, 3.2)],
        _ => &[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)],
    };
    let at = |&(dx, dy): &(f64, f64)| (x + dx.round() as i32, y + dy.round() as i32);
    let colour = if hollow { colour.mix(0.35) } else { colour.to_rgba() };
    Polygon::new(outline.iter().map(at).collect::<Vec<_>>(), colour)
}

/// Line and left edge of each entry of the legend.
fn legend_rows<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(u32, i32)> {
    let (mut line, mut left) = (0, 72);
    names
        .map(|name| {
            let width = 38 + (name.chars().count() as f64 * LETTER) as i32;
            if left > 72 && left + width > WIDTH as i32 - 10 {
                line += 1;
                left = 72;
            }
            let place = (line, left);
            left += width;
            place
        })
        .collect()
}

fn key(area: &Area<'_>, series: &Series, index: usize, line: u32, left: i32) -> Drawn {
    let colour = SERIES[index % SERIES.len()];
    let middle = (line * LEGEND_LINE + LEGEND_LINE / 2) as i32;
    match series.kind {
        SeriesSource::Stacked => {
            let corners = [(left, middle - 6), (left + 20, middle + 6)];
            area.draw(&Rectangle::new(corners, colour.mix(0.75).filled()))?;
        }
        SeriesSource::Fitted => {
            for start in [left, left + 12] {
                let dash = vec![(start, middle), (start + 8, middle)];
                area.draw(&PathElement::new(dash, colour.stroke_width(2)))?;
            }
        }
        SeriesSource::Measured | SeriesSource::Scattered | SeriesSource::Published => {
            if series.kind == SeriesSource::Measured {
                let whole = vec![(left, middle), (left + 20, middle)];
                area.draw(&PathElement::new(whole, colour.stroke_width(2)))?;
            }
            let hollow = series.kind == SeriesSource::Published;
            area.draw(&shape((left + 10, middle), index, colour, hollow))?;
        }
    }
    let writing = (FONT, 13).into_font().color(&INK);
    area.draw(&Text::new(series.name.clone(), (left + 26, middle - 6), writing))?;
    Ok(())
}

/// One kind of axis for all scales, so that a chart has one type.
#[derive(Clone, Debug)]
struct Coordinate {
    scale: Scale,
    unit: Unit,
    low: f64,
    high: f64,
}

impl Coordinate {
    /// An axis with room for all values.
    fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Coordinate {
        let bounds = (f64::INFINITY, f64::NEG_INFINITY);
        let (low, high) =
            values.fold(bounds, |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = match axis.scale {
            Scale::Linear => {
                // From zero, unless all values are far from it.
                let low = if low > 0.0 && low < 0.8 * high { 0.0 } else { low };
                let room = if high > low { high - low } else { high.abs().max(1.0) };
                let under = if low == 0.0 { 0.0 } else { 0.04 * room };
                (low - under, high + 0.06 * room)
            }
            Scale::Log2 | Scale::Log10 => {
                let room = if high > low { (high / low).powf(0.04) } else { 2.0 };
                (low / room, high * room)
            }
        };
        Coordinate { scale: axis.scale, unit: axis.unit, low, high }
    }

    /// The values that are marked: at most `most`.
    fn ticks(&self, most: usize) -> Vec<f64> {
        let most = most.max(2);
        if self.scale == Scale::Linear {
            return self.even_ticks(most);
        }
        let base: f64 = if self.scale == Scale::Log2 { 2.0 } else { 10.0 };
        let (first, last) = (self.low.log(base).ceil() as i32, self.high.log(base).floor() as i32);
        let count = (last - first + 1).max(0) as usize;
        if count < 3 {
            return self.even_ticks(most).into_iter().filter(|&tick| tick > 0.0).collect();
        }
        let step = count.div_ceil(most).max(1);
        (first..=last).step_by(step).map(|power| base.powi(power)).collect()
    }

    fn even_ticks(&self, most: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / most as f64;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * decade);
        let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(10.0 * decade);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|at| at as f64 * step).collect()
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log2 | Scale::Log10 => (value / self.low).ln() / (self.high / self.low).ln(),
        }
    }
}

impl Ranged for Coordinate {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        first + (self.place(*value) * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.ticks(hint.max_num_points())
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Coordinate {
    fn format(value: &f64) -> String {
        Unit::Decimal.write(*value)
    }

    fn format_ext(&self, value: &f64) -> String {
        self.unit.write(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(kind: SeriesSource, scale: Scale, values: &[(f64, f64)]) -> Figure {
        Figure {
            id: "test".into(),
            title: "Test".into(),
            caption: String::new(),
            command: "linerate lab run test".into(),
            x: Axis::decimal("burst <packets>", scale),
            y: Axis::decimal("rate (packets/s)", Scale::Linear),
            series: vec![Series::grouped("one & only", kind, values.iter().copied())],
        }
    }

    #[test]
    fn values_that_have_no_place_are_left_out() {
        let values = [(0.0, 1.0), (1.0, f64::NAN), (2.0, 5e6), (4.0, 9e6)];
        let text = svg(&figure(SeriesSource::Scattered, Scale::Log2, &values)).unwrap();
        // Two marks and the one of the legend.
        assert_eq!(text.matches("<polygon").count(), 3, "{text}");
        assert!(text.contains("burst &lt;packets&gt;"), "{text}");
        assert!(text.contains("one &amp; only"));
        let error = svg(&figure(SeriesSource::Measured, Scale::Log2, &values[..2])).unwrap_err();
        assert_eq!(error.to_string(), "figure test cannot be drawn: no values");
    }

    #[test]
    fn parts_lie_on_one_another() {
        let part = |name: &str, y: f64| {
            Series::line(name, SeriesSource::Stacked, [(1.0, y), (2.0, 2.0 * y)])
        };
        let placed = stacked(vec![part("io", 3.0), part("task", 5.0)]);
        assert_eq!((placed[1].1[0].low, placed[1].1[0].y), (3.0, 8.0));
        assert_eq!((placed[1].1[1].low, placed[1].1[1].y), (6.0, 16.0));
    }

    #[test]
    fn axes_are_marked_at_round_values() {
        let axis = |scale, low, high| Coordinate { scale, unit: Unit::Decimal, low, high }.ticks(8);
        assert_eq!(axis(Scale::Linear, 0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(axis(Scale::Log2, 0.9, 70.0), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
        assert_eq!(axis(Scale::Log10, 5.0, 2e4), [10.0, 100.0, 1000.0, 10000.0]);
    }
}
