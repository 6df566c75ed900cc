//! Configurations and applications.

use super::add_published;
use crate::{
    point::{Case, Destinations, InlinePath, Point, Record, value},
    report::{
        Axis, Figure, Scale, SeriesSource,
        build::{
            published::{INLINE, SWITCH},
            sweep::Sweep,
        },
    },
};

/// Kind of a configuration, in a word or two.
fn graph_name(configuration: &str) -> &str {
    if configuration.contains("IPLookup") || configuration.contains("IPRoute") {
        "IP forwarding"
    } else if configuration.contains("Classifier") || configuration.contains("IPFilter") {
        "filter"
    } else {
        "cross-connect"
    }
}

pub(super) fn vector_limit(records: &[Record], id: &str, figure: &str) -> Option<Figure> {
    let x = Axis::decimal("vector limit (packets)", Scale::Log2);
    let (title, label, caption) = match figure {
        value::RATE => (
            "Throughput against vector limit",
            "throughput (packets/s)",
            "Graphs run with frames of at most so many packets.",
        ),
        value::VECTOR => (
            "Average vector against its limit",
            "average vector (packets)",
            "Sources always have more, so frames are full wherever the graph does not split them.",
        ),
        _ => (
            "Cycles per vector against its limit",
            "cycles/vector",
            "What does not grow with the vector is spread over its packets.",
        ),
    };
    let scale = if figure == value::RATE { Scale::Linear } else { Scale::Log2 };
    let mut sweep = Sweep::new(records, id, title, x, Axis::decimal(label, scale));
    sweep.plain(figure, |point| match point {
        Point::Graph(graph) => {
            let order = match graph.destinations {
                Destinations::Static => "one destination",
                Destinations::RoundRobin => "round robin",
                Destinations::Uniform => "uniform",
            };
            let usual = crate::point::Graph::default();
            (graph.addresses == usual.addresses && graph.frame == usual.frame).then(|| {
                (format!("{}, {order}", graph_name(&graph.configuration)), graph.vector.into())
            })
        }
        _ => None,
    });
    sweep.done(caption)
}

pub(super) fn flows(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("destinations", Scale::Log2);
    let y = Axis::decimal("cycles/packet", Scale::Linear);
    let mut sweep = Sweep::new(records, "flows", "Cost against destinations in use", x, y);
    sweep.plain(value::CYCLES, |point| match point {
        Point::Graph(graph) if graph.destinations != Destinations::Static => {
            let order = match graph.destinations {
                Destinations::Uniform => "uniform",
                _ => "round robin",
            };
            let name =
                format!("{}, {order}, vector {}", graph_name(&graph.configuration), graph.vector);
            Some((name, graph.addresses.into()))
        }
        _ => None,
    });
    sweep.done("Each doubling pushes the same part of the lookups out of a cache, until all are.")
}

pub(super) fn inline(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("frame (bytes)", Scale::Log2);
    let y = Axis::share("received of sent");
    let mut sweep = Sweep::new(records, "inline", "Inspection inline", x, y);
    let key = |point: &Point| match point {
        Point::Inline(this) => {
            let path = match this.path {
                InlinePath::Kernel => "the kernel's path",
                InlinePath::Ours => "AF_XDP",
                InlinePath::Memory => "memory",
            };
            Some((format!("{path}, {} Mbit/s", this.offered_mbit_s), this.frame.into()))
        }
        _ => None,
    };
    sweep.measured(value::LOST, SeriesSource::Measured, key, |_, lost| 1.0 - lost);
    if sweep.is_empty() {
        return None;
    }
    add_published(&mut sweep, INLINE);
    sweep.done(
        "The share of packets that an application which looks through their bytes can take. The \
         published shares are of another application on another machine: compare the shapes.",
    )
}

pub(super) fn batch(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("batch (packets)", Scale::Log2);
    let y = Axis::decimal("throughput (packets/s)", Scale::Log10);
    let mut sweep = Sweep::new(records, "batch", "Applications against their batch", x, y);
    sweep.plain(value::RATE, |point| match point {
        Point::BatchCase(this) => {
            let case = match this.case {
                Case::Switch => "switch",
                Case::Click => "graph with a queue",
            };
            Some((format!("{case}, {}", this.driver), this.batch.into()))
        }
        _ => None,
    });
    if sweep.is_empty() {
        return None;
    }
    add_published(&mut sweep, SWITCH);
    sweep.done("The packets an application takes at once, on ports of several kinds.")
}
