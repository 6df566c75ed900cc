//! The figures of a report.

mod forwarding;
mod graphs;
mod latency;
mod memory;
mod workers;

use linerate_model::Scenario;

use super::{published::Published, sweep::Sweep};
use crate::{
    calibration::Calibrated,
    point::{Forward, Point, Record, value},
    report::{Axis, Figure, Scale, Series, SeriesSource},
};

pub(super) fn figures(records: &[Record], calibrated: &Calibrated) -> Vec<Figure> {
    let all = [
        forwarding::bursts(records, calibrated),
        forwarding::load(records, calibrated),
        forwarding::stack(records, calibrated),
        forwarding::burnt(records),
        forwarding::clock(records),
        forwarding::frames(records),
        memory::walk(records),
        memory::chains(records),
        memory::accesses(records, calibrated),
        graphs::vector_limit(records, "vector-limit", value::RATE),
        graphs::vector_limit(records, "vector-mean", value::VECTOR),
        graphs::vector_limit(records, "vector-cycles", value::CYCLES_PER_VECTOR),
        graphs::flows(records),
        latency::vector_load(records, calibrated),
        latency::latency(records, calibrated),
        latency::tail(records),
        latency::processor(records),
        forwarding::poll_rate(records),
        workers::pipeline(records),
        workers::hand_over(records),
        workers::hand_over_cost(records),
        workers::workers(records),
        forwarding::slots(records),
        graphs::inline(records),
        graphs::batch(records),
    ];
    all.into_iter().flatten().collect()
}

/// A forwarding point that differs from the usual one in nothing else.
fn forward<T>(
    point: &Point,
    differ: impl Fn(&mut Forward, &Forward),
    key: impl Fn(&Forward) -> T,
) -> Option<T> {
    let Point::Forward(this) = point else { return None };
    let mut usual = Forward { driver: this.driver, ..Forward::default() };
    differ(&mut usual, this);
    (usual == *this).then(|| key(this))
}

fn rate() -> Axis {
    Axis::decimal("throughput (packets/s)", Scale::Linear)
}

fn add_published(sweep: &mut Sweep<'_>, published: &[Published]) {
    for Published { name, points } in published {
        sweep.add(Series::line(name, SeriesSource::Published, points.iter().copied()));
    }
}

/// Adds the model's predictions at the places of a driver's points.
fn add_model(sweep: &mut Sweep<'_>, calibrated: &Calibrated, scenario: impl Fn(f64) -> Scenario) {
    for (driver, fitted) in &calibrated.drivers {
        let places = sweep.places(driver);
        if places.is_empty() {
            continue;
        }
        let predicted = places.into_iter().map(|x| {
            let scenario = Scenario { clock: calibrated.cycles(), ..scenario(x) };
            (x, fitted.calibration.costs.predict(&scenario).throughput.get())
        });
        sweep.add(Series::line(&format!("{driver}, model"), SeriesSource::Fitted, predicted));
    }
}
