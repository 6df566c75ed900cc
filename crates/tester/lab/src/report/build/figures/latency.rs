//! Latency and related figures, against load.

use linerate_model::units::PacketsPerSecond;

use crate::{
    calibration::Calibrated,
    point::{Idle, Latency, Point, Record, value},
    report::{Axis, Figure, Scale, Series, SeriesSource, build::sweep::Sweep},
};

fn polled(point: &Point) -> Option<&Latency> {
    match point {
        Point::Latency(this) if this.slots == Latency::default().slots => Some(this),
        _ => None,
    }
}

fn idle_name(idle: Idle) -> &'static str {
    match idle {
        Idle::Poll => "polling",
        Idle::Adaptive => "adaptive",
        Idle::Block => "blocking",
    }
}

pub(super) fn vector_load(records: &[Record], calibrated: &Calibrated) -> Option<Figure> {
    let x = Axis::decimal("load (% of the highest throughput)", Scale::Linear);
    let y = Axis::decimal("mean vector (packets)", Scale::Log2);
    let mut sweep = Sweep::new(records, "vector-load", "Mean vector against load", x, y);
    sweep.plain(value::VECTOR, |point| {
        polled(point).map(|this| (idle_name(this.idle).into(), this.load_percent.into()))
    });
    if let Some(fitted) = &calibrated.latency {
        let capacity = fitted.service.capacity();
        let places = sweep.places(idle_name(Idle::Poll));
        let predicted = places.into_iter().map(|load| {
            let mean = fitted.service.mean_vector(capacity * (load / 100.0)).get();
            (load, mean / (1.0 - (-mean).exp()))
        });
        sweep.add(Series::line("model", SeriesSource::Fitted, predicted));
    }
    sweep.done("Of rounds that had packets. The busier the loop, the more packets wait for it.")
}

pub(super) fn latency(records: &[Record], calibrated: &Calibrated) -> Option<Figure> {
    let x = Axis::decimal("load (% of the highest throughput)", Scale::Linear);
    let y = Axis::decimal("mean latency (ns)", Scale::Log10);
    let mut sweep = Sweep::new(records, "latency", "Latency against load", x, y);
    sweep.plain(value::LATENCY_TYPICAL, |point| match point {
        Point::Latency(this) => {
            let ring = if this.slots == Latency::default().slots {
                String::new()
            } else {
                format!(", ring of {}", this.slots)
            };
            Some((format!("{}{ring}", idle_name(this.idle)), this.load_percent.into()))
        }
        _ => None,
    });
    if let Some(fitted) = &calibrated.latency {
        let capacity = fitted.service.capacity();
        let predicted =
            sweep.places(idle_name(Idle::Poll)).into_iter().filter(|load| *load < 100.0);
        let predicted: Vec<_> = predicted
            .map(|load| {
                let offered: PacketsPerSecond = capacity * (load / 100.0);
                (load, fitted.service.mean_latency(offered).get() * 1e9)
            })
            .collect();
        sweep.add(Series::line("polling, model", SeriesSource::Fitted, predicted));
    }
    sweep.done(
        "From when a packet was due to when it came back, packets at random times, while nobody held \
         the threads up: the median of means over a millisecond each. The loop does \
         a fixed load, so that the generator is not the limit.",
    )
}

pub(super) fn tail(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("load (% of the highest throughput)", Scale::Linear);
    let y = Axis::decimal("latency (ns)", Scale::Log10);
    let mut sweep = Sweep::new(records, "tail", "The slowest packet in a hundred", x, y);
    sweep.plain(value::LATENCY_P99, |point| {
        polled(point).map(|this| (idle_name(this.idle).into(), this.load_percent.into()))
    });
    sweep.done("The 99th percentile. On a machine that others use too, it is theirs as well.")
}

pub(super) fn processor(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("load (% of the highest throughput)", Scale::Linear);
    let mut sweep =
        Sweep::new(records, "processor", "Processor time against load", x, Axis::share("busy"));
    sweep.plain(value::BUSY, |point| {
        polled(point).map(|this| (idle_name(this.idle).into(), this.load_percent.into()))
    });
    sweep.done("Processor time of the worker in shares of a core: polling is always busy.")
}
