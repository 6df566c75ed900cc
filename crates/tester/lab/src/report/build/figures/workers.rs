//! Several workers.

use super::rate;
use crate::{
    notation::words,
    point::{Cluster, Driver, Forward, Pipeline, Point, Record, Touch, value},
    report::{Axis, Figure, Scale, build::sweep::Sweep},
};

pub(super) fn pipeline(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("load (cycles/packet)", Scale::Linear);
    let title = "Run to completion and pipelines";
    let mut sweep = Sweep::new(records, "pipeline", title, x, rate()).with_single_points();
    let usual = Pipeline::default();
    sweep.plain(value::RATE, |point| match point {
        Point::Pipeline(this) if this.burst == usual.burst && this.touch == usual.touch => {
            let name = format!("{}, {} behind", words(&this.placement), this.workers);
            Some((name, this.work.into()))
        }
        _ => None,
    });
    let piped = !sweep.is_empty();
    sweep.plain(value::RATE, |point| match point {
        Point::Forward(this)
            if piped
                && this.driver == Driver::Ring
                && this.burst == usual.burst
                && this.accesses == 0
                && this.touch == Touch::None
                && this.frame == usual.frame
                && !this.bidirectional =>
        {
            Some((format!("run to completion, {} workers", this.workers), this.work.into()))
        }
        _ => None,
    });
    sweep.done("One thread receives and hands over, or all do everything.")
}

/// Throughput against the load of a packet, by division of the work among cores.
pub(super) fn hand_over(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("load (cycles/packet)", Scale::Linear);
    let title = "Run to completion, and hand-over to threads and to processes";
    let mut sweep = Sweep::new(records, "hand-over", title, x, rate());
    sweep.plain(value::RATE, of_cluster);
    sweep.done(
        "As many cores do everything for their packets, or one of them receives and hands over to the \
         others.",
    )
}

/// A core's time there, by use.
pub(super) fn hand_over_cost(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("load (cycles/packet)", Scale::Linear);
    let y = Axis::decimal("a core's time (%/Gbit/s)", Scale::Linear);
    let title = "Processor time for polling and for handing over";
    let mut sweep = Sweep::new(records, "hand-over-cost", title, x, y);
    for (part, name) in [
        ("polling", value::RHO_POLLING),
        ("handing over", value::RHO_HAND_OVER),
        ("all", value::RHO),
    ] {
        sweep.plain(name, |point| {
            let (group, load) =
                of_cluster(point).filter(|(group, _)| group.ends_with("burst 32"))?;
            Some((format!("{group}, {part}"), load))
        });
    }
    sweep.done("Of 64-byte frames, without preamble and gap.")
}

/// The series and place of a point that differs from the usual ones in burst and load alone.
fn of_cluster(point: &Point) -> Option<(String, f64)> {
    let Point::Cluster(this) = point else { return None };
    let Cluster { way, burst, work, .. } = *this;
    let usual = Cluster { way, burst, work, ..Cluster::default() };
    (usual == *this).then(|| (format!("{}, burst {burst}", words(&way)), work.into()))
}

pub(super) fn workers(records: &[Record]) -> Option<Figure> {
    let x = Axis::decimal("workers", Scale::Linear);
    let mut sweep = Sweep::new(records, "workers", "Throughput against workers", x, rate());
    sweep.plain(value::RATE, |point| match point {
        Point::Forward(this)
            if this.driver == Driver::Ring && this.accesses == 0 && this.touch == Touch::None =>
        {
            let name = format!("burst {}, load {}", this.burst, this.work);
            let plain = Forward {
                driver: this.driver,
                burst: this.burst,
                work: this.work,
                workers: this.workers,
                ..Forward::default()
            };
            (plain == *this).then(|| (name, this.workers.into()))
        }
        _ => None,
    });
    sweep.done("Each worker has ports of its own.")
}
